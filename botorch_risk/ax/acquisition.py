r"""Ax's class round an acquisition function, for confidence bounds under outcome constraints."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from ax.exceptions.core import UnsupportedError
from ax.generators.torch.botorch_modular.acquisition import Acquisition
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.models import ModelListGP
from botorch.models.model import Model

from botorch_risk.acquisition import RiskUpperConfidenceBound
from botorch_risk.acquisition.pointwise import PointwiseAcquisitionFunction
from botorch_risk.ax.contextual import ContextualRiskModel
from botorch_risk.constraints import ConstrainedUpperConfidenceBound, RiskConstraint
from botorch_risk.environments import InputPerturbation
from botorch_risk.risk import Expectation

CONSTRAINT_BETA, OPTIMISM = 9.0, 0.0  # as `risk_search` has them, which were measured


class RiskAcquisition(Acquisition):
    r"""Ax's `Acquisition`, in which confidence bounds respect outcome constraints.

    Ax hands constraints to an acquisition function, which may leave them aside. Bounds of this
    package are put together with bounds of the constraints, `ConstrainedUpperConfidenceBound`;
    acquisition functions with an argument `constraints` take them themselves, and any other is
    refused. Beside contexts, or perturbed inputs, a constraint holds under a risk over them: its
    option `constraint_risk_measure`, or else the risk measure of the objective.

    Example:
        >>> from botorch_risk.ax import RiskGenerator
        >>> RiskGenerator().acquisition_class.__name__
        'RiskAcquisition'
    """

    def _construct_botorch_acquisition(
        self,
        botorch_acqf_class: type[AcquisitionFunction],
        botorch_acqf_options: dict[str, Any],
        model: Model,
    ) -> AcquisitionFunction:
        options = dict(botorch_acqf_options)
        if contextual := _contextual(model):
            if issubclass(botorch_acqf_class, RiskUpperConfidenceBound):
                # The bound is of outcomes, and takes their risk itself.
                (reduction,) = contextual[0].reductions
                environment, measure = reduction.environment, reduction.risk_measure
                options = {"environment": environment, "risk_measure": measure, **options}
                processes = [each.model for each in contextual]
                model = processes[0] if len(processes) == 1 else ModelListGP(*processes)
            elif self._outcome_constraints is not None:
                raise UnsupportedError(
                    "Expected `RiskUpperConfidenceBound` for outcome constraints beside contexts, "
                    f"which hold under a risk. Got {botorch_acqf_class.__name__}."
                )
        if "threshold" in options:  # of the metric, where Ax may minimise it
            weight = self._objective_weights[self._objective_weights != 0].sum().item()
            options["threshold"] *= weight
        acqf = super()._construct_botorch_acquisition(botorch_acqf_class, options, model)
        if self._outcome_constraints is None:
            return acqf
        if not isinstance(acqf, PointwiseAcquisitionFunction):
            if "constraints" not in inspect.signature(botorch_acqf_class).parameters:
                raise UnsupportedError(
                    "Expected an acquisition function that takes outcome constraints. Got "
                    f"{botorch_acqf_class.__name__}, which would leave them aside."
                )
            return acqf
        return ConstrainedUpperConfidenceBound(
            model,
            acqf,
            self._constraints(options),
            beta=CONSTRAINT_BETA,
            optimism=OPTIMISM,
            objective_outcome=int(self._objective_weights.nonzero()[0, -1]),
            X_pending=self.X_pending,
        )

    def _constraints(self, options: dict[str, Any]) -> list[RiskConstraint]:
        r"""Ax's rows `weights @ f <= limit`, of one outcome each, under a risk."""
        zero = torch.zeros(1, len(self.search_space_digest.feature_names))
        zero = zero.to(dtype=self.dtype, device=self.device)
        environment = options.get("environment", InputPerturbation(zero))
        measure = options.get("risk_measure", Expectation())
        measure = self.options.get("constraint_risk_measure") or measure
        assert self._outcome_constraints is not None
        found = []
        for weights, limit in zip(*self._outcome_constraints, strict=True):
            outcomes = weights.nonzero().flatten().tolist()
            if len(outcomes) != 1:
                raise UnsupportedError(
                    "Expected outcome constraints of one metric each. Got one of "
                    f"{len(outcomes)} metrics."
                )
            (outcome,) = outcomes
            weight = weights[outcome].item()
            threshold = limit.item() / weight
            found.append(RiskConstraint(environment, measure, threshold, outcome, weight > 0))
        return found


def _contextual(model: Model) -> list[ContextualRiskModel]:
    r"""The models of metrics under contexts; none if no metric has one.

    Raises:
        UnsupportedError: If some have one and others have not.
    """
    parts = list(getattr(model, "models", None) or [model])
    found = [each for each in parts if isinstance(each, ContextualRiskModel)]
    if found and len(found) < len(parts):
        raise UnsupportedError(
            "Expected `ContextualRiskModel` for all metrics or for none. Got "
            f"{[type(each).__name__ for each in parts]}."
        )
    return found
