r"""Decisions by acquisition functions of BoTorch on the samples of risks."""

from __future__ import annotations

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

from botorch_risk.acquisition.named import RiskSchedule, check_risk, risk_of_round
from botorch_risk.arguments import check_counts, check_fields
from botorch_risk.constraints.risk_constraint import RiskConstraint, check_constraints, under
from botorch_risk.risk import RiskMeasure
from botorch_risk.robust.robust import robust
from botorch_risk.strategies.environment import Turn
from botorch_risk.strategies.mixed import maximize_by_botorch

AcquisitionOfRisk = Callable[..., AcquisitionFunction]
Reduce = Callable[..., tuple[Model, dict[str, Any]]]


@dataclass(frozen=True)
class MonteCarloDecision:
    r"""The decision of the largest value of an acquisition function of BoTorch, on risks.

    Replicate by replicate: each has a model of its own, with the hyperparameters that the batched
    fit has found, and its own call of `optimize_acqf` (`optimize_acqf_mixed_alternating` in a box
    with integers or categories), with the number of restarts and raw samples of the method.

    Args:
        acquisition: `acquisition(model, X_baseline, X_pending=, objective=, constraints=)`, the
            last two where `robust` has them; such as `qLogNoisyExpectedImprovement`. A class is
            given an objective in standard deviations, so that its smoothing has no unit.
        risk_measure: Of the objectives, or one for each; or a schedule, `risk_measure(t, d_w)`.
        constraints: What has to hold.
        max_iterations: Iterations of the acquisition optimiser.
        reduce: From a model, an environment, the measure and the constraints to what the
            acquisition function takes: a model and keyword arguments.

    Raises:
        ValueError: If there is no iteration.
    """

    acquisition: AcquisitionOfRisk
    risk_measure: RiskMeasure | RiskSchedule | tuple[RiskMeasure, ...]
    constraints: tuple[RiskConstraint, ...] = ()
    max_iterations: int = 50
    reduce: Reduce = robust

    def __post_init__(self) -> None:
        check_fields(self)
        measures = self.risk_measure
        for measure in measures if isinstance(measures, tuple) else (measures,):
            check_risk(measure)
        check_constraints(self.constraints)
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
        measure = self.risk_measure
        if not isinstance(measure, tuple):
            measure = risk_of_round(measure, turn.view.round, environment)
        pending = None if turn.pending is None else turn.pending[row, :, :d_x]
        with manual_seed(seed):
            constraints = under(environment, self.constraints)
            risks, options = self.reduce(model, environment, measure, constraints)
            evaluated = turn.view.decisions[row]
            if isinstance(self.acquisition, type) and isinstance(measure, RiskMeasure):
                options["objective"] = in_spreads(risks, evaluated, options.get("objective"))
            acquisition = self.acquisition(risks, evaluated, X_pending=pending, **options)
            return self._maximize(acquisition, turn, seed).unsqueeze(0)

    def _maximize(self, acquisition: AcquisitionFunction, turn: Turn, seed: int) -> Tensor:
        box, method = turn.space.box, turn.method
        numbers: dict[str, Any] = {
            "num_restarts": method.num_restarts,
            "raw_samples": method.raw_samples,
        }
        if box.discrete:
            options = {"maxiter_continuous": self.max_iterations}
            return maximize_by_botorch(acquisition, box, seed, options=options, **numbers)
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
        model: Of risks.
        X: Evaluated decisions, `n x d_x`.
        objective: From samples of the risks to the objective. Default: the first risk.
    """

    def of(risks: Tensor) -> Tensor:
        return risks[..., 0] if objective is None else objective(risks)

    spread = spreads_of_risks(model, X, of)

    def in_units_of_spread(risks: Tensor, X: Tensor | None = None) -> Tensor:
        return of(risks) / spread

    return GenericMCObjective(in_units_of_spread)


def spreads_of_risks(model: Any, X: Tensor, objective: Callable[[Tensor], Tensor]) -> Tensor:
    r"""The standard deviation of the posterior mean over decisions; 1 where it is constant.

    Args:
        model: Of risks.
        X: Decisions, `n x d_x`.
        objective: From risks `n x m` to values `n` or `n x m'`.
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
