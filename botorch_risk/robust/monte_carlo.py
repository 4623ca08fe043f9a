r"""Choose decisions by an acquisition function of BoTorch on samples of the risks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.objective import GenericMCObjective, MCAcquisitionObjective
from botorch.models import ModelListGP
from botorch.models.model import Model, ModelList
from botorch.optim import optimize_acqf
from botorch.utils.sampling import manual_seed
from torch import Tensor

from botorch_risk.acquisition.outcome_constraint import OutcomeConstraint, check_constraints, under
from botorch_risk.acquisition.risk_bound import RiskSchedule, check_risk, risk_of_round
from botorch_risk.acquisition.without_compiling import without_compiling
from botorch_risk.arguments import check_counts, check_fields
from botorch_risk.engine import optimize_acqf_replicates
from botorch_risk.risk import RiskMeasure
from botorch_risk.robust.robust import robust
from botorch_risk.strategies.encoded_decisions import (
    AcquisitionOfDecisions,
    kept_apart,
    maximize_by_botorch,
)
from botorch_risk.strategies.environment_risk import Turn, time_of

AcquisitionOfRisk = Callable[..., AcquisitionFunction]
Reduce = Callable[..., tuple[Model, dict[str, Any]]]


@dataclass(frozen=True)
class MonteCarloDecision:
    r"""The decision that maximises a BoTorch acquisition function on risks.

    It works replicate by replicate: each has its own model, with hyperparameters from the batched
    fit, and its own call of `optimize_acqf` (`optimize_acqf_mixed_alternating` in a box with
    integers or categories, `optimize_acqf_replicates` within limits), with the number of restarts
    and raw samples of the method.

    Args:
        acquisition: A class such as `qLogNoisyExpectedImprovement`, or a function, called as
            `acquisition(model, X_baseline, X_pending=, objective=, constraints=)`, the last two if
            `robust` returns them. A class is given an objective without a unit, for its smoothing.
        risk_measure: One measure for all objectives, or one for each; or a schedule,
            `risk_measure(t, d_w)`. Default: the one of the strategy's `RiskRecipe`.
        constraints: The constraints. Default: from the strategy's `RiskRecipe`.
        max_iterations: Maximum number of iterations of the acquisition optimiser.
        reduce: Maps a model, an environment, the measure and the constraints to the acquisition
            function's inputs: a model and keyword arguments.

    Example:
        >>> from botorch.acquisition.logei import qLogNoisyExpectedImprovement
        >>> from botorch_risk.examples import environment, unit
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> from botorch_risk.strategies import risk_search
        >>> strategy = risk_search(
        ...     unit, seeds=0, environment=environment, risk_measure=ConditionalValueAtRisk(0.2),
        ...     decide=MonteCarloDecision(qLogNoisyExpectedImprovement),
        ... )
    """

    acquisition: AcquisitionOfRisk
    risk_measure: RiskMeasure | RiskSchedule | tuple[RiskMeasure, ...] | None = None
    constraints: tuple[OutcomeConstraint, ...] | None = None
    max_iterations: int = 50
    reduce: Reduce = robust

    def __post_init__(self) -> None:
        check_fields(self)
        measures = self.risk_measure
        if measures is not None:
            for measure in measures if isinstance(measures, tuple) else (measures,):
                check_risk(measure)
        check_constraints(self.constraints or ())
        check_counts(max_iterations=self.max_iterations)

    def __call__(self, turn: Turn) -> Tensor:
        r"""Decisions, `R x 1 x d_x`."""
        rows = enumerate(turn.streams("acquisition"))
        return torch.cat([self._decide(turn, row, seed % 2**31) for row, seed in rows])

    def _decide(self, turn: Turn, row: int, seed: int) -> Tensor:
        r"""The decision of one replicate, `1 x 1 x d_x`."""
        d_x = turn.space.bounds.shape[-1]
        model = model_of_replicate(turn, row)
        environment = turn.environment_of(row)
        recipe: Any = turn.method.recipe
        measure = recipe.risk_measure if self.risk_measure is None else self.risk_measure
        required = recipe.constraints if self.constraints is None else self.constraints
        if not isinstance(measure, tuple):
            measure = risk_of_round(measure, time_of(turn.view), environment, model)
        pending = None if turn.pending is None else turn.pending[row, :, :d_x]
        with manual_seed(seed):
            constraints = under(environment, required)
            risks, options = self.reduce(model, environment, measure, constraints)
            evaluated = turn.view.decisions[row]
            if isinstance(self.acquisition, type) and isinstance(measure, RiskMeasure):
                options["objective"] = in_spreads(risks, evaluated, options.get("objective"))
            with without_compiling():
                acquisition = self.acquisition(risks, evaluated, X_pending=pending, **options)
            if pending is not None:
                box: Any = turn.space.box
                acquisition = kept_apart(acquisition, pending, box.unit, box.bounds)
            return self._maximize(acquisition, turn, seed, pending).unsqueeze(0)

    def _maximize(
        self, acquisition: AcquisitionFunction, turn: Turn, seed: int, pending: Tensor | None
    ) -> Tensor:
        box: Any = turn.space.box
        method = turn.method
        numbers: dict[str, Any] = {
            "num_restarts": method.num_restarts,
            "raw_samples": method.raw_samples,
        }
        if box.limits is not None:
            dims = {"discrete_dims": box.discrete_dims, "cat_dims": box.cat_dims}
            limits: dict[str, Any] = {**dims, **box.constraints}
            limits["max_iterations"] = self.max_iterations
            X, _ = optimize_acqf_replicates(
                acquisition, box.bounds, seeds=[seed], **limits, **numbers
            )
            return box.spared(AcquisitionOfDecisions(acquisition), X, pending)[0]
        if box.discrete:
            options = {"maxiter_continuous": self.max_iterations}
            X = maximize_by_botorch(acquisition, box, seed, options=options, **numbers)
            return box.spared(AcquisitionOfDecisions(acquisition), X.unsqueeze(0), pending)[0]
        return optimize_acqf(
            acquisition,
            box.bounds,
            q=1,
            options={"maxiter": self.max_iterations, "seed": seed},
            retry_on_optimization_warning=False,
            **numbers,
        )[0]


def in_spreads(
    model: Model, X: Tensor, objective: MCAcquisitionObjective | None = None
) -> GenericMCObjective:
    r"""An objective divided by its spread over some decisions.

    BoTorch smooths an improvement by a constant that has a unit: 1e-6 of the objective.

    Args:
        X: Evaluated decisions, `n x d_x`.
        objective: Maps samples of the risks to the objective. Default: the first risk.
    """

    def of(risks: Tensor) -> Tensor:
        return risks[..., 0] if objective is None else objective(risks)

    spread = spreads_of_risks(model, X, of)

    def in_units_of_spread(risks: Tensor, X: Tensor | None = None) -> Tensor:
        return of(risks) / spread

    return GenericMCObjective(in_units_of_spread)


def spreads_of_risks(model: Any, X: Tensor, objective: Callable[[Tensor], Tensor]) -> Tensor:
    r"""The standard deviation of the posterior mean over decisions; 1 if it is constant.

    Args:
        X: Decisions, `n x d_x`.
        objective: Maps risks `n x m` to values `n` or `n x m'`.
    """
    with torch.no_grad():
        values = objective(model.posterior(X.unsqueeze(-2)).mean.squeeze(-2))
    centred = values - values.mean(dim=0)
    spread = centred.square().mean(dim=0).sqrt()
    resolution = 16 * torch.finfo(values.dtype).eps * values.abs().amax(dim=0)
    return spread.where(spread > resolution, torch.ones_like(spread))


def model_of_replicate(turn: Turn, row: int) -> Model:
    r"""The fitted model of one replicate, without a batch dimension."""
    joint: Any = turn.view.belief.model
    fitted = list(joint.models) if isinstance(joint, ModelList) else [joint]
    models = []
    for outcome, batched in enumerate(fitted):
        model = turn.method.unfitted(turn.view, outcome, row)
        state = batched.state_dict()
        alone = model.state_dict()
        for name, value in alone.items():
            alone[name] = state[name][row] if state[name].dim() > value.dim() else state[name]
        model.load_state_dict(alone)
        models.append(model.eval())
    return models[0] if len(models) == 1 else ModelListGP(*models)
