r"""Two measures of the lower tail of the values: its upper end (value-at-risk) and its mean."""

import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
import torch
from botorch.exceptions.warnings import UserInputWarning
from numpy import ndarray
from torch import Tensor

from botorch_risk.arguments import check_flags, check_probability
from botorch_risk.risk.measure import PickingRiskMeasure, RiskMeasure, entry_of, name_of
from botorch_risk.steady import are_on_host, may_look, once


@dataclass(frozen=True)
class ValueAtRisk(PickingRiskMeasure):
    r"""The lower quantile of the values.

        risk = min {v : P(values <= v) >= risk_level}

    Source: [Nguyen2021vucb]_, Eq. (1). Probabilities are added up in rounded arithmetic (0.1 eight
    times gives less than 0.8), so `>=` has a relative tolerance of 1e-12, or of a few rounding
    errors of the weights' dtype if that is more.

    Args:
        risk_level: Lower-tail probability in (0, 1), the paper's alpha. BoTorch's `VaR(alpha)` is
            the lower (1 - alpha)-quantile: `risk_level = 1 - alpha`.
        strict: Whether to use the smallest value whose cumulative probability EXCEEDS the level,
            as BoTorch's `VaR` and the program of the paper's authors do. The rules differ, by a
            whole atom, if the cumulative probability hits the level exactly, as it does with
            n_w equal weights whenever `risk_level * n_w` is an integer.

    Warns:
        UserInputWarning: If the level is above 0.5, as BoTorch's alpha mostly is; once per level.

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
        place = once((*name_of(weights), self), weights, lambda: self._place(weights))
        if place is not None and place >= 0:
            return _index_of_kth(values, place)
        if may_look(values) and are_on_host(values, weights):
            found = self._index_on_host(values.detach().numpy(), weights.detach().numpy())
            return torch.as_tensor(found)
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
        risk = entry_of(values, entry_of(order, below.argmin(axis=-1)))
        # The first of equal values: their order by NumPy depends on the processor.
        found: ndarray = (values == risk[..., None]).argmax(axis=-1)
        return found

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

    The slope in a value is its part of the tail, divided by the level. If values tie at the edge of
    the tail, any of them may have the remaining part: the slope is one of the subgradients.

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

        known = once((*name_of(given), level), given, look)
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
