r"""The experiments of TRUVAR [Bogunovic2016truvar]_, Sec. 4, on public data.

The lake of the paper is not public: a coastline stands in. Its "SVM on grid" is public but not ours
to distribute: `svm_on_grid` takes its table, and a support vector machine on handwritten digits
stands in for who does not have it. All experiments run on a finite domain. All methods know the
same about the kernels.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from os import PathLike
from typing import Any

import torch
from torch import Generator, Tensor

from botorch_risk.papers import LevelSet, Maximize, NoiseLevels, truvar
from botorch_risk.strategies import Box
from botorch_risk.strategies.space import decision_box
from botorch_risk.test_functions import (
    FiniteDomainProblem,
    GaussianProcessSample,
    PosteriorMeanFunctions,
    unit_grid,
)
from botorch_risk.test_functions.gaussian_process_samples import JITTER
from botorch_risk_bench.baselines import (
    expected_improvement_search,
    gchk,
    max_value_entropy_search,
    maximum_variance_search,
    minimum_regret_search,
    predictive_entropy_search,
    straddle_search,
    upper_confidence_bound_search,
)
from botorch_risk_bench.experiments.definition import ExperimentDefinition, StrategyFactory
from botorch_risk_bench.experiments.papers.models import (
    ModelBuilder,
    coastal_process,
    learnt_process,
    likeliest_process,
    squared_exponential,
)
from botorch_risk_bench.problems import CoastalTerrain, SurveyCost, SVMOnGrid, SVMValidationError

NEXT_TO_NOTHING = 1e-6  # the noise variance of the models where there is none
LEVELS = NoiseLevels((1e-6, 1e-3, 0.05), costs=(15.0, 10.0, 2.0))
NOISE_THRESHOLD = 2.25
# The first seed whose function is above the threshold on 2.5 % of the grid, twice what is expected
# of a standard normal. A third of the seeds are hardly above it anywhere.
NOISE_FUNCTION_SEED = 5
SHARE_ABOVE = 0.0122
# The lake's transect in metres, along the surface and in depth.
LAKE_WIDTH, LAKE_DEPTH = 1400.0, 18.0

# The builders of the models know or fit the hyperparameters.
KNOWN: dict[str, Any] = {"estimator": None, "dense": False}
EXACT: dict[str, Any] = {"noise": NEXT_TO_NOTHING}
# The paper's sets may grow again, as the hyperparameters are learnt, after every third sample.
LEARNING: dict[str, Any] = {**EXACT, "refit_every": 3}
Method = Callable[..., Any]


class SyntheticFunctions:
    r"""A function for each seed: the posterior means of 200 values on a 50 x 50 grid."""

    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)

    def of_seeds(self, seeds: Sequence[int]) -> FiniteDomainProblem:
        return PosteriorMeanFunctions(seeds).on_grid()


class FunctionsOnTheSquare:
    r"""The same functions anywhere in [0, 1]^2, with the paper's noise."""

    bounds = SyntheticFunctions.bounds

    def of_seeds(self, seeds: Sequence[int]) -> "FunctionsOfSeeds":
        return FunctionsOfSeeds(PosteriorMeanFunctions(seeds))


@dataclass(frozen=True)
class FunctionsOfSeeds:
    r"""A function for each of `R` replicates; a row of NaN asks for nothing."""

    functions: PosteriorMeanFunctions

    @property
    def bounds(self) -> Tensor:
        return SyntheticFunctions.bounds

    def sample_repeats(self, X: Tensor, num_repeats: int, streams: list[Generator]) -> Tensor:
        shape = (*X.shape[1:-1], num_repeats)
        draws = [torch.randn(shape, generator=each, dtype=torch.double) for each in streams]
        values = self._values(X).unsqueeze(-1)
        return values + NEXT_TO_NOTHING**0.5 * torch.stack(draws).to(X)

    def objective(self, X: Tensor) -> Tensor:
        r"""Minus the regret, by the maximum over the square."""
        return self._values(X) - self.functions.maximum.unsqueeze(-1)

    def _values(self, X: Tensor) -> Tensor:
        missing = X.isnan().any(dim=-1)
        return self.functions(X.nan_to_num()).masked_fill(missing, torch.nan)


