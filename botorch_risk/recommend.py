r"""Reporting rules: the point to recommend at the end."""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, get_args, runtime_checkable

import torch
from botorch.acquisition import (
    AcquisitionFunction,
    AnalyticAcquisitionFunction,
    MCAcquisitionFunction,
)
from botorch.acquisition.multi_objective.base import (
    MultiObjectiveAnalyticAcquisitionFunction,
    MultiObjectiveMCAcquisitionFunction,
)
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models.model import ModelList
from torch import Tensor

from botorch_risk.arguments import as_floating, as_tensor, check_kind, in_short
from botorch_risk.engine import optimize_acqf_replicates
from botorch_risk.models.outcomes import ModelOfRisks
from botorch_risk.points import check_points

Rule = Literal[
    "lower_confidence_bound",
    "recorded_lower_confidence_bound",
    "posterior_mean",
    "expected_risk",
    "best_observed",
]
EverywhereRule = Literal["posterior_mean", "expected_risk"]


@runtime_checkable
class ConfidenceBound(Protocol):
    r"""A confidence bound of a risk objective, such as those in `botorch_risk.acquisition`.

    The protocol has only methods: from Python 3.12 on, `isinstance` does not find attributes that a
    PyTorch module keeps as parameters, buffers or submodules.
    """

    def check_points(self, X: Tensor) -> None: ...

    def lower(self, X: Tensor) -> Tensor:
        r"""Lower bounds `batch_shape x n` of the objective at points `batch_shape x n x d`."""
        ...

    def mean(self, X: Tensor) -> Tensor:
        r"""The objective of the posterior mean, `batch_shape x n`."""
        ...


@runtime_checkable
class ObservedObjective(Protocol):
    r"""A confidence bound whose objective can be estimated from the repeats at a point."""

    def observed(self, X: Tensor) -> Tensor:
        r"""Estimates `batch_shape x n` at evaluated points; minus infinity without repeats."""
        ...


@runtime_checkable
class ExpectedObjective(Protocol):
    r"""A confidence bound of a risk whose expectation over the posterior can be computed."""

    def expected_risk(self, X: Tensor) -> Tensor:
        r"""The expected risk, `batch_shape x n`."""
        ...


@runtime_checkable
class ConstraintBounds(Protocol):
    r"""Confidence bounds of constraints, as in `ConstrainedUpperConfidenceBound`."""

    def check_points(self, X: Tensor) -> None: ...

    def slacks(self, X: Tensor) -> Tensor:
        r"""Lower bounds minus the values to reach, `num_constraints x batch_shape x n`."""
        ...

    def worst_slack(self, slacks: Tensor) -> Tensor:
        r"""The smallest slack, in units that are comparable, `batch_shape x n`."""
        ...

    def cautious(self, X: Tensor, expected: bool = False) -> Tensor:
        r"""The objective of the posterior mean, or its expected risk, minus a penalty.

        `batch_shape x n`.
        """
        ...


class InfeasibleRecommendationWarning(RuntimeWarning):
    r"""No point meets all constraints with confidence; the least infeasible one is recommended."""


class Recommendation(NamedTuple):
    r"""A recommended point.

    Attributes:
        point: `batch_shape x d`.
        value: `batch_shape`, its score under the rule.
        row: `batch_shape`, its row among the offered points.
        feasible: `batch_shape` booleans, whether it meets all constraints with confidence; `None`
            without constraints.
        slacks: `num_constraints x batch_shape`, the amounts by which its lower bounds exceed the
            limits, in units of each outcome; `None` without constraints.
    """

    point: Tensor
    value: Tensor
    row: Tensor
    feasible: Tensor | None = None
    slacks: Tensor | None = None


class ObjectiveOfMean:
    r"""The objective of a BoTorch acquisition function, at the posterior mean of its model."""

    def __init__(self, acqf: AcquisitionFunction) -> None:
        parts: Any = acqf._modules
        self.name = type(acqf).__name__
        self.model: Any = parts["model"]
        self.objective: Any = parts.get("objective")
        self.posterior_transform: Any = parts.get("posterior_transform")
        self.sign = 1 if getattr(acqf, "maximize", True) else -1
        self.has_constraints = getattr(acqf, "_constraints", None) is not None

    def refuse_constraints(self) -> None:
        if self.has_constraints:
            raise ValueError(
                "Expected a `ConstrainedUpperConfidenceBound` of the constraints, as `feasible` or "
                f"as the bound itself. Got {self.name}, which has no such bounds."
            )

    def check_points(self, X: Tensor) -> None:
        check_points("X", X, self.model)

    def lower(self, X: Tensor) -> Tensor:
        r"""Raises UnsupportedError, as a BoTorch acquisition function has no lower bound."""
        raise UnsupportedError(
            "Expected a confidence bound, such as a `RiskUpperConfidenceBound` of the same model, "
            f"or the rule 'posterior_mean'. Got {self.name}, which has no lower bound."
        )

    def mean(self, X: Tensor) -> Tensor:
        r"""The objective of the posterior mean, `batch_shape x n`; for a model of risks, a risk."""
        missing = X.isnan().any(dim=-1)
        X = X.masked_fill(missing.unsqueeze(-1), 0.0)  # a NaN would spoil the whole posterior
        values = _values_of_mean(self.model, X, self.posterior_transform)
        scores = values if self.objective is None else self.objective(values, X=X)
        if scores.dim() == X.dim() and scores.shape[-1] == 1:
            scores = scores.squeeze(-1)
        if scores.dim() >= X.dim():
            raise UnsupportedError(
                f"Expected one objective. Got several, of {self.name}: see "
                "`robust.pareto_search` for trade-offs."
            )
        return self.sign * scores.masked_fill(missing, torch.nan)


