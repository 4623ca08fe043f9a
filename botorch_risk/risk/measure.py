r"""Measures of risk: from the values of an outcome and their probabilities to one number.

A measure is called as `measure(values, weights)` with `values: ... x n_w` and `weights`
broadcastable to them, and returns `...`. It is pure, batched and differentiable in the values,
and larger is better. A point of weight 0 is not in the support: most measures ignore its value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from numpy import ndarray
from torch import Tensor

from botorch_risk.arguments import as_tensor
from botorch_risk.gradients import differentiated
from botorch_risk.steady import expect, is_known, may_look, memory, remember

Optimism = Literal["of_risk", "of_values"]


class RiskMeasure(ABC):
    r"""A functional of values and their probabilities.

    A subclass states in `monotone` whether raising a value can only raise the result: only then is
    the risk of an upper bound an upper bound of the risk. Others override `_bounds`.
    `in_unit_of_outcome` states whether a constant added to all values is added to the result.

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

        Both are NaN for a row with a value that is not finite.
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
            mean: `... x n_w`; the result is differentiable in it.
            variance: `... x n_w`.
            weights: As in a call.
        """
        return None

    @property
    def needs_samples(self) -> bool:
        r"""Whether the expected risk of normal values always has to be estimated from samples."""
        return type(self).expected is RiskMeasure.expected

    def importance(self, weights: Tensor) -> Tensor:
        r"""The importance of each value before any data, `... x n_w`; sums to 1.

        It is the value's weight, except for measures of the worst value. For linear measures, the
        worst case and mean minus variance, it is the expected gradient of the risk for independent,
        identically distributed values; for others only approximately, if there are many values.
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

        The results have the shape `...`, and are NaN where the risk is NaN.
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

    Its gradient is the gradient of that value alone. A subclass returns the index of the value;
    raising a value must not lower the risk.
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
        r"""The risk of each row of values, and the index of the value that it equals, `...` each.

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
        r"""`pick` in NumPy, for checked weights; for a few rows it takes a third of the time."""
        index = self._index_on_host(values, weights)
        finite = np.isfinite(values.sum(axis=-1))
        return np.where(finite, entry_of(values, index), np.nan), np.where(finite, index, 0)

    def _index_on_host(self, values: ndarray, weights: ndarray) -> ndarray:
        index: ndarray = self._index(*map(torch.from_numpy, (values, weights))).numpy()
        return index


def entry_of(values: ndarray, index: ndarray) -> ndarray:
    r"""The value of each row at its index, without NumPy's `take_along_axis`, which takes 20 us."""
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

    In a `steady` block the same weights are checked only once.
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
    key = name_of(weights)
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


def name_of(weights: Tensor) -> tuple[object, ...]:
    r"""A key that tells these weights from others in a `steady` block."""
    return "weights", weights.data_ptr(), weights.shape, weights.stride(), weights.dtype
