r"""BoTorch's expected improvement of a risk under constraints, replicate by replicate."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.logei import qLogExpectedImprovement, qLogProbabilityOfFeasibility
from botorch.acquisition.objective import MCAcquisitionObjective
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.arguments import check_arguments
from botorch_risk.constraints.risk_constraint import RiskConstraint
from botorch_risk.environments import Environment
from botorch_risk.risk import RiskMeasure
from botorch_risk.robust.monte_carlo import MonteCarloDecision, in_spreads
from botorch_risk.strategies.risk_search import risk_search
from botorch_risk.strategies.space import Box
from botorch_risk.strategies.strategy import Strategy
from botorch_risk_bench.baselines.documented import documented


@documented(
    "risk_measure=Expectation(), num_initial=4", 1, "from botorch_risk.risk import Expectation"
)
def constrained_log_ei(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    environment: Environment,
    risk_measure: RiskMeasure,
    constraints: Sequence[RiskConstraint] = (),
    **options: Any,
) -> Strategy:
    r"""A risk by qLogEI, with the constraints as BoTorch weighs them.

    `qLogExpectedImprovement` of the samples of the risks (`robust`), times the probability that the
    constraints hold; the value to improve on is the best risk of the posterior mean at evaluated
    decisions whose constraints hold by that. Where they hold nowhere,
    `qLogProbabilityOfFeasibility`, as BoTorch advises.

    Expected improvement times the probability of feasibility is from [Gelbart2014unknown]_, its
    logarithm from [Ament2023logei]_.
    """
    check_arguments(constrained_log_ei, locals())
    return risk_search(
        bounds,
        seeds,
        environment=environment,
        risk_measure=risk_measure,
        constraints=constraints,
        decide=MonteCarloDecision(log_ei),
        **options,
    )


def log_ei(
    model: Model,
    X_baseline: Tensor,
    X_pending: Tensor | None = None,
    objective: MCAcquisitionObjective | None = None,
    constraints: list[Callable[[Tensor], Tensor]] | None = None,
) -> AcquisitionFunction:
    r"""The acquisition function of a round.

    Args:
        model: A model of risks.
        X_baseline: The evaluated decisions, `n x d_x`.
        X_pending: Decisions under evaluation, `n' x d_x`.
        objective: Maps samples of the risks to the objective. Default: the only risk.
        constraints: From samples of the risks to what is at most 0 where one holds.
    """
    with torch.no_grad():
        posterior: Any = model.posterior(X_baseline.unsqueeze(-2))
        risks = posterior.mean.squeeze(-2)  # n x m
    if constraints is not None:
        holds = torch.stack([each(risks) <= 0 for each in constraints]).all(dim=0)
        if not holds.any():
            return qLogProbabilityOfFeasibility(model, constraints, X_pending=X_pending)
        risks = risks[holds]
    scaled = in_spreads(model, X_baseline, objective)
    return qLogExpectedImprovement(
        model,
        best_f=scaled(risks).max(),
        X_pending=X_pending,
        objective=scaled,
        constraints=constraints,
    )
