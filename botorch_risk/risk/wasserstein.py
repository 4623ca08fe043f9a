r"""The smallest expectation over a Wasserstein ball of distributions on the points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from botorch_risk.arguments import as_floating, check_kind, check_nonnegative
from botorch_risk.chunks import ChunkSize
from botorch_risk.matrices import sums_at
from botorch_risk.risk.ball import Ball, centred, from_zero_to_one, may_stop, of_finite_rows
from botorch_risk.risk.measure import Optimism, RiskMeasure
from botorch_risk.risk.mmd import check_size, require_bound, without_copies

_STEPS = 32  # of the search for the price of transport
_TARGET_GAP = 1e-12  # of the range of the values
_CHUNK = ChunkSize(cpu=2**17, gpu=2**26)  # pairs of points, all candidates counted

# The smallest tolerances that the solver knows: a distance may be far below the largest one.
_TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}

Metric = Callable[[Tensor, Tensor], Any]


def wasserstein_worst_distribution(
    values: Tensor, weights: Tensor, distances: Tensor, radius: float
) -> Tensor:
    r"""The distribution with the smallest expectation in a Wasserstein ball around the weights.

        min_q {sum_j q_j values_j : W(q, weights) <= radius}
        = max_price {sum_i weights_i min_j (values_j + price distances_ij) - price radius}

    where W is the Wasserstein distance of order 1: the least mean distance over which probability
    has to travel. Any point can receive probability, even one of weight 0. Source: the dual of
    [Gao2023wasserstein]_, Theorem 1, on finitely many points. The dual is concave and piecewise
    linear in the price: the plans at two prices, one on either side of the best, are mixed so that
    the distribution is in the ball. Its expectation exceeds the minimum by less than 1e-8 of the
    range of the values for radii of at least 1e-6 of the largest distance.

    Args:
        values: `... x n_w` finite values.
        weights: The distribution at the centre, broadcastable to `... x n_w`, >= 0 with sum 1 (not
            checked).
        distances: `n_w x n_w`, >= 0 with a diagonal of 0, or one for each of the leading dimensions
            of the values, `batch_shape x n_w x n_w`.
        radius: The largest mean distance. At radius 0 the result is the weights, even if some
            distances are 0.

    Returns:
        Probabilities, `... x n_w`.

    Example:
        >>> values, weights = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0.5, 0.25, 0.25])
        >>> distances = torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]])
        >>> wasserstein_worst_distribution(values, weights, distances, radius=0.25)
        tensor([0.5000, 0.5000, 0.0000])
    """
    check_nonnegative(radius=radius)
    plans = _Pairs(_checked(as_floating(distances, "distances")))
    return _worst_distribution(plans, values, weights, radius)


@dataclass(frozen=True)
class _Pairs:
    r"""Cheapest plans between all pairs of points; `distances: batch_shape x n_w x n_w`."""

    distances: Tensor

    @property
    def shape(self) -> torch.Size:
        return self.distances.shape

    def arranged(self, rows: Tensor) -> Tensor:
        return rows

    restored = arranged

    def cheapest(self, costs: Tensor, price: Tensor) -> tuple[Tensor, Tensor]:
        r"""The target of each point's probability and the distance; `k x rows x n_w` each.

        Costs are `k x rows x n_w`, k 1 or the number of matrices; the price of a unit of distance
        is `k x rows x 1`.
        """
        distances = self.distances.reshape(-1, *self.shape[-2:])
        n_w, parts = costs.shape[-1], []
        size = _CHUNK.rows(costs.device, len(costs) * n_w * n_w)
        for start in range(0, costs.shape[-2], size):
            part = slice(start, start + size)
            total = torch.addcmul(
                costs[:, part, None, :], price[:, part, :, None], distances.unsqueeze(-3)
            )
            parts.append(total.min(dim=-1).indices)  # faster than `argmin`
        target = torch.cat(parts, dim=-2)
        each = distances.unsqueeze(-3).expand(*target.shape, n_w)
        return target, each.gather(-1, target.unsqueeze(-1)).squeeze(-1)

    def between(self, first: Tensor, second: Tensor) -> Tensor:
        r"""Distances of distributions, `batch_shape x ... x n_w`: a linear program each."""
        # These are a third of the time in which the package is imported, for one method.
        import scipy.sparse
        from scipy.optimize import linprog

        n_w, k = first.shape[-1], self.shape[:-2].numel()
        rows = [
            each.detach().double().cpu().reshape(k, -1, n_w).numpy() for each in (first, second)
        ]
        scale = float(self.distances.amax()) or 1.0  # the program has absolute tolerances
        distances = (self.distances / scale).cpu().reshape(k, -1).numpy()
        # The dual, which is feasible however the sums are rounded: a price for leaving each point
        # and one for reaching it, of which one is free to choose.
        leaving = scipy.sparse.kron(scipy.sparse.eye(n_w), np.ones((n_w, 1)))
        reaching = scipy.sparse.kron(np.ones((n_w, 1)), scipy.sparse.eye(n_w))
        prices = scipy.sparse.hstack([leaving, reaching]).tocsr()
        free = [(None, None)] * (2 * n_w - 1) + [(0.0, 0.0)]
        found = [
            -linprog(
                -np.concatenate([p, q]), A_ub=prices, b_ub=costs, bounds=free, options=_TIGHT
            ).fun
            for costs, ps, qs in zip(distances, *rows, strict=True)
            for p, q in zip(ps, qs, strict=True)
        ]
        return scale * first.new_tensor(found).reshape(first.shape[:-1])


@dataclass(frozen=True)
class _Line:
    r"""Cheapest plans on a line: two passes over ascending points, `batch_shape x n_w`."""

    points: Tensor
    order: Tensor

    @classmethod
    def of(cls, points: Tensor) -> _Line:
        r"""The problem for points `batch_shape x n_w` in any order."""
        points, order = points.sort(dim=-1)
        return cls(points - points[..., :1], order)

    @property
    def shape(self) -> torch.Size:
        return self.points.shape + self.points.shape[-1:]

    def arranged(self, rows: Tensor) -> Tensor:
        r"""`k x rows x n_w` in the order in which plans are made."""
        return rows.gather(-1, self.order.reshape(-1, 1, rows.shape[-1]).expand(rows.shape))

    def restored(self, rows: Tensor) -> Tensor:
        order = self.order.reshape(-1, 1, rows.shape[-1]).expand(rows.shape)
        return torch.zeros_like(rows).scatter(-1, order, rows)

    def cheapest(self, costs: Tensor, price: Tensor) -> tuple[Tensor, Tensor]:
        r"""As in `_Pairs`."""
        points = self.points.reshape(-1, 1, costs.shape[-1])
        along = price * points
        below, lower = (costs - along).cummin(dim=-1)
        above, upper = (costs + along).flip(-1).cummin(dim=-1)
        stays_below = below + along <= above.flip(-1) - along
        target = lower.where(stays_below, costs.shape[-1] - 1 - upper.flip(-1))
        points = points.expand(costs.shape)
        return target, (points.gather(-1, target) - points).abs()

    def between(self, first: Tensor, second: Tensor) -> Tensor:
        r"""Distances of distributions: the areas between their distribution functions."""
        apart = (first - second).double()
        shape = *self.points.shape[:-1], *[1] * (apart.dim() - self.points.dim()), -1
        apart = apart.gather(-1, self.order.reshape(shape).expand(apart.shape)).cumsum(dim=-1)
        steps = self.points.diff(dim=-1).reshape(shape)
        return (apart[..., :-1].abs() * steps).sum(dim=-1).to(first)


def _worst_distribution(
    plans: _Pairs | _Line, values: Tensor, weights: Tensor, radius: float
) -> Tensor:
    r"""The worst distribution of each row of `values: batch_shape x ... x n_w`."""
    return of_finite_rows(
        lambda finite: _of_finite(plans, finite, weights, radius), as_floating(values)
    )


def _of_finite(plans: _Pairs | _Line, values: Tensor, weights: Tensor, radius: float) -> Tensor:
    given = values
    values, centre = centred(values, weights)
    if radius == 0:
        return centre.to(given)
    check_size(plans.shape, values, "distances")
    k = plans.shape[:-2].numel()
    rows = (k, -1, values.shape[-1])
    costs = plans.arranged(from_zero_to_one(values).reshape(rows))
    centre = plans.arranged(centre.reshape(rows))

    def plan(costs_: Tensor, price: Tensor) -> _Plan:
        target, distance = plans.cheapest(costs_, price)
        paid = (centre * costs.gather(-1, target)).sum(dim=-1, keepdim=True)
        return _Plan(target, paid, (centre * distance).sum(dim=-1, keepdim=True))

    stay = torch.arange(costs.shape[-1], device=costs.device).expand(costs.shape)
    mean = (centre * costs).sum(dim=-1, keepdim=True)
    # At price 0 all goes to the nearest of the smallest values. At the price of `high` the plan
    # is in the ball, since what it pays for transport is at most what it gains.
    least = costs.where(costs == 0, torch.inf)
    far, near = plan(least, torch.ones_like(mean)), _Plan(stay, mean, torch.zeros_like(mean))
    low, high = torch.zeros_like(mean), mean / radius
    done = far.distance <= radius
    for step in range(_STEPS):
        # Each plan is a line that bounds the dual from above: where the two meet is the maximum, if
        # no plan is cheaper there. Halving in turn ends what a slow approach from one side leaves.
        meet = (near.paid - far.paid) / (far.distance - near.distance)
        new = (meet > low) & (meet < high)
        middle = (low + high) / 2
        price = middle if step % 2 else meet.where(new, middle)
        found = plan(costs, price)
        # What the mixed plans cost there, less the dual, is how much may be left to gain.
        gap = far.paid - found.paid + price * (far.distance - found.distance)
        if step % 2 == 0:
            done = done | ~new | (gap <= _TARGET_GAP)
        outside = found.distance > radius
        low, high = price.where(outside, low), high.where(outside, price)
        far, near = found.where(outside, far), near.where(outside, found)
        if may_stop(costs) and done.all():
            break
    part = (radius - near.distance) / (far.distance - near.distance)
    part = part.where(far.distance > radius, 1.0).clamp(0.0, 1.0)
    target = torch.cat([far.target, near.target], dim=-1)
    moved = torch.cat([part * centre, (1 - part) * centre], dim=-1)
    worst = sums_at(target, moved, costs.shape[-1])
    return plans.restored(worst).reshape(values.shape).to(given)


@dataclass(frozen=True)
class _Plan:
    r"""The target of each point's probability, its cost, and the mean distance."""

    target: Tensor
    paid: Tensor
    distance: Tensor

    def where(self, condition: Tensor, other: _Plan) -> _Plan:
        return _Plan(
            self.target.where(condition, other.target),
            self.paid.where(condition, other.paid),
            self.distance.where(condition, other.distance),
        )


