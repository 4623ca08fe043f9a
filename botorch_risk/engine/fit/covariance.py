r"""The covariance of an exact GP at its training inputs, with its derivatives."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_risk.engine.fit.marginal_likelihood import lengthscale_gradient
from botorch_risk.engine.posterior.kernels import correlation_and_slope
from botorch_risk.matrices import squared_differences


@dataclass(frozen=True)
class TrainingCovariance:
    r"""Covariances at the training inputs, for rows of hyperparameters."""

    covariance: Tensor  # rows x n x n, without the noise
    _Z: Tensor  # scaled inputs, rows x n x d
    _lengthscale: Tensor
    _outputscale: Tensor  # rows
    _correlation: Tensor
    _slope: Tensor
    _has_outputscale: bool

    @classmethod
    def of(
        cls, X: Tensor, nu: float, lengthscale: Tensor, outputscale: Tensor | None, shift: Tensor
    ) -> TrainingCovariance:
        r"""Evaluate a stationary kernel at all pairs of inputs.

        `X` is `rows x n x d`, `lengthscale` `rows x d` or `rows x 1`, `outputscale` `rows x 1`.
        `shift`, `rows`, is added to all entries: the prior variance of a constant mean.
        """
        scale = torch.ones_like(lengthscale[:, :1]) if outputscale is None else outputscale
        scale = scale.squeeze(-1)
        Z = X / lengthscale.unsqueeze(-2)
        Z = Z - Z.mean(dim=-2, keepdim=True)  # gradients are differences of squares
        correlation, slope = correlation_and_slope(squared_differences(Z, Z), nu)
        covariance = scale[:, None, None] * correlation
        covariance += shift[:, None, None]
        has_outputscale = outputscale is not None
        return cls(covariance, Z, lengthscale, scale, correlation, slope, has_outputscale)

    def gradient(self, sensitivity: Tensor) -> Tensor:
        r"""Derivatives in lengthscales and output scale, `rows x p`, from those in covariances."""
        # `lengthscale_gradient` halves and negates, for Eq. (5.9).
        weighted = -2 * sensitivity * self._slope
        found = [lengthscale_gradient(self._Z, weighted, self._outputscale, self._lengthscale)]
        if self._has_outputscale:
            found.append((sensitivity * self._correlation).sum((-2, -1)).unsqueeze(-1))
        return torch.cat(found, dim=-1)
