r"""The mean-variance values of several outcomes, for multi-objective acquisition functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from botorch.acquisition.multi_objective.objective import MCMultiOutputObjective
from botorch.exceptions.errors import UnsupportedError
from botorch.models import ModelListGP
from torch import Tensor

from botorch_risk.acquisition.mean_variance import MeanVarianceObjective
from botorch_risk.acquisition.pointwise import as_nonnegative


class MultiOutputMeanVarianceObjective(MCMultiOutputObjective):
    r"""Samples of several outcomes, each minus a penalty for the noise at its points.

        objective_j(f, x) = f_j(x) - risk_aversion_j * v_j(x)

    with the noise variance v_j that the model of outcome j predicts; see `MeanVarianceObjective`.
    For `qLogNoisyExpectedHypervolumeImprovement` and its like on a `ModelListGP` of
    `MeanVarianceGP`s. Outcomes that only constraints need are left out by `outcomes`: constraints
    see the samples as they were.

    Eq. (2) of [Makarova2021rahbo]_, outcome by outcome.

    Example:
        >>> from botorch.acquisition.multi_objective.logei import (
        ...     qLogNoisyExpectedHypervolumeImprovement,
        ... )
        >>> from botorch_risk.models import MeanVarianceGP
        >>> train_X = torch.rand(10, 1, dtype=torch.double)
        >>> noise = train_X * torch.randn(2, 10, 4, dtype=torch.double)
        >>> model = ModelListGP(
        ...     MeanVarianceGP(train_X, (6 * train_X).sin() + noise[0]),
        ...     MeanVarianceGP(train_X, (6 * train_X).cos() + noise[1]),
        ... )
        >>> acqf = qLogNoisyExpectedHypervolumeImprovement(
        ...     model,
        ...     ref_point=[-2.0, -2.0],
        ...     X_baseline=train_X,
        ...     objective=MultiOutputMeanVarianceObjective(model, risk_aversion=[1.0, 0.0]),
        ... )
        >>> acqf(torch.rand(5, 2, 1, dtype=torch.double)).shape
        torch.Size([5])
    """

    def __init__(
        self,
        model: ModelListGP,
        risk_aversion: float | Sequence[float],
        noise_beta: float | None = None,
        outcomes: Sequence[int] | None = None,
    ) -> None:
        r"""Builds the objective.

        Args:
            model: One model of one output for each outcome, a `MeanVarianceGP` where the risk
                aversion is not 0.
            risk_aversion: Weights of the variances, >= 0: one for all, or one for each objective.
            noise_beta: Squared width of the lower bounds of the noise; the predicted noise if
                omitted.
            outcomes: Which outcomes are objectives, and their order. Default: all.

        Raises:
            UnsupportedError: If the model is not a list of models of one output each, or one whose
                noise is penalised has not learnt it.
            ValueError: If there is not a risk aversion for each objective, one is negative, or an
                outcome does not exist.
        """
        super().__init__()
        models: Any = model.models if isinstance(model, ModelListGP) else []
        if not models or any(part.num_outputs != 1 for part in models):
            raise UnsupportedError(
                "Expected a `ModelListGP` of models of one output each. "
                f"Got {type(model).__name__} with {model.num_outputs=}."
            )
        count = model.num_outputs
        self.outcomes = list(range(count)) if outcomes is None else list(outcomes)
        if not self.outcomes or any(not -count <= one < count for one in self.outcomes):
            raise ValueError(f"Expected `outcomes` among {count}. Got {outcomes}.")
        weights = [risk_aversion] if isinstance(risk_aversion, int | float) else [*risk_aversion]
        weights = weights * len(self.outcomes) if len(weights) == 1 else weights
        if len(weights) != len(self.outcomes):
            raise ValueError(
                f"Expected one `risk_aversion` for each of {len(self.outcomes)} objectives. "
                f"Got {risk_aversion}."
            )
        weights = [float(as_nonnegative("risk_aversion", weight)) for weight in weights]
        self._objectives = {
            position: MeanVarianceObjective(
                models[outcome], weights[position], noise_beta, outcome_index=outcome
            )
            for position, outcome in enumerate(self.outcomes)
            if weights[position]
        }

    def forward(self, samples: Tensor, X: Tensor | None = None) -> Tensor:
        r"""Objective values of samples.

        Args:
            samples: `sample_shape x batch_shape x q x m` samples of all outcomes.
            X: The `batch_shape x q x d` points that they were drawn at.

        Returns:
            `sample_shape x batch_shape x q x m'` values, one for each objective.

        Raises:
            UnsupportedError: If the acquisition function does not pass its points.
            BotorchTensorDimensionError: If the samples lack an outcome.
        """
        values = [
            self._objectives[position](samples, X)
            if position in self._objectives
            else samples[..., outcome]
            for position, outcome in enumerate(self.outcomes)
        ]
        return torch.stack(values, dim=-1)
