r"""Measures of risk: from the values of an outcome and their probabilities to one number.

A measure is called as `measure(values, weights)` with `values: ... x n_w` and `weights`
broadcastable to them, and returns `...`. It is pure, batched and differentiable in the values,
and larger is better. A point of weight 0 is not in the support: these measures do not see it.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from botorch.exceptions.warnings import UserInputWarning
from numpy import ndarray
from torch import Tensor

from botorch_risk.arguments import (
    as_floating,
    as_tensor,
    check_finite,
    check_flags,
    check_nonnegative,
    check_probability,
)
from botorch_risk.gradients import differentiated
from botorch_risk.risk.mean_variance_bounds import clipping_level, dual_solution
from botorch_risk.steady import are_on_host, expect, is_known, may_look, memory, once, remember

Optimism = Literal["of_risk", "of_values"]
Points = Literal["support", "points"]


class RiskMeasure(ABC):
    r"""A functional of values and their probabilities.

    A subclass states in `monotone` whether raising a value can only raise the result: only then
    is the risk of an upper bound an upper bound of the risk. One that is not overrides `_bounds`.
    It states in `in_unit_of_outcome` whether a sure gain raises the result by as much.

    Example:
        >>> class Hurwicz(RiskMeasure):  # between the worst value and the best
        ...     def _evaluate(self, values, weights):
        ...         return 0.7 * values.amin(dim=-1) + 0.3 * values.amax(dim=-1)
        >>> values, weights = torch.tensor([[1.0, 3.0, 2.0]]), torch.tensor([0.2, 0.3, 0.5])
        >>> Hurwicz()(values, weights), Hurwicz().bounds(values - 1, values + 1, weights)
        (tensor([1.6000]), (tensor([0.6000]), tensor([2.6000])))
    """

    monotone: ClassVar[bool] = True
    in_unit_of_outcome: ClassVar[bool] = True
    optimism: ClassVar[Optimism] = "of_risk"  # as in `RiskUpperConfidenceBound`, for a search
    has_kinks: ClassVar[bool] = False  # whether its gradient jumps where values swap their order
    is_a_program: ClassVar[bool] = False  # solved for each value, too slowly for many samples

    def __call__(self, values: Tensor, weights: Tensor) -> Tensor:
        r"""The risk of each row of values.

        Args:
            values: `... x n_w` finite values.
            weights: Probabilities, broadcastable to `... x n_w`, >= 0 with sum 1.

        Returns:
            A tensor of shape `...` and the dtype of the values; NaN for a row with a value that is
            not finite, so a failed replicate does not affect the others.

        Raises:
            InputDataError: If no row is finite, or the weights are not probabilities.
        """
        values, weights = as_tensor("values", values), as_tensor("weights", weights)
        weights = weights.to(values)
        check_distribution(values, weights)
        if not (self.is_a_program or may_look(values)):  # a program needs numbers in all rows
            return self._evaluate(values, weights) + _zero_if_finite(values.detach())
        (risk,) = _of_finite_rows(lambda values: (self._evaluate(values, weights),), values)
        return risk

    @abstractmethod
    def _evaluate(self, values: Tensor, weights: Tensor) -> Tensor: ...

    def value_and_slope(self, values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        r"""The risk of each row of values, and its derivative in them, `... x n_w`, both detached.

        A row with a value that is not finite has NaN.
        """
        weights = weights.to(values)
        check_distribution(values, weights)
        risk, slope = _of_finite_rows(
            lambda values: self._value_and_slope(values, weights), values.detach()
        )
        return risk, slope

    def _value_and_slope(self, values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        r"""`value_and_slope` of checked values, here by autograd."""
        return differentiated(lambda values: self._evaluate(values, weights), values)

    def value_and_slope_on_host(self, values: ndarray, weights: ndarray) -> tuple[ndarray, ndarray]:
        risk, slope = self.value_and_slope(*map(torch.from_numpy, (values, weights)))
        return risk.numpy(), slope.numpy()

    def expected(self, mean: Tensor, variance: Tensor, weights: Tensor) -> Tensor | None:
        r"""The expected risk of normal values, if it follows from their marginals; else None.

        Args:
            mean: `... x n_w`, in which the result is differentiable.
            variance: `... x n_w`.
            weights: As in a call.
        """
        return None

    @property
    def needs_samples(self) -> bool:
        r"""Whether the expected risk of normal values never follows from their marginals."""
        return type(self).expected is RiskMeasure.expected

    def importance(self, weights: Tensor) -> Tensor:
        r"""The importance of each value before any data, `... x n_w`; sums to 1.

        Its weight, unless the measure looks for the worst value regardless of weight. For linear
        measures, the worst case and mean minus variance, it is the expected gradient of the risk
        for independent, identically distributed values; for others this holds approximately if
        there are many values.
        """
        return weights

    def following(self, previous: RiskMeasure) -> RiskMeasure:
        r"""The measure with the factorisations of an earlier round; here, itself."""
        return self

    def bind(self, environment: Any) -> RiskMeasure:
        r"""The measure over the `points: n_w x d_w` of an environment; itself if it needs none."""
        return self

    def bounds(self, lower: Tensor, upper: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        r"""Bounds of the risk of any values between `lower` and `upper`, `... x n_w` each.

        They have the shape `...`, and are NaN if the risk is NaN.
        """
        lower, upper = as_tensor("lower", lower), as_tensor("upper", upper)
        weights = as_tensor("weights", weights).to(lower)
        for values in (lower, upper):
            check_distribution(values, weights)
        low, high = _of_finite_rows(
            lambda lower, upper: self._bounds(lower, upper, weights), lower, upper
        )
        return low, high

    def _bounds(self, lower: Tensor, upper: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        r"""Bounds for checked values; overridden if the measure is not monotone."""
        return self._evaluate(lower, weights), self._evaluate(upper, weights)


class PickingRiskMeasure(RiskMeasure, ABC):
    r"""A measure whose risk is one of the values.

    Its gradient is the gradient of that value alone. A subclass returns its index; raising a value
    must not lower the risk.
    """

    has_kinks: ClassVar[bool] = True

    @abstractmethod
    def _index(self, values: Tensor, weights: Tensor) -> Tensor: ...

    def _evaluate(self, values: Tensor, weights: Tensor) -> Tensor:
        return values.gather(-1, self._index(values, weights).unsqueeze(-1)).squeeze(-1)

    def _value_and_slope(self, values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        index = self._index(values, weights).unsqueeze(-1)
        risk = values.gather(-1, index).squeeze(-1)
        return risk, torch.zeros_like(values).scatter_(-1, index, 1.0)

    def pick(self, values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        r"""The risk of each row of values, and which value it is, `...` each.

        For a row with a value that is not finite the risk is NaN and the index 0.
        """
        values, weights = as_tensor("values", values), as_tensor("weights", weights)
        weights = weights.to(values)
        check_distribution(values, weights)
        if may_look(values) and not values.detach().sum().isfinite():
            index = self._index(values.nan_to_num(), weights)
            risk = values.gather(-1, index.unsqueeze(-1)).squeeze(-1)
            (risk,) = _of_finite_rows(lambda values: (risk,), values)
            return risk, index.where(risk.isfinite(), 0)
        index = self._index(values, weights)
        risk = values.gather(-1, index.unsqueeze(-1)).squeeze(-1)
        if may_look(values):
            return risk, index
        risk = risk + _zero_if_finite(values)
        return risk, index.masked_fill(risk.isnan(), 0)

    def pick_on_host(self, values: ndarray, weights: ndarray) -> tuple[ndarray, ndarray]:
        r"""`pick` in NumPy, for checked weights; a third of the time for a few rows."""
        index = self._index_on_host(values, weights)
        finite = np.isfinite(values.sum(axis=-1))
        return np.where(finite, _entry(values, index), np.nan), np.where(finite, index, 0)

    def _index_on_host(self, values: ndarray, weights: ndarray) -> ndarray:
        index: ndarray = self._index(*map(torch.from_numpy, (values, weights))).numpy()
        return index


def _entry(values: ndarray, index: ndarray) -> ndarray:
    r"""The value of each row at its index; `take_along_axis` takes 20 us."""
    rows = values.reshape(-1, values.shape[-1])
    entry: ndarray = rows[np.arange(len(rows)), index.ravel()].reshape(index.shape)
    return entry


def _of_finite_rows(
    function: Callable[..., tuple[Tensor, ...]], *values: Tensor
) -> tuple[Tensor, ...]:
    r"""Results of the rows whose values are all finite, NaN for the others.

    In a `steady` block on a device there is no error if no row is finite.
    """
    looks = may_look(values[0])
    # A sum is cheap, and mostly enough.
    if looks and all(each.detach().sum().isfinite() for each in values):
        return function(*values)
    finite = _are_finite(*values)
    if looks and finite.all():
        return function(*values)

    def refuse() -> None:
        bad = next(each for each in values if not each.isfinite().all())
        raise InputDataError(f"Expected finite `values`. Got {bad[~bad.isfinite()][0]}.")

    is_steady = memory() is not None and values[0].device.type != "cpu"
    if not (is_steady or torch.compiler.is_compiling()):
        expect(finite.any(), refuse)
    results = function(*(each.where(finite.unsqueeze(-1), 0.0) for each in values))
    rows = (finite.reshape(*finite.shape, *(each.dim() - finite.dim()) * (1,)) for each in results)
    return tuple(each.where(row, torch.nan) for each, row in zip(results, rows, strict=True))


def _are_finite(first: Tensor, *others: Tensor) -> Tensor:
    finite = (first.abs() < torch.inf).all(dim=-1)
    for values in others:
        finite &= (values.abs() < torch.inf).all(dim=-1)
    return finite


def _zero_if_finite(values: Tensor) -> Tensor:
    r"""0 for a row of finite values, NaN for another."""
    total = values.sum(dim=-1)
    return total - total


def check_distribution(values: Tensor, weights: Tensor) -> None:
    r"""Raise unless the weights are probabilities that fit the values.

    In a `steady` block the same weights are checked once.
    """
    fits = values.dim() > 0 and weights.shape[-1:] == values.shape[-1:]
    try:
        weights.expand(values.shape)
    except RuntimeError:
        fits = False
    if not fits:
        raise BotorchTensorDimensionError(
            "Expected `values: ... x n_w` and `weights` that broadcast to them. "
            f"Got {values.shape=}, {weights.shape=}."
        )
    if not values.is_floating_point():
        raise InputDataError(f"Expected floating-point `values`. Got {values.dtype=}.")
    if torch.compiler.is_compiling():
        return
    key = _name(weights)
    if is_known(key):
        return
    total, smallest = weights.sum(dim=-1), weights.amin()
    tolerance = max(1e-6, torch.finfo(weights.dtype).eps ** 0.5)  # weights may have been float32

    def refuse() -> None:
        raise InputDataError(
            "Expected `weights` >= 0 that sum to 1. "
            f"Got the smallest weight {smallest:.6g} and sums {total.min():.9g}..{total.max():.9g}."
        )

    expect((smallest >= 0) & ((total - 1).abs() <= tolerance).all(), refuse)
    remember(key, weights)


def _name(weights: Tensor) -> tuple[object, ...]:
    return "weights", weights.data_ptr(), weights.shape, weights.stride(), weights.dtype


def _ascending(
    values: Tensor, weights: Tensor, level: float
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    r"""The lowest values in ascending order, enough to exceed a level.

    If all rows share their weights these are few, and on a CPU finding them is faster than sorting.
    Returns the values and their indices, `... x k`; their weights and the cumulative weights, in
    float64; and the total of all weights, `... x 1`.
    """
    given, weights = weights, weights.double()
    total = weights.cumsum(dim=-1)[..., -1:]
    enough = n_w = values.shape[-1]
    if weights.numel() == n_w:

        def look() -> int:  # at worst the lowest values have the smallest weights
            sums = weights.flatten().sort().values.cumsum(dim=-1)
            return int((sums <= level * (1 + 1e-4)).sum()) + 1

        known = once((*_name(given), level), given, look)
        enough = known or (look() if may_look(values) else n_w)
    few = 2 * enough <= n_w
    lowest, order = values.topk(enough, largest=False) if few else values.sort(dim=-1)
    if weights.numel() == n_w:
        weights = weights.flatten()[order]
    else:
        weights = weights.expand_as(values).gather(-1, order)
    return lowest, order, weights, weights.cumsum(dim=-1), total


def _index_of_kth(values: Tensor, k: int) -> Tensor:
    r"""The index of the k-th lowest value of each row, k from 0; on a CPU the first of equal ones.

    On a CPU `torch.kthvalue` takes quadratic time where rows are monotone, as they are for a smooth
    outcome of an ordered W. NumPy's selection stays linear, but which of several equal values it
    finds depends on the processor, so only its value is used.
    """
    if values.device.type != "cpu" or not may_look(values):
        return values.kthvalue(k + 1).indices
    kth = np.partition(values.detach().numpy(), k, axis=-1)[..., k]
    return (values == torch.as_tensor(kth).unsqueeze(-1)).to(torch.uint8).argmax(dim=-1)


@dataclass(frozen=True)
class Expectation(RiskMeasure):
    r"""The mean, neutral to risk: `risk = sum_j weights_j values_j`, Eq. (1) of [Huang2024kde]_."""

    def expected(self, mean: Tensor, variance: Tensor, weights: Tensor) -> Tensor:
        return self(mean, weights)

    def _evaluate(self, values: Tensor, weights: Tensor) -> Tensor:
        return (weights * values).sum(dim=-1)

    def _value_and_slope(self, values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        return self._evaluate(values, weights), weights.expand_as(values)

    def value_and_slope_on_host(self, values: ndarray, weights: ndarray) -> tuple[ndarray, ndarray]:
        risk = (weights * values).sum(axis=-1)
        return risk, weights + 0.0 * risk[..., None]  # NaN in a row that is not finite


def check_level(risk_level: float) -> None:
    r"""Raise ValueError unless a level is in (0, 1); warn if it looks like BoTorch's alpha."""
    check_probability(risk_level=risk_level)
    if risk_level > 0.5:
        _warn_of_alpha(float(risk_level))