@cache
def seeds_above(share: float, count: int) -> tuple[int, ...]:
    r"""The first seeds whose function is above the threshold on at least a share of the grid."""
    found: list[int] = []
    seed = 0
    while len(found) < count:
        values = GaussianProcessSample(seed).values
        if (values >= NOISE_THRESHOLD).double().mean() >= share:
            found.append(seed)
        seed += 1
    return tuple(found)


class NoisyFunctions:
    r"""A function for each seed, with three noise levels to choose from.

    Samples of the process that are above the threshold on at least 1.2 % of the grid, what is
    expected of a standard normal: a third of all are hardly above it anywhere.
    """

    bounds = torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 2.0]], dtype=torch.double)

    def of_seeds(self, seeds: Sequence[int]) -> FiniteDomainProblem:
        every = seeds_above(SHARE_ABOVE, max(seeds) + 1)
        return GaussianProcessSample([every[seed] for seed in seeds], LEVELS.variances)


@cache
def coast() -> FiniteDomainProblem:
    r"""The west half of the map; its east half is the second data set."""
    return CoastalTerrain()


@cache
def noise_function() -> FiniteDomainProblem:
    r"""The function of the experiment on noise levels, the same in all replicates."""
    return GaussianProcessSample(NOISE_FUNCTION_SEED, LEVELS.variances)


@cache
def svm() -> FiniteDomainProblem:
    r"""Minus the validation error of a support vector machine."""
    return SVMValidationError()


def _on(domain: Callable[[], Tensor], method: Method) -> StrategyFactory:
    r"""A strategy that chooses among the points of a domain, whatever their bounds."""

    def build(bounds: Tensor | Box, *, seeds: Sequence[int], num_initial: int) -> Any:
        like = decision_box(bounds).bounds
        return method(domain().to(like), seeds=seeds, num_initial=num_initial, **KNOWN)

    return build


def _experiment(
    name: str,
    description: str,
    problem: Callable[[], Any],
    build_model: ModelBuilder,
    methods: Mapping[str, Method],
    domain: Callable[[], Tensor] | None = None,
    **options: Any,
) -> ExperimentDefinition:
    r"""Methods with one model, on the domain of the problem unless another is given."""
    points = domain or (lambda: problem().domain)
    strategies = {
        label: _on(points, partial(method, model=build_model)) for label, method in methods.items()
    }
    return ExperimentDefinition(
        name=name,
        description=description,
        problem=problem,
        strategies=strategies,
        num_repeats=1,
        **options,
    )


def lake_cost() -> SurveyCost:
    r"""The paper's cost on the coast, as if it were the lake's transect.

    The width of the map counts as 1,400 m and its height as 18 m, the ranges of the paper's Fig. 2,
    so that travel and depth weigh as they do there.
    """
    lower, upper = coast().bounds.double()
    width, height = (upper - lower).tolist()
    return SurveyCost(travel=0.25 * LAKE_WIDTH / width, unit=height / LAKE_DEPTH)


def _classify(threshold: float) -> dict[str, Any]:
    return {
        "num_initial": 1,
        "num_rounds": 120,
        "objective": f"F1 score of the set f >= {threshold:g}",
        "threshold": threshold,
        "settings": {"threshold": threshold},
    }


def _maximize(num_initial: int) -> dict[str, Any]:
    return {
        "num_initial": num_initial,
        "num_rounds": 100,
        "objective": "f(x) - max f over the domain",
        "optimal_value": lambda problem: 0.0,
    }


TUNING: dict[str, Method] = {  # with hyperparameters that are learnt
    "TRUVAR": partial(truvar, goal=Maximize(), initial={"monotone": False}, **LEARNING),
    "EI": partial(expected_improvement_search, **LEARNING),
    "GP-UCB": partial(upper_confidence_bound_search, **LEARNING),
}


def svm_on_grid(table: str | PathLike[str]) -> tuple[ExperimentDefinition, ...]:
    r"""The experiment of Fig. 3(c) on its own data, `SVMOnGrid`: by likelihood and by priors.

    Hyperparameters are by maximum likelihood in `svm-on-grid`, as in the paper, and under
    BoTorch's priors in `svm-on-grid-priors`.
    """
    problem = cache(partial(SVMOnGrid, table))
    models = {"svm-on-grid": likeliest_process, "svm-on-grid-priors": learnt_process}
    return tuple(
        _experiment(
            name,
            "Validation error of an SVM on a grid (TRUVAR, Fig. 3)",
            problem,
            build_model,
            TUNING,
            **_maximize(num_initial=3),
        )
        for name, build_model in models.items()
    )


