r"""The experiments of TRUVAR [Bogunovic2016truvar]_, Sec. 4, on public data.

The lake of the paper and its "SVM on grid" are not public: a coastline and a support vector
machine on handwritten digits stand in. All experiments run on a finite domain. What is known of
the kernels is known to every method alike.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from botorch_risk.acquisition import LevelSet, Maximize, NoiseLevels
from botorch_risk.strategies import Box, truvar
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
    straddle_search,
    upper_confidence_bound_search,
)
from botorch_risk_bench.experiments.definition import ExperimentDefinition, StrategyFactory
from botorch_risk_bench.experiments.papers.models import (
    ModelBuilder,
    coastal_process,
    learnt_process,
    squared_exponential,
)
from botorch_risk_bench.problems import CoastalTerrain, SurveyCost, SVMValidationError

NEXT_TO_NOTHING = 1e-6  # the noise variance of the models where there is none
LEVELS = NoiseLevels((1e-6, 1e-3, 0.05), costs=(15.0, 10.0, 2.0))
NOISE_THRESHOLD = 2.25
# The first seed whose function is above the threshold on 2.5 % of the grid, twice what is expected
# of a standard normal. A third of the seeds are hardly above it anywhere.
NOISE_FUNCTION_SEED = 5

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
        "noise-levels",
        "Level set with three noise levels to choose from (TRUVAR, Fig. 2)",
        noise_function,
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
        **_classify(NOISE_THRESHOLD),
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
        "svm",
        "Validation error of an SVM on a grid (TRUVAR, Fig. 3)",
        svm,
        learnt_process,
        {
            "TRUVAR": partial(truvar, goal=Maximize(), initial={"monotone": False}, **LEARNING),
            "EI": partial(expected_improvement_search, **LEARNING),
            "GP-UCB": partial(upper_confidence_bound_search, **LEARNING),
        },
        **_maximize(num_initial=3),
    ),
)