def _values_of_mean(model: Any, X: Tensor, posterior_transform: Any) -> Tensor:
    r"""The outputs of a model at its posterior mean, `batch_shape x n x m`."""
    if isinstance(model, ModelOfRisks):
        return model.risk_of_mean(X, posterior_transform)
    if isinstance(model, ModelList) and posterior_transform is None:
        return torch.cat([_values_of_mean(part, X, None) for part in model.models], dim=-1)
    mean: Tensor = model.posterior(X, posterior_transform=posterior_transform).mean
    return mean


# Others, such as a wrapper or a user's own, need not be about the objective that they hold.
_OF_AN_OBJECTIVE = (
    AnalyticAcquisitionFunction,
    MCAcquisitionFunction,
    MultiObjectiveAnalyticAcquisitionFunction,
    MultiObjectiveMCAcquisitionFunction,
)


def as_bound(bound: Any) -> ConfidenceBound:
    r"""The confidence bound unchanged, or the objective of a BoTorch acquisition function."""
    if isinstance(bound, ConfidenceBound):
        return bound
    if isinstance(bound, _OF_AN_OBJECTIVE):
        return ObjectiveOfMean(bound)
    needed = ("check_points", "lower", "mean")
    missing = [f"`{name}`" for name in needed if not callable(getattr(bound, name, None))]
    raise TypeError(
        "Expected `bound` to be a confidence bound with the methods `check_points`, `lower` and "
        "`mean`, such as a `RiskUpperConfidenceBound`, or an analytic or Monte-Carlo acquisition "
        f"function of BoTorch. Got {type(bound).__name__} without {', '.join(missing)}."
    )


