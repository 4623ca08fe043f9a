r"""Uncertainty sampling of the noise (first stage of RAHBO-US)."""

from __future__ import annotations

from typing import Any

from botorch.exceptions.errors import UnsupportedError
from torch import Tensor

from botorch_risk.acquisition.pointwise import (
    PointwiseAcquisitionFunction,
    construct_from_own_arguments,
)
from botorch_risk.models.heteroscedastic import MeanVarianceGP
from botorch_risk.models.learnt_noise import LearntNoise


@construct_from_own_arguments
class NoisePosteriorStandardDeviation(PointwiseAcquisitionFunction):
    r"""Standard deviation of the noise process: where the noise is known least.

        score(x) = sigma_var(x), on the scale of the model's link

    The first stage of RAHBO-US ([Makarova2021rahbo]_, Sec. 4). Single-outcome, q = 1: use
    `sequential=True`.

    Example:
        >>> import torch
        >>> from botorch_risk.models import MeanVarianceGP
        >>> train_X = torch.rand(10, 1, dtype=torch.double)
        >>> train_Y = (6 * train_X).sin() + train_X * torch.randn(10, 4, dtype=torch.double)
        >>> acqf = NoisePosteriorStandardDeviation(MeanVarianceGP(train_X, train_Y))
        >>> acqf(torch.rand(5, 1, 1, dtype=torch.double)).shape
        torch.Size([5])
    """

    def __init__(self, model: MeanVarianceGP, X_pending: Tensor | None = None) -> None:
        r"""Builds the acquisition function.

        Args:
            model: A fitted mean-variance model that learns its noise.
            X_pending: `batch_shape x n' x d` points under evaluation.

        Raises:
            UnsupportedError: If the model does not learn its noise.
        """
        if not isinstance(model, MeanVarianceGP) or not isinstance(model.noise, LearntNoise):
            raise UnsupportedError(
                f"Expected a MeanVarianceGP that learns its noise. Got {type(model).__name__}."
            )
        super().__init__(model=model)
        self.set_X_pending(X_pending)

    def _condition(self, X_pending: Tensor | None) -> MeanVarianceGP:
        r"""The model whose noise process knows its own mean at pending points."""
        model: Any = self.model
        return model if X_pending is None else model.condition_on_pending(X_pending)

    def evaluate(self, X: Tensor) -> Tensor:
        r"""Standard deviations at `batch_shape x m x d` points, `batch_shape x m`."""
        return self._conditioned.noise.marginals(X).variance.sqrt()
