r"""How wide a confidence bound must be for the theory to hold."""

from __future__ import annotations

import math
from typing import Any

import torch
from botorch.models.model import Model
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor


def heteroscedastic_beta(model: Model, delta: float, rkhs_norm: float) -> Tensor:
    r"""The squared width beta of Lemma 1 of RAHBO, for an exact GP with one output.

        sqrt(beta) = sqrt(2 log(det(S + K)^(1/2) / (delta det(S)^(1/2)))) + rkhs_norm

    with K the kernel matrix and S the diagonal of the noise variances at the training
    points, the determinants over the points that are given (the paper's indices leave it
    open), and lambda = 1: a lambda other than 1 only rescales the prior. The paper's beta_t
    multiplies sigma; this is its square. Use it for `model.mean_model` and
    `model.noise_model` of a `MeanVarianceGP`.

    Args:
        model: An exact GP with fixed or inferred Gaussian noise.
        delta: Probability, in (0, 1), that some bound fails at some time.
        rkhs_norm: A bound of the norm of the function in the space of the kernel, in the
            units of the transformed outcome, >= 0.

    Returns:
        `batch_shape` values of beta.

    Raises:
        ValueError: If `delta` or `rkhs_norm` is out of range.

    Example:
        >>> from botorch.models import SingleTaskGP
        >>> X = torch.rand(6, 1, dtype=torch.double)
        >>> model = SingleTaskGP(X, X.sin(), torch.full_like(X, 0.01))
        >>> bool(heteroscedastic_beta(model, delta=0.1, rkhs_norm=1.0) > 1)
        True
    """
    if not 0 < delta < 1:
        raise ValueError(f"Expected `delta` in (0, 1). Got {delta}.")
    if not 0 <= rkhs_norm < math.inf:
        raise ValueError(f"Expected `rkhs_norm` to be finite and >= 0. Got {rkhs_norm}.")
    exact_gp: Any = model
    exact_gp.eval()
    with torch.no_grad():
        covariance = exact_gp.covar_module(exact_gp.train_inputs[0]).to_dense()
        noise = exact_gp.likelihood.noise.expand(covariance.shape[:-1])
        scale = noise.rsqrt()
        # det(S + K) / det(S) = det(I + S^(-1/2) K S^(-1/2))
        scaled = scale.unsqueeze(-1) * covariance * scale.unsqueeze(-2)
        scaled.diagonal(dim1=-2, dim2=-1).add_(1.0)
        log_det = 2 * psd_safe_cholesky(scaled).diagonal(dim1=-2, dim2=-1).log().sum(dim=-1)
    return ((log_det - 2 * math.log(delta)).sqrt() + rkhs_norm).square()  # Eq. (8)
