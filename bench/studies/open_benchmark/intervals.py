r"""Interval arithmetic with first derivatives: the values of a formula in a box, and its slopes.

A formula that is written with operators and with methods of tensors (`sin`, `exp`, ...) runs on
`Ranged` values as it runs on tensors. Bounds are computed in double precision without outward
rounding, which is far below the 1e-6 that they certify.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Interval:
    r"""Lower and upper bounds, element by element."""

    lower: Tensor
    upper: Tensor

    @classmethod
    def of(cls, value: Any) -> Interval:
        r"""The interval of a number, or itself."""
        if isinstance(value, Interval):
            return value
        point = torch.as_tensor(value, dtype=torch.double)
        return cls(point, point)

    def __add__(self, other: Any) -> Interval:
        other = Interval.of(other)
        return Interval(self.lower + other.lower, self.upper + other.upper)

    def __neg__(self) -> Interval:
        return Interval(-self.upper, -self.lower)

    def __sub__(self, other: Any) -> Interval:
        return self + (-Interval.of(other))

    def __mul__(self, other: Any) -> Interval:
        other = Interval.of(other)
        ends = [(a, b) for a in (self.lower, self.upper) for b in (other.lower, other.upper)]
        products = [
            (a * b).nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf) for a, b in ends
        ]
        lower, upper = products[0], products[0]
        for product in products[1:]:
            lower, upper = torch.minimum(lower, product), torch.maximum(upper, product)
        return Interval(lower, upper)

    def reciprocal(self) -> Interval:
        r"""1 / x, unbounded where 0 is inside."""
        inside = (self.lower <= 0) & (self.upper >= 0)
        lower, upper = 1 / self.upper, 1 / self.lower
        return Interval(lower.masked_fill(inside, -torch.inf), upper.masked_fill(inside, torch.inf))

    def square(self) -> Interval:
        r"""x^2, never below 0."""
        ends = self.lower.square(), self.upper.square()
        inside = (self.lower <= 0) & (self.upper >= 0)
        return Interval(torch.minimum(*ends).masked_fill(inside, 0.0), torch.maximum(*ends))

    def increasing(self, function: Callable[[Tensor], Tensor]) -> Interval:
        r"""An increasing function of it."""
        return Interval(function(self.lower), function(self.upper))

    def sin(self) -> Interval:
        r"""sin(x)."""
        ends = self.lower.sin(), self.upper.sin()
        lower, upper = torch.minimum(*ends), torch.maximum(*ends)
        peak, trough = (self._contains(offset) for offset in (math.pi / 2, -math.pi / 2))
        return Interval(lower.masked_fill(trough, -1.0), upper.masked_fill(peak, 1.0))

    def cos(self) -> Interval:
        r"""cos(x)."""
        return (self + math.pi / 2).sin()

    def abs(self) -> Interval:
        r"""|x|."""
        inside = (self.lower <= 0) & (self.upper >= 0)
        ends = self.lower.abs(), self.upper.abs()
        return Interval(torch.minimum(*ends).masked_fill(inside, 0.0), torch.maximum(*ends))

    def magnitude(self) -> Tensor:
        r"""The largest |x|."""
        return torch.maximum(self.lower.abs(), self.upper.abs())

    def intersected(self, other: Interval) -> Interval:
        r"""What is in both; they are known to overlap, but for rounding."""
        lower = torch.maximum(self.lower, other.lower)
        return Interval(lower, torch.maximum(lower, torch.minimum(self.upper, other.upper)))

    def _contains(self, offset: float) -> Tensor:
        r"""Whether a point `offset + 2 pi k` is inside."""
        period = 2 * math.pi
        first = ((self.lower - offset) / period).ceil() * period + offset
        return first <= self.upper


def _product(a: Tensor, b: Tensor) -> Tensor:
    r"""a b, where 0 times an infinite bound is 0."""
    return (a * b).nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf)


@dataclass(frozen=True)
class Ranged:
    r"""A value in a box: its range, and the ranges of its derivatives.

    Args:
        value: The range.
        slopes: The range of the derivative in each coordinate of the box.
    """

    value: Interval
    slopes: tuple[Interval, ...]

    def __add__(self, other: Any) -> Ranged:
        if isinstance(other, Ranged):
            slopes = tuple(a + b for a, b in zip(self.slopes, other.slopes, strict=True))
            return Ranged(self.value + other.value, slopes)
        return Ranged(self.value + other, self.slopes)

    __radd__ = __add__

    def __neg__(self) -> Ranged:
        return Ranged(-self.value, tuple(-slope for slope in self.slopes))

    def __sub__(self, other: Any) -> Ranged:
        return self + (-other)

    def __rsub__(self, other: Any) -> Ranged:
        return (-self) + other

    def __mul__(self, other: Any) -> Ranged:
        if isinstance(other, Ranged):
            pairs = zip(self.slopes, other.slopes, strict=True)
            slopes = tuple(a * other.value + b * self.value for a, b in pairs)
            return Ranged(self.value * other.value, slopes)
        return Ranged(self.value * other, tuple(slope * other for slope in self.slopes))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Ranged:
        return self * (other.reciprocal() if isinstance(other, Ranged) else 1 / other)

    def __rtruediv__(self, other: Any) -> Ranged:
        return other * self.reciprocal()

    def reciprocal(self) -> Ranged:
        r"""1 / x."""
        inverse = self.value.reciprocal()
        return self._chain(inverse, -inverse.square())

    def square(self) -> Ranged:
        r"""x^2."""
        return self._chain(self.value.square(), self.value * 2.0)

    def sin(self) -> Ranged:
        r"""sin(x)."""
        return self._chain(self.value.sin(), self.value.cos())

    def cos(self) -> Ranged:
        r"""cos(x)."""
        return self._chain(self.value.cos(), -self.value.sin())

    def exp(self) -> Ranged:
        r"""e^x."""
        found = self.value.increasing(torch.exp)
        return self._chain(found, found)

    def log(self) -> Ranged:
        r"""The natural logarithm, of what is known to be positive though its range may not be."""
        positive = Interval(self.value.lower.clamp_min(0.0), self.value.upper)
        return self._chain(positive.increasing(torch.log), positive.reciprocal())

    def sqrt(self) -> Ranged:
        r"""The square root, of what is known to be positive though its range may not be."""
        root = Interval(self.value.lower.clamp_min(0.0), self.value.upper).increasing(torch.sqrt)
        return self._chain(root, (root * 2.0).reciprocal())

    def tanh(self) -> Ranged:
        r"""The hyperbolic tangent."""
        found = self.value.increasing(torch.tanh)
        return self._chain(found, Interval.of(1.0) - found.square())

    def abs(self) -> Ranged:
        r"""|x|; the derivative is between -1 and 1 where x may be 0."""
        positive, negative = (self.value.lower > 0).double(), (self.value.upper < 0).double()
        return self._chain(self.value.abs(), Interval(2 * positive - 1, 1 - 2 * negative))

    def _chain(self, value: Interval, derivative: Interval) -> Ranged:
        return Ranged(value, tuple(slope * derivative for slope in self.slopes))
