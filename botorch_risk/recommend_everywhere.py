r"""Recommend a decision that need not have been evaluated."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.exceptions.errors import BotorchTensorDimensionError
from torch import Tensor

from botorch_risk.arguments import as_floating
from botorch_risk.optim.discrete_columns import Values
from botorch_risk.optim.multistart import optimize_acqf_replicates
from botorch_risk.recommend import (
    ConfidenceBound,
    ConstraintBounds,
    ObjectiveOfMean,
    Recommendation,
    Rule,
    as_bound,
    estimated_objective,
    recommend,
)


def recommend_everywhere(
    bound: ConfidenceBound | AcquisitionFunction,
    bounds: Tensor,
    *,
    seeds: int | Sequence[int],
    evaluated: Tensor | None = None,
    rule: Literal["posterior_mean", "expected_risk"] = "posterior_mean",
    num_restarts: int = 10,
    raw_samples: int = 256,
    discrete_dims: Values | None = None,
    cat_dims: Values | None = None,
) -> Recommendation:
    r"""Find the decision, evaluated or not, with the largest risk by a rule of `recommend`.

    With constraints it is feasible with confidence: the lower bound of each one reaches its limit.
    The confidence in the model decides, so that a decision may be recommended that lies
    well inside the feasible region though nobody has tried it. If none is found to
    be feasible, the least infeasible decision is returned, with a warning.

    Args:
        bound: Of a model of batch shape `[R]`, or `[]` for `R = 1`; or an acquisition function of
            BoTorch without constraints on such a model, as for `recommend`.
        bounds: The lower and the upper bounds of the decisions, `2 x d_x`.
        seeds: One for each replicate.
        evaluated: Decisions that are offered too, `R x n x d_x`, such as the evaluated ones;
            `n x d_x` for `R = 1`.
        rule: Whether by the risk of the posterior mean or by the expected risk.
        num_restarts: Starts of the optimiser.
        raw_samples: Raw points of the optimiser.
        discrete_dims: Ordered columns with a list of values, from columns to values.
        cat_dims: Columns of categories, from columns to values, which have no order.

    Returns:
        The decisions, `R x d_x`. Their rows count the evaluated ones; `n` is the one that was
        found.

    Warns:
        InfeasibleRecommendationWarning: If no decision of a replicate is feasible with confidence.

    Example:
        >>> from botorch.models import SingleTaskGP
        >>> from botorch_risk.acquisition import RiskUpperConfidenceBound
        >>> from botorch_risk.environments import DiscreteEnvironment
        >>> from botorch_risk.risk import Expectation
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))
        >>> environment = DiscreteEnvironment(torch.linspace(0, 1, 5, dtype=torch.double)[:, None])
        >>> bound = RiskUpperConfidenceBound(model, environment, Expectation(), beta=4.0)
        >>> unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> recommend_everywhere(bound, unit, seeds=0).point.shape
        torch.Size([1, 1])
    """
    bound = as_bound(bound)
    if isinstance(bound, ObjectiveOfMean):
        bound.refuse_constraints()
    found, _ = optimize_acqf_replicates(
        _Reported(bound, rule),
        bounds,
        seeds=seeds,
        num_restarts=num_restarts,
        raw_samples=raw_samples,
        discrete_dims=discrete_dims,
        cat_dims=cat_dims,
    )
    offered = found if evaluated is None else torch.cat([_offered(evaluated, found), found], dim=-2)
    return recommend(bound, offered, rule)


def _offered(evaluated: Tensor, found: Tensor) -> Tensor:
    r"""Evaluated decisions, `R x n x d_x`; one replicate may omit R."""
    evaluated = as_floating(evaluated, "evaluated").to(found)
    offered = evaluated.unsqueeze(0) if evaluated.dim() == 2 else evaluated
    replicates, _, d = found.shape
    if offered.dim() != 3 or offered.shape[::2] != (replicates, d):
        raise BotorchTensorDimensionError(
            f"Expected `evaluated` to have shape `{replicates} x n x {d}`. "
            f"Got {tuple(evaluated.shape)}."
        )
    return offered


@dataclass(frozen=True)
class _Reported:
    bound: Any  # a `ConfidenceBound` that keeps its model
    rule: Rule

    @property
    def model(self) -> Any:
        return self.bound.model

    def evaluate(self, X: Tensor) -> Tensor:
        if isinstance(self.bound, ConstraintBounds):
            return self.bound.cautious(X, self.rule == "expected_risk")
        return estimated_objective(self.bound, X, self.rule)