def euclidean(v: Tensor, w: Tensor, categories: Sequence[int] = ()) -> Tensor:
    r"""The Euclidean distances of two sets of points, `n x d_w` and `n' x d_w`.

    In columns of `categories`, different codes are 1 apart, whatever their numbers.
    """
    apart = v.unsqueeze(-2) - w.unsqueeze(-3)
    for column in categories:
        apart[..., column] = (apart[..., column] != 0).to(apart)
    return apart.norm(dim=-1)


@dataclass(frozen=True)
class WassersteinBall(Ball):
    r"""The worst expectation over distributions on the points within a transport distance.

    The radius bounds the mean distance over which probability moves, in the unit of w. See
    `wasserstein_worst_distribution`. Radius 0 is the expectation; a radius of the largest distance
    between two points is the worst case over all points. Points of weight 0 matter: they mark where
    probability may go. The points must be close together relative to the radius: to leave a point,
    probability must reach another.

    Args:
        radius: The largest mean distance.
        metric: A function of two `n_w x d_w` tensors that returns their `n_w x n_w` distances;
            default: `euclidean`, in which two categories of W are 1 apart. With several columns of
            different units, scale them here.

    Raises:
        RuntimeError: If called before `bind`.

    Example:
        >>> from types import SimpleNamespace
        >>> environment = SimpleNamespace(points=torch.tensor([[0.0], [1.0], [2.0]]))
        >>> measure = WassersteinBall(radius=0.25).bind(environment)
        >>> measure(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0.5, 0.25, 0.25]))
        tensor(1.5000)
    """

    has_kinks: ClassVar[bool] = True
    radius: float
    metric: Metric = euclidean
    _plans: _Pairs | _Line | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_kind(Callable, metric=self.metric)

    def bind(self, environment: Any) -> WassersteinBall:
        r"""The measure over the points of an environment, whose distances are computed once."""
        points = environment.points.detach().double()
        if self.metric is euclidean and points.shape[-1] == 1 and not _categories(environment):
            return replace(self, _plans=_Line.of(without_copies(points).squeeze(-1)))
        return replace(self, _plans=_Pairs(without_copies(distances_of(self.metric, environment))))

    def worst_distribution(self, values: Tensor, weights: Tensor) -> Tensor:
        plans: Any = require_bound(self._plans, self)
        values, weights = as_floating(values), as_floating(weights, "weights")
        return _worst_distribution(plans, values, weights, self.radius)

    def distance(self, weights: Tensor, others: Tensor) -> Tensor:
        r"""The Wasserstein distance of order 1; in several dimensions, by linear programs."""
        plans: Any = require_bound(self._plans, self)
        others, weights = as_floating(others), as_floating(weights, "weights")
        return plans.between(*torch.broadcast_tensors(weights.to(others), others))


