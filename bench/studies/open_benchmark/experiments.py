r"""The experiments of the open benchmark: every certified pair of function and risk.

In most of them w is random, and the outcome has a constant noise. In those of the risk
`noise-variance` the noise depends on the decision: each is evaluated `NUM_REPEATS` times.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any, get_args

from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.acquisition.risk_measures import CVaR, Expectation, VaR, WorstCase
from botorch_risk_bench.baselines import (
    AskTell,
    ask_tell,
    botorch_risk_measure,
    mean_variance_log_nei,
    random_decisions,
)
from botorch_risk_bench.baselines.ask_tell import MakeOptimizer
from botorch_risk_bench.experiments.definition import ExperimentDefinition, StrategyFactory
from botorch_risk_bench.problems import TabularProblem
from botorch_risk_bench.problems.tabular import TABLES

from bench.studies.open_benchmark.noise_forms import NOISE_FORMS
from bench.studies.open_benchmark.others import EXTRAS, OTHERS, Uniform
from botorch_risk.papers import rahbo, risk_kde
from botorch_risk.repeats import risk_averse_kg
from botorch_risk.robust import MonteCarloDecision
from botorch_risk.strategies import (
    DecisionThenValue,
    LargestKnowledgeGradient,
    Strategy,
    largest_bound,
    risk_search,
)
from botorch_risk.strategies.decision_then_value import ValueRule, value_of_rule
from botorch_risk.test_functions import CertifiedProblem
from botorch_risk.test_functions.certified import RISKS, certificates
from botorch_risk.test_functions.heteroscedastic import HeteroscedasticTestProblem

NUM_ROUNDS = 30
NUM_REPEATS = 5  # where the noise depends on the decision
NOISE = "noise-variance"
SEARCH: dict[str, Any] = {"num_restarts": 4, "raw_samples": 64}  # of every acquisition function
N_W = 32  # values of W for BoTorch's measures, which know no weights
# The points of a learnt density of W, and of the whole box: where only the ball may put mass.
LEARNT: dict[str, Any] = {"n_w": 64, "density_options": {"n_ball": 32}, "beta": 4.0}
OF_BOTORCH = {
    "expectation": Expectation,
    "value-at-risk": partial(VaR, alpha=0.9),
    "conditional-value-at-risk": partial(CVaR, alpha=0.9),
    "worst-case": WorstCase,
}


def strategies_of(
    problem: CertifiedProblem | TabularProblem, risk: str
) -> dict[str, StrategyFactory]:
    r"""Ours, BoTorch's where it has the risk, and those that do not know W."""
    known = {"environment": problem.environment, "risk_measure": problem.risk_measure}
    evaluated = {**known, **SEARCH, "reporting": "posterior_mean"}
    found: dict[str, StrategyFactory] = {
        "expected-risk": partial(risk_search, **known, **SEARCH),
        "confidence-bound": partial(risk_search, **evaluated),
        "confidence-bound-KDE": partial(
            risk_kde,
            context_bounds=problem.bounds[:, problem.num_decision :],
            risk_measure=problem.risk_measure,
            **LEARNT,
            **SEARCH,
        ),
        "qLogNEI-robust": partial(
            risk_search, decide=MonteCarloDecision(qLogNoisyExpectedImprovement), **evaluated
        ),
        "random": partial(random_decisions, **evaluated),
        "chosen": partial(risk_search, w_is_chosen=True, **known, **SEARCH),
    }
    # With all values of W alike in the initial design, as before it followed the risk.
    anywhere = {**evaluated, "reporting": "posterior_mean_everywhere"}
    chosen = partial(risk_search, w_is_chosen=True, **anywhere)
    by_rule = {
        rule: DecisionThenValue(largest_bound, value_of_rule(rule)) for rule in get_args(ValueRule)
    }
    for rule, choose in by_rule.items():
        found[f"chosen-{rule}"] = partial(chosen, choose=choose)
    found["chosen-joint"] = partial(chosen, choose=by_rule["risk_variance"], joint=True)
    # What `risk_search` did where w is chosen before it had these rules.
    former = {**evaluated, "choose": by_rule["outcome_variance"]}
    found["chosen-former"] = partial(risk_search, w_is_chosen=True, **former)
    gain = LargestKnowledgeGradient()
    found["knowledge-gradient"] = partial(risk_search, choose=gain, **evaluated)
    found["chosen-knowledge-gradient"] = partial(chosen, choose=gain)
    if risk in OF_BOTORCH:
        found["qLogNEI-BoTorch"] = partial(
            botorch_risk_measure, objective=OF_BOTORCH[risk], n_w=N_W, **known, **SEARCH
        )
    for label, optimizer in OTHERS.items():
        found[label] = partial(ask_tell, optimizer=optimizer, **evaluated)
        # By today's recommendation; w is drawn, or the optimiser chooses it with the decision.
        by_risk = partial(ask_tell, optimizer=optimizer, **known, **SEARCH)
        found[f"expected-{label}"] = by_risk
        found[f"chosen-{label}"] = partial(by_risk, w_is_chosen=True)
    found["expected-random"] = partial(ask_tell, optimizer=Uniform, **known, **SEARCH)
    return found