EXPERIMENTS = (
    _experiment(
        "coast",
        "Coastline, unit cost (TRUVAR, Fig. 2)",
        coast,
        coastal_process(),
        {
            "TRUVAR": partial(truvar, goal=LevelSet(0.0), **EXACT),
            "GCHK": partial(gchk, threshold=0.0, **EXACT),
            "straddle": partial(straddle_search, threshold=0.0, **EXACT),
            "variance": partial(maximum_variance_search, **EXACT),
        },
        **_classify(0.0),
    ),
    _experiment(
        "coast-travel",
        "Coastline, a boat that pays for distance (TRUVAR, Fig. 2)",
        coast,
        coastal_process(),
        {
            "TRUVAR": partial(truvar, goal=LevelSet(0.0), cost=SurveyCost(), **EXACT),
            "GCHK": partial(gchk, threshold=0.0, cost=SurveyCost(), **EXACT),
        },
        **_classify(0.0),
    ),
    _experiment(
        "coast-lake-ranges",
        "Coastline, travel and depth as on the lake (TRUVAR, Fig. 2)",
        coast,
        coastal_process(),
        {
            "TRUVAR": partial(truvar, goal=LevelSet(0.0), cost=lake_cost(), **EXACT),
            "GCHK": partial(gchk, threshold=0.0, cost=lake_cost(), **EXACT),
        },
        **_classify(0.0),
    ),
    *(
        _experiment(
            name,
            description,
            problem,
            squared_exponential(),
            {
                "TRUVAR": partial(
                    truvar, goal=LevelSet(NOISE_THRESHOLD), levels=LEVELS, initial_level=2
                ),
                **{
                    f"GCHK-{variance:g}": partial(
                        gchk, threshold=NOISE_THRESHOLD, levels=LEVELS, initial_level=level
                    )
                    for level, variance in enumerate(LEVELS.variances)
                },
            },
            domain=partial(unit_grid, 50),
            **_classify(NOISE_THRESHOLD),
        )
        for name, description, problem in (
            (
                "noise-levels",
                "Level set with three noise levels to choose from (TRUVAR, Fig. 2)",
                noise_function,
            ),
            (
                "noise-levels-functions",
                "Level sets of functions, one for each seed, three noise levels (TRUVAR, Fig. 2)",
                NoisyFunctions,
            ),
        )
    ),
    _experiment(
        "synthetic-maximum",
        "Maximum of smooth functions, one for each seed (TRUVAR, Fig. 3)",
        SyntheticFunctions,
        squared_exponential(),
        {  # the marginal methods first, those that look ahead last
            "TRUVAR": partial(truvar, goal=Maximize(), noise=JITTER),
            "EI": partial(expected_improvement_search, noise=JITTER),
            "GP-UCB": partial(upper_confidence_bound_search, noise=JITTER),
            "MRS": partial(minimum_regret_search, noise=JITTER),
            "MES": partial(max_value_entropy_search, noise=JITTER),
        },
        domain=partial(unit_grid, 50),
        **_maximize(num_initial=1),
    ),
    _experiment(
        "synthetic-maximum-anywhere",
        "Maximum of smooth functions, anywhere in the square (TRUVAR, Fig. 3)",
        FunctionsOnTheSquare,
        squared_exponential(),
        {
            label: partial(method, noise=JITTER, anywhere=True, **options)
            for label, method, options in (
                ("TRUVAR", truvar, {"goal": Maximize()}),
                ("TRUVAR-a-1", truvar, {"goal": Maximize(), "initial": {"a": 1.0}}),
                (
                    "TRUVAR-not-monotone",
                    truvar,
                    {"goal": Maximize(), "initial": {"monotone": False}},
                ),
                ("EI", expected_improvement_search, {}),
                ("GP-UCB", upper_confidence_bound_search, {}),
                ("MRS", minimum_regret_search, {}),
                ("ES", predictive_entropy_search, {}),
            )
        },
        domain=partial(unit_grid, 50),
        **_maximize(num_initial=1),
    ),
    _experiment(
        "svm",
        "Validation error of an SVM on digits, on a grid (after TRUVAR, Fig. 3)",
        svm,
        learnt_process,
        TUNING,
        **_maximize(num_initial=3),
    ),
)
