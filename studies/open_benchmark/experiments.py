r"""The experiments of the open benchmark: every certified pair of function and risk."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import Any

from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.acquisition.risk_measures import CVaR, Expectation, VaR, WorstCase

from botorch_risk.baselines import ask_tell, botorch_risk_measure, random_decisions
from botorch_risk.experiments.definition import ExperimentDefinition, StrategyFactory
from botorch_risk.strategies import risk_search
from botorch_risk.test_functions import CertifiedProblem
from botorch_risk.test_functions.certified import certificates
from studies.open_benchmark.others import OTHERS

NUM_ROUNDS = 30
SEARCH: dict[str, Any] = {"num_restarts": 4, "raw_samples": 64}  # of every acquisition function
N_W = 32  # values of W for BoTorch's measures, which know no weights
OF_BOTORCH = {
    "expectation": Expectation,
    "value-at-risk": partial(VaR, alpha=0.9),
    "conditional-value-at-risk": partial(CVaR, alpha=0.9),
    "worst-case": WorstCase,
}


def strategies_of(problem: CertifiedProblem, risk: str) -> dict[str, StrategyFactory]:
    r"""Ours, BoTorch's where it has the risk, and those that do not know W."""
    known = {"environment": problem.environment, "risk_measure": problem.risk_measure}
    found: dict[str, StrategyFactory] = {
        "confidence-bound": partial(risk_search, **known, **SEARCH),
        "qLogNEI-robust": partial(
            risk_search, acquisition=qLogNoisyExpectedImprovement, **known, **SEARCH
        ),
        "random": partial(random_decisions, **known, **SEARCH),
    }
    if risk in OF_BOTORCH:
        found["qLogNEI-BoTorch"] = partial(
            botorch_risk_measure, objective=OF_BOTORCH[risk], n_w=N_W, **known, **SEARCH
        )
    for label, optimizer in OTHERS.items():
        found[label] = partial(ask_tell, optimizer=optimizer, **known, **SEARCH)
    return found


def definition(form: str, risk: str) -> ExperimentDefinition:
    r"""The experiment of a pair, such as `branin-value-at-risk`."""
    problem = CertifiedProblem(form, risk)
    return ExperimentDefinition(
        name=f"{form}-{risk}",
        description=f"{form} {problem.num_decision, problem.num_environment}, {risk}",
        problem=partial(CertifiedProblem, form, risk),
        strategies=strategies_of(problem, risk),
        num_initial=2 * problem.dim + 2,
        num_rounds=NUM_ROUNDS,
        num_repeats=1,
        objective=f"{risk} [standard deviations of the function]",
        optimal_value=attrgetter("optimal_risk"),
        settings={"form": form, "risk": risk, "search": SEARCH, "n_w": N_W},
    )


EXPERIMENTS = tuple(
    definition(form, risk) for form, risks in certificates().items() for risk in risks
)
