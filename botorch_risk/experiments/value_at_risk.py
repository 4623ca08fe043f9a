r"""The experiments of V-UCB (Nguyen et al. 2021): value-at-risk with an environment to choose.

All have a law of W that is known and does not depend on the decision, so the outside baselines,
`rho-KG-apx` and `qLogNEI-VaR`, can run on each. They are slow, and run with what `OUTSIDE_BUDGET`
says, which every experiment states in its settings: 1 to 3 seconds a query on one core.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from os import PathLike
from typing import Any, get_args

import torch
from torch import Tensor

from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.experiments.environmental import EnvironmentalProblem, build_strategy
from botorch_risk.experiments.registry import ExperimentDefinition, register
from botorch_risk.risk import ValueAtRisk
from botorch_risk.strategies import (
    VUCB,
    AdversarialStableOpt,
    ContextualGPUCB,
    RandomPairs,
    RhoKnowledgeGradient,
    ValueAtRiskLogNEI,
)
from botorch_risk.test_functions import (
    RobotPushing,
    ValueAtRiskBranin,
    ValueAtRiskGoldsteinPrice,
    ValueAtRiskHartmann,
    ValueAtRiskPortfolio,
    ValueAtRiskTestProblem,
)
from botorch_risk.test_functions.value_at_risk import Law

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


class ValueAtRiskProblem(EnvironmentalProblem):
    r"""A problem whose w a strategy may choose, or else is drawn from its law."""

    noise_std = 0.1

    def __init__(self, problem: Callable[..., ValueAtRiskTestProblem], *arguments: Any) -> None:
        r"""Builds the problem of (x, w) from its class and arguments."""
        super().__init__(problem(*arguments))
        self.risk_level = self.problem.risk_level

    @property
    def optimal_value(self) -> float:
        r"""The largest value-at-risk."""
        return self.problem.optimal_value_at_risk


class InexactPushing(EnvironmentalProblem):
    r"""Robot pushing with the error of the hand's place as W, five variables in all.

        f(r_x, r_y, t_p, w_x, w_y) = f_0(r_x + w_x, r_y + w_y, t_p)

    Its largest value-at-risk is not known.
    """

    noise_std = 0.1
    risk_level = 0.1

    def __init__(self) -> None:
        r"""Builds the simulation."""
        problem = RobotPushing()
        law = problem.perturbation
        super().__init__(problem, DiscreteEnvironment(law.perturbations[:, :2], law.weights))

    @property
    def bounds(self) -> Tensor:
        r"""The box of the decisions, `2 x 3`."""
        return self.problem.decision_bounds

    def _true_risk(self, X: Tensor) -> Tensor:
        return self.problem.objective(X, ValueAtRisk(self.risk_level))

    def _evaluate(self, X: Tensor) -> Tensor:
        placed = torch.cat([X[..., :2] + X[..., 3:], X[..., 2:3]], dim=-1)
        return self.problem(placed, noise=False)


def _definition(
    name: str,
    description: str,
    problem: Callable[[], ValueAtRiskProblem | InexactPushing],
    num_initial: int,
    optimum_is_known: bool = True,
) -> ExperimentDefinition:
    example = problem()
    level, outside = {"risk_level": example.risk_level}, OUTSIDE_BUDGET
    kinds: dict[str, tuple[Any, dict[str, Any]]] = {
        "V-UCB-Prob": (VUCB, {**level, "rule": "probability"}),
        "V-UCB-Unif": (VUCB, {**level, "rule": "uniform"}),
        "V-UCB-observed": (VUCB, {**level, "rule": "uniform", "w_is_chosen": False}),
        "StableOpt": (AdversarialStableOpt, {}),
        "contextual-GP-UCB": (ContextualGPUCB, level),
        "random": (RandomPairs, level),
        "rho-KG-apx": (RhoKnowledgeGradient, {**level, **outside, "num_fantasies": NUM_FANTASIES}),
        "qLogNEI-VaR": (ValueAtRiskLogNEI, {**level, **outside}),
    }
    return ExperimentDefinition(
        name=name,
        description=f"{description}, value-at-risk at {example.risk_level:g} (V-UCB, Sec. 4)",
        problem=problem,
        strategies={
            label: partial(build_strategy, kind, example.environment, arguments)
            for label, (kind, arguments) in kinds.items()
        },
        num_initial=num_initial,
        num_rounds=60,
        num_repeats=1,
        objective=f"value-at-risk of the outcome at level {example.risk_level:g}",
        optimal_value=_optimal_value if optimum_is_known else None,
        settings={"outside baselines": {**outside, "num_fantasies": NUM_FANTASIES}},
    )


def _optimal_value(problem: ValueAtRiskProblem) -> float:
    return problem.optimal_value


for _law in get_args(Law):
    for _name, _description, _problem, _num_initial in (
        ("branin", "Branin-Hoo (1, 1)", ValueAtRiskBranin, 3),
        ("goldstein", "Goldstein-Price (1, 1)", ValueAtRiskGoldsteinPrice, 3),
        ("hartmann12", "Hartmann (1, 2)", partial(ValueAtRiskHartmann, 1), 10),
        ("hartmann21", "Hartmann (2, 1)", partial(ValueAtRiskHartmann, 2), 10),
    ):
        register(
            _definition(
                f"var-{_name}-{_law}",
                f"{_description}, {_law} W",
                partial(ValueAtRiskProblem, _problem, _law),
                _num_initial,
            )
        )
register(_definition("var-robot", "Robot pushing (3, 2)", InexactPushing, 30, False))


register(
    _definition(
        "var-bundled-portfolio",
        "Portfolio (3, 2), bundled back-tests",
        partial(ValueAtRiskProblem, ValueAtRiskPortfolio),
        20,
    )
)


def register_value_at_risk_portfolio(table: str | PathLike[str]) -> ExperimentDefinition:
    r"""Makes `var-portfolio` of the paper's back-tests known.

    Args:
        table: The path of the papers' table; see `PortfolioOptimization`.

    Returns:
        The experiment.
    """
    problem = partial(ValueAtRiskProblem, partial(ValueAtRiskPortfolio, table))
    return register(_definition("var-portfolio", "Portfolio (3, 2)", problem, 20))
