r"""The log marginal likelihood of exact Gaussian processes in closed form, batched over rows.

Value and gradient together, by the equations of Rasmussen and Williams rather than by autograd
through lazy tensors: a row is one data set with its own hyperparameters, and rows do not
interact. Anything that fits a Gaussian process to a loss of this kind can build on it.

.. [Rasmussen2006gp] C. E. Rasmussen and C. K. I. Williams. Gaussian Processes for Machine
    Learning. MIT Press, 2006. Chapter 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

# From scaled distances r to the correlation k(r) and to -2 dk/d(r^2), which is what gradients
# in lengthscales (and in inputs) need.
Profile = Callable[[Tensor], tuple[Tensor, Tensor]]


def rbf_profile(distance: Tensor) -> tuple[Tensor, Tensor]:
    r"""The squared exponential, `exp(-r^2 / 2)`.

    Example:
        >>> import torch
        >>> rbf_profile(torch.zeros(1))
        (tensor([1.]), tensor([1.]))
    """
    correlation = distance.square().mul_(-0.5).exp_()
    return correlation, correlation


def matern12_profile(distance: Tensor) -> tuple[Tensor, Tensor]:
    r"""Matern with `nu = 1/2`, `exp(-r)`. Its slope at `r = 0`, where it has a cusp, is taken as 0.

    Example:
        >>> import torch
        >>> matern12_profile(torch.zeros(1))
        (tensor([1.]), tensor([0.]))
    """
    correlation = distance.neg().exp_()
    return correlation, torch.where(distance > 0, correlation / distance, 0.0)


def matern32_profile(distance: Tensor) -> tuple[Tensor, Tensor]:
    r"""Matern with `nu = 3/2`, `(1 + s) exp(-s)` with `s = sqrt(3) r`.

    Example:
        >>> import torch
        >>> matern32_profile(torch.zeros(1))
        (tensor([1.]), tensor([3.]))
    """
    scaled = math.sqrt(3.0) * distance
    decay = scaled.neg().exp_()
    return (scaled + 1.0) * decay, 3.0 * decay


def matern52_profile(distance: Tensor) -> tuple[Tensor, Tensor]:
    r"""Matern with `nu = 5/2`, `(1 + s + s^2 / 3) exp(-s)` with `s = sqrt(5) r`.

    Example:
        >>> import torch
        >>> matern52_profile(torch.zeros(1))
        (tensor([1.]), tensor([1.6667]))
    """
    scaled = math.sqrt(5.0) * distance
    decay = scaled.neg().exp_()
    linear = (scaled + 1.0) * decay
    return linear + scaled.square_().mul_(decay).div_(3.0), (5.0 / 3.0) * linear


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
    profile: Profile = rbf_profile,
    observed: Tensor | None = None,
) -> LogMarginalLikelihood:
    r"""Value and gradient of `log N(Y | constant, outputscale * K + diag(noise))`.

    Args:
        X: Inputs, `rows x n x d`, distinct points or not.
        Y: Targets, `rows x n`.
        hyperparameters: Those of every row.
        profile: The correlation as a function of scaled distance.
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
    correlation, slope = profile(distance)  # rows x n x n
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
