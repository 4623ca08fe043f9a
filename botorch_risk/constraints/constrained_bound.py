r"""Confidence bounds of an objective, combined with constraints that hold under a risk."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model
from numpy import ndarray
from torch import Tensor
from torch.nn import ModuleList

from botorch_risk.acquisition.input_constructors import construct_from_own_arguments
from botorch_risk.acquisition.mean_variance import RiskAverseUpperConfidenceBound
from botorch_risk.acquisition.outcome_constraint import OutcomeConstraint, check_constraints
from botorch_risk.acquisition.pointwise import (
    PointwiseAcquisitionFunction,
    ValueAndGradient,
    as_nonnegative,
)
from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.arguments import check_counts
from botorch_risk.models.outcomes import spread_of
from botorch_risk.risk import RiskMeasure

Side = Literal["lower", "mean", "upper"]
SIDES: tuple[Side, ...] = get_args(Side)
_FAR = 1e4  # spreads of the objective by which reporting sets the infeasible apart
# Spreads within which the penalty bends. At a kink quasi-Newton steps take ten times as many
# evaluations; and it bends inside the limit, where the penalty is exact, so that nothing is missed.
_BEND, _FINE_BEND = 1e-2, 1e-3  # while exploring, and for a recommendation


@construct_from_own_arguments
class ConstrainedUpperConfidenceBound(PointwiseAcquisitionFunction):
    r"""The optimistic value of an objective where the constraints may hold.

        score(x) = bound.upper(x) - penalty spread sum_i max(0, limit_i - upper_i(x)) / spread_i

    `upper_i` bounds the risk of the i-th constraint from above: exploring is optimistic about the
    feasible set, and a point is avoided only when it is infeasible with confidence. With
    `upper_beta=0` a constraint counts by its posterior mean, without this guarantee, and fewer
    rounds go to points that turn out to be infeasible. Reporting is pessimistic: `lower` ranks any
    point at which a lower bound misses its limit below every point at which none does.
    `feasible(X)` says where all lower bounds reach their limits.

    The spreads are the standard deviations of the observed outcomes. The penalty is exact (it does
    not change the best point of the optimistic set) if no gain in the objective outweighs it. For a
    maximiser with constraints of its own, see `feasibility_functions`.

    For an objective of one outcome and q = 1; batches need `sequential=True`.

    Args:
        model: The model of all outcomes, usually a `ModelListGP`.
        bound: A confidence bound of the objective, with `lower`, `mean` and `upper`:
            `RiskUpperConfidenceBound`, `RiskAverseUpperConfidenceBound`. From now on, this
            acquisition function conditions that bound on pending points.
        risk_constraints: Each a `RiskConstraint`, a `NoisyChanceConstraint` or a `NoiseConstraint`
            on an outcome of the model.
        beta: Squared width of the bounds of the constraints, a number or `batch_shape`: the
            confidence in the model.
        upper_beta: Squared width of their upper bounds alone, likewise a number or `batch_shape`.
            Default: `beta`.
        penalty: The cost of a violation by one spread, in spreads of the objective.
        objective_outcome: The index of the objective among the model's outcomes, for its spread.
        X_pending: `batch_shape x n' x d` decisions under evaluation; `bound.X_pending` if omitted.

    Raises:
        UnsupportedError: If the objective has no bounds.

    Example:
        >>> from botorch.models import ModelListGP, SingleTaskGP
        >>> from botorch_risk.acquisition import RiskUpperConfidenceBound
        >>> from botorch_risk.constraints import RiskConstraint
        >>> from botorch_risk.examples import environment, inputs, model
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> load = SingleTaskGP(inputs, inputs.sum(dim=-1, keepdim=True))
        >>> tail = ConditionalValueAtRisk(0.2)
        >>> bound = RiskUpperConfidenceBound(model, environment, tail, beta=4.0)
        >>> constraint = RiskConstraint.chance(environment, 1.2, outcome=1, delta=0.1)
        >>> both = ModelListGP(model, load)
        >>> acqf = ConstrainedUpperConfidenceBound(both, bound, [constraint], beta=4.0)
        >>> acqf(torch.rand(3, 1, 1, dtype=torch.double)).shape
        torch.Size([3])
    """

    has_kinks = True  # at the edge of what is feasible
    prices: Tensor
    spreads: Tensor
    far: Tensor

    def __init__(
        self,
        model: Model,
        bound: Any,
        risk_constraints: Sequence[OutcomeConstraint],
        beta: float | Tensor = 4.0,
        penalty: float = 20.0,
        objective_outcome: int = 0,
        upper_beta: float | Tensor | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        super().__init__(model=model)
        if not isinstance(bound, PointwiseAcquisitionFunction) or not all(
            callable(getattr(bound, side, None)) for side in ("lower", "mean", "upper")
        ):
            raise UnsupportedError(
                "Expected an objective with confidence bounds, such as `RiskUpperConfidenceBound` "
                f"or `RiskAverseUpperConfidenceBound`. Got {type(bound).__name__}."
            )
        if not risk_constraints:
            raise ValueError("Expected at least one constraint. Got none.")
        check_constraints(risk_constraints)
        self.bound: Any = bound
        self.risk_constraints = tuple(risk_constraints)
        for each in risk_constraints:
            each.warn_if_out_of_reach(model)
        self.constraint_bounds = ModuleList([each.bound(model, beta) for each in risk_constraints])
        self.upper_bounds = self.constraint_bounds
        if upper_beta is not None:
            width = as_nonnegative("upper_beta", upper_beta)
            self.upper_bounds = ModuleList([each.bound(model, width) for each in risk_constraints])
        spreads = torch.broadcast_tensors(
            *(spread_of(model, each.outcome) for each in risk_constraints)
        )
        self.register_buffer("spreads", torch.stack(spreads))
        check_counts(0, objective_outcome=objective_outcome)
        spread = spread_of(model, objective_outcome)
        prices = as_nonnegative("penalty", penalty) * spread / self.spreads
        self.register_buffer("prices", prices)
        self.register_buffer("far", _FAR * spread)
        self.set_X_pending(bound.X_pending if X_pending is None else X_pending)

    @property
    def of_objective(self) -> Any:
        return self.bound

    @property
    def risk_measure(self) -> RiskMeasure:
        r"""The measure of the objective."""
        measure: RiskMeasure = self.bound.risk_measure
        return measure

    def _condition(self, X_pending: Tensor | None) -> None:
        for part in self._parts:
            part.set_X_pending(X_pending)

    def check_points(self, X: Tensor) -> None:
        for part in self._parts:
            part.check_points(X)

    @property
    def _parts(self) -> list[Any]:
        parts = [self.bound, *self.constraint_bounds, *self.upper_bounds]
        return list({id(each): each for each in parts}.values())

    def score(self, X: Tensor) -> Tensor:
        return self.upper(X)

    def upper(self, X: Tensor) -> Tensor:
        r"""The optimistic value in the optimistic feasible set, with a penalty outside."""
        return self._value(X, "upper")

    def on_host(self, num_points: int) -> ValueAndGradient | None:
        parts = [self.bound, *self.upper_bounds]
        if self._spacing is not None or not all(map(_scores_upper_bound, parts)):
            return None
        forms = [each.on_host(num_points) for each in parts]
        if any(each is None for each in forms):
            return None
        limits = [each.limit for each in self.risk_constraints]
        bends, prices = (each.numpy()[..., None] for each in (_BEND * self.spreads, self.prices))

        def value_and_gradient(X: ndarray) -> tuple[ndarray, ndarray]:  # of `_smooth`
            (value, gradient), *bounds = (of_part(X) for of_part in forms)
            each = zip(bounds, limits, bends, prices, strict=True)
            for (bound, rise), limit, bend, price in each:
                missed = np.maximum(bend - (bound - limit), 0.0)
                bent = np.where(missed < bend, missed**2 / (2 * bend), missed - bend / 2)
                value = value - price * bent
                gradient = gradient + (price * np.minimum(missed / bend, 1.0))[..., None] * rise
            return value, gradient

        return value_and_gradient

    def lower(self, X: Tensor) -> Tensor:
        r"""The pessimistic value in the pessimistic feasible set, and far below it outside."""
        return self._value(X, "lower")

    def mean(self, X: Tensor) -> Tensor:
        r"""The value by the posterior mean, and far below it where a constraint's mean fails."""
        return self._value(X, "mean")

    def expected_risk(self, X: Tensor) -> Tensor:
        r"""The expected risk of the objective, `batch_shape x m`.

        Raises:
            UnsupportedError: If the objective is not a risk over W.
        """
        if not isinstance(self.bound, RiskUpperConfidenceBound):
            raise UnsupportedError(
                "Expected a bound of a risk over W, such as a `RiskUpperConfidenceBound`, for an "
                f"expected risk. Got {type(self.bound).__name__}."
            )
        values: Tensor = self.bound.expected_risk(X)
        return values

    def slacks(self, X: Tensor, side: Side = "lower") -> Tensor:
        r"""The amounts by which the constraints' bounds exceed their limits.

        `num_constraints x batch_shape x m` values in units of each outcome; negative if the
        constraint fails by this bound.
        """
        pairs = zip(self._bounds_of(side), self.risk_constraints, strict=True)
        return torch.stack([getattr(one, side)(X) - each.limit for one, each in pairs])

    def _bounds_of(self, side: Side) -> ModuleList:
        if side not in SIDES:
            raise ValueError(f"Expected `side` to be one of {SIDES}. Got {side!r}.")
        return self.upper_bounds if side == "upper" else self.constraint_bounds

    def worst_slack(self, slacks: Tensor) -> Tensor:
        r"""The smallest slack, in standard deviations of the observed outcome."""
        return self.in_spreads(slacks).amin(dim=0)

    def in_spreads(self, slacks: Tensor) -> Tensor:
        r"""Slacks in standard deviations of the observed outcomes."""
        return slacks / _per_point(self.spreads, slacks)

    def feasible(self, X: Tensor, side: Side = "lower") -> Tensor:
        r"""Whether all constraints hold by a bound, `batch_shape x m` booleans.

        The side is `"lower"`: with confidence; `"mean"`; or `"upper"`: possibly.
        """
        with torch.no_grad():
            return (self.slacks(X, side) >= 0).all(dim=0)

    def probability_feasible(
        self, X: Tensor, num_outcomes: int, samples: Callable[[Any, Tensor], Tensor]
    ) -> Tensor:
        r"""The posterior probability that all constraints on an outcome hold, `R x n x m`.

        It is NaN for an outcome without a constraint.

        Args:
            X: Decisions, `R x n x d_x`.
            num_outcomes: The number m of outcomes.
            samples: Maps the bound of a risk and decisions to samples of the risk, `R x n x s`.
        """
        hold: dict[int, Tensor] = {}
        for each, constraint in zip(self.constraint_bounds, self.risk_constraints, strict=True):
            meets = samples(each, X) >= constraint.limit
            hold[constraint.outcome] = meets & hold.get(constraint.outcome, torch.ones_like(meets))
        found = X.new_full((*X.shape[:-1], num_outcomes), torch.nan)
        for outcome, every in hold.items():
            found[..., outcome] = every.to(X).mean(dim=-1)
        return found

    def feasibility_functions(self, side: Side = "upper") -> list[tuple[Callable[..., Any], bool]]:
        r"""The constraints as BoTorch's `nonlinear_inequality_constraints`.

        `optimize_acqf` accepts them with `batch_limit=1` and feasible initial conditions.
        """

        def of(one: Any, limit: float) -> Callable[[Tensor], Tensor]:
            return lambda x: (getattr(one, side)(x.reshape(1, -1)) - limit).squeeze(-1)

        pairs = zip(self._bounds_of(side), self.risk_constraints, strict=True)
        return [(of(one, each.limit), True) for one, each in pairs]

    def cautious(self, X: Tensor, expected: bool = False) -> Tensor:
        r"""The value by the posterior mean, with a penalty if a lower bound misses its limit.

        It is continuous, for the maximiser in `recommend_everywhere`. At its maximum, the
        constraints hold with confidence if they can, up to a thousandth of each spread.

        Args:
            X: `batch_shape x m x d`.
            expected: Whether the value is the expected risk.
        """
        values = self.expected_risk(X) if expected else self.bound.mean(X)
        return self._smooth(values, self.slacks(X, "lower"), _FINE_BEND)

    def _smooth(self, value: Tensor, slacks: Tensor, spreads: float) -> Tensor:
        r"""A value minus a penalty with a continuous gradient, complete at a slack of 0."""
        bend = spreads * _per_point(self.spreads, slacks)
        missed = (bend - slacks).clamp_min(0.0)  # num_constraints x ... x batch_shape x m
        bent = torch.where(missed < bend, missed.square() / (2 * bend), missed - bend / 2)
        return value - (_per_point(self.prices, missed) * bent).sum(dim=0)

    def _value(self, X: Tensor, side: Side) -> Tensor:
        value, slacks = getattr(self.bound, side)(X), self.slacks(X, side)
        if side == "upper":
            return self._smooth(value, slacks, _BEND)
        missed = (-slacks).clamp_min(0.0)
        penalty = (_per_point(self.prices, missed) * missed).sum(dim=0)
        far = self.far.to(missed).unsqueeze(-1) * (missed > 0).any(dim=0)
        return value - penalty - far


def _scores_upper_bound(part: Any) -> bool:
    r"""Whether the form of a bound for arrays is the form of its upper side."""
    if isinstance(part, RiskUpperConfidenceBound):
        return bool(part.risk_measure.monotone)  # else the score may be the risk of the bounds
    return isinstance(part, RiskAverseUpperConfidenceBound)


def _per_point(values: Tensor, like: Tensor) -> Tensor:
    r"""Values `num_constraints x batch_shape`, broadcastable to `num_constraints x ... x m`."""
    between = (1,) * (like.dim() - values.dim() - 1)
    return values.to(like).reshape(len(values), *between, *values.shape[1:], 1)