@cache
def _warn_of_alpha(risk_level: float) -> None:
    level, rest = f"{risk_level:.4g}", f"{1 - risk_level:.4g}"
    warnings.warn(
        f"`risk_level` is the probability of the lower tail: at {level} the risk leaves out only "
        f"the best {rest} of all outcomes. BoTorch's `alpha={level}` is `risk_level={rest}`.",
        UserInputWarning,
        stacklevel=5,
    )


@dataclass(frozen=True)
class ValueAtRisk(PickingRiskMeasure):
    r"""The lower quantile of the values.

        risk = min {v : P(values <= v) >= risk_level}

    Source: [Nguyen2021vucb]_, Eq. (1). Probabilities are added up in rounded arithmetic (0.1
    eight times gives less than 0.8), so `>=` has a relative tolerance of 1e-12, or of a few
    roundings of the dtype of the weights if that is more.

    Args:
        risk_level: Lower-tail probability in (0, 1), the paper's alpha. BoTorch's `VaR(alpha)` is
            the lower (1 - alpha)-quantile: `risk_level = 1 - alpha`.
        strict: Whether to use the smallest value whose cumulative probability EXCEEDS the level,
            as BoTorch's `VaR` and the program of the paper's authors do. The rules differ, by a
            whole atom, if the cumulative probability hits the level exactly, as it does with
            n_w equal weights whenever `risk_level * n_w` is an integer.

    Warns:
        UserInputWarning: If the level is above 0.5, once for each level, as BoTorch's alpha is.

    Example:
        >>> values, weights = torch.tensor([3.0, 1.0, 2.0, 4.0]), torch.full((4,), 0.25)
        >>> ValueAtRisk(risk_level=0.5)(values, weights)
        tensor(2.)
        >>> ValueAtRisk(risk_level=0.5, strict=True)(values, weights)
        tensor(3.)
    """

    risk_level: float
    strict: bool = False

    def __post_init__(self) -> None:
        check_flags(strict=self.strict)
        check_level(self.risk_level)

    def _index(self, values: Tensor, weights: Tensor) -> Tensor:
        place = once((*_name(weights), self), weights, lambda: self._place(weights))
        if place is not None and place >= 0:
            return _index_of_kth(values, place)
        _, order, _, cumulative, total = _ascending(values, weights, self.risk_level)
        below = self._is_below(cumulative, total, torch.finfo(weights.dtype).eps)
        return order.gather(-1, below.sum(dim=-1, keepdim=True)).squeeze(-1)

    def _index_on_host(self, values: ndarray, weights: ndarray) -> ndarray:
        order = values.argsort(axis=-1)
        rows = weights.reshape(-1, weights.shape[-1])
        weights = (
            rows[0][order]
            if len(rows) == 1
            else np.take_along_axis(np.broadcast_to(weights, values.shape), order, axis=-1)
        )
        cumulative = weights.cumsum(axis=-1)
        total, eps = rows.sum(axis=-1).max(), np.finfo(weights.dtype).eps
        below = self._is_below(cumulative, total, float(eps))
        return _entry(order, below.sum(axis=-1))

    def _place(self, weights: Tensor) -> int:
        r"""The index of the risk among ascending, equally weighted values; -1 if weights differ."""
        cumulative = weights.double().flatten()[: weights.shape[-1]].cumsum(dim=-1)
        below = self._is_below(cumulative, cumulative[-1:], torch.finfo(weights.dtype).eps).sum()
        return int(below.where((weights == weights[..., :1]).all(), -1))

    def _is_below(self, cumulative: Any, total: Any, eps: float) -> Any:
        r"""Which of the ascending values lie below the risk, Eq. (1), `... x n_w`.

        From their cumulative weights, arrays or tensors.
        """
        tolerance = max(1e-12, 16 * eps)
        level = self.risk_level * (1 + (tolerance if self.strict else -tolerance))
        # The first that is not below is the smallest minimiser of Eq. (6), the pinball loss.
        below = cumulative <= level if self.strict else cumulative < level
        # Points of weight 0 at the upper end have the same cumulative weight as the last atom.
        return below & (cumulative < total * (1 - 1e-12))


