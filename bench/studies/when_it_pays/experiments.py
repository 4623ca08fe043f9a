r"""The problems of the three sweeps: noise that differs, trips that cost, ripples on a trend."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from botorch_risk_bench.baselines import gchk, gp_ucb, heteroscedastic_gp_ucb
from botorch_risk_bench.experiments.definition import ExperimentDefinition, StrategyFactory
from botorch_risk_bench.experiments.papers.models import (
    coastal_process,
    matern_process,
    squared_exponential,
)
from botorch_risk_bench.experiments.papers.truvar import coast as whole_coast
from torch import Generator, Tensor

from botorch_risk.papers import LevelSet, rahbo, truvar, uhe_bo
from botorch_risk.seeding import generators
from botorch_risk.strategies import Box
from botorch_risk.strategies.space import decision_box
from botorch_risk.test_functions import H1, FiniteDomainProblem, GaussianProcessSample, unit_grid
from botorch_risk.test_functions.heteroscedastic import HeteroscedasticTestProblem

# 1. Noise that differs between optima of equal means: RAHBO.

NOISE_RATIOS = (1.0, 2.0, 3.0, 5.0, 8.0, 12.0)  # of the standard deviations at two optima
QUIET = 0.1  # standard deviation at the quiet optimum
RISK_AVERSION = 1.0
NUM_REPEATS = 5


class TwoPeaks(HeteroscedasticTestProblem):
    r"""The sine of RAHBO, its right peak `ratio` times as noisy, and higher by `advantage`.

        f(x) = sin(2 pi x) + advantage s(x),   sd(x) = 0.1 (1 + (ratio - 1) s(x))

    with s(x) a step at x = 1.
    """

    dim = 1
    continuous_inds: list[int] = [0]  # noqa: RUF012 as in BoTorch
    _bounds: list[tuple[float, float]] = [(0.0, 2.0)]  # noqa: RUF012

    def __init__(self, ratio: float, advantage: float = 0.0) -> None:
        self.ratio, self.advantage, self._optimal_value = ratio, advantage, 1.0 + advantage
        super().__init__(RISK_AVERSION)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return torch.sin(2 * math.pi * X[..., 0]) + self.advantage * self._step(X)

    def _noise_variance(self, X: Tensor) -> Tensor:
        return (QUIET * (1 + (self.ratio - 1) * self._step(X))).square()

    def _step(self, X: Tensor) -> Tensor:
        return torch.sigmoid(30.0 * (X[..., 0] - 1.0))


class Camel(HeteroscedasticTestProblem):
    r"""The six-hump camel, negated; its lower peak is `ratio` times as noisy as its upper one.

    The logarithm of the noise is linear in the second input.
    """

    dim = 2
    continuous_inds: list[int] = [0, 1]  # noqa: RUF012
    _bounds: list[tuple[float, float]] = [(-2.0, 2.0), (-1.0, 1.0)]  # noqa: RUF012
    _optimal_value = 1.0316284534898774
    PEAK = 0.7126564

    def __init__(self, ratio: float) -> None:
        self.ratio = ratio
        super().__init__(RISK_AVERSION)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        x, y = X.unbind(dim=-1)
        hills = (4 - 2.1 * x.square() + x.pow(4) / 3) * x.square()
        return -(hills + x * y + (4 * y.square() - 4) * y.square())

    def _noise_variance(self, X: Tensor) -> Tensor:
        return (QUIET * self.ratio ** ((1 - X[..., 1] / self.PEAK) / 2)).square()


NOISY: dict[str, tuple[Callable[[float], Any], int]] = {  # problems by ratio, and rounds
    "equal-peaks": (TwoPeaks, 30),
    "noisy-peak-higher": (partial(TwoPeaks, advantage=0.1), 30),
    "camel": (Camel, 40),
}


def _noise_ratio(name: str, ratio: float) -> ExperimentDefinition:
    build, num_rounds = NOISY[name]
    task: dict[str, Any] = {"num_repeats": NUM_REPEATS, "risk_aversion": RISK_AVERSION}
    return ExperimentDefinition(
        name=f"{name}-{ratio:g}",
        description=f"{name}, standard deviations 1 to {ratio:g} at two optima",
        problem=partial(build, ratio),
        strategies={
            "RAHBO": partial(rahbo, **task),
            "GP-UCB": partial(heteroscedastic_gp_ucb, **task),
        },
        num_initial=10,
        num_rounds=num_rounds,
        num_repeats=NUM_REPEATS,
        objective=f"mean - {RISK_AVERSION:g} x noise variance",
        optimal_value=lambda problem: problem.optimal_mean_variance(RISK_AVERSION)[1],
        settings={"ratio": ratio},
    )


# 2. Trips that cost: TRUVAR.

TRIP_RATIOS = (0.0, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # a trip across the domain to a measurement
THRESHOLD = 0.0  # of the functions: half of a standard normal is above
LENGTHSCALE, SIDE = 0.2, 30
NEXT_TO_NOTHING = 1e-6
COAST_WIDTH = 143.5  # km, west to east


class LevelFunctions:
    r"""A function for each seed, a sample of a process on a grid."""

    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)

    def of_seeds(self, seeds: Sequence[int]) -> FiniteDomainProblem:
        return GaussianProcessSample(seeds, NEXT_TO_NOTHING, SIDE, LENGTHSCALE)


@cache
def coast() -> FiniteDomainProblem:
    r"""Every second point of the map in each direction, 30 x 23."""
    whole: Any = whole_coast()
    east, north = whole.shape
    rows = torch.arange(east * north).reshape(east, north)[::2, ::2].flatten()
    return FiniteDomainProblem(whole.domain[rows], whole.values[rows])


@dataclass(frozen=True)
class TripCost:
    r"""1 for a measurement, and `ratio` for each length of the domain that is travelled to it."""

    ratio: float
    length: float

    def __call__(self, X: Tensor, previous: Tensor | None, level: int | None = None) -> Tensor:
        r"""Costs `... x m` of `... x m x 2` points after `... x 1 x 2` ones."""
        if previous is None:
            return torch.ones_like(X[..., 0])
        return 1 + self.ratio / self.length * (X - previous).norm(dim=-1)


TRIPS: dict[str, tuple[Callable[[], Any], Any, Callable[[], Tensor], float, float]] = {
    # the problem, the model, its domain, the level, and the length of the domain
    "functions": (
        LevelFunctions,
        squared_exponential(LENGTHSCALE),
        partial(unit_grid, SIDE),
        THRESHOLD,
        1.0,
    ),
    "coast": (coast, coastal_process(), lambda: coast().domain, 0.0, COAST_WIDTH),
}
NUM_ROUNDS = {"functions": 110, "coast": 130}


def truvar_label(ratio: float) -> str:
    r"""TRUVAR for trips of a ratio; at 0 it does not weigh them."""
    return f"TRUVAR-{ratio:g}"


def _trips(name: str) -> ExperimentDefinition:
    problem, model, domain, threshold, length = TRIPS[name]
    shared: dict[str, Any] = {
        "estimator": None,
        "dense": False,
        "noise": NEXT_TO_NOTHING,
        "model": model,
    }

    def on_domain(method: Callable[..., Any], **options: Any) -> StrategyFactory:
        def build(bounds: Tensor | Box, *, seeds: Sequence[int], num_initial: int) -> Any:
            like = decision_box(bounds).bounds
            points = domain().to(like)
            return method(points, seeds=seeds, num_initial=num_initial, **shared, **options)

        return build

    return ExperimentDefinition(
        name=f"trips-{name}",
        description=f"Level set, {name}, trips that cost",
        problem=problem,
        strategies={
            **{
                truvar_label(ratio): on_domain(
                    truvar, goal=LevelSet(threshold), cost=TripCost(ratio, length)
                )
                for ratio in TRIP_RATIOS
            },
            "GCHK": on_domain(gchk, threshold=threshold),
        },
        num_initial=1,
        num_rounds=NUM_ROUNDS[name],
        num_repeats=1,
        objective=f"F1 score of the set f >= {threshold:g}",
        threshold=threshold,
        settings={"threshold": threshold},
    )


# 3. Ripples on a trend: UHE-BO.

FREQUENCIES = (0, 2, 4, 8, 12, 16, 32)  # ripples from end to end of each input
DEPTH = 0.5  # of the ripples, relative to the trend
DEEP = (4, 8, 16, 32)  # ripples that reach down to 0, as h1's do; see the README
TREND_WIDTH = 0.25
BUDGET = 100


@dataclass(frozen=True)
class Ripples:
    r"""Ripples under a wide peak, one peak for each of `R` replicates; the maximum is 1.

        f(x) = exp(-|x - c|^2 / (2 0.25^2)) (1 - depth + depth mean_i cos^2(pi k (x_i - c_i)))

    Attributes:
        frequency: k, ripples from end to end of each input.
        centers: `R x 2`.
        depth: Of the ripples, 1 where they reach down to 0.
    """

    frequency: int
    centers: Tensor
    depth: float = DEPTH

    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)

    def objective(self, X: Tensor) -> Tensor:
        r"""`R x q x 2 -> R x q`."""
        offset = X - self.centers.to(X).unsqueeze(-2)
        trend = torch.exp(-offset.square().sum(dim=-1) / (2 * TREND_WIDTH**2))
        waves = (math.pi * self.frequency * offset).cos().square().mean(dim=-1)
        return trend * (1 - self.depth + self.depth * waves)

    def sample_repeats(self, X: Tensor, num_repeats: int, streams: list[Generator]) -> Tensor:
        return self.objective(X).unsqueeze(-1).expand(*X.shape[:-1], num_repeats).clone()


@dataclass(frozen=True)
class RipplesOfSeeds:
    r"""A place of the peak for each seed, a fifth of the range or more from the edges."""

    frequency: int
    depth: float = DEPTH
    bounds = Ripples.bounds

    def of_seeds(self, seeds: Sequence[int]) -> Ripples:
        draws = [
            torch.rand(2, generator=each, dtype=torch.double)
            for each in generators(seeds, "centre of ripples")
        ]
        return Ripples(self.frequency, 0.2 + 0.6 * torch.stack(draws), self.depth)


HALF_WIDTHS = (10.0, 15.0, 25.0, 50.0, 100.0)  # of the box of h1: 6 to 64 ripples a side
PAPERS, DEFAULT = "", ", default priors"  # whose kernel and priors
HYPERPARAMETERS: dict[str, dict[str, Any]] = {PAPERS: {"model": matern_process}, DEFAULT: {}}


def _on_ripples(name: str, description: str, **options: Any) -> ExperimentDefinition:
    methods: dict[str, Any] = {"UHE-BO": uhe_bo, "MAP": gp_ucb}
    return ExperimentDefinition(
        name=name,
        description=description,
        strategies={
            label + suffix: partial(method, **model)
            for suffix, model in HYPERPARAMETERS.items()
            for label, method in methods.items()
        },
        num_initial=6,
        num_rounds=BUDGET,
        num_repeats=1,
        objective="f(x)",
        **options,
    )


AT_FIRST = (
    *(_noise_ratio(name, ratio) for name in NOISY for ratio in NOISE_RATIOS),
    *(_trips(name) for name in TRIPS),
    *(
        _on_ripples(
            f"ripples-{frequency}",
            f"A wide peak with {frequency} ripples from end to end",
            problem=partial(RipplesOfSeeds, frequency),
            optimal_value=lambda problem: 1.0,
            settings={"frequency": frequency},
        )
        for frequency in FREQUENCIES
    ),
    *(
        _on_ripples(
            f"h1-{width:g}",
            f"h1 on [-{width:g}, {width:g}]^2",
            problem=partial(H1, width),
            optimal_value=lambda problem: problem.optimal_value,
            settings={"half_width": width},
        )
        for width in HALF_WIDTHS
    ),
)
LATER = tuple(
    _on_ripples(
        f"deep-ripples-{frequency}",
        f"A wide peak with {frequency} ripples from end to end, down to 0",
        problem=partial(RipplesOfSeeds, frequency, 1.0),
        optimal_value=lambda problem: 1.0,
        settings={"frequency": frequency, "depth": 1.0},
    )
    for frequency in DEEP
)
EXPERIMENTS = (*AT_FIRST, *LATER)