def recommend(
    bound: ConfidenceBound | AcquisitionFunction,
    X: Tensor,
    rule: Rule,
    recorded: Tensor | None = None,
    *,
    feasible: ConstraintBounds | None = None,
) -> Recommendation:
    r"""Recommend the best of the given points by a reporting rule.

    The rule affects the simple regret as much as the method that chose the points, so use one rule
    for all methods in a comparison and name it. The objective comes from the bound: mean minus
    variance, or a risk of the environment.

    - `"lower_confidence_bound"`: the largest lower bound of this model (the captions of the figures
      of [Makarova2021rahbo]_, with the final model). It reports a point that is known to be good,
      not one with a lucky outcome.
    - `"recorded_lower_confidence_bound"`: the same bound, but from the model of the round that
      chose the point, given as `recorded` (Corollary 1.1 of [Makarova2021rahbo]_; Sec. 3.2
      and Appendix F of [Nguyen2021vucb]_, whose regret the theory bounds).
    - `"posterior_mean"`: the largest objective of the posterior mean (experiments of
      [Nguyen2021vucb]_, Sec. 4).
    - `"expected_risk"`: the largest expectation of the risk over the posterior. The risk of the
      posterior mean is too optimistic if a tail has not been observed.
    - `"best_observed"`: the largest sample mean minus `risk_aversion` times the sample variance
      (Fig. 5 of [Makarova2021rahbo]_). It needs points with at least two repeats.

    With constraints, the rule chooses among the points that are feasible with confidence: the lower
    bound of each constraint reaches its limit. If there are none, it chooses the point whose worst
    bound misses its limit by least, in standard deviations of the outcome; the result and an
    `InfeasibleRecommendationWarning` say so. A search that is optimistic about the constraints
    evaluates few points that are feasible with confidence: `recommend_everywhere` also considers
    other points.

    Args:
        bound: The confidence bound of the final model; or, for the rule `"posterior_mean"`, an
            analytic or Monte-Carlo acquisition function of BoTorch, on `robust(...)` or on any
            model. Its objective is then evaluated at the posterior mean, which for `robust` is the
            risk of the posterior mean. Nothing else of it is used. Instead of an entropy search,
            pass `PosteriorMean(model)`.
        X: `batch_shape x n x d` points to choose from, usually the evaluated ones; for a risk over
            the environment, decisions without w.
        rule: The reporting rule.
        recorded: `batch_shape x n` lower bounds, for the rule that needs them; NaN if none was
            recorded.
        feasible: Bounds of the constraints, a `ConstrainedUpperConfidenceBound`, whose `beta` is
            the confidence. Default: `bound` itself, if it has constraints.

    Returns:
        The point, its score and its row; with constraints, whether it is feasible, and its slacks.
        A point whose score or bound is NaN is never chosen.

    Raises:
        InputDataError: If `"best_observed"` is used for points that were not evaluated or never
            repeated, or if a replicate has no recorded bound.
        UnsupportedError: If `"best_observed"` is used for a risk of the environment or
            `"expected_risk"` for another objective, or if an acquisition function has several
            objectives or no lower bound.
        ValueError: If an acquisition function of BoTorch has constraints and `feasible` is missing.

    Example:
        >>> from botorch_risk.acquisition import RiskAverseUpperConfidenceBound
        >>> from botorch_risk.examples import noisy_model, settings
        >>> bound = RiskAverseUpperConfidenceBound(noisy_model)
        >>> recommend(bound, settings, "posterior_mean").point.shape
        torch.Size([1])
    """
    bound = as_bound(bound)
    if feasible is None and isinstance(bound, ObjectiveOfMean):
        bound.refuse_constraints()
    if feasible is None and isinstance(bound, ConstraintBounds):
        feasible = bound
    X = as_floating(X, "X")
    bound.check_points(X)
    if X.shape[-2] == 0:
        raise InputDataError(f"Expected at least one point to choose from. Got {X.shape=}.")
    if feasible is not None:
        feasible.check_points(X)
    with torch.no_grad():
        if rule == "lower_confidence_bound":
            scores = bound.lower(X)
        elif rule in ("posterior_mean", "expected_risk"):
            scores = estimated_objective(bound, X, rule)
        elif rule == "recorded_lower_confidence_bound":
            scores = _checked_recorded(recorded, X)
        elif rule == "best_observed":
            scores = _observed(bound, X)
        else:
            raise ValueError(f"Expected `rule` in {get_args(Rule)}. Got {rule!r}.")
        return _best_of(X, scores) if feasible is None else _best_feasible(X, scores, feasible)


def estimated_objective(bound: ConfidenceBound, X: Tensor, rule: Rule) -> Tensor:
    r"""The objective by the rule `"posterior_mean"` or `"expected_risk"`, `batch_shape x n`."""
    if rule == "posterior_mean":
        return bound.mean(X)
    if not isinstance(bound, ExpectedObjective):
        name = bound.name if isinstance(bound, ObjectiveOfMean) else type(bound).__name__
        raise UnsupportedError(
            "Expected a bound of a risk over W, such as a `RiskUpperConfidenceBound`, for the rule "
            f"'expected_risk'. Got {name}."
        )
    return bound.expected_risk(X)


def _observed(bound: ConfidenceBound, X: Tensor) -> Tensor:
    if not isinstance(bound, ObservedObjective):
        raise UnsupportedError(
            "Expected a bound of mean minus variance for the rule 'best_observed'. "
            f"Got {type(bound).__name__}."
        )
    scores = bound.observed(X)
    if (scores == -torch.inf).all(dim=-1).any():
        raise InputDataError(
            "Expected a point with at least two repeats, for the rule 'best_observed'. Got none."
        )
    return scores


def _best_of(X: Tensor, scores: Tensor) -> Recommendation:
    r"""The point of `batch_shape x n x d` with the largest score in `batch_shape x n`.

    A point whose score is NaN is not offered.
    """
    missing = scores.isnan()
    nothing = missing.all(dim=-1)
    if nothing.any():
        raise InputDataError(
            "Expected a score of at least one point in each replicate. Got only NaN in "
            f"{int(nothing.sum())} of {nothing.numel()}: {in_short(nothing.nonzero())}."
        )
    value, index = scores.masked_fill(missing, -torch.inf).max(dim=-1)
    rows = index[..., None, None].expand(*index.shape, 1, X.shape[-1])
    X = X.expand(*index.shape, *X.shape[-2:])
    return Recommendation(point=X.gather(-2, rows).squeeze(-2), value=value, row=index)


