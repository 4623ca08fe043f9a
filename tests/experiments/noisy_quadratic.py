r"""A problem that costs nothing: -|x|^2 with a noise that grows with the first input."""

from __future__ import annotations

import dataclasses
import operator
import time

import torch
from torch import Generator, Tensor

from botorch_risk.experiments import ExperimentDefinition
from botorch_risk.strategies import RandomSearch

DELAY_SECONDS = 0.004


class NoisyQuadratic:
    optimal_value = -0.01  # at x = 0, where the variance is 0.1^2

    def __init__(self, num_failing: int = 0) -> None:
        self.bounds = torch.tensor([[-1.0, -1.0], [1.0, 1.0]], dtype=torch.double)
        self.num_failing = num_failing
        self.num_evaluations = 0

    def sample_repeats(self, X: Tensor, num_repeats: int, generators: list[Generator]) -> Tensor:
        self.num_evaluations += 1
        shape = (X.shape[1], num_repeats)
        noise = torch.stack([torch.randn(shape, dtype=X.dtype, generator=g) for g in generators])
        Y = self._mean(X).unsqueeze(-1) + self._noise_sd(X).unsqueeze(-1) * noise
        Y[: self.num_failing, -1] = torch.nan
        return Y

    def objective(self, X: Tensor) -> Tensor:
        return self._mean(X) - self._noise_sd(X).square()

    def _mean(self, X: Tensor) -> Tensor:
        return -X.square().sum(dim=-1)

    def _noise_sd(self, X: Tensor) -> Tensor:
        return 0.1 + X[..., 0].abs()


class UnknownOptimum(NoisyQuadratic):
    objective = None  # type: ignore[assignment]


class SlowQuadratic(NoisyQuadratic):
    def sample_repeats(self, X: Tensor, num_repeats: int, generators: list[Generator]) -> Tensor:
        time.sleep(DELAY_SECONDS)
        return super().sample_repeats(X, num_repeats, generators)


class SlowRandomSearch(RandomSearch):
    def tell(self, X: Tensor, Y: Tensor) -> None:
        time.sleep(DELAY_SECONDS)
        super().tell(X, Y)


def _risk_averse(bounds: Tensor, seeds: list[int], num_initial: int) -> RandomSearch:
    return RandomSearch(bounds, seeds, num_initial, risk_aversion=1.0)


QUADRATIC = ExperimentDefinition(
    name="quadratic",
    description="A noisy quadratic",
    problem=NoisyQuadratic,
    strategies={"neutral": RandomSearch, "averse": _risk_averse},
    num_initial=4,
    num_rounds=6,
    num_repeats=3,
    objective="mean - variance [1]",
    optimal_value=operator.attrgetter("optimal_value"),
)
SLOW = ExperimentDefinition(
    name="slow",
    description="A noisy quadratic that can be killed in the middle of anything",
    problem=SlowQuadratic,
    strategies={"random": SlowRandomSearch},
    num_initial=4,
    num_rounds=20,
    num_repeats=3,
    objective="mean - variance [1]",
    settings={"delay": DELAY_SECONDS},
)
SLOW_PAIR = dataclasses.replace(
    SLOW, name="slow-pair", strategies={"one": SlowRandomSearch, "two": SlowRandomSearch}
)
EXPERIMENTS = (QUADRATIC, SLOW, SLOW_PAIR)
