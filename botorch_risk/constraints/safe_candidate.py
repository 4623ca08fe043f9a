r"""Choose a safe point: the best one, or one whose reading may prove a better one safe."""

from typing import Any

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from torch import Tensor

from botorch_risk.arguments import (
    as_floating,
    as_tensor,
    check_arguments,
    check_counts,
    check_nonnegative,
)
from botorch_risk.constraints.constrained_bound import SIDES, ConstrainedUpperConfidenceBound
from botorch_risk.constraints.noise_quantile import NoiseDeviationBound, NoiseQuantileBound


@torch.no_grad()
def safe_candidate(
    bound: ConstrainedUpperConfidenceBound,
    X: Tensor,
    known_safe: Tensor | None = None,
    *,
    epsilon: float = 0.1,
    num_targets: int = 64,
) -> tuple[Tensor, Tensor]:
    r"""Choose a safe candidate to evaluate next, and say which candidate it may prove safe.

    Goal-oriented safe exploration (GoOSE, [Turchetta2019goose]_), which [Konig2023ragoose]_ applies
    to RAHBO. A candidate is safe if the lower bounds of all constraints reach their limits, or if
    it is known to be. The objective's upper bound chooses among the safe candidates and those that
    one of them could prove safe. If the choice is one of the latter, the candidate to evaluate is
    the safe one that tells most about it.

    Where GoOSE extends the bounds of a safe point by a Lipschitz constant, here the model does: if
    a reading at z came out at its upper bound, without noise, the lower bound at x would be

        mean(x) + r (upper(x) - mean(x)) - sqrt(1 - r^2) (mean(x) - lower(x))

    with r the posterior correlation of x and z, at least 0. For a mean this is exact, and the safe
    z with the largest r tells most about x. With several constraints, it is the z for which the
    worst constraint has the largest slack.

    "Safe" is what the model believes, hyperparameters included.

    Args:
        bound: The objective and the constraints, each a `NoisyChanceConstraint` or a
            `NoiseConstraint`; its `beta` is the confidence in safety.
        X: Candidates, `batch_shape x N x d`, such as a grid, with the evaluated points.
        known_safe: `batch_shape x N` booleans, candidates that are safe whatever the model says.
        epsilon: A safe candidate cannot prove others safe if half the width of a constraint's
            interval is below this, in standard deviations of the observed outcome.
        num_targets: How many candidates that may be safe but are not yet to consider, best first.

    Returns:
        Rows of X, `batch_shape` each: the candidate, and the one it may prove safe (or itself).

    Raises:
        InputDataError: If no candidate of a replicate is safe.
        UnsupportedError: If a constraint has another type.

    Example:
        >>> from botorch.models import ModelListGP
        >>> from botorch_risk.acquisition import RiskAverseUpperConfidenceBound
        >>> from botorch_risk.constraints import NoiseConstraint, NoisyChanceConstraint
        >>> from botorch_risk.models import MeanVarianceGP
        >>> _ = torch.manual_seed(0)
        >>> X = torch.linspace(0, 0.5, 6, dtype=torch.double).unsqueeze(-1)
        >>> noise = 0.05 * torch.randn(2, 6, 4, dtype=torch.double)
        >>> model = ModelListGP(*(MeanVarianceGP(X, Y) for Y in (3 * X).sin() + noise))
        >>> low = NoisyChanceConstraint(threshold=1.2, outcome=1, delta=0.05)
        >>> objective = RiskAverseUpperConfidenceBound(model.models[0], risk_aversion=1.0)
        >>> bound = ConstrainedUpperConfidenceBound(model, objective, [low, NoiseConstraint(0.2)])
        >>> candidates = torch.linspace(0, 1, 101, dtype=torch.double).unsqueeze(-1)
        >>> row, target = safe_candidate(bound, candidates)
        >>> bool(bound.feasible(candidates)[row])
        True
    """
    check_arguments(safe_candidate, locals())
    check_nonnegative(epsilon=epsilon)
    check_counts(num_targets=num_targets)
    X = as_floating(X, "X")
    score = bound.bound.evaluate(X)
    X = X.expand(*score.shape, X.shape[-1])
    lower, mean, upper = (bound.in_spreads(bound.slacks(X, side)) for side in SIDES)
    safe = (lower >= 0).all(dim=0)
    if known_safe is not None:
        safe = safe | _mask(known_safe, safe)
    if not bool(safe.any(dim=-1).all()):
        raise InputDataError("Expected a candidate that is safe with confidence. Got none.")
    best_score, best = score.masked_fill(~safe, -torch.inf).max(dim=-1)
    may_be = (upper >= 0).all(dim=0) & ~safe
    hopes, targets = score.masked_fill(~may_be, -torch.inf).topk(
        min(num_targets, X.shape[-2]), dim=-1
    )  # batch_shape x T, the best first
    slack = score.new_full((*targets.shape, X.shape[-2]), torch.inf)  # batch_shape x T x N
    for each, *values in zip(bound.constraint_bounds, lower, mean, upper, strict=True):
        low, middle, high = (value.gather(-1, targets).unsqueeze(-1) for value in values)
        middle = middle.clamp(low, high)  # a log-normal mean may be above a narrow interval
        r = _correlations(each, X, targets)
        hoped = middle + r * (high - middle) - (1 - r.square()).sqrt() * (middle - low)
        slack = torch.minimum(slack, hoped)
    proves = safe & ((upper - lower) / 2 > epsilon).any(dim=0)
    slack, helper = slack.masked_fill(~proves.unsqueeze(-2), -torch.inf).max(dim=-1)
    is_reached = (hopes > best_score.unsqueeze(-1)) & (slack >= 0)
    first = is_reached.to(torch.uint8).argmax(dim=-1, keepdim=True)
    row, target = (
        rows.gather(-1, first).squeeze(-1).where(is_reached.any(dim=-1), best)
        for rows in (helper, targets)
    )
    return row, target


def _mask(known_safe: Tensor, like: Tensor) -> Tensor:
    given = as_tensor("known_safe", known_safe)
    if given.shape != like.shape or given.dtype != torch.bool:
        raise BotorchTensorDimensionError(
            f"Expected `known_safe` to be booleans of shape {tuple(like.shape)}. "
            f"Got {given.dtype}, {tuple(given.shape)}."
        )
    return given.to(like.device)


def _correlations(constraint_bound: Any, X: Tensor, rows: Tensor) -> Tensor:
    r"""Posterior correlations of some rows of X with all, `batch_shape x T x N`, at least 0."""
    shape = (*rows.shape, X.shape[-2])
    if not isinstance(constraint_bound, NoiseQuantileBound | NoiseDeviationBound):
        raise UnsupportedError(
            "Expected constraints on an outcome or its noise, `NoisyChanceConstraint` or "
            f"`NoiseConstraint`. Got the bound {type(constraint_bound).__name__}."
        )
    predictor = constraint_bound.process
    if predictor is None:  # known, so that there is nothing to learn
        return X.new_zeros(shape)
    if not predictor.closed_form:
        raise UnsupportedError(
            "Expected a `SingleTaskGP` of each constraint, or a subclass with the same `forward` "
            f"and `posterior`. Got {type(predictor.model).__name__}."
        )
    process = predictor.process()
    every = process.at(X.reshape(process.num_replicates, *X.shape[-2:]))
    some = every.take(rows.reshape(-1, rows.shape[-1]))
    scale = some.variance.unsqueeze(-1) * every.variance.unsqueeze(-2)
    scale = scale.clamp_min(torch.finfo(X.dtype).tiny).sqrt()
    return (process.covariance(some, every) / scale).clamp(0, 1).reshape(shape)
