r"""Formulas of a decision and an environmental variable, on the unit cube.

Each takes the coordinates of (x, w) one by one and uses only their operators and methods, so a
proof about the formula, such as bounds by interval arithmetic, applies to the code itself.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any


@dataclass(frozen=True)
class ClosedForm:
    r"""A formula, with its numbers of variables and its scale.

    Args:
        name: The name.
        num_decision: The number of decision variables, which are the first coordinates.
        num_environment: The number of environmental variables, which are the last coordinates.
        formula: Maps the coordinates, each in [0, 1], to the outcome, which is maximised.
        scale: The standard deviation of the outcome over the unit cube, by which it is divided.
    """

    name: str
    num_decision: int
    num_environment: int
    formula: Callable[[Sequence[Any]], Any]
    scale: float

    def __call__(self, coordinates: Sequence[Any]) -> Any:
        return self.formula(coordinates) / self.scale


def _branin_of(u: Any, v: Any) -> Any:
    r"""Branin's function of u in [-5, 10] and v in [0, 15]."""
    curve = v - 5.1 / (4 * math.pi**2) * u.square() + 5 / math.pi * u - 6
    return curve.square() + 10 * (1 - 1 / (8 * math.pi)) * u.cos() + 10


def branin(z: Sequence[Any]) -> Any:
    r"""Minus Branin's function, as in V-UCB with one decision."""
    return -_branin_of(15 * z[0] - 5, 15 * z[1])


def goldstein_price(z: Sequence[Any]) -> Any:
    r"""Minus the logarithm of Goldstein and Price's function."""
    a, b = 4 * z[0] - 2, 4 * z[1] - 2
    first = 19 - 14 * a + 3 * a.square() - 14 * b + 6 * (a * b) + 3 * b.square()
    second = 18 - 32 * a + 12 * a.square() + 48 * b - 36 * (a * b) + 27 * b.square()
    left = 1 + (a + b + 1).square() * first
    right = 30 + (2 * a - 3 * b).square() * second
    return -(left.log() + right.log())


def camel(z: Sequence[Any]) -> Any:
    r"""Minus the six-hump camel function."""
    a, b = 4 * z[0] - 2, 2 * z[1] - 1
    square, other = a.square(), b.square()
    return -((4 - 2.1 * square + square.square() / 3) * square + a * b + 4 * (other - 1) * other)


def mccormick(z: Sequence[Any]) -> Any:
    r"""Minus McCormick's function."""
    a, b = 5.5 * z[0] - 1.5, 7 * z[1] - 3
    return -((a + b).sin() + (a - b).square() - 1.5 * a + 2.5 * b + 1)


def ridges(z: Sequence[Any]) -> Any:
    r"""A high narrow ridge that moves with w, and a low broad hill that hardly moves."""
    narrow = -((z[0] - 0.25 - 0.05 * (2 * math.pi * z[1]).sin()) / 0.05).square()
    broad = -((z[0] - 0.7 + 0.1 * z[1]) / 0.2).square()
    return 1.5 * narrow.exp() + broad.exp()


_HARTMANN_A = ((3.0, 10.0, 30.0), (0.1, 10.0, 35.0), (3.0, 10.0, 30.0), (0.1, 10.0, 35.0))
_HARTMANN_P = (
    (0.3689, 0.1170, 0.2673),
    (0.4699, 0.4387, 0.7470),
    (0.1091, 0.8732, 0.5547),
    (0.0381, 0.5743, 0.8828),
)


def hartmann(z: Sequence[Any]) -> Any:
    r"""Minus Hartmann's function of three variables."""
    total: Any = 0.0
    for weight, rates, centre in zip((1.0, 1.2, 3.0, 3.2), _HARTMANN_A, _HARTMANN_P, strict=True):
        distance = sum(a * (u - p).square() for a, u, p in zip(rates, z, centre, strict=True))
        total = (-distance).exp() * weight + total
    return total


def rosenbrock(z: Sequence[Any]) -> Any:
    r"""Minus the logarithm of one plus Rosenbrock's function."""
    scaled = [3 * each - 1.5 for each in z]
    total: Any = 0.0
    for a, b in pairwise(scaled):
        total = (b - a.square()).square() * 100 + (1 - a).square() + total
    return -(1 + total).log()


def branin_product(z: Sequence[Any]) -> Any:
    r"""SBO-KDE's modified Branin: minus the root of the product of two, each of x and w."""
    first = _branin_of(15 * z[0] - 5, 15 * z[2])
    second = _branin_of(15 * z[3] - 5, 15 * z[1])
    return -(first * second).sqrt()


def shifted_camel(z: Sequence[Any]) -> Any:
    r"""The camel function, for two decisions that miss their targets by up to 0.15."""
    return camel([z[0] + 0.3 * (z[2] - 0.5), z[1] + 0.3 * (z[3] - 0.5)])


def shifted_hill(z: Sequence[Any]) -> Any:
    r"""Gramacy and Lee's hill and hollow, for decisions that miss their targets by up to 0.2."""
    a, b = 4 * z[0] - 2 + 1.6 * (z[2] - 0.5), 4 * z[1] - 2 + 1.6 * (z[3] - 0.5)
    return a * (-(a.square() + b.square())).exp()


def shifted_mccormick(z: Sequence[Any]) -> Any:
    r"""McCormick's function; the first decision misses its target by up to 0.15."""
    return mccormick([z[0] + 0.3 * (z[2] - 0.5), z[1]])


def shifted_ridge(z: Sequence[Any]) -> Any:
    r"""A sharp peak next to a broad one, for decisions that miss their targets by up to 0.1.

    Without the shift the sharp peak is the better one.
    """
    a, b = z[0] + 0.2 * (z[2] - 0.5), z[1] + 0.2 * (z[3] - 0.5)
    sharp = ((a - 0.25).square() + (b - 0.7).square()) / 0.06**2
    broad = ((a - 0.7).square() + (b - 0.35).square()) / 0.25**2
    return 1.6 * (-sharp).exp() + (-broad).exp()


FORMS: dict[str, ClosedForm] = {
    form.name: form
    for form in (
        ClosedForm("branin", 1, 1, branin, 51.3),
        ClosedForm("goldstein-price", 1, 1, goldstein_price, 2.44),
        ClosedForm("camel", 1, 1, camel, 1.18),
        ClosedForm("mccormick", 1, 1, mccormick, 8.2),
        ClosedForm("ridges", 1, 1, ridges, 0.404),
        ClosedForm("hartmann-2-1", 2, 1, hartmann, 0.956),
        ClosedForm("hartmann-1-2", 1, 2, hartmann, 0.956),
        ClosedForm("rosenbrock", 2, 1, rosenbrock, 1.18),
        ClosedForm("branin-product", 2, 2, branin_product, 33.3),
        ClosedForm("shifted-camel", 2, 2, shifted_camel, 2.86),
        ClosedForm("shifted-hill", 2, 2, shifted_hill, 0.155),
        ClosedForm("shifted-mccormick", 2, 1, shifted_mccormick, 8.55),
        ClosedForm("shifted-ridge", 2, 2, shifted_ridge, 0.268),
    )
}
