r"""The experiments of V-UCB [Nguyen2021vucb]_: value-at-risk with an environment to choose.

In all of them the distribution of W is known and does not depend on the decision, so the outside
baselines, `rho-KG-apx` and `qLogNEI-VaR`, can run on each. They are slow (up to 3 seconds per query
on one core) and run with `OUTSIDE_BUDGET`, which every experiment states in its settings.

The authors' programs differ from their text in the width, which the arms `-constant-width` and
`-beta-as-width` have: the one for finitely many w a constant 3 standard deviations, the one for
continuous W `beta_t` standard deviations, not its square root.
"""

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from os import PathLike
from typing import Any

from botorch_risk.acquisition.widths import bayesian_beta
from botorch_risk.papers import v_ucb
from botorch_risk.test_functions import (
    ValueAtRiskBranin,
    ValueAtRiskGoldsteinPrice,
    ValueAtRiskHartmann,
)
from botorch_risk_bench.baselines import (
    adversarial_stable_opt,
    contextual_gp_ucb,
    random_pairs,
    rho_knowledge_gradient,
    v_ucb_by_likelihood,
    v_ucb_by_surrogate,
    value_at_risk_log_nei,
)
from botorch_risk_bench.experiments.definition import ExperimentDefinition, StrategyFactory
from botorch_risk_bench.problems import ValueAtRiskPortfolio, ValueAtRiskRobotPushing

# Hyperparameters as often as V-UCB's authors estimate them. BoTorch's value-at-risk of `n_w` equal
# weights is the second smallest of 15 values: between the levels 1/15 and 2/15, about 0.1.
OUTSIDE_BUDGET: dict[str, Any] = {
    "n_w": 15,
    "num_samples": 16,
    "refit_every": 3,
    "num_restarts": 2,
    "raw_samples": 16,
    "max_iterations": 20,
}
NUM_FANTASIES = 8
# As rho-KG's authors: more starts, and all values of W with their weights. 9 times
# as long at 10 observations, 40 times at 60.
AUTHORS_BUDGET = {**OUTSIDE_BUDGET, "n_w": None, "num_restarts": 20, "raw_samples": 500}


CONSTANT_WIDTH = 9.0  # the square of 3 standard deviations
SURROGATE_STARTS = 2  # of LNSO, from 64 Sobol points: a run of ten seeds takes minutes, not an hour


def beta_as_width(t: int) -> float:
    r"""The squared width that makes `beta_t`, not its root, the factor of the deviation."""
    return bayesian_beta(t) ** 2


def strategies(problem: Any) -> dict[str, StrategyFactory]:
    r"""Each method, with what it knows of a problem: the distribution of W, the risk level."""
    known = {"environment": problem.environment}
    level = {**known, "risk_level": problem.risk_level}
    outside = {**level, **OUTSIDE_BUDGET}
    larger = {**level, **AUTHORS_BUDGET}
    constant = {**level, "beta": CONSTANT_WIDTH}
    wide = {**level, "beta": beta_as_width}
    surrogate = {**level, "num_starts": SURROGATE_STARTS, "raw_samples": 64}
    return {
        "V-UCB-Prob": partial(v_ucb, **level, rule="probability"),
        "V-UCB-Unif": partial(v_ucb, **level, rule="uniform"),
        "V-UCB-observed": partial(v_ucb, **level, rule="uniform", w_is_chosen=False),
        "StableOpt": partial(adversarial_stable_opt, **known),
        "contextual-GP-UCB": partial(contextual_gp_ucb, **level),
        "random": partial(random_pairs, **level),
        "V-UCB-Prob-constant-width": partial(v_ucb, **constant, rule="probability"),
        "V-UCB-Unif-constant-width": partial(v_ucb, **constant, rule="uniform"),
        "contextual-GP-UCB-constant-width": partial(contextual_gp_ucb, **constant),
        "V-UCB-Prob-beta-as-width": partial(v_ucb, **wide, rule="probability"),
        "V-UCB-Unif-beta-as-width": partial(v_ucb, **wide, rule="uniform"),
        "V-UCB-Prob-likelihood": partial(v_ucb_by_likelihood, **level, rule="probability"),
        "V-UCB-Unif-likelihood": partial(v_ucb_by_likelihood, **level, rule="uniform"),
        "V-UCB-Prob-LNSO": partial(v_ucb_by_surrogate, **surrogate),
        "rho-KG-apx": partial(rho_knowledge_gradient, **outside, num_fantasies=NUM_FANTASIES),
        "rho-KG-apx-authors-budget": partial(
            rho_knowledge_gradient, **larger, num_fantasies=NUM_FANTASIES
        ),
        "qLogNEI-VaR": partial(value_at_risk_log_nei, **outside),
    }


def _definition(
    name: str,
    description: str,
    problem: Callable[[], Any],
    num_initial: int,
    optimal_value: Callable[[Any], float] | None = attrgetter("optimal_value_at_risk"),
    extras: Sequence[tuple[str, str]] = (),
) -> ExperimentDefinition:
    example = problem()
    return ExperimentDefinition(
        name=name,
        description=f"{description}, value-at-risk at {example.risk_level:g} (V-UCB, Sec. 4)",
        problem=problem,
        strategies=strategies(example),
        num_initial=num_initial,
        num_rounds=60,
        num_repeats=1,
        objective=f"value-at-risk of the outcome at level {example.risk_level:g}",
        optimal_value=optimal_value,
        settings={"outside baselines": {**OUTSIDE_BUDGET, "num_fantasies": NUM_FANTASIES}},
        extras={"problem": extras},
    )


def portfolio(table: str | PathLike[str]) -> tuple[ExperimentDefinition, ...]:
    r"""The experiment `var-portfolio` on the papers' back-tests."""
    problem = partial(ValueAtRiskPortfolio, table)
    return (_definition("var-portfolio", "Portfolio (3, 2)", problem, 20),)


EXPERIMENTS = (
    *(
        _definition(
            f"var-{name}-{kind}",
            f"{description}, {kind} W",
            partial(problem, distribution=kind),
            num_initial,
        )
        for kind in ("discrete", "continuous")
        for name, description, problem, num_initial in (
            ("branin", "Branin-Hoo (1, 1)", ValueAtRiskBranin, 3),
            ("goldstein", "Goldstein-Price (1, 1)", ValueAtRiskGoldsteinPrice, 3),
            ("hartmann12", "Hartmann (1, 2)", partial(ValueAtRiskHartmann, 1), 10),
            ("hartmann21", "Hartmann (2, 1)", partial(ValueAtRiskHartmann, 2), 10),
        )
    ),
    _definition(
        "var-robot",
        "Robot pushing (3, 2)",
        ValueAtRiskRobotPushing,
        30,
        None,
        extras=[("pymunk", "botorch-risk-bench[simulations]")],
    ),
    _definition(
        "var-bundled-portfolio", "Portfolio (3, 2), bundled back-tests", ValueAtRiskPortfolio, 20
    ),
)
