r"""Ax's `Acquisition` for bounds of a risk: with constraints, chosen contexts, perturbed inputs."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from ax.exceptions.core import UnsupportedError, UserInputError
from ax.generators.torch.botorch_modular.acquisition import Acquisition
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.models import ModelListGP
from botorch.models.model import Model
from botorch.utils.sampling import draw_sobol_normal_samples
from torch import Tensor

from botorch_risk.acquisition import select_lacing_value, select_value
from botorch_risk.acquisition.outcome_constraint import OutcomeConstraint
from botorch_risk.acquisition.pointwise import PointwiseAcquisitionFunction
from botorch_risk.acquisition.select_value import RiskWithLimit
from botorch_risk.acquisition.without_compiling import without_compiling
from botorch_risk.ax.contextual import ContextualRiskModel
from botorch_risk.environments import DiscreteEnvironment, Environment, InputPerturbation
from botorch_risk.models.hallucination import condition_on_mean
from botorch_risk.risk import Expectation, RiskMeasure
from botorch_risk.seeding import derive_seed
from botorch_risk.strategies.decision_then_value import select_least_certain_value
from botorch_risk.strategies.environment_risk import DISTANCE_IF_W_IS_CHOSEN

CONSTRAINT_BETA, CONSTRAINT_UPPER_BETA = 9.0, 0.0  # as `risk_search` has them, which were measured

# A constraint of this package on the risk of an outcome, from the environment, the risk measure,
# the threshold, the outcome and whether small values are good. `botorch_risk.constraints` has one.
ConstraintOfRisk = Callable[[Environment, RiskMeasure, float, int, bool], OutcomeConstraint]
_constraint_of_risk: list[ConstraintOfRisk] = []


def register_constraint(kind: ConstraintOfRisk) -> None:
    r"""Let `RiskAcquisition` express Ax's outcome constraints by constraints of a given kind."""
    _constraint_of_risk[:] = [kind]


class RiskAcquisition(Acquisition):
    r"""Ax's `Acquisition`, in which confidence bounds respect outcome constraints.

    Ax passes constraints to an acquisition function, which may ignore them. Bounds of this package
    are combined with bounds of the constraints, by `botorch_risk.constraints`; acquisition
    functions with an argument `constraints` receive them, and all others are refused. With contexts
    or perturbed inputs, a constraint holds under a risk over them. Its measure is the option
    `constraint_risk_measure` of this class, or else the risk measure of the objective.
    """

    def _construct_botorch_acquisition(
        self,
        botorch_acqf_class: type[AcquisitionFunction],
        botorch_acqf_options: dict[str, Any],
        model: Model,
    ) -> AcquisitionFunction:
        options = dict(botorch_acqf_options)
        if contextual := _contextual(model):
            arguments = inspect.signature(botorch_acqf_class).parameters.keys()
            if arguments >= {"environment", "risk_measure"}:
                # It uses a model of outcomes, and reduces them to the risk itself.
                (reduction,) = contextual[0].reductions
                environment, measure = reduction.environment, reduction.risk_measure
                options = {"environment": environment, "risk_measure": measure, **options}
                processes = [each.model for each in contextual]
                model = processes[0] if len(processes) == 1 else ModelListGP(*processes)
            elif self._outcome_constraints is not None:
                raise UnsupportedError(
                    "Expected `RiskUpperConfidenceBound` for outcome constraints with contexts, "
                    f"which hold under a risk. Got {botorch_acqf_class.__name__}."
                )
        weights = self._objective_weights[self._objective_weights != 0].tolist()
        if "threshold" in options and len(weights) == 1:  # of the metric, which Ax may minimise
            options["threshold"] = weights[0] * options["threshold"]
        with without_compiling():
            acqf = super()._construct_botorch_acquisition(botorch_acqf_class, options, model)
        if self._outcome_constraints is None:
            return acqf
        if not isinstance(acqf, PointwiseAcquisitionFunction):
            if "constraints" not in inspect.signature(botorch_acqf_class).parameters:
                raise UnsupportedError(
                    "Expected an acquisition function that takes outcome constraints. Got "
                    f"{botorch_acqf_class.__name__}, which would ignore constraints."
                )
            return acqf
        constraints = self._constraints(options)
        found: AcquisitionFunction = constraints[0].constrained(
            model,
            acqf,
            constraints,
            CONSTRAINT_BETA,
            CONSTRAINT_UPPER_BETA,
            objective_outcome=int(self._objective_weights.nonzero()[0, -1]),
            X_pending=self.X_pending,
        )
        return found

    def _constraints(self, options: dict[str, Any]) -> list[OutcomeConstraint]:
        r"""Ax's rows `weights @ f <= limit`, of one outcome each, under a risk."""
        zero = torch.zeros(1, len(self.search_space_digest.feature_names))
        zero = zero.to(dtype=self.dtype, device=self.device)
        environment = options.get("environment", InputPerturbation(zero))
        measure = options.get("risk_measure", Expectation())
        measure = self.options.get("constraint_risk_measure") or measure
        assert self._outcome_constraints is not None
        if not _constraint_of_risk:
            raise UnsupportedError(
                "Expected `botorch_risk.constraints` for outcome constraints. Got no such package."
            )
        (constraint_of_risk,) = _constraint_of_risk
        found = []
        for weights, limit in zip(*self._outcome_constraints, strict=True):
            outcomes = weights.nonzero().flatten().tolist()
            if len(outcomes) != 1:
                raise UnsupportedError(
                    "Each outcome constraint may use one metric. Got a constraint that uses "
                    f"{len(outcomes)}."
                )
            (outcome,) = outcomes
            weight = weights[outcome].item()
            threshold = limit.item() / weight
            found.append(constraint_of_risk(environment, measure, threshold, outcome, weight > 0))
        return found


