r"""The smallest expectation over a total-variation ball of distributions."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from botorch_risk.arguments import as_floating, check_flags, check_nonnegative
from botorch_risk.risk.ball import Ball, of_finite_rows
from botorch_risk.steady import are_on_host


def total_variation_worst_case(
    values: Tensor, weights: Tensor, radius: float, half_convention: bool = False
) -> Tensor:
    r"""The smallest expectation over distributions within a given l1 distance of the weights.

        risk = min_q {sum_j q_j values_j : sum_j |q_j - weights_j| <= radius}

    Source: [Huang2024kde]_, Eq. (5), in its primal form: the worst distribution moves probability
    `radius / 2` from the largest values to the smallest, so one sort replaces the paper's
    two-dimensional convex problem. As in the paper, the infimum is over ALL points: points of
    weight 0 may receive probability. The gradient in the values is the worst distribution.

    Args:
        values: `... x n_w` finite values.
        weights: The distribution at the centre, broadcastable to `... x n_w`, >= 0 with sum 1 (not
            checked).
        radius: The l1 distance, the paper's delta; from 2 on it includes every distribution on the
            points.
        half_convention: Whether `radius` is instead half the l1 distance: the probability that is
            moved, and the usual definition of total variation.

    Example:
        >>> values, weights = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0.5, 0.25, 0.25])
        >>> total_variation_worst_case(values, weights, radius=0.5)
        tensor(1.2500)
    """
    values = as_floating(values)
    # Eq. (14); its dual is Eq. (17), by Propositions 2 and 4.
    worst = total_variation_worst_distribution(values.detach(), weights, radius, half_convention)
    return (worst * values).sum(dim=-1)


def total_variation_worst_distribution(
    values: Tensor, weights: Tensor, radius: float, half_convention: bool = False
) -> Tensor:
    r"""The distribution that attains `total_variation_worst_case`, with the same arguments.

    Returns:
        Probabilities, `... x n_w`.

    Example:
        >>> values, weights = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0.5, 0.25, 0.25])
        >>> total_variation_worst_distribution(values, weights, radius=0.5)
        tensor([0.7500, 0.2500, 0.0000])
    """
    check_flags(half_convention=half_convention)
    check_nonnegative(radius=radius)
    values, weights = as_floating(values), as_floating(weights, "weights")
    moved = radius if half_convention else radius / 2
    if are_on_host(values, weights) and not weights.requires_grad:
        found = _moved_on_host(values.detach().numpy(), weights.numpy(), moved)
        return torch.from_numpy(found)
    return of_finite_rows(lambda finite: _moved(finite, weights, moved), values)


def _moved(values: Tensor, weights: Tensor, moved: float) -> Tensor:
    r"""The weights after a probability has moved from the largest values to the smallest."""
    order = values.argsort(dim=-1, descending=True)
    weights = weights.expand_as(values).gather(-1, order)
    above = weights.cumsum(dim=-1) - weights  # probability of the values sorted before
    # Each gives up what those above it have left of the distance: a greedy choice is the best one.
    taken = torch.minimum((moved - above).clamp_min(0.0), weights)
    left = weights - taken
    # The last is the smallest value. It may give probability up too, and has it back here.
    left = torch.cat([left[..., :-1], left[..., -1:] + taken.sum(dim=-1, keepdim=True)], dim=-1)
    return torch.zeros_like(left).scatter(-1, order, left)


def _moved_on_host(values: ndarray, weights: ndarray, moved: float) -> ndarray:
    r"""`_moved` in NumPy, which sorts five times as fast as PyTorch on a CPU; NaN as in a call."""
    missing = ~np.isfinite(values).all(axis=-1, keepdims=True)
    order = np.where(missing, 0.0, values).argsort(axis=-1)
    worst, smallest = np.broadcast_to(weights, values.shape).copy(), order[..., :1]
    # Few of the largest give up all: most of the rest need not even be gathered.
    for number in _growing(values.shape[-1]):
        largest = order[..., : -number - 1 : -1]
        given = np.take_along_axis(worst, largest, axis=-1)
        total = given.cumsum(axis=-1)
        if (total[..., -1] >= moved).all():
            break
    taken = np.minimum(np.maximum(moved - (total - given), 0.0), given)
    np.put_along_axis(worst, largest, given - taken, axis=-1)
    back = np.take_along_axis(worst, smallest, axis=-1) + taken.sum(axis=-1, keepdims=True)
    np.put_along_axis(worst, smallest, back, axis=-1)
    return np.where(missing, np.nan, worst)


def _growing(n_w: int) -> Iterator[int]:
    number = min(64, n_w)
    while number < n_w:
        yield number
        number *= 4
    yield n_w


@dataclass(frozen=True)
class TotalVariationBall(Ball):
    r"""The worst expectation over distributions within a total-variation distance of the weights.

    The objective of DRBO-KDE, [Huang2024kde]_, Eq. (5): see `total_variation_worst_case`. Radius 0
    is the expectation, radius 2 the worst case over all points. Points of weight 0 matter: they
    mark where probability may go.

    Args:
        radius: The l1 distance, the paper's delta.
        half_convention: Whether `radius` is half the l1 distance instead.

    Example:
        >>> measure = TotalVariationBall(radius=0.5)
        >>> measure(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0.5, 0.25, 0.25]))
        tensor(1.2500)
    """

    has_kinks: ClassVar[bool] = True
    radius: float
    half_convention: bool = False

    def __post_init__(self) -> None:
        check_flags(half_convention=self.half_convention)
        super().__post_init__()

    def importance(self, weights: Tensor) -> Tensor:
        r"""The weights, with the probability that may be moved shared among all values."""
        moved = min(1.0, self.radius if self.half_convention else self.radius / 2)
        return (1 - moved) * weights + moved / weights.shape[-1]

    def worst_distribution(self, values: Tensor, weights: Tensor) -> Tensor:
        return total_variation_worst_distribution(
            values, weights, self.radius, self.half_convention
        )

    def value_and_slope_on_host(self, values: ndarray, weights: ndarray) -> tuple[ndarray, ndarray]:
        moved = self.radius if self.half_convention else self.radius / 2
        worst = _moved_on_host(values, weights, moved)
        return (worst * values).sum(axis=-1), worst

    def distance(self, weights: Tensor, others: Tensor) -> Tensor:
        r"""The sum of the absolute differences, or half of it."""
        distance = (as_floating(others) - as_floating(weights)).abs().sum(dim=-1)
        return distance / 2 if self.half_convention else distance