def definition(form: str, risk: str) -> ExperimentDefinition:
    r"""The experiment of a pair, such as `branin-value-at-risk`, or of a table."""
    build = partial(TabularProblem if form in TABLES else CertifiedProblem, form, risk)
    problem = build()
    return ExperimentDefinition(
        name=f"{form}-{risk}",
        description=f"{form} {problem.num_decision, problem.num_environment}, {risk}",
        problem=build,
        strategies=strategies_of(problem, risk),
        num_initial=2 * problem.dim + 2,
        num_rounds=NUM_ROUNDS,
        num_repeats=1,
        objective=f"{risk} [standard deviations of the outcome]",
        optimal_value=attrgetter("optimal_risk"),
        settings={"form": form, "risk": risk, "search": SEARCH, "n_w": N_W},
        extras=EXTRAS,
    )


def noise_strategies() -> dict[str, StrategyFactory]:
    r"""Ours, and those that do not know that the noise counts; all recommend as RAHBO does."""
    known = {"num_repeats": NUM_REPEATS, "risk_aversion": 1.0}
    found: dict[str, StrategyFactory] = {
        "confidence-bound": partial(rahbo, **known, **SEARCH),
        "knowledge-gradient": partial(risk_averse_kg, **known, **SEARCH),
        "qLogNEI-robust": partial(mean_variance_log_nei, **known, **SEARCH),
    }
    for label, optimizer in {"random": Uniform, **OTHERS}.items():
        found[label] = partial(noise_ask_tell, optimizer=optimizer, **known, **SEARCH)
    return found


def noise_ask_tell(
    bounds: Any, seeds: Any, *, optimizer: MakeOptimizer, num_initial: int, **options: Any
) -> Strategy:
    r"""Another package's decisions, recommended by RAHBO's model."""
    like = rahbo(bounds, seeds, num_initial=num_initial, **options)
    method = AskTell(like.method, optimizer)
    return Strategy(like.space, method, like.seeds, num_initial=num_initial)


def noise_definition(
    name: str, build: Callable[[], HeteroscedasticTestProblem]
) -> ExperimentDefinition:
    r"""The experiment of a problem with noise that depends on the decision."""
    problem = build()
    return ExperimentDefinition(
        name=f"{name}-{NOISE}",
        description=f"{name} ({problem.dim}), {NOISE}",
        problem=build,
        strategies=noise_strategies(),
        num_initial=2 * problem.dim + 2,
        num_rounds=NUM_ROUNDS,
        num_repeats=NUM_REPEATS,
        objective="mean - noise variance",
        optimal_value=lambda problem: problem.optimal_mean_variance(1.0)[1],
        settings={"form": name, "risk": NOISE, "search": SEARCH},
        extras=EXTRAS,
    )


EXPERIMENTS = (
    *(definition(form, risk) for form, risks in certificates().items() for risk in risks),
    *(definition(table, risk) for table in TABLES for risk in RISKS),
    *(noise_definition(name, form.problem) for name, form in NOISE_FORMS.items()),
)