def _contextual(model: Model) -> list[ContextualRiskModel]:
    r"""The models of metrics under contexts; empty if no metric has a context.

    Raises:
        UnsupportedError: If some metrics have a context and others do not.
    """
    parts = list(getattr(model, "models", None) or [model])
    found = [each for each in parts if isinstance(each, ContextualRiskModel)]
    if found and len(found) < len(parts):
        raise UnsupportedError(
            "Expected `ContextualRiskModel` for all metrics or for none. Got "
            f"{[type(each).__name__ for each in parts]}."
        )
    return found


class ChosenContextAcquisition(RiskAcquisition):
    r"""Ax's `Acquisition` that chooses decisions first, and then the context to try with each.

    The generator's `acquisition_options` are its `options`: `contexts`, the names of the last
    parameters; `points`, their values, `n_w x d_w`; `weights` of the points, `n_w`; `value_rule`
    for the context, a lacing value by default; `rule`, as in `select_lacing_value`; `seed`.
    """

    def _construct_botorch_acquisition(
        self,
        botorch_acqf_class: type[AcquisitionFunction],
        botorch_acqf_options: dict[str, Any],
        model: Model,
    ) -> AcquisitionFunction:
        names = list(self.options["contexts"])
        order = self.search_space_digest.feature_names
        if order[-len(names) :] != names:
            raise UserInputError(
                f"Expected the contexts {names} to be the last parameters, in this order. Got "
                f"{order}."
            )
        self._num_decisions = len(order) - len(names)
        like = self.surrogate.Xs[0]
        points = torch.tensor(self.options["points"], dtype=torch.double).to(like)
        bounds = torch.tensor(self.search_space_digest.bounds, dtype=torch.double)
        lower, upper = bounds.to(like).mT
        outside = (points < lower[-len(names) :]) | (points > upper[-len(names) :])
        if outside.any():
            raise UserInputError(
                f"Expected values of {names} within the bounds of their parameters, which must not "
                f"be log-scaled. Got {points[outside][0].item():g}."
            )
        weights = torch.tensor(self.options["weights"], dtype=torch.double).to(like)
        environment = DiscreteEnvironment(points, weights)
        pending, self.X_pending = self.X_pending, None  # rows, where a bound takes decisions
        bound = super()._construct_botorch_acquisition(
            botorch_acqf_class, {"environment": environment, **botorch_acqf_options}, model
        )
        self.X_pending = pending
        if isinstance(bound, PointwiseAcquisitionFunction):
            bound.min_distance = DISTANCE_IF_W_IS_CHOSEN
        acqf = OfDecisions(bound, self._num_decisions)
        acqf.set_X_pending(pending)
        return acqf

    def optimize(  # type: ignore[override]
        self, n: int, *, fixed_features: dict[int, float] | None = None, **options: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        r"""Decisions that maximise the bound, each with the context to try.

        A context fixed for this candidate is kept.
        """
        X, values, weights = super().optimize(n, fixed_features=fixed_features, **options)
        seed = derive_seed(self.options["seed"], "lacing", sum(len(each) for each in self._rows))
        acqf: Any = self.acqf
        acqf.set_X_pending(self.X_pending)
        read = [] if self.X_pending is None else [self.X_pending]
        for row, x in enumerate(X):
            tried = self._with_context(acqf.bound, x[None, : self._num_decisions], read, seed + row)
            read.append(tried)
        rows = torch.cat(read[-len(X) :])
        for column, value in (fixed_features or {}).items():
            rows[:, column] = value
        return rows, values, weights

    def _with_context(self, bound: Any, x: Tensor, read: list[Tensor], seed: int) -> Tensor:
        r"""A decision with the context to try.

        Args:
            x: The decision, `1 x d_x`.
            read: Rows under evaluation, including those just chosen.
        """
        constraints = [each for each in bound.risk_constraints if isinstance(each, RiskWithLimit)]
        bound = bound.of_objective
        value_rule = self.options.get("value_rule", "lacing")
        if value_rule == "lacing":
            return select_lacing_value(bound, x, self.options["rule"], seeds=seed)
        model = condition_on_mean(bound.model, torch.cat(read)) if read else bound.model
        if value_rule == "outcome_variance":
            return select_least_certain_value(model, bound.environment, x)
        return select_value(
            model,
            bound.environment,
            bound.risk_measure,
            x,
            constraints=constraints,
            posterior_transform=bound.posterior_transform,
        )

    @property
    def _rows(self) -> list[Tensor]:
        pending = [] if self.X_pending is None else [self.X_pending]
        return [*self.surrogate.Xs, *pending]


class OfDecisions(AcquisitionFunction):
    r"""A bound of decisions as an acquisition function of decisions and contexts.

    Args:
        bound: A bound of decisions.
        num_decisions: The number of leading columns that are decisions.
    """

    def __init__(self, bound: Any, num_decisions: int) -> None:
        super().__init__(model=bound.model)
        self.bound, self.num_decisions = bound, num_decisions

    def forward(self, X: Tensor) -> Tensor:
        r"""The bound of the decisions; contexts are ignored."""
        values: Tensor = self.bound(X[..., : self.num_decisions])
        return values

    def lower(self, X: Tensor) -> Tensor:
        r"""The lower bound of the decisions, `m x d -> m`."""
        values: Tensor = self.bound.lower(X[..., : self.num_decisions])
        return values

    def mean(self, X: Tensor) -> Tensor:
        r"""The posterior mean of the risk of the decisions, likewise."""
        values: Tensor = self.bound.mean(X[..., : self.num_decisions])
        return values

    def upper(self, X: Tensor) -> Tensor:
        r"""The upper bound of the decisions, likewise."""
        values: Tensor = self.bound.upper(X[..., : self.num_decisions])
        return values

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        r"""Set rows under evaluation; the bound uses their decisions."""
        self.X_pending = X_pending  # type: ignore[assignment]
        of_decisions = None if X_pending is None else X_pending[..., : self.num_decisions]
        self.bound.set_X_pending(of_decisions)


class PartsOfBound(NamedTuple):
    r"""What a bound of a strategy is made of.

    Args:
        objective: The bound without its constraints.
        constraints: The bound with them, if there are any.
        num_decisions: The number of leading columns that both take; `None` for all.
    """

    objective: Any
    constraints: Any
    num_decisions: int | None

    def decisions(self, X: Tensor) -> Tensor:
        r"""The leading columns of points, those that the bounds take."""
        return X[..., : self.num_decisions]


def parts_of(bound: Any) -> PartsOfBound:
    r"""The parts of the bound that a strategy maximises, without any wrapper."""
    num_decisions = None
    if isinstance(bound, OfDecisions):
        bound, num_decisions = bound.bound, bound.num_decisions
    if isinstance(bound, PointwiseAcquisitionFunction) and bound.risk_constraints:
        return PartsOfBound(bound.of_objective, bound, num_decisions)
    return PartsOfBound(bound, None, num_decisions)


class PerturbedInputsAcquisition(RiskAcquisition):
    r"""Ax's `Acquisition` for parameters that are realised with a normal error.

    The generator's `acquisition_options` are its `options`: `deviations`, the standard deviation
    of each parameter's error by name (in powers of ten for a log-scaled one); `n_w`, the number of
    perturbations that represent the distribution; `seed`. Values outside the search space are moved
    to its edge.
    """

    def _construct_botorch_acquisition(
        self,
        botorch_acqf_class: type[AcquisitionFunction],
        botorch_acqf_options: dict[str, Any],
        model: Model,
    ) -> AcquisitionFunction:
        options = {"environment": self._perturbation(), **botorch_acqf_options}
        return super()._construct_botorch_acquisition(botorch_acqf_class, options, model)

    def _perturbation(self) -> InputPerturbation:
        r"""The distribution of the errors, in the units of the models.

        Raises:
            UserInputError: If a name is not a parameter with a continuous range.
        """
        digest = self.search_space_digest
        deviations: dict[str, float] = self.options["deviations"]
        discrete = {*digest.ordinal_features, *digest.categorical_features}
        ranges = [
            name for column, name in enumerate(digest.feature_names) if column not in discrete
        ]
        if unknown := [name for name in deviations if name not in ranges]:
            raise UserInputError(
                f"Expected perturbed parameters among those with a continuous range, {ranges}. "
                f"Got {unknown}."
            )
        errors = draw_sobol_normal_samples(
            d=len(deviations), n=self.options["n_w"], seed=self.options["seed"], dtype=torch.double
        )
        perturbations = torch.zeros(len(errors), len(digest.feature_names), dtype=torch.double)
        for column, (name, deviation) in enumerate(deviations.items()):
            perturbations[:, digest.feature_names.index(name)] = deviation * errors[:, column]
        bounds = torch.tensor(digest.bounds, dtype=torch.double).mT
        like = self.surrogate.Xs[0]
        return InputPerturbation(perturbations.to(like), bounds=bounds.to(like))
