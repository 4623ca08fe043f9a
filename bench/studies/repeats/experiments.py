r"""Five problems with certified optima of mean minus variance, and ways to spend 200 readings."""

from collections.abc import Callable
from functools import partial
from typing import Any

from botorch_risk_bench.baselines import bts_red, hetgp_horizon
from botorch_risk_bench.experiments.chosen_repeats import ChosenRepeats
from botorch_risk_bench.experiments.definition import ExperimentDefinition
from torch import Tensor

from botorch_risk.repeats import FixedRepeats, adaptive_repeats
from botorch_risk.strategies import Strategy
from botorch_risk.test_functions import (
    HeteroscedasticBranin,
    HeteroscedasticCamel,
    HeteroscedasticHartmann,
    HeteroscedasticSine,
)

BUDGET = 200  # readings, the initial design included
INITIAL = 40  # of which for the initial design, or a few more
FIXED = (2, 3, 5, 10, 20)
MAX_REPEATS = 20
CHOSEN = (2, 3, 5, 8, 13)
RISK_AVERSION = 1.0
SEARCH: dict[str, Any] = {"num_restarts": 4, "raw_samples": 64}  # of every acquisition function

PROBLEMS: dict[str, tuple[str, Callable[[], Any]]] = {
    "sine": ("two equal maxima, one of them noisy", HeteroscedasticSine),
    "branin": ("three equal maxima", partial(HeteroscedasticBranin, noise_scale=2.0)),
    "camel": ("noise that grows by 50 times along one input", HeteroscedasticCamel),
    "hartmann3": ("a bump of noise round the maximum", partial(HeteroscedasticHartmann, dim=3)),
    "hartmann6": ("a step of noise in one input", partial(HeteroscedasticHartmann, dim=6)),
}


def initial_points(repeats: int) -> int:
    r"""Of the initial design, at least 3: one cannot learn from fewer."""
    return max(3, INITIAL // repeats)


def _build(make: Callable[..., Strategy], repeats: int, **options: Any) -> Callable[..., Strategy]:
    r"""A strategy that decides on all columns but the last, and has its own initial design."""

    def build(bounds: Tensor, *, seeds: list[int], num_initial: int) -> Strategy:
        return make(
            bounds[:, :-1],
            seeds,
            risk_aversion=RISK_AVERSION,
            budget=BUDGET,
            initial_repeats=repeats,
            num_initial=initial_points(repeats),
            **options,
            **SEARCH,
        )

    return build


def num_rounds(repeats: int, least: int) -> int:
    r"""The most rounds after an initial design, with at least so many readings each."""
    return -(-(BUDGET - repeats * initial_points(repeats)) // least)


STRATEGIES: dict[str, tuple[Callable[..., Strategy], int]] = {
    **{
        f"k = {k}": (_build(adaptive_repeats, k, rule=FixedRepeats(k)), num_rounds(k, k))
        for k in FIXED
    },
    "adaptive": (_build(adaptive_repeats, 3, num_repeats=CHOSEN), num_rounds(3, min(CHOSEN))),
    "adaptive, k = 3": (_build(adaptive_repeats, 3, num_repeats=(3,)), num_rounds(3, 3)),
    "BTS-RED": (_build(bts_red, 3, max_repeats=MAX_REPEATS), num_rounds(3, 2)),
    "hetGP horizon": (_build(hetgp_horizon, 3), num_rounds(3, 2)),
}
OURS = "adaptive"


def _optimum(problem: Any) -> float:
    _, value = problem.problem.optimal_mean_variance(RISK_AVERSION)
    return float(value)


def _definition(name: str, description: str, problem: Callable[[], Any]) -> ExperimentDefinition:
    return ExperimentDefinition(
        name=f"repeats-{name}",
        description=description,
        problem=lambda: ChosenRepeats(problem(), MAX_REPEATS),
        strategies={label: build for label, (build, _) in STRATEGIES.items()},
        num_initial=initial_points(3),
        num_rounds=max(rounds for _, rounds in STRATEGIES.values()),
        num_repeats=MAX_REPEATS,
        objective="mean - variance",
        optimal_value=_optimum,
        settings={"search": SEARCH, "budget": BUDGET, "chosen": list(CHOSEN)},
    )


EXPERIMENTS = tuple(_definition(name, *each) for name, each in PROBLEMS.items())
