r"""Uncertainty sampling of the noise (first stage of RAHBO-US)."""

from __future__ import annotations

from typing import Any

from botorch.acquisition.input_constructors import acqf_input_constructor
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.acquisition.pointwise import PointwiseAcquisitionFunction
from botorch_risk.models.heteroscedastic import MeanVarianceGP
from botorch_risk.models.learnt_noise import LearntNoise


class NoisePosteriorStandardDeviation(PointwiseAcquisitionFunction):
    r"""Standard deviation of the noise process: where the noise is known least.

        score(x) = sigma_var(x), on the scale of the model's link

    The first stage of RAHBO-US (Makarova et al. 2021, Sec. 4). Single-outcome, q = 1: use
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

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        r"""Conditions the noise process on its own mean at points under evaluation.

        Args:
            X_pending: `batch_shape x n' x d` points, or `None`.
        """
        super().set_X_pending(X_pending)
        model: Any = self.model
        if X_pending is not None and X_pending.shape[-2] > 0:
            model = model.condition_on_pending(self.X_pending)
        self._conditioned = (model,)  # in a tuple it is no part of the state

    def evaluate(self, X: Tensor) -> Tensor:
        r"""Standard deviations at `batch_shape x m x d` points, `batch_shape x m`."""
        (model,) = self._conditioned
        return model.noise.marginals(X).variance.sqrt()


@acqf_input_constructor(NoisePosteriorStandardDeviation)
def construct_inputs_noise_uncertainty(
    model: Model, X_pending: Tensor | None = None
) -> dict[str, Any]:
    r"""Arguments of the acquisition function, as Ax asks for them."""
    return {"model": model, "X_pending": X_pending}
