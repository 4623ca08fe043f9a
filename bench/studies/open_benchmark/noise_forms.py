r"""Problems whose noise depends on the decision, as formulas of which an optimum can be proved.

Their risk, mean minus variance of the noise, is a function of the decision alone.

python -m bench.studies.open_benchmark.noise_forms   # proves the optima
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from botorch.test_functions import Hartmann
from torch import Tensor

from bench.studies.open_benchmark.bounds import Certificate, certify
from botorch_risk.risk import Expectation
from botorch_risk.test_functions import (
    HeteroscedasticBranin,
    HeteroscedasticCamel,
    HeteroscedasticHartmann,
    HeteroscedasticSine,
)
from botorch_risk.test_functions.heteroscedastic import HeteroscedasticTestProblem

TOLERANCE = 1e-6


@dataclass(frozen=True)
class NoiseForm:
    r"""A problem and its mean minus variance as a formula.

    Args:
        problem: The class, or a function that builds the problem.
        formula: From the decision's coordinates, in the units of the problem, as tensors or as
            `Ranged` values, to mean minus variance.
    """

    problem: Callable[[], HeteroscedasticTestProblem]
    formula: Callable[[Sequence[Any]], Any]

    def at_unit(self, z: Sequence[Any]) -> Any:
        r"""The formula of coordinates in [0, 1]; what follows the decision's is left out."""
        lower, upper = self.problem().bounds.tolist()
        pairs = zip(z, lower, upper, strict=False)
        return self.formula([low + (high - low) * each for each, low, high in pairs])

    def prove(self) -> tuple[Certificate, float]:
        r"""The certificate that starts from the problem's own optimum, and its value there."""
        problem = self.problem()
        optimizer, value = problem.optimal_mean_variance(problem.risk_aversion)
        lower, upper = problem.bounds
        start, nothing = (optimizer - lower) / (upper - lower), torch.zeros(1, 1).double()
        weights = torch.ones(1, dtype=torch.double)
        return certify(self.at_unit, Expectation(), nothing, weights, start, TOLERANCE), value


def _sigmoid(u: Any) -> Any:
    return ((u * 0.5).tanh() + 1.0) * 0.5


def sine(x: Sequence[Any]) -> Any:
    level = _sigmoid((x[0] - 1.0) * 30.0) + 0.1
    return (x[0] * (2 * math.pi)).sin() - level.square()


def branin(x: Sequence[Any]) -> Any:
    curve = x[1] - x[0].square() * (5.1 / (4 * math.pi**2)) + x[0] * (5 / math.pi) - 6.0
    mean = -(curve.square() + x[0].cos() * (10 * (1 - 1 / (8 * math.pi))) + 10.0)
    level = (_sigmoid((x[0] - 3.2) * 2.0) + 0.2) * (_sigmoid(x[1] * 2.0) + 0.2)
    return mean - level.square()


def camel(x: Sequence[Any]) -> Any:
    a, b = x[0].square(), x[1].square()
    mean = -((4.0 - a * 2.1 + a.square() * (1 / 3)) * a + x[0] * x[1] + (b * 4.0 - 4.0) * b)
    return mean - (x[0] * 2.0).exp() * 0.16


def hartmann(x: Sequence[Any]) -> Any:
    known = Hartmann(dim=3, dtype=torch.double)
    mean: Any = 0.0
    for weight, scales, centre in zip(
        known.ALPHA.tolist(), known.A.tolist(), (1e-4 * known.P.double()).tolist(), strict=True
    ):
        mean = (-_distance(x, centre, scales)).exp() * weight + mean
    peak = known.optimizers[0].tolist()
    level = (-_distance(x, peak, [1 / 0.08] * 3)).exp() + 0.1
    return mean - level.square()


def _distance(x: Sequence[Any], centre: Sequence[float], scales: Sequence[float]) -> Any:
    total: Any = 0.0
    for each, middle, scale in zip(x, centre, scales, strict=True):
        total = (each - middle).square() * scale + total
    return total


NOISE_FORMS: dict[str, NoiseForm] = {
    "sine": NoiseForm(HeteroscedasticSine, sine),
    "branin": NoiseForm(HeteroscedasticBranin, branin),
    "camel": NoiseForm(HeteroscedasticCamel, camel),
    "hartmann": NoiseForm(partial(HeteroscedasticHartmann, 3), hartmann),
}


def values_of(form: NoiseForm, X: Tensor) -> Tensor:
    r"""The formula at points of the problem, `n x d -> n`."""
    found: Tensor = form.formula(list(X.unbind(dim=-1)))
    return found


def main() -> None:
    for name, form in NOISE_FORMS.items():
        start = time.process_time()
        found, value = form.prove()
        print(f"{name}: {value:.9f}, {found}, {time.process_time() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
