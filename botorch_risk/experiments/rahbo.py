r"""The experiments of RAHBO (Makarova et al. 2021) that can be run with public data.

The paper's text calls the sigmoid of its synthetic problems the variance of the noise, its
program uses it as the standard deviation: both are registered. Its free-electron-laser data
are not public, its credit-card data a download; the forest is tuned on scikit-learn's bundled data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from torch import Generator, Tensor

from botorch_risk.experiments.registry import ExperimentDefinition, StrategyFactory, register
from botorch_risk.strategies import RAHBO, RAHBOUS, HeteroscedasticGPUCB
from botorch_risk.test_functions import (
    ForestTuning,
    HeteroscedasticBranin,
    HeteroscedasticSine,
    HeteroscedasticTestProblem,
)

FOREST_RISK_AVERSION = 20.0


class MeanVarianceProblem:
    r"""A synthetic problem whose true objective is mean minus weighted noise variance."""

    def __init__(self, problem: HeteroscedasticTestProblem, risk_aversion: float) -> None:
        r"""Takes the problem and the weight of the variance."""
        self.problem = problem
        self.risk_aversion = risk_aversion

    @property
    def bounds(self) -> Tensor:
        r"""The lower and the upper bounds, `2 x d`."""
        return self.problem.bounds

    @property
    def optimal_value(self) -> float:
        r"""The largest true objective."""
        return self.problem.optimal_mean_variance(self.risk_aversion)[1]

    def sample_repeats(self, X: Tensor, num_repeats: int, generators: list[Generator]) -> Tensor:
        r"""Repeated outcomes `R x q x k` at points `R x q x d`."""
        return self.problem.sample_repeats(X, num_repeats, generators)

    def objective(self, X: Tensor) -> Tensor:
        r"""The true mean-variance value (Eq. 2), `R x q x d -> R x q`."""
        return self.problem.mean_variance(X, self.risk_aversion)


# The paper models the variance itself, with one inferred noise level of the sample variances, and
# keeps the hyperparameters of the initial design (Sec. 4). The floor is ours, for Eq. (16).
AS_IN_THE_PAPER = {"variance_link": "identity", "refit_every": None, "min_noise_variance": 1e-4}
KINDS: dict[str, Any] = {"RAHBO": RAHBO, "RAHBO-US": RAHBOUS, "GP-UCB": HeteroscedasticGPUCB}


def _strategy(
    kind: Any,
    num_repeats: int,
    risk_aversion: float,
    options: Mapping[str, Any],
    bounds: Tensor,
    seeds: Sequence[int],
    num_initial: int,
) -> Any:
    return kind(bounds, num_repeats, risk_aversion, seeds, num_initial=num_initial, **options)


def _strategies(
    num_repeats: int, risk_aversion: float, **options: Any
) -> dict[str, StrategyFactory]:
    r"""Each method with this package's defaults, and with the choices of the paper."""
    return {
        label + suffix: partial(_strategy, kind, num_repeats, risk_aversion, chosen)
        for suffix, chosen in (("", options), ("-paper", {**options, **AS_IN_THE_PAPER}))
        for label, kind in KINDS.items()
    }


def _synthetic(name: str, problem: Any, sigmoid_is: str, num_rounds: int) -> ExperimentDefinition:
    title = name.split("-")[0].capitalize()
    return ExperimentDefinition(
        name=name,
        description=f"{title} with input-dependent noise, sigmoid as {sigmoid_is} (RAHBO, Sec. 4)",
        problem=lambda: MeanVarianceProblem(problem(sigmoid_is=sigmoid_is), risk_aversion=1.0),
        strategies=_strategies(num_repeats=10, risk_aversion=1.0),
        num_initial=10,
        num_rounds=num_rounds,
        num_repeats=10,
        objective="mean - 1.0 x noise variance",
        optimal_value=lambda problem: problem.optimal_value,
        settings={"risk_aversion": 1.0, "noise_scale": 1.0, "sigmoid_is": sigmoid_is},
    )


for _problem, _name, _rounds in (
    (HeteroscedasticSine, "sine", 60),
    (HeteroscedasticBranin, "branin", 150),
):
    register(_synthetic(_name, _problem, "standard_deviation", _rounds))
    register(_synthetic(f"{_name}-variance", _problem, "variance", _rounds))

for _name, _risk_aversion in (("forest", FOREST_RISK_AVERSION), ("forest-100", 100.0)):
    register(
        ExperimentDefinition(
            name=_name,
            description="Random forest on breast-cancer data, 5 fresh splits (RAHBO, Figs. 5b, c)",
            problem=ForestTuning,
            strategies=_strategies(num_repeats=5, risk_aversion=_risk_aversion),
            num_initial=10,
            num_rounds=50,
            num_repeats=5,
            objective=f"balanced accuracy - {_risk_aversion:g} x its variance",
            settings={"risk_aversion": _risk_aversion},
        )
    )
