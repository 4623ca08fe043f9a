r"""A problem that costs nothing: -|x|^2 with a noise that grows with the first input."""

import dataclasses
import operator
import time
from functools import partial

import torch
from botorch_risk_bench.experiments import ExperimentDefinition
from torch import Generator, Tensor

from botorch_risk.strategies import Box, Method, RandomPoints, State, Strategy, View, random_search

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


class Random(Method):
    r"""Random points, for tests to disturb."""

    inner = RandomPoints()

    def propose(self, view: View) -> Tensor:
        return self.inner.propose(view)

    def recommend(self, view: View) -> Tensor:
        return self.inner.recommend(view)


class Slow(Random):
    def learn(self, view: View) -> State:
        time.sleep(DELAY_SECONDS)
        return super().learn(view)


def slow_random_search(bounds: Tensor, seeds: list[int], num_initial: int) -> Strategy:
    return Strategy(Box(bounds), Slow(), seeds, num_initial=num_initial)


QUADRATIC = ExperimentDefinition(
    name="quadratic",
    description="A noisy quadratic",
    problem=NoisyQuadratic,
    strategies={"neutral": random_search, "averse": partial(random_search, risk_aversion=1.0)},
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
    strategies={"random": slow_random_search},
    num_initial=4,
    num_rounds=20,
    num_repeats=3,
    objective="mean - variance [1]",
    settings={"delay": DELAY_SECONDS},
)
SLOW_PAIR = dataclasses.replace(
    SLOW, name="slow-pair", strategies={"one": slow_random_search, "two": slow_random_search}
)
EXPERIMENTS = (QUADRATIC, SLOW, SLOW_PAIR)