@dataclass(frozen=True)
class ConditionalValueAtRisk(RiskMeasure):
    r"""The mean of the lower tail of the values.

        risk = max_c {c - E[max(c - values, 0)] / risk_level}
             = the mean of the lowest values that make up `risk_level` of the probability

    An atom on the boundary of the tail counts in proportion to its part inside, so the measure is
    continuous in weights and level; BoTorch's `CVaR` counts it fully. Source:
    [Rockafellar2002cvar]_, for values that are maximised.

    Args:
        risk_level: Lower-tail probability in (0, 1). BoTorch's `CVaR(alpha)` is the mean of the
            lowest 1 - alpha: `risk_level = 1 - alpha`. For warnings and errors see `ValueAtRisk`.

    Example:
        >>> values, weights = torch.tensor([3.0, 1.0, 2.0, 4.0]), torch.full((4,), 0.25)
        >>> ConditionalValueAtRisk(risk_level=0.5)(values, weights)
        tensor(1.5000)
    """

    has_kinks: ClassVar[bool] = True
    risk_level: float

    def __post_init__(self) -> None:
        check_level(self.risk_level)

    def _evaluate(self, values: Tensor, weights: Tensor) -> Tensor:
        tracked = values.requires_grad or weights.requires_grad
        if not tracked and are_on_host(values, weights) and (weights == weights[..., :1]).all():
            # Only which values are in the tail takes `topk`: six times as long as NumPy's sort.
            lowest = torch.from_numpy(np.sort(values.numpy(), axis=-1))
            each = weights.flatten()[: values.shape[-1]]
            *_, tail = self._tail(each, each)
            return lowest[..., : len(tail)] @ tail
        ordered, _, tail = self._tail(values, weights)
        return (tail * ordered).sum(dim=-1)

    def _value_and_slope(self, values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        ordered, order, tail = self._tail(values, weights)
        slope = torch.zeros_like(values).scatter_(-1, order, tail)
        return (tail * ordered).sum(dim=-1), slope

    def _tail(self, values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r"""The lowest values in ascending order, their indices and parts of the tail."""
        ordered, order, weights, cumulative, _ = _ascending(values, weights, self.risk_level)
        room = (self.risk_level - (cumulative - weights)).clamp_min(0.0)
        tail = torch.minimum(room, weights)
        tail = tail / tail.sum(dim=-1, keepdim=True)
        return ordered, order, tail.to(ordered)


def even_weights(weights: Tensor) -> Tensor:
    r"""The same weight for every value of the support, `... x n_w`."""
    even = (weights > 0).to(weights)
    return even / even.sum(dim=-1, keepdim=True)


@dataclass(frozen=True)
class WorstCase(PickingRiskMeasure):
    r"""The smallest value, as in robust optimisation [Bogunovic2018stableopt]_.

    Args:
        over: `"support"` leaves out points of weight 0; `"points"` includes them all, as a ball of
            distributions around the weights does.

    Example:
        >>> values, weights = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.0, 0.5, 0.5])
        >>> WorstCase()(values, weights), WorstCase(over="points")(values, weights)
        (tensor(2.), tensor(1.))
    """

    over: Points = "support"

    def __post_init__(self) -> None:
        if self.over not in get_args(Points):
            raise ValueError(f"Expected `over` to be one of {get_args(Points)}. Got {self.over=}.")

    def importance(self, weights: Tensor) -> Tensor:
        r"""All values count equally, whatever their weights."""
        return even_weights(torch.ones_like(weights) if self.over == "points" else weights)

    def _evaluate(self, values: Tensor, weights: Tensor) -> Tensor:
        if values.requires_grad:
            return super()._evaluate(values, weights)
        # Value-at-risk as its level goes to 0, Theorem 2 and Corollary 2.1 of [Nguyen2021vucb]_.
        return self._counted(values, weights).amin(dim=-1)  # `argmin` takes seven times as long

    def _index(self, values: Tensor, weights: Tensor) -> Tensor:
        return self._counted(values, weights).argmin(dim=-1)

    def _counted(self, values: Tensor, weights: Tensor) -> Tensor:
        return values if self.over == "points" else values.masked_fill(weights <= 0, torch.inf)

    def _index_on_host(self, values: ndarray, weights: ndarray) -> ndarray:
        if self.over == "support":
            values = np.where(weights > 0, values, np.inf)
        index: ndarray = values.argmin(axis=-1)
        return index


@dataclass(frozen=True)
class ShareAbove(RiskMeasure):
    r"""The share of W whose outcome lies above a threshold.

        risk = P(values > threshold)

    The result is a probability. With a ball as `under` it is the smallest probability in the ball,
    the distributionally robust threshold measure of [Inatsu2021drlse]_, Eq. (2.2). As a function of
    the values it is a step function: its gradient is 0, and no acquisition function can climb it.
    Its expectation under normal values is smooth:

        E[risk] = sum_j weights_j Phi((mean_j - threshold) / sigma_j)

    and its gradient in the mean says how informative a reading at each w is, so `select_value` and
    the rules of finite tables need no samples. With a ball it is the smallest expected share over
    distributions that do not depend on the outcome. It is at least the expectation of the smallest
    share, and equals it once f is known.

    Args:
        threshold: In the unit of the outcome; a value equal to it does not count as above.
        under: The monotone measure of the indicators, `Expectation()` or a ball.

    Example:
        >>> from botorch_risk.risk import TotalVariationBall
        >>> values, weights = torch.tensor([0.2, 0.6, 0.9]), torch.tensor([0.5, 0.25, 0.25])
        >>> ShareAbove(threshold=0.5)(values, weights)
        tensor(0.5000)
        >>> ShareAbove(threshold=0.5, under=TotalVariationBall(0.2))(values, weights)
        tensor(0.4000)
    """

    in_unit_of_outcome: ClassVar[bool] = False
    threshold: float
    under: RiskMeasure = Expectation()

    def __post_init__(self) -> None:
        check_finite(threshold=self.threshold)
        if not isinstance(self.under, RiskMeasure):
            raise TypeError(f"Expected `under` to be a risk measure. Got {self.under!r}.")
        if not self.under.monotone:
            raise ValueError(f"Expected a monotone measure as `under`. Got {self.under!r}.")

    @property
    def is_a_program(self) -> bool:  # type: ignore[override]
        return self.under.is_a_program

    def bind(self, environment: Any) -> ShareAbove:
        return self._over(self.under.bind(environment))

    def following(self, previous: RiskMeasure) -> RiskMeasure:
        if not isinstance(previous, ShareAbove):
            return self
        return self._over(self.under.following(previous.under))

    def _over(self, under: RiskMeasure) -> ShareAbove:
        return self if under is self.under else replace(self, under=under)

    def importance(self, weights: Tensor) -> Tensor:
        return self.under.importance(weights)

    def expected(self, mean: Tensor, variance: Tensor, weights: Tensor) -> Tensor:
        mean, variance = as_floating(mean, "mean"), as_floating(variance, "variance")
        deviation = variance.clamp_min(torch.finfo(variance.dtype).tiny).sqrt()
        above = torch.special.ndtr((mean - self.threshold) / deviation)
        return self.under(above, weights)

    def _evaluate(self, values: Tensor, weights: Tensor) -> Tensor:
        # `sign` has a gradient, 0 everywhere, which a comparison has not.
        return self.under._evaluate((values - self.threshold).sign().clamp_min(0.0), weights)


@dataclass(frozen=True)
class MeanVariance(RiskMeasure):
    r"""The mean minus a multiple of the variance.

        risk = E[values] - risk_aversion * Var[values]

    Not monotone: raising the largest value may cost more variance than it gains. The risk of an
    upper bound is therefore not an upper bound; `bounds` gives valid ones. The variance is taken
    over the environment; Eq. (2) of [Makarova2021rahbo]_ has the variance of the observation noise
    instead.

    Args:
        risk_aversion: Weight of the variance, >= 0, in units of one over the outcome.

    Example:
        >>> measure, weights = MeanVariance(risk_aversion=1.0), torch.tensor([0.5, 0.5])
        >>> measure(torch.tensor([1.0, 3.0]), weights)
        tensor(1.)
        >>> measure.bounds(torch.tensor([0.0, 2.0]), torch.tensor([2.0, 4.0]), weights)
        (tensor(-2.), tensor(2.2500))
    """

    monotone: ClassVar[bool] = False
    risk_aversion: float

    def __post_init__(self) -> None:
        check_nonnegative(risk_aversion=self.risk_aversion)

    def _evaluate(self, values: Tensor, weights: Tensor) -> Tensor:
        mean = (weights * values).sum(dim=-1, keepdim=True)
        # Outside the support a square may be infinite, and 0 times it NaN.
        deviation = (values - mean).where(weights > 0, 0.0)
        variance = (weights * deviation.square()).sum(dim=-1)
        return mean.squeeze(-1) - self.risk_aversion * variance

    def _bounds(self, lower: Tensor, upper: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        r"""Bounds of the risk of any values between `lower` and `upper`.

        With `Var[v] = min_c E[(v - c)^2]` and `h = 1 / (2 risk_aversion)`:

            upper: the maximum, attained by v = clip(c + h, lower, upper) with c = E[v]
            lower: max_c E[min over v in {lower, upper} of v - risk_aversion (v - c)^2]

        The upper bound is exact; it never exceeds the mean of `upper` minus `risk_aversion` times
        the smallest variance, whose two terms are attained at different values. The smallest risk
        is a combinatorial problem; the lower bound is its dual, exact up to splitting the
        probability of one point between its two ends.
        """
        if may_look(lower) and (upper < lower).any():
            raise ValueError(
                f"Expected `lower <= upper`. Got {(lower - upper).max().item()} above it."
            )
        if self.risk_aversion == 0:
            return self._evaluate(lower, weights), self._evaluate(upper, weights)
        # Points outside the support may be anything: they are put amid the others.
        lower, upper = (
            v.where(weights > 0, (weights * v).sum(dim=-1, keepdim=True)) for v in (lower, upper)
        )
        weights, half = weights.expand_as(lower), 0.5 / self.risk_aversion
        with torch.no_grad():
            level = clipping_level(lower, upper, weights, half)
            centre, part = dual_solution(lower, upper, weights, half)
        best = torch.minimum(torch.maximum(level, lower), upper)
        at_lower, at_upper = (
            v - self.risk_aversion * (v - centre).square() for v in (lower, upper)
        )
        pessimistic = (weights * torch.lerp(at_upper, at_lower, part)).sum(dim=-1)
        return pessimistic, self._evaluate(best, weights)
