r"""Twenty functions with known noise, whose readings a model learns from.

Inputs are in the unit cube. A function is scaled to mean 0 and standard deviation 1 over it, and
its noise, the standard deviation of one reading as a function of the inputs, is given in these
units.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from botorch.test_functions import Ackley, Branin, Hartmann, SixHumpCamel
from botorch.test_functions.sensitivity_analysis import Ishigami
from torch import Tensor

from botorch_risk.seeding import generators

NUM_TEST = 500
_NUM_SCALE = 4096  # points over which a function is scaled


@dataclass(frozen=True)
class Problem:
    r"""A function, its noise and the distribution of the noise.

    Args:
        name: Names the function and the kind of noise.
        dimension: The number of inputs.
        function: From `... x d` inputs in the unit cube to `...` values.
        noise: From inputs to the standard deviation of a reading, in units of the function's.
        tail: `"gaussian"`; `"student"`, three degrees of freedom, scaled to the same variance; or
            `"outliers"`, Gaussian with one reading in 50 that is ten standard deviations off.
    """

    name: str
    dimension: int
    function: Callable[[Tensor], Tensor]
    noise: Callable[[Tensor], Tensor]
    tail: str = "gaussian"

    @property
    def num_points(self) -> int:
        r"""The number of training inputs."""
        return min(20 * self.dimension, 100)

    @property
    def is_heavy_tailed(self) -> bool:
        r"""Whether readings are not Gaussian."""
        return self.tail != "gaussian"


@dataclass(frozen=True)
class Data:
    r"""Training readings and a fresh test set.

    Attributes:
        X: `n x d` inputs.
        Y: `n x k` readings.
        test_X: `m x d` inputs.
        test_f: `m` values of the function.
        test_noise: `m` noise variances of a reading; of a good one where some are outliers.
        test_Y: `m` new readings, of which none is an outlier.
    """

    X: Tensor
    Y: Tensor
    test_X: Tensor
    test_f: Tensor
    test_noise: Tensor
    test_Y: Tensor


def draw(problem: Problem, num_repeats: int, seed: int) -> Data:
    r"""Draws the data of a seed; the inputs are the same for each number of repeats."""
    X, test_X = (
        _sobol(problem.dimension, count, seed=2 * seed + part)
        for part, count in enumerate((problem.num_points, NUM_TEST))
    )
    mean, scale = _moments(problem)
    f, test_f = ((problem.function(x) - mean) / scale for x in (X, test_X))
    (draws,) = generators([seed], problem.name, num_repeats)
    errors = _errors(problem.tail, (len(X), num_repeats), draws)
    good = "gaussian" if problem.tail == "outliers" else problem.tail
    test_errors = _errors(good, (NUM_TEST, 1), draws).squeeze(-1)
    noise, test_noise = problem.noise(X), problem.noise(test_X)
    return Data(
        X=X,
        Y=f.unsqueeze(-1) + noise.unsqueeze(-1) * errors,
        test_X=test_X,
        test_f=test_f,
        test_noise=test_noise.square(),
        test_Y=test_f + test_noise * test_errors,
    )


@cache
def _moments(problem: Problem) -> tuple[float, float]:
    values = problem.function(_sobol(problem.dimension, _NUM_SCALE, seed=0))
    return values.mean().item(), values.std().item()


def _sobol(dimension: int, count: int, seed: int) -> Tensor:
    engine = torch.quasirandom.SobolEngine(dimension, scramble=True, seed=seed)
    return engine.draw(count, dtype=torch.double)


def _errors(tail: str, shape: tuple[int, int], draws: torch.Generator) -> Tensor:
    r"""Errors of readings, of variance 1 if they are good."""
    normal = torch.randn(shape, generator=draws, dtype=torch.double)
    if tail == "student":  # the variance of three degrees of freedom is 3
        chi_square = torch.randn(*shape, 3, generator=draws, dtype=torch.double).square().sum(-1)
        return normal / chi_square.sqrt()
    if tail == "outliers":
        is_wrong = torch.rand(shape, generator=draws, dtype=torch.double) < 1 / 50
        return torch.where(is_wrong, normal + 10 * normal.sign(), normal)
    return normal


def _in_box(problem: type, **options: int) -> Callable[[Tensor], Tensor]:
    function = problem(**options).to(torch.double)
    lower, upper = function.bounds
    return lambda X: function(lower + (upper - lower) * X)


def _forrester(X: Tensor) -> Tensor:
    x = X[..., 0]
    return (6 * x - 2).square() * (12 * x - 4).sin()


def _waves(X: Tensor) -> Tensor:
    x = X[..., 0]
    return (2 * math.pi * x).sin() + 0.4 * (6 * math.pi * x).cos()


def _goldstein_price(X: Tensor) -> Tensor:
    r"""The logarithm, as is usual."""
    x, y = (4 * X - 2).unbind(dim=-1)
    first = 19 - 14 * x + 3 * x**2 - 14 * y + 6 * x * y + 3 * y**2
    second = 18 - 32 * x + 12 * x**2 + 48 * y - 36 * x * y + 27 * y**2
    return ((1 + (x + y + 1) ** 2 * first) * (30 + (2 * x - 3 * y) ** 2 * second)).log()


def _friedman(X: Tensor) -> Tensor:
    a, b, c, d, e = X.unbind(dim=-1)
    return 10 * (math.pi * a * b).sin() + 20 * (c - 0.5).square() + 10 * d + 5 * e


def _borehole(X: Tensor) -> Tensor:
    r"""The flow of water through a borehole, eight inputs."""
    lower = X.new_tensor([0.05, 100, 63070, 990, 63.1, 700, 1120, 9855])
    upper = X.new_tensor([0.15, 50000, 115600, 1110, 116, 820, 1680, 12045])
    rw, r, tu, hu, tl, hl, length, kw = (lower + (upper - lower) * X).unbind(dim=-1)
    ratio = (r / rw).log()
    resistance = ratio * (1 + tu / tl) + 2 * length * tu / (rw.square() * kw)
    return 2 * math.pi * tu * (hu - hl) / resistance


def _constant(level: float) -> Callable[[Tensor], Tensor]:
    return lambda X: X.new_full(X.shape[:-1], level)


def _smooth(X: Tensor) -> Tensor:
    r"""From 0.1 to 0.7, over all inputs."""
    return 0.4 + 0.3 * (math.pi * (2 * X - 1)).sin().sum(dim=-1) / X.shape[-1]


def _sharp(X: Tensor) -> Tensor:
    r"""From 0.1 to 0.8 across the plane through the centre, within a tenth of the cube."""
    return 0.1 + 0.7 * torch.sigmoid(40 * (X.mean(dim=-1) - 0.5))


def _of_one_input(X: Tensor) -> Tensor:
    r"""A factor of 12 along the last input, whatever the function depends on."""
    return 0.06 * (2.5 * X[..., -1]).exp()


FUNCTIONS = {
    "forrester": (1, _forrester),
    "waves": (1, _waves),
    "branin": (2, _in_box(Branin)),
    "camel": (2, lambda X: _in_box(SixHumpCamel)(0.25 + 0.5 * X)),
    "goldstein": (2, _goldstein_price),
    "hartmann3": (3, _in_box(Hartmann, dim=3)),
    "ishigami": (3, _in_box(Ishigami)),
    "ackley4": (4, lambda X: _in_box(Ackley, dim=4)(0.485 + 0.03 * X)),
    "friedman": (5, _friedman),
    "hartmann6": (6, _in_box(Hartmann, dim=6)),
    "borehole": (8, _borehole),
}
KINDS: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "constant": (_constant(0.3), "gaussian"),
    "smooth": (_smooth, "gaussian"),
    "sharp": (_sharp, "gaussian"),
    "one-input": (_of_one_input, "gaussian"),
    "student": (_smooth, "student"),
    "outliers": (_smooth, "outliers"),
}
_PAIRS = {
    "constant": ("forrester", "branin", "hartmann3", "hartmann6"),
    "smooth": ("waves", "camel", "ackley4", "borehole"),
    "sharp": ("forrester", "branin", "hartmann3", "friedman"),
    "one-input": ("goldstein", "ishigami", "hartmann6", "borehole"),
    "student": ("waves", "hartmann3"),
    "outliers": ("camel", "ackley4"),
}
PROBLEMS = {
    f"{function}-{kind}": Problem(f"{function}-{kind}", *FUNCTIONS[function], *KINDS[kind])
    for kind, functions in _PAIRS.items()
    for function in functions
}
