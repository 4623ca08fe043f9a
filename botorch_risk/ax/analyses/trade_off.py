r"""The mean and the risk of points, as a confidence bound weighs them."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from ax.exceptions.core import UnsupportedError
from torch import Tensor

from botorch_risk.acquisition import RiskUpperConfidenceBound
from botorch_risk.ax.chosen_context import OfDecisions
from botorch_risk.constraints import ConstrainedUpperConfidenceBound
from botorch_risk.models import MeanVarianceGP
from botorch_risk.risk import Expectation


class TradeOff(NamedTuple):
    r"""The mean and the risk of points, in units of the metric.

    Args:
        mean: `n`, the posterior mean; under contexts, its expectation.
        risk: `n`.
        feasible: `n`, whether all constraints hold by the posterior mean.
        name: What the risk is, for a column.
        label: What the risk is, for an axis.
        signs: 1 where a larger one is better and -1 otherwise, of the mean and of the risk.
    """

    mean: Tensor
    risk: Tensor
    feasible: Tensor
    name: str
    label: str
    signs: tuple[int, int]


def check_has_risk(bound: Any) -> None:
    r"""Raises UnsupportedError unless `trade_off` knows the bound."""
    objective = _objective(bound)
    known = isinstance(objective, RiskUpperConfidenceBound)
    if not (known or isinstance(objective.model, MeanVarianceGP)):
        raise UnsupportedError(
            "Expected a strategy with a risk, of the noise or of a context. Got one that maximises "
            f"{type(objective).__name__}."
        )


def trade_off(bound: Any, X: Tensor, minimize: bool) -> TradeOff:
    r"""The mean and the risk of points.

    The risk is the standard deviation of the noise of one reading where the noise is learnt. Under
    contexts it is the strategy's risk measure, of the posterior mean at each value; for the
    expectation, which is the mean itself, the standard deviation over the contexts.

    Args:
        bound: That a strategy maximises.
        X: `n x d` points as its models take them.
        minimize: Whether the metric is minimised.

    Example:
        >>> from botorch_risk.acquisition import RiskAverseUpperConfidenceBound
        >>> X = torch.rand(9, 1, dtype=torch.double)
        >>> model = MeanVarianceGP(X, (6 * X).sin() + X * torch.randn(9, 4, dtype=torch.double))
        >>> found = trade_off(RiskAverseUpperConfidenceBound(model), X, minimize=True)
        >>> found.risk.shape, found.label, found.signs
        (torch.Size([9]), 'standard deviation of a reading', (-1, -1))
    """
    feasible = torch.ones(len(X), dtype=torch.bool)
    if isinstance(bound, OfDecisions):
        X = X[..., : bound.num_decisions]
    elif isinstance(bound, ConstrainedUpperConfidenceBound):
        feasible = bound.feasible(X, "mean")
    objective, sign = _objective(bound), -1 if minimize else 1
    with torch.no_grad():
        if isinstance(objective.model, MeanVarianceGP):
            noise = objective.model.predicted_noise(X).squeeze(-1)
            mean = objective.model.mean_marginals(X).mean
            label = "standard deviation of a reading"
            return TradeOff(mean, noise.sqrt(), feasible, "noise_sd", label, (sign, -1))
        lower, upper, weights = objective.pointwise_bounds(X)
        values = (lower + upper) / 2  # of the negative metric where it is minimised
        mean = (weights * values).sum(dim=-1)
        if isinstance(objective.risk_measure, Expectation):
            spread = (weights * (values - mean.unsqueeze(-1)).square()).sum(dim=-1).sqrt()
            label = "standard deviation over the contexts"
            return TradeOff(sign * mean, spread, feasible, "context_sd", label, (sign, -1))
        risk, label = objective.mean(X), type(objective.risk_measure).__name__
        return TradeOff(sign * mean, sign * risk, feasible, "risk", label, (sign, sign))


def _objective(bound: Any) -> Any:
    r"""The bound without its constraints, of decisions alone."""
    is_round_another = isinstance(bound, (OfDecisions, ConstrainedUpperConfidenceBound))
    return bound.bound if is_round_another else bound
