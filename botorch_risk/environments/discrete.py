r"""Finitely many values of W with known probabilities."""

import math
from collections.abc import Callable, Sequence
from typing import Self

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from botorch_risk.arguments import (
    as_floating,
    as_tensor,
    check_bounds,
    check_counts,
    check_kind,
    check_nonnegative,
    check_rows,
    first_index,
    in_short,
)
from botorch_risk.environments.environment import IndependentEnvironment, inside
from botorch_risk.environments.uniforms import seeded_uniforms, tensor_grid
from botorch_risk.matrices import squared_differences
from botorch_risk.seeding import as_seeds

SUM_TOLERANCE = 1e-5  # of probabilities, which may come in float32; they are divided by their sum


class DiscreteEnvironment(IndependentEnvironment):
    r"""W is `points[j]` with probability `probabilities[j]`.

    Args:
        points: Values of W, `batch_shape x n_w x d_w`; integers become float64, here and in every
            distribution.
        probabilities: `batch_shape x n_w`, or `n_w` for all of the batch. Default: equal. A
            point of probability 0 marks where a ball may put mass.
        categories: The columns of W, from 0, that are categories, coded by whole numbers. The
            models of strategies assume no order among the codes.

    Example:
        >>> w = torch.tensor([[0.0], [0.5], [1.0]])
        >>> environment = DiscreteEnvironment(w, torch.tensor([0.5, 0.3, 0.2]))
        >>> inputs, weights = environment.expand(torch.rand(4, 2))
        >>> inputs.shape, weights.shape
        (torch.Size([4, 3, 3]), torch.Size([1, 3]))
    """

    def __init__(
        self, points: Tensor, probabilities: Tensor | None = None, categories: Sequence[int] = ()
    ) -> None:
        points = as_floating(points, "points")
        check_rows("points", points)
        super().__init__(points, checked_probabilities(probabilities, points))
        self.categories = tuple(categories)
        d_w = points.shape[-1]
        if not all(0 <= column < d_w for column in self.categories):
            raise BotorchTensorDimensionError(
                f"Expected `categories` among the columns 0 to {d_w - 1} of W. "
                f"Got {in_short(self.categories)}."
            )
        codes = points[..., list(self.categories)]
        if (codes % 1 != 0).any():
            raise InputDataError(
                "Expected whole numbers in the columns of categories. "
                f"Got {codes[codes % 1 != 0][0].item():g}."
            )

    def some(self, index: Sequence[int] | int) -> Self:
        r"""The distributions of some entries of the batch; one entry has no batch dimension."""
        points = self.points.expand(*self.weights.shape, -1)
        return type(self)(points[index], self.weights[index], self.categories)


def checked_probabilities(probabilities: Tensor | None, points: Tensor) -> Tensor:
    r"""Probabilities of `points`, equal if None, that sum to 1 as closely as the dtype allows."""
    shape = points.shape[:-1]
    probabilities = as_tensor("probabilities", probabilities)
    if probabilities is None:
        return points.new_full(shape, 1 / shape[-1])
    if probabilities.shape not in (shape, shape[-1:]):
        raise BotorchTensorDimensionError(
            f"Expected `probabilities` to have shape `batch_shape x n_w`, here {tuple(shape)}. "
            f"Got {tuple(probabilities.shape)}."
        )
    probabilities = probabilities.detach()
    total = probabilities.double().sum(dim=-1, keepdim=True)
    if not ((probabilities >= 0).all() and ((total - 1).abs() <= SUM_TOLERANCE).all()):
        raise ValueError(
            "Expected probabilities of at least 0 that sum to 1. "
            f"Got a smallest one of {probabilities.min()} and sums {in_short(total.squeeze(-1))}."
        )
    return (probabilities.double() / total).to(points).expand(shape)


def restricted(
    environment: IndependentEnvironment, is_possible: Callable[[Tensor], Tensor]
) -> DiscreteEnvironment:
    r"""The distribution of W given that W is possible.

        weights[j] = is_possible(points[j]) * environment.weights[j] / sum

    For example, a dew point never exceeds the temperature. Each impossible point is replaced by a
    copy, of weight 0, of a possible point. A ball around the result therefore puts no mass on
    impossible points, and the number of points stays the same in each replicate.

    Args:
        environment: A distribution of W, known or learnt. In the result, W is one of its points.
        is_possible: Maps values of W, `batch_shape x n_w x d_w`, to booleans `batch_shape x n_w`.

    Raises:
        BotorchTensorDimensionError: If `is_possible` does not return one boolean for each point.
        InputDataError: If no possible point of a replicate has a positive weight.

    Example:
        >>> from botorch_risk.environments import DiscreteEnvironment
        >>> days = DiscreteEnvironment(torch.tensor([[15.0, 9.0], [15.0, 16.0], [20.0, 16.0]]))
        >>> possible = restricted(days, lambda W: W[..., 1] <= W[..., 0])
        >>> possible.points.tolist(), possible.weights.tolist()
        ([[15.0, 9.0], [15.0, 9.0], [20.0, 16.0]], [0.5, 0.0, 0.5])
    """
    check_kind(IndependentEnvironment, environment=environment)
    points, shape = environment.points, environment.points.shape[:-1]
    kept = as_tensor("is_possible(points)", is_possible(points))
    if kept is None or kept.shape != shape or kept.dtype != torch.bool:
        raise BotorchTensorDimensionError(
            f"Expected `is_possible` to return {tuple(shape)} booleans, one for each point. "
            f"Got {in_short(kept)}."
        )
    weights = (environment.weights * kept).double()
    total = weights.sum(dim=-1, keepdim=True)
    if not (total > 0).all():
        index = first_index(total <= 0)[:-1]
        raise InputDataError(
            "Expected a possible point of positive weight. "
            f"Got none among {shape[-1]}{f' of entry {index}' if index else ''}."
        )
    a_possible_one = kept.long().argmax(dim=-1)[..., None, None]
    stand_in = points.gather(-2, a_possible_one.expand(*shape[:-1], 1, points.shape[-1]))
    points = points.where(kept.unsqueeze(-1), stand_in)
    return DiscreteEnvironment(points, weights / total, environment.categories)


