r"""The log marginal likelihood of exact Gaussian processes in closed form, batched over rows.

Value and gradient together, by the equations of Rasmussen and Williams rather than by autograd
through lazy tensors: a row is one data set with its own hyperparameters, and rows do not
interact. Anything that fits a Gaussian process to a loss of this kind can build on it.

.. [Rasmussen2006gp] C. E. Rasmussen and C. K. I. Williams. Gaussian Processes for Machine
    Learning. MIT Press, 2006. Chapter 5.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_risk.kernel_profiles import correlation_and_slope


class Hyperparameters(NamedTuple):
    r"""Hyperparameters of a row, or the derivatives in them, in natural units.

    Args:
        lengthscale: `rows x d`, or `rows x 1` for one that all inputs share.
        noise: Noise variances, `rows x n`, or `rows x 1` for one that all points share.
        outputscale: Signal variances, `rows`.
        constant: Prior means, `rows`.
    """

    lengthscale: Tensor
    noise: Tensor
    outputscale: Tensor
    constant: Tensor


class LogMarginalLikelihood(NamedTuple):
    r"""The log marginal likelihood and its derivatives.

    Args:
        value: `rows`, not divided by the number of points. NaN where the covariance matrix of
            the row is not positive definite to working precision.
        gradient: The derivatives, in the shapes of the hyperparameters.
    """

    value: Tensor
    gradient: Hyperparameters


def log_marginal_likelihood(
    X: Tensor,
    Y: Tensor,
    hyperparameters: Hyperparameters,
    nu: float = math.inf,
    observed: Tensor | None = None,
) -> LogMarginalLikelihood:
    r"""Value and gradient of `log N(Y | constant, outputscale * K + diag(noise))`.

    Args:
        X: Inputs, `rows x n x d`, distinct points or not.
        Y: Targets, `rows x n`.
        hyperparameters: Those of every row.
        nu: The smoothness of the Matern kernel; infinite for the squared exponential.
        observed: An optional boolean mask, `rows x n`. What it leaves out does not count, as if
            it had been removed from the data; `X` and `Y` must be finite there too.

    Returns:
        The values and the derivatives. A row that fails leaves the others untouched.

    Example:
        >>> import torch
        >>> X, Y = torch.tensor([[[0.0], [1.0]]]), torch.tensor([[1.0, -1.0]])
        >>> one = torch.ones(1)
        >>> theta = Hyperparameters(one.view(1, 1), 0.1 * one.view(1, 1), one, 0 * one)
        >>> log_marginal_likelihood(X, Y, theta).value
        tensor([-3.7784])
    """
    lengthscale, noise, outputscale, constant = hyperparameters
    Z = X / lengthscale.unsqueeze(-2)
    Z = Z - Z.mean(dim=-2, keepdim=True)  # gradients are differences of squares
    # The matrix-product form of distances is off by 1e-8 for close points: too much for Matern.
    distance = torch.cdist(Z, Z, compute_mode="donot_use_mm_for_euclid_dist")
    correlation, slope = correlation_and_slope(distance.square_(), nu)  # rows x n x n
    covariance = outputscale[:, None, None] * correlation
    residual = Y - constant.unsqueeze(-1)
    if observed is not None:
        covariance, noise, residual = _leave_out(observed, covariance, noise, residual)
    covariance.diagonal(dim1=-2, dim2=-1).add_(noise)
    factor, info = torch.linalg.cholesky_ex(covariance)
    inverse = torch.cholesky_inverse(factor)
    weights = inverse @ residual.unsqueeze(-1)  # rows x n x 1
    log_determinant = 2.0 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    count = Y.shape[-1] if observed is None else observed.sum(-1).to(Y)
    fit = (residual * weights.squeeze(-1)).sum(-1)
    value = -0.5 * (fit + log_determinant + count * math.log(2.0 * math.pi))
    value = torch.where(info == 0, value, torch.nan)
    # Eq. (5.9): d value / d theta = tr(S dA / d theta) / 2 with S = w w' - A^-1
    sensitivity = torch.baddbmm(inverse, weights, weights.mT, beta=-1.0)
    if observed is not None:
        sensitivity *= observed.unsqueeze(-1) & observed.unsqueeze(-2)
    diagonal = sensitivity.diagonal(dim1=-2, dim2=-1)
    # tr(S A) = y' A^-1 y - n, and of A all but the noise is proportional to the outputscale.
    signal = fit - count - (diagonal * noise).sum(-1)
    gradient = Hyperparameters(
        lengthscale=_lengthscale_gradient(Z, sensitivity * slope, outputscale, lengthscale),
        noise=_noise_gradient(diagonal, hyperparameters.noise),
        outputscale=0.5 * signal / outputscale,
        constant=weights.sum((-2, -1)),
    )
    return LogMarginalLikelihood(value, gradient)


def _leave_out(
    observed: Tensor, covariance: Tensor, noise: Tensor, residual: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Makes what was not observed an independent standard normal whose residual is 0."""
    pairs = observed.unsqueeze(-1) & observed.unsqueeze(-2)
    noise = torch.where(observed, noise, 1.0)
    return covariance * pairs, noise, residual * observed


def _lengthscale_gradient(
    Z: Tensor, weighted: Tensor, outputscale: Tensor, lengthscale: Tensor
) -> Tensor:
    r"""`sum_ij W_ij (z_i - z_j)^2 / (2 l)` for each input without an `n x n x d` tensor."""
    squares = (Z * Z * weighted.sum(-1, keepdim=True)).sum(-2)
    products = (Z * (weighted @ Z)).sum(-2)
    gradient = (squares - products) * outputscale.unsqueeze(-1)
    if lengthscale.shape[-1] == 1:
        gradient = gradient.sum(-1, keepdim=True)
    return gradient / lengthscale


def _noise_gradient(diagonal: Tensor, noise: Tensor) -> Tensor:
    gradient = 0.5 * diagonal
    return gradient.sum(-1, keepdim=True) if noise.shape[-1] == 1 else gradient
