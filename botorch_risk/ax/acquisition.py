r"""Ax's class round an acquisition function, for confidence bounds under outcome constraints."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from ax.exceptions.core import UnsupportedError
from ax.generators.torch.botorch_modular.acquisition import Acquisition
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.models.model import Model

from botorch_risk.acquisition import (
    ConstrainedUpperConfidenceBound,
    RiskConstraint,
    RiskUpperConfidenceBound,
)
from botorch_risk.acquisition.pointwise import PointwiseAcquisitionFunction
from botorch_risk.ax.contextual import ContextualRiskModel
from botorch_risk.environments import InputPerturbation
from botorch_risk.risk import Expectation

CONSTRAINT_BETA, OPTIMISM = 9.0, 0.0  # as `risk_search` has them, which were measured


class RiskAcquisition(Acquisition):
    r"""Ax's `Acquisition`, in which confidence bounds respect outcome constraints.

    Ax hands constraints to an acquisition function, which may leave them aside. Bounds of this
    package are put together with bounds of the constraints, `ConstrainedUpperConfidenceBound`;
    acquisition functions with an argument `constraints` take them themselves, and any other is
    refused.

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
        parts = getattr(model, "models", [])
        if any(isinstance(each, ContextualRiskModel) for each in parts):
            raise UnsupportedError(
                "Expected no outcome constraints beside contexts: their metrics would need a risk "
                f"of their own. Got {len(parts)} metrics."
            )
        if isinstance(model, ContextualRiskModel) and issubclass(
            botorch_acqf_class, RiskUpperConfidenceBound
        ):  # which is of outcomes, and takes their risk itself
            (reduction,) = model.reductions
            botorch_acqf_options = {
                "environment": reduction.environment,
                "risk_measure": reduction.risk_measure,
                **botorch_acqf_options,
            }
            model = model.model
        if "threshold" in botorch_acqf_options:  # of the metric, where Ax may minimise it
            weight = self._objective_weights[self._objective_weights != 0].sum().item()
            threshold = weight * botorch_acqf_options["threshold"]
            botorch_acqf_options = {**botorch_acqf_options, "threshold": threshold}
        acqf = super()._construct_botorch_acquisition(
            botorch_acqf_class, botorch_acqf_options, model
        )
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
            [self._constraint(*row) for row in zip(*self._outcome_constraints, strict=True)],
            beta=CONSTRAINT_BETA,
            optimism=OPTIMISM,
            objective_outcome=int(self._objective_weights.nonzero()[0, -1]),
            X_pending=self.X_pending,
        )

    def _constraint(self, weights: torch.Tensor, limit: torch.Tensor) -> RiskConstraint:
        r"""`weights @ f <= limit`, of one outcome."""
        outcomes = weights.nonzero().flatten().tolist()
        if len(outcomes) != 1:
            raise UnsupportedError(
                "Expected outcome constraints of one metric each. Got one of "
                f"{len(outcomes)} metrics."
            )
        (outcome,) = outcomes
        zero = torch.zeros(
            1, len(self.search_space_digest.feature_names), dtype=self.dtype, device=self.device
        )
        weight = weights[outcome].item()
        return RiskConstraint(
            InputPerturbation(zero),
            Expectation(),
            threshold=limit.item() / weight,
            outcome=outcome,
            at_most=weight > 0,
        )
