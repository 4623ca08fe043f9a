r"""An upper bound of a risk over a whole box of decisions, by branching and interval arithmetic."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bench.studies.open_benchmark.intervals import Interval, Ranged
from botorch_risk.risk import MeanVariance, RiskMeasure, ValueAtRisk

Formula = Callable[[list[Any]], Any]
r"""From the coordinates of (x, w), as tensors or as `Ranged` values, to the outcome."""

_CELLS_AT_ONCE = 4096
_FAR = 1e30  # what is not bounded


class TooManyCellsError(RuntimeError):
    r"""The box could not be certified with the cells that were allowed."""


@dataclass(frozen=True)
class Certificate:
    r"""No decision has a risk above `best + tolerance`.

    Args:
        best: The largest risk that was found.
        decision: Where.
        tolerance: What may be above it.
        num_cells: The number of boxes that had to be bounded.
    """

    best: float
    decision: list[float]
    tolerance: float
    num_cells: int


def certify(
    formula: Formula,
    measure: RiskMeasure,
    points: Tensor,
    weights: Tensor,
    start: Tensor,
    tolerance: float = 1e-6,
    max_cells: int = 20_000_000,
) -> Certificate:
    r"""Shows that a decision is the best in the unit cube, or finds a better one.

    Boxes are halved in all coordinates until each has an upper bound below the best value that is
    known, plus the tolerance. Three bounds hold, and the least counts.

    1. The risk of the upper bounds of f(x, w_j) over the box, if the measure is monotone.
    2. For a measure that is the least expectation over some distributions of W (all but
       value-at-risk and mean-variance), the expectation under the worst distribution of the
       centre, with the range of its gradient.
    3. For mean minus variance the range of its own gradient.

    Args:
        formula: The outcome.
        measure: The risk.
        points: The values of W, `n_w x d_w`.
        weights: Their probabilities, `n_w`.
        start: The decision that is thought to be best, `d_x`.
        tolerance: What the certificate leaves open.
        max_cells: When to give up.

    Raises:
        TooManyCellsError: If more boxes than that are needed.
    """
    d = start.numel()
    risk = _RiskInBoxes(formula, measure, points, weights)
    best, decision = risk.at(start.unsqueeze(0)).item(), start
    centres, half, count = torch.full((1, d), 0.5, dtype=torch.double), 0.5, 0
    corners = torch.tensor(list(itertools.product((-0.5, 0.5), repeat=d)), dtype=torch.double)
    while len(centres):
        count += len(centres)
        if count > max_cells:
            raise TooManyCellsError(
                f"Expected at most {max_cells:,} boxes. Got {len(centres):,} of half width "
                f"{half:.1e} left, beside a best value of {best!r}."
            )
        kept = []
        for part in centres.split(_CELLS_AT_ONCE):
            values = risk.at(part)
            if values.max() > best:
                best, decision = values.max().item(), part[values.argmax()]
            kept.append(part[risk.upper(part, half) > best + tolerance])
        left = torch.cat(kept)
        centres = (left.unsqueeze(1) + half * corners).reshape(-1, d)
        half /= 2
    return Certificate(best, decision.tolist(), tolerance, count)


def risk_of(
    formula: Formula, measure: RiskMeasure, points: Tensor, weights: Tensor
) -> Callable[[Tensor], Tensor]:
    r"""The risk of decisions, `m x d_x -> m`."""
    return _RiskInBoxes(formula, measure, points, weights).at


@dataclass(frozen=True)
class _RiskInBoxes:
    formula: Formula
    measure: RiskMeasure
    points: Tensor
    weights: Tensor

    def at(self, X: Tensor) -> Tensor:
        r"""The risk of decisions, `m x d_x -> m`."""
        return self.measure(self._values(X), self.weights)

    def upper(self, centres: Tensor, half: float) -> Tensor:
        r"""An upper bound of the risk in boxes of a half width, `m`."""
        values = self._values(centres)  # m x n_w
        ranged = self._ranged(centres, half)
        change = half * sum(slope.magnitude() for slope in ranged.slopes)
        change = change.nan_to_num(nan=torch.inf)
        around = Interval(values - change, values + change).intersected(ranged.value)
        if isinstance(self.measure, MeanVariance):
            return self._of_mean_variance(values, around, ranged.slopes, half)
        bound = self.measure(around.upper.clamp(-_FAR, _FAR), self.weights)
        if isinstance(self.measure, ValueAtRisk):
            return bound
        with torch.enable_grad():
            leaf = values.detach().requires_grad_()
            (worst,) = torch.autograd.grad(self.measure(leaf, self.weights).sum(), leaf)
        expectation = (worst * values).sum(dim=-1) + half * self._slope(worst, ranged.slopes)
        return torch.minimum(bound, expectation.nan_to_num(nan=_FAR))

    def _of_mean_variance(
        self, values: Tensor, around: Interval, slopes: tuple[Interval, ...], half: float
    ) -> Tensor:
        r"""d/dx (E f - a Var f) = sum_j p_j (1 - 2 a (f_j - E f)) df_j / dx."""
        aversion, p = self.measure.risk_aversion, self.weights  # type: ignore[attr-defined]
        mean = Interval((p * around.lower).sum(-1, True), (p * around.upper).sum(-1, True))
        factor = Interval.of(1.0) - (around - mean) * (2 * aversion)
        total = sum(_sum_over_w(slope * factor * p).magnitude() for slope in slopes)
        return (self.measure(values, p) + half * total).nan_to_num(nan=_FAR)

    def _slope(self, worst: Tensor, slopes: tuple[Interval, ...]) -> Tensor:
        return torch.stack([_sum_over_w(slope * worst).magnitude() for slope in slopes]).sum(dim=0)

    def _values(self, X: Tensor) -> Tensor:
        x = [column.unsqueeze(-1) for column in X.unbind(dim=-1)]
        w = list(self.points.unbind(dim=-1))
        return self.formula([*x, *w]).expand(len(X), len(self.points))

    def _ranged(self, centres: Tensor, half: float) -> Ranged:
        m, d = centres.shape
        shape = m, len(self.points)
        ones, zeros = torch.ones(shape).double(), torch.zeros(shape).double()
        variables: list[Any] = []
        for i, column in enumerate(centres.unbind(dim=-1)):
            middle = column.unsqueeze(-1).expand(shape)
            slopes = tuple(Interval.of(ones if i == j else zeros) for j in range(d))
            variables.append(Ranged(Interval(middle - half, middle + half), slopes))
        found: Ranged = self.formula([*variables, *self.points.unbind(dim=-1)])
        return found


def _sum_over_w(value: Interval) -> Interval:
    return Interval(value.lower.sum(dim=-1), value.upper.sum(dim=-1))