@dataclass(frozen=True)
class WassersteinRegularization(RiskMeasure):
    r"""The expectation minus the radius times the steepest slope between points.

        risk = sum_j weights_j values_j - radius max_ij (values_i - values_j) / distances_ij

    The objective of WDRBO [Micheli2025wasserstein]_, with the slope between points instead of the
    gradient in w. It never exceeds the risk of a `WassersteinBall`, and equals it if the values
    fall at a single slope and the ball does not reach the lowest. One steep pair of points anywhere
    counts fully, so the result may be below all values. Not monotone in the values.

    Args:
        radius: The factor of the slope, in the unit of the distances.
        metric: As in `WassersteinBall`.

    Raises:
        RuntimeError: If called before `bind`.

    Example:
        >>> from types import SimpleNamespace
        >>> environment = SimpleNamespace(points=torch.tensor([[0.0], [1.0], [2.0]]))
        >>> measure = WassersteinRegularization(radius=0.25).bind(environment)
        >>> measure(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0.5, 0.25, 0.25]))
        tensor(1.5000)
    """

    monotone: ClassVar[bool] = False
    optimism: ClassVar[Optimism] = "of_values"
    has_kinks: ClassVar[bool] = True
    radius: float
    metric: Metric = euclidean
    _closeness: Tensor | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_nonnegative(radius=self.radius)
        check_kind(Callable, metric=self.metric)

    def bind(self, environment: Any) -> WassersteinRegularization:
        distances = without_copies(distances_of(self.metric, environment))
        return replace(self, _closeness=(1 / distances).where(distances > 0, 0.0))

    def _bounds(self, lower: Tensor, upper: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        r"""The steepest and the least steep slope that values between the two can have."""
        steepest, flattest = self._slope(upper, lower), self._slope(lower, upper)
        low, high = ((weights * values).sum(dim=-1) for values in (lower, upper))
        return low - self.radius * steepest, high - self.radius * flattest

    def _evaluate(self, values: Tensor, weights: Tensor) -> Tensor:
        return (weights * values).sum(dim=-1) - self.radius * self._slope(values, values)

    def _slope(self, starts: Tensor, ends: Tensor) -> Tensor:
        r"""The largest `(starts_i - ends_j) / distances_ij`, or 0 if all are negative."""
        closeness = require_bound(self._closeness, self)
        check_size(closeness.shape, starts, "distances")
        n_w = starts.shape[-1]
        closeness = closeness.reshape(-1, 1, n_w, n_w).to(starts)
        shape, rows = starts.shape[:-1], (len(closeness), -1, n_w)
        starts, ends = starts.reshape(rows), ends.reshape(rows)
        size, parts = _CHUNK.rows(starts.device, len(starts) * n_w * n_w), []
        for high, low in zip(
            starts.detach().split(size, dim=1), ends.detach().split(size, dim=1), strict=True
        ):
            slopes = (high.unsqueeze(-1) - low.unsqueeze(-2)) * closeness
            parts.append(slopes.flatten(-2).argmax(dim=-1, keepdim=True))
        pair = torch.cat(parts, dim=1)
        i, j = pair // n_w, pair % n_w
        near = closeness.flatten(-2).expand(*pair.shape[:-1], -1).gather(-1, pair)
        return ((starts.gather(-1, i) - ends.gather(-1, j)) * near).reshape(shape)


def distances_of(metric: Metric, environment: Any) -> Tensor:
    r"""The distances of an environment's points, checked and in float64."""
    points = environment.points.detach().double()
    if metric is euclidean:
        return _checked(euclidean(points, points, _categories(environment)))
    return _checked(torch.as_tensor(metric(points, points)))


def _categories(environment: Any) -> tuple[int, ...]:
    r"""The columns of W without an order; none of a distribution that is no `Environment`."""
    return getattr(environment, "categories", ())


def _checked(distances: Tensor) -> Tensor:
    distances = distances.detach().double()
    if distances.dim() < 2 or distances.shape[-1] != distances.shape[-2]:
        raise BotorchTensorDimensionError(
            "Expected distances of shape `batch_shape x n_w x n_w` for the points. "
            f"Got {distances.shape=}."
        )
    diagonal = distances.diagonal(dim1=-2, dim2=-1)
    if not ((distances >= 0) & distances.isfinite()).all() or (diagonal != 0).any():
        raise InputDataError(
            "Expected distances that are finite, >= 0, and 0 on the diagonal. "
            f"Got {distances.amin():.3g} to {distances.amax():.3g}, "
            f"and {diagonal.abs().amax():.3g} on the diagonal."
        )
    return distances
