r"""Points spread evenly over the domain, each with its nearest observation.

.. [Ha2023uhe]
    H. Ha, V. Nguyen, H. Zhang, A. van den Hengel. Provably Efficient Bayesian Optimization with
    Unbiased Gaussian Process Hyperparameter Estimation. arXiv:2306.06844, 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from botorch_risk.seeding import as_seeds, derive_seed, sobol_points

Design = Literal["uniform", "sobol"]


class PseudoPoints(NamedTuple):
    r"""Points of the domain and where their outcomes come from.

    Args:
        X: The points, `batch_shape x M x d`, in the units of the bounds.
        neighbours: The row of the data that is nearest to each, `batch_shape x M`.
        counted: Which of them count, `batch_shape x M`: replicates with fewer observations have
            fewer pseudo-points, and copies of their first one fill the rest.
    """

    X: Tensor
    neighbours: Tensor
    counted: Tensor

    def of_neighbours(self, values: Tensor) -> Tensor:
        r"""What the nearest observations have of `batch_shape x n` values, `batch_shape x M`."""
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
    r"""Draws pseudo-points and finds their nearest observations, Sec. 5.2 of [Ha2023uhe]_.

        neighbour_j = argmin_i |x_i - x'_j|

    Distances are those in the unit cube of `bounds`, so that no input dominates by its unit (the
    paper does not say in which). Ties go to the lowest row.

    Args:
        X: Inputs of the observations, `batch_shape x n x d`.
        bounds: The lower and the upper bounds of the domain, `2 x d`.
        num_pseudo: How many points, M_t >= the number of observations; twice their number if
            omitted, the paper's choice.
        seeds: One seed for each replicate, the batch flattened.
        points: `"uniform"`, independent draws (the paper's); `"sobol"`, scrambled Sobol points,
            which cover the domain more evenly and, from one seed, stay where they are when their
            number grows; or points of the user's, `batch_shape x M x d` or `M x d`.
        observed: An optional boolean mask, `batch_shape x n`, of rows that exist. Without
            `num_pseudo`, a replicate has twice as many points as it has rows.

    Returns:
        The points, in the dtype and on the device of `X`.

    Raises:
        BotorchTensorDimensionError: If a shape does not fit.
        InputDataError: If a replicate has fewer than two observations, or one out of bounds.
        ValueError: If there are fewer pseudo-points than observations, the bounds are no box, the
            design is unknown, or the number of seeds is not that of replicates.

    Example:
        >>> X, bounds = torch.tensor([[0.0], [1.0]]), torch.tensor([[0.0], [1.0]])
        >>> drawn = pseudo_points(X, bounds, 4, seeds=0, points="sobol")
        >>> torch.equal(drawn.neighbours, (drawn.X > 0.5).long().squeeze(-1))
        True
    """
    batch_shape = X.shape[:-2]
    rows = torch.ones(X.shape[:-1], dtype=torch.bool, device=X.device)
    rows = rows if observed is None else observed
    _check(X, bounds, rows)
    bounds = bounds.to(X)
    sizes = rows.sum(dim=-1).flatten().tolist()
    if isinstance(points, Tensor):
        drawn = points.to(X).expand(*batch_shape, *points.shape[-2:])
        counts = [points.shape[-2]] * len(sizes)
    else:
        counts = [2 * size if num_pseudo is None else num_pseudo for size in sizes]
        drawn = _draw(bounds, counts, seeds, points).view(*batch_shape, max(counts), -1)
    if any(count < size for count, size in zip(counts, sizes, strict=True)):
        raise ValueError(
            "Expected at least as many pseudo-points as observations, M_t >= |D|. "
            f"Got {min(counts)} and {max(sizes)}."
        )
    number = torch.tensor(counts, device=X.device).view(*batch_shape, 1)
    return PseudoPoints(
        X=drawn,
        neighbours=nearest_rows(drawn, X, bounds, rows),
        counted=torch.arange(max(counts), device=X.device) < number,
    )


def nearest_rows(
    points: Tensor, X: Tensor, bounds: Tensor, observed: Tensor | None = None
) -> Tensor:
    r"""The row of `X` that is nearest to each point in the unit cube of `bounds`.

    Args:
        points: `batch_shape x M x d`.
        X: `batch_shape x n x d`.
        bounds: `2 x d`.
        observed: An optional boolean mask of the rows, `batch_shape x n`.

    Returns:
        `batch_shape x M` rows, the lowest one of those that tie.
    """
    lower, upper = bounds
    # The matrix-product form of distances would make ties a matter of rounding.
    distance = torch.cdist(
        (points - lower) / (upper - lower),
        ((X - lower) / (upper - lower)).nan_to_num(0.0),
        compute_mode="donot_use_mm_for_euclid_dist",
    )
    if observed is not None:
        distance = distance.masked_fill(~observed.unsqueeze(-2), torch.inf)
    return distance.argmin(dim=-1)


def _draw(bounds: Tensor, counts: Sequence[int], seeds: int | Sequence[int], design: str) -> Tensor:
    r"""Points `R x max(counts) x d`, each replicate's own first `count` of them new."""
    if design not in get_args(Design):
        raise ValueError(f"Expected `points` to be one of {get_args(Design)}. Got {design!r}.")
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
    if bounds.shape != (2, d):
        raise BotorchTensorDimensionError(
            f"Expected `bounds` to have shape `2 x {d}`. Got {bounds.shape=}."
        )
    if not (bounds.isfinite().all() and (bounds[0] < bounds[1]).all()):
        raise ValueError(
            "Expected finite `bounds` with each lower bound below its upper bound. "
            f"Got {bounds.tolist()}."
        )
    if observed.shape != X.shape[:-1] or observed.dtype != torch.bool:
        raise BotorchTensorDimensionError(
            f"Expected `observed` to be boolean of shape `batch_shape x n`, {X.shape[:-1]}. "
            f"Got {observed.dtype=}, {observed.shape=}."
        )
    sizes = observed.sum(dim=-1)
    if (sizes < 2).any():
        raise InputDataError(
            f"Expected at least two observations in every replicate. Got {sizes.tolist()}."
        )
    slack = 4 * torch.finfo(X.dtype).eps * bounds.abs().amax(dim=0).to(X)
    inside = (bounds[0].to(X) - slack <= X) & (bounds[1].to(X) + slack >= X)
    outside = ~inside.all(dim=-1) & observed
    if outside.any():
        raise InputDataError(
            "Expected `bounds` that contain the data, in the units of the model's inputs. Got "
            f"{X[outside][0].tolist()}, bounds={bounds.tolist()}."
        )
