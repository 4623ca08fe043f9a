r"""A Monte-Carlo objective that makes any acquisition function of BoTorch risk-averse."""

from __future__ import annotations

from botorch.acquisition.objective import MCAcquisitionObjective
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from torch import Tensor

from botorch_risk.acquisition.mean_variance import require_mean_variance_gp
from botorch_risk.acquisition.pointwise import as_nonnegative, keep_unregistered, register_weights
from botorch_risk.arguments import check_integers
from botorch_risk.models.heteroscedastic import MeanVarianceGP


class MeanVarianceObjective(MCAcquisitionObjective):
    r"""Samples of f minus a penalty for the noise at their points.

        objective(f, x) = f(x) - risk_aversion * v(x)

    v is the predicted noise variance, or its lower confidence bound where `noise_beta` is
    given, which is optimistic about noise that is not known yet. Eq. (2) of
    [Makarova2021rahbo]_ for other acquisition functions than the paper's:
    `qLogNoisyExpectedImprovement` with it proposes points that improve the mean-variance value.

    Example:
        >>> import torch
        >>> from botorch.acquisition.logei import qLogNoisyExpectedImprovement
        >>> from botorch_risk.models import MeanVarianceGP
        >>> train_X = torch.rand(10, 1, dtype=torch.double)
        >>> train_Y = (6 * train_X).sin() + train_X * torch.randn(10, 4, dtype=torch.double)
        >>> model = MeanVarianceGP(train_X, train_Y)
        >>> objective = MeanVarianceObjective(model, risk_aversion=2.0)
        >>> acqf = qLogNoisyExpectedImprovement(model, train_X, objective=objective)
        >>> acqf(torch.rand(5, 2, 1, dtype=torch.double)).shape
        torch.Size([5])
    """

    risk_aversion: Tensor
    _model: MeanVarianceGP

    def __init__(
        self,
        model: MeanVarianceGP,
        risk_aversion: float,
        noise_beta: float | None = None,
        outcome_index: int = 0,
    ) -> None:
        r"""Builds the objective.

        Args:
            model: The model whose noise is penalised.
            risk_aversion: Weight of the variance, >= 0 (the paper's alpha).
            noise_beta: Squared width of the lower bound of the noise; the predicted noise if
                omitted.
            outcome_index: Which outcome of the samples is f, where the acquisition function is
                built on a list of models (constraints, say) of which `model` is one.

        Raises:
            UnsupportedError: If the model is not a `MeanVarianceGP`.
            ValueError: If `risk_aversion` or `noise_beta` is negative or not finite, or
                `outcome_index` no integer.
        """
        require_mean_variance_gp(model)
        check_integers(outcome_index=outcome_index)
        super().__init__()
        keep_unregistered(self, "_model", model)  # the acquisition function owns it
        self.noise_beta = None if noise_beta is None else as_nonnegative("noise_beta", noise_beta)
        self.outcome_index = outcome_index
        register_weights(self, risk_aversion=risk_aversion)

    def forward(self, samples: Tensor, X: Tensor | None = None) -> Tensor:
        r"""Objective values of samples.

        Args:
            samples: `sample_shape x batch_shape x q x m` samples, of which f is one outcome.
            X: The `batch_shape x q x d` points that they were drawn at.

        Returns:
            `sample_shape x batch_shape x q` values.

        Raises:
            UnsupportedError: If the acquisition function does not pass its points.
            BotorchTensorDimensionError: If the samples lack the outcome.
        """
        if X is None:
            raise UnsupportedError(
                "Expected an acquisition function that passes its points to the objective. "
                "Got `X=None`."
            )
        if not -samples.shape[-1] <= self.outcome_index < samples.shape[-1]:
            raise BotorchTensorDimensionError(
                f"Expected samples with the outcome {self.outcome_index}. Got {samples.shape=}."
            )
        model = self._model
        if self.noise_beta is None:
            noise = model.predicted_noise(X).squeeze(-1)
        else:
            noise, _ = model.noise_confidence_bounds(X, self.noise_beta.to(X))
        return samples[..., self.outcome_index] - self.risk_aversion.to(samples) * noise