class EmpiricalGrid(IndependentEnvironment):
    r"""Count each observed value at the nearest point of a grid.

        weights[j] = (number of observed values nearest to grid[j]) / t

    The reference distribution of DRBO-MMD and its minimax approximation, Sec. B.1 of
    [Huang2024kde]_. Points that are nearest to no value have weight 0: a ball may put mass there.
    Distances are Euclidean, ties go to the first point.

    Args:
        observed: Values of W, `batch_shape x t x d_w`.
        grid: `n_w x d_w`, such as a `regular_grid`.
    """

    def __init__(self, observed: Tensor, grid: Tensor) -> None:
        observed, grid = as_floating(observed, "observed"), as_floating(grid, "grid")
        check_rows("observed", observed)
        check_rows("grid", grid)
        if grid.dim() != 2 or grid.shape[-1] != observed.shape[-1]:
            raise BotorchTensorDimensionError(
                f"Expected `grid` to have shape `n_w x {observed.shape[-1]}`. Got {grid.shape=}."
            )
        # By a matrix product rounding would decide between ties.
        distances = squared_differences(observed.double(), grid.to(observed).double())
        nearest = distances.argmin(dim=-1)
        counts = torch.zeros(*observed.shape[:-2], len(grid)).to(observed)
        counts.scatter_add_(-1, nearest, torch.ones_like(nearest).to(counts))
        points = grid.to(observed).expand(*observed.shape[:-2], *grid.shape)
        super().__init__(points, counts / observed.shape[-2])


def regular_grid(bounds: Tensor, num_points: int) -> Tensor:
    r"""Equally spaced points including the bounds, the same number on each axis, `n_w x d_w`.

    Args:
        bounds: The box, `2 x d_w`.
        num_points: The minimum number: each axis has `ceil(num_points ** (1 / d_w))` points.
    """
    bounds = as_floating(bounds, "bounds")
    check_bounds(bounds)
    check_counts(num_points=num_points)
    size = math.ceil(num_points ** (1 / bounds.shape[-1]) - 1e-9)  # 1000 ** (1 / 3) exceeds 10
    unit = torch.linspace(0, 1, size, dtype=bounds.dtype, device=bounds.device)
    axes = [unit * (b - a) + a for a, b in bounds.mT]
    return tensor_grid(axes)


class StandardDeviationBox(IndependentEnvironment):
    r"""Points of a box around the mean of the observed values, as wide as their deviation.

        [mean(i) - num_deviations * sd(i), mean(i) + num_deviations * sd(i)] in each dimension i

    The uncertainty set of StableOpt in the experiments of [Huang2024kde]_, Sec. B.1; it is meant
    for the worst case, for which the equal weights do not matter. The standard deviation is the
    population's (`ddof = 0`). The points are scrambled Sobol points.

    Args:
        observed: Values of W, `batch_shape x t x d_w`.
        n_w: The number of points.
        seeds: One for each replicate, `batch_shape.numel()` in all.
        num_deviations: The half-width of the box in standard deviations.
        bounds: `2 x d_w`; the box is cut at them.
    """

    box: Tensor

    def __init__(
        self,
        observed: Tensor,
        n_w: int,
        seeds: int | Sequence[int],
        num_deviations: float = 1.0,
        bounds: Tensor | None = None,
    ) -> None:
        observed = as_floating(observed, "observed").detach()
        bounds = as_tensor("bounds", bounds)
        check_rows("observed", observed)
        check_counts(n_w=n_w)
        check_nonnegative(num_deviations=num_deviations)
        batch_shape, d_w = observed.shape[:-2], observed.shape[-1]
        deviation = num_deviations * observed.std(dim=-2, correction=0)
        mean = observed.mean(dim=-2)
        box = torch.stack([mean - deviation, mean + deviation], dim=-2)  # batch_shape x 2 x d_w
        if bounds is not None:
            check_bounds(bounds, d_w)
            lower, upper = bounds.detach().to(box)
            box = torch.minimum(torch.maximum(box, lower), upper)
        listed = as_seeds(seeds, batch_shape.numel())
        uniforms = seeded_uniforms(n_w, d_w, listed, "standard deviation box")
        points = _into(box, uniforms.to(box).reshape(*batch_shape, n_w, d_w))
        super().__init__(points, points.new_full(points.shape[:-1], 1 / n_w))
        self.register_buffer("box", box)

    @property
    def support_bounds(self) -> Tensor:
        r"""The smallest box, `2 x d_w`, that holds the boxes of all replicates."""
        boxes = self.box.reshape(-1, *self.box.shape[-2:])
        return torch.stack([boxes[:, 0].amin(dim=0), boxes[:, 1].amax(dim=0)])

    def supports(self, W: Tensor) -> Tensor:
        return inside(self.as_values(W), self.box)

    @property
    def _num_uniforms(self) -> int:
        return self.points.shape[-1]

    def _from_uniforms(self, uniforms: Tensor) -> Tensor:
        return _into(self.box.to(uniforms), uniforms)


def _into(box: Tensor, uniforms: Tensor) -> Tensor:
    r"""Points of the unit cube, `... x n x d_w`, moved into the box `... x 2 x d_w`."""
    lower, upper = box[..., :1, :], box[..., 1:, :]
    return lower + (upper - lower) * uniforms
