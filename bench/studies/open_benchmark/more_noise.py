r"""Two more problems whose noise depends on the decision, next to the four of the board.

python -m bench.studies.open_benchmark.more_noise   # proves the optimum of the first
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bench.studies.open_benchmark.experiments import noise_definition
from bench.studies.open_benchmark.noise_forms import NoiseForm
from botorch_risk.test_functions import HeteroscedasticHartmann
from botorch_risk.test_functions.heteroscedastic import HeteroscedasticTestProblem

# Height and centre of each hill, the noisy one first.
_HILLS = ((1.0, (0.25, 0.3)), (0.85, (0.75, 0.6)))
_WIDTH, _REACH = 0.04, 0.08  # what squared distances are divided by, in the mean and the noise


class NoisyHill(HeteroscedasticTestProblem):
    r"""Two hills of two decisions, on [0, 1]^2, of which the higher one is noisy.

        f(x) = exp(-|x - a|^2 / 0.04) + 0.85 exp(-|x - b|^2 / 0.04)
        std(x) = 0.1 + 0.9 exp(-|x - a|^2 / 0.08)

    with a = (0.25, 0.3) and b = (0.75, 0.6).
    """

    dim = 2
    continuous_inds: list[int] = [0, 1]  # noqa: RUF012 as in BoTorch
    _bounds: list[tuple[float, float]] = [(0.0, 1.0), (0.0, 1.0)]  # noqa: RUF012

    def _evaluate_true(self, X: Tensor) -> Tensor:
        parts = [height * _hill(X, centre, _WIDTH) for height, centre in _HILLS]
        return torch.stack(parts).sum(dim=0)

    def _noise_variance(self, X: Tensor) -> Tensor:
        return (0.1 + 0.9 * _hill(X, _HILLS[0][1], _REACH)).square()


def _hill(X: Tensor, centre: Sequence[float], width: float) -> Tensor:
    return (-(X - X.new_tensor(centre)).square().sum(dim=-1) / width).exp()


def noisy_hill(x: Sequence[Any]) -> Any:
    r"""Mean minus variance of `NoisyHill` as a formula of the coordinates."""
    distances = [
        (x[0] - first).square() + (x[1] - second).square() for _, (first, second) in _HILLS
    ]
    mean = (distances[0] * (-1 / _WIDTH)).exp() + (distances[1] * (-1 / _WIDTH)).exp() * 0.85
    level = (distances[0] * (-1 / _REACH)).exp() * 0.9 + 0.1
    return mean - level.square()


NOISY_HILL = NoiseForm(NoisyHill, noisy_hill)

EXPERIMENTS = (
    noise_definition("noisy-hill", NoisyHill),
    # Too many inputs for the proof: its optimum is found by many ascents from a grid.
    noise_definition("hartmann-6", partial(HeteroscedasticHartmann, 6)),
)


if __name__ == "__main__":
    print(*NOISY_HILL.prove())