def _best_feasible(X: Tensor, scores: Tensor, constraints: ConstraintBounds) -> Recommendation:
    slacks = constraints.slacks(X)
    worst, scores = torch.broadcast_tensors(constraints.worst_slack(slacks), scores)
    offered = (scores > -torch.inf) & ~worst.isnan()  # NaN and minus infinity are no scores
    meets = offered & (worst >= 0)
    feasible = meets.any(dim=-1)  # batch_shape
    least = worst.masked_fill(~offered, -torch.inf).amax(dim=-1, keepdim=True)
    candidates = meets.where(feasible.unsqueeze(-1), offered & (worst == least))
    best = _best_of(X, scores.masked_fill(~candidates, torch.nan))
    row = best.row.unsqueeze(-1)
    chosen = [each.expand_as(scores).gather(-1, row).squeeze(-1) for each in slacks]
    best = best._replace(feasible=feasible, slacks=torch.stack(chosen))
    if not feasible.all():
        _warn_of_infeasible(best, offered)
    return best


def _warn_of_infeasible(best: Any, offered: Tensor) -> None:
    infeasible = ~best.feasible
    missed = (-best.slacks[:, infeasible][:, 0]).clamp_min(0.0).tolist()
    replicates = (
        f" in {int(infeasible.sum())} of {infeasible.numel()} replicates: "
        f"{in_short(infeasible.nonzero())}"
    )
    warnings.warn(
        f"Expected a point that meets all constraints with confidence. Got none among "
        f"{int(offered[infeasible][0].sum())}{replicates if infeasible.dim() else ''}. The least "
        "infeasible point is recommended, whose lower bounds miss the limits by "
        f"{', '.join(f'{each:.4g}' for each in missed)}.",
        InfeasibleRecommendationWarning,
        stacklevel=4,
    )


def _checked_recorded(recorded: Tensor | None, X: Tensor) -> Tensor:
    r"""The recorded bounds of each point; raises ValueError if they are missing."""
    recorded = as_tensor("recorded", recorded)
    if recorded is not None and recorded.shape[-1:] == X.shape[-2:-1]:
        with suppress(RuntimeError):
            batch = torch.broadcast_shapes(recorded.shape[:-1], X.shape[:-2])
            return as_floating(recorded).expand(*batch, -1)
    shape = None if recorded is None else tuple(recorded.shape)
    raise ValueError(
        "Expected `recorded` lower bounds of shape `batch_shape x n`, one for each point. "
        f"Got {shape} for points of shape {tuple(X.shape)}."
    )


def recommend_everywhere(
    bound: ConfidenceBound | AcquisitionFunction,
    bounds: Tensor,
    *,
    seeds: int | Sequence[int],
    evaluated: Tensor | None = None,
    rule: EverywhereRule = "posterior_mean",
    num_restarts: int = 10,
    raw_samples: int = 256,
    discrete_dims: Mapping[int, Sequence[float]] | None = None,
    cat_dims: Mapping[int, Sequence[float]] | None = None,
    inequality_constraints: Sequence[tuple[Tensor, Tensor, float]] | None = None,
    equality_constraints: Sequence[tuple[Tensor, Tensor, float]] | None = None,
) -> Recommendation:
    r"""Find the decision, evaluated or not, with the largest risk by a rule of `recommend`.

    With constraints, the decision is feasible with confidence: the lower bound of each constraint
    reaches its limit. As only the model's bounds decide, the recommendation may be an untried
    decision well inside the feasible region. If it finds no feasible decision, it returns the least
    infeasible one with an `InfeasibleRecommendationWarning`.

    Args:
        bound: A bound on a model of batch shape `[R]`, or `[]` for `R = 1`; or a BoTorch
            acquisition function without constraints on such a model, as for `recommend`.
        bounds: The lower and the upper bounds of the decisions, `2 x d_x`.
        seeds: One for each replicate.
        evaluated: Further decisions to offer, `R x n x d_x`, such as the evaluated ones; `n x d_x`
            for `R = 1`.
        rule: The risk of the posterior mean, or the expected risk.
        num_restarts: As in `optimize_acqf_replicates`; so are the arguments below.
        raw_samples: Raw samples of the optimiser.
        discrete_dims: Ordered columns, from columns to values.
        cat_dims: Columns of categories, from columns to unordered values.
        inequality_constraints: Linear inequalities on the decisions.
        equality_constraints: Linear equalities, in the same form.

    Returns:
        The decisions, `R x d_x`. Rows below `n` index `evaluated`; `n` is the optimiser's.

    Example:
        >>> from botorch_risk.acquisition import RiskUpperConfidenceBound
        >>> from botorch_risk.examples import environment, model, unit
        >>> from botorch_risk.risk import Expectation
        >>> bound = RiskUpperConfidenceBound(model, environment, Expectation(), beta=4.0)
        >>> recommend_everywhere(bound, unit, seeds=0).point.shape
        torch.Size([1, 1])
    """
    check_kind(EverywhereRule, rule=rule)
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
        inequality_constraints=inequality_constraints,
        equality_constraints=equality_constraints,
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
