r"""Points spread evenly over the domain, each with its nearest observation."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from botorch_risk.arguments import (
    as_floating,
    as_tensor,
    check_bounds,
    check_counts,
    check_kind,
    first_index,
    first_wrong,
)
from botorch_risk.matrices import squared_differences
from botorch_risk.seeding import as_seeds, derive_seed, sobol_points

Design = Literal["uniform", "sobol"]


class PseudoPoints(NamedTuple):
    r"""Points of the domain and the sources of their outcomes.

    Args:
        X: The points, `batch_shape x M x d`, in the units of the bounds. A point whose nearest
            input was observed several times appears once for each observation.
        neighbours: The row in the data of each point's nearest observation, `batch_shape x M`.
        counted: Which points count, `batch_shape x M`: replicates may have different numbers of
            points, padded with copies.
    """

    X: Tensor
    neighbours: Tensor
    counted: Tensor

    def of_neighbours(self, values: Tensor) -> Tensor:
        r"""Gather `batch_shape x n` values at the nearest observations, `batch_shape x M`."""
        return values.expand(*self.neighbours.shape[:-1], values.shape[-1]).gather(
            -1, self.neighbours
        )


def pseudo_points(
    X: Tensor,
    bounds: Tensor,
    num_pseudo: int | None = None,
    *,
    seeds: int | Sequence[int],
    points: Design | Tensor = "uniform",
    observed: Tensor | None = None,
) -> PseudoPoints:
    r"""Draw pseudo-points and find their nearest observations, Sec. 5.2 of [Ha2023uhe]_.

        neighbour_j = argmin_i |x_i - x'_j|

    Distances are Euclidean, as in the paper, which does not say in which units: here in the unit
    cube of `bounds`, so that no input dominates by its unit. The paper leaves open what happens if
    an input was observed several times. Here a point then has all of its outcomes, so that they
    inform the noise, and the number of points depends on the number of distinct inputs. Ties
    between inputs at the same distance go to the smaller first coordinate (then the second, and so
    on), so nothing depends on the order of the rows.

    Args:
        X: Inputs of the observations, `batch_shape x n x d`.
        bounds: The lower and the upper bounds of the domain, `2 x d`.
        num_pseudo: The number of points, M_t >= the number of distinct inputs; by default twice
            that, the paper's choice.
        seeds: One seed for each replicate, the batch flattened.
        points: `"uniform"`, independent draws (the paper's); `"sobol"`, scrambled Sobol points,
            which cover the domain more evenly and, from one seed, stay where they are when their
            number grows; or the user's points, `batch_shape x M x d` or `M x d`, of which
            duplicates count once.
        observed: An optional boolean mask, `batch_shape x n`, of rows that exist.

    Raises:
        InputDataError: If a replicate has fewer than two observations, or one out of bounds.
        ValueError: If there are fewer pseudo-points than distinct inputs.

    Example:
        >>> from botorch_risk.examples import unit
        >>> drawn = pseudo_points(torch.tensor([[0.0], [1.0]]), unit, 4, seeds=0, points="sobol")
        >>> torch.equal(drawn.neighbours, (drawn.X > 0.5).long().squeeze(-1))
        True
    """
    X, bounds = as_floating(X, "X"), as_floating(bounds, "bounds")
    observed = as_tensor("observed", observed)
    batch_shape = X.shape[:-2]
    rows = torch.ones(X.shape[:-1], dtype=torch.bool, device=X.device)
    rows = rows if observed is None else observed
    _check(X, bounds, rows)
    if num_pseudo is not None:
        check_counts(num_pseudo=num_pseudo)
    bounds = bounds.to(X)
    inputs = _group(X, rows)
    sizes = inputs.number.flatten().tolist()
    if not isinstance(points, str):
        drawn = _checked_points(points, X)
        counted = _group(drawn, torch.ones_like(drawn[..., 0], dtype=torch.bool)).is_first
        counts = counted.sum(dim=-1).flatten().tolist()
    else:
        counts = [2 * size if num_pseudo is None else num_pseudo for size in sizes]
        drawn = _draw(bounds, counts, seeds, points).view(*batch_shape, max(counts), -1)
        number = torch.tensor(counts, device=X.device).view(*batch_shape, 1)
        counted = torch.arange(max(counts), device=X.device) < number
    for count, size in zip(counts, sizes, strict=True):
        if count < size:
            raise ValueError(
                "Expected at least as many pseudo-points as different inputs, M_t >= |D|. "
                f"Got {count} and {size}."
            )
    return _with_all_observations(drawn, counted, X, bounds, inputs)


def _checked_points(points: Tensor, X: Tensor) -> Tensor:
    r"""The user's points for every replicate, `batch_shape x M x d`."""
    points = as_floating(points, "points").to(X)
    *batch_shape, _, d = X.shape
    try:
        fits = points.shape[-1] == d
        expanded = points.expand(*batch_shape, *points.shape[-2:])
    except RuntimeError:
        fits = False
    if points.dim() < 2 or not fits:
        raise BotorchTensorDimensionError(
            f"Expected `points` to have shape `batch_shape x M x {d}` or `M x {d}`. "
            f"Got {tuple(points.shape)} for {batch_shape=}."
        )
    finite = points.isfinite().all(dim=-1)
    if not finite.all():
        raise InputDataError(f"Expected finite `points`. Got {points[~finite][0].tolist()}.")
    return expanded


class _Groups(NamedTuple):
    r"""Rows sorted so that equal ones are adjacent, with missing rows at the end."""

    order: Tensor  # the row at each position, batch_shape x n
    exists: Tensor  # whether it exists, batch_shape x n
    start: Tensor  # the position at which its group begins, batch_shape x n
    size: Tensor  # of its group, batch_shape x n

    @property
    def number(self) -> Tensor:
        return (self.is_start & self.exists).sum(dim=-1)

    @property
    def is_start(self) -> Tensor:
        return self.start == torch.arange(self.start.shape[-1], device=self.start.device)

    @property
    def is_first(self) -> Tensor:
        r"""Whether each row, in the order of the data, is the first one of its group."""
        return torch.zeros_like(self.exists).scatter(-1, self.order, self.is_start)


def _group(X: Tensor, exists: Tensor) -> _Groups:
    r"""Sort rows `batch_shape x n x d` lexicographically, each replicate by itself."""
    position = torch.arange(X.shape[-2], device=X.device)
    order = position.expand(X.shape[:-1])
    # Stable sorts by one key after another, the most important one last.
    for key in (*X.unbind(dim=-1)[::-1], ~exists):
        order = order.gather(-1, key.gather(-1, order).argsort(dim=-1, stable=True))
    exists, X = exists.gather(-1, order), _rows(X, order)
    begins = torch.ones_like(exists)
    begins[..., 1:] = (X[..., 1:, :] != X[..., :-1, :]).any(dim=-1) | ~exists[..., 1:]
    start = torch.where(begins, position, 0).cummax(dim=-1).values
    members = torch.zeros_like(order).scatter_add(-1, start, torch.ones_like(order))
    return _Groups(order, exists, start, members.gather(-1, start))


def _rows(X: Tensor, index: Tensor) -> Tensor:
    return X.gather(-2, index.unsqueeze(-1).expand(*index.shape, X.shape[-1]))


def _with_all_observations(
    points: Tensor, counted: Tensor, X: Tensor, bounds: Tensor, inputs: _Groups
) -> PseudoPoints:
    r"""Find the nearest input of each point and repeat the point for its observations."""
    lower, upper = bounds
    # The matrix-product form of distances would make ties a matter of rounding.
    distance = squared_differences(
        (points - lower) / (upper - lower),
        ((_rows(X, inputs.order) - lower) / (upper - lower)).nan_to_num(0.0),
    )
    nearest = distance.masked_fill(~inputs.exists.unsqueeze(-2), torch.inf).argmin(dim=-1)
    size = torch.where(counted, inputs.size.gather(-1, nearest), 0)  # batch_shape x points
    end = size.cumsum(dim=-1)
    total = end[..., -1:]
    slot = torch.arange(int(total.max()), device=X.device).expand(*end.shape[:-1], -1)
    point = torch.searchsorted(end, slot.contiguous(), right=True)
    point = torch.where(slot < total, point, 0)
    turn = torch.where(slot < total, slot - (end - size).gather(-1, point), 0)
    row = inputs.start.gather(-1, nearest).gather(-1, point) + turn
    return PseudoPoints(
        X=_rows(points, point), neighbours=inputs.order.gather(-1, row), counted=slot < total
    )


def _draw(bounds: Tensor, counts: Sequence[int], seeds: int | Sequence[int], design: str) -> Tensor:
    r"""Draw `R x max(counts) x d` points; copies of the first one fill up each replicate."""
    check_kind(Design, points=design)
    d, replicates = bounds.shape[-1], []
    for seed, count in zip(as_seeds(seeds, len(counts)), counts, strict=True):
        stream = derive_seed(seed, "pseudo-points")
        if design == "sobol":
            unit = sobol_points(stream, count, d)
        else:
            generator = torch.Generator().manual_seed(stream)
            unit = torch.rand(count, d, dtype=torch.double, generator=generator)
        replicates.append(torch.cat([unit, unit[:1].expand(max(counts) - count, d)]))
    lower, upper = bounds
    return lower + (upper - lower) * torch.stack(replicates).to(bounds)


def _check(X: Tensor, bounds: Tensor, observed: Tensor) -> None:
    d = X.shape[-1]
    check_bounds(bounds, d)
    if observed.shape != X.shape[:-1] or observed.dtype != torch.bool:
        raise BotorchTensorDimensionError(
            f"Expected `observed` to be boolean of shape `batch_shape x n`, {X.shape[:-1]}. "
            f"Got {observed.dtype=}, {observed.shape=}."
        )
    sizes = observed.sum(dim=-1)
    if (sizes < 2).any():
        wrong = first_wrong(sizes, sizes >= 2)
        raise InputDataError(f"Expected at least two observations in every replicate. Got {wrong}.")
    # Inputs that come back from a unit cube may lie a rounding error outside.
    slack = 4 * torch.finfo(X.dtype).eps * bounds.abs().amax(dim=0).to(X)
    inside = (bounds[0].to(X) - slack <= X) & (bounds[1].to(X) + slack >= X)
    outside = ~inside & observed.unsqueeze(-1)
    if outside.any():
        index = first_index(outside)
        raise InputDataError(
            "Expected `bounds` that contain the data, in the units of the model's inputs. Got "
            f"{X[index].item()} at {index}, outside {bounds[:, index[-1]].tolist()}."
        )
