r"""The log marginal likelihood of exact Gaussian processes in closed form, batched over rows.

Value and gradient together, by the equations of [Rasmussen2006gp]_, Chapter 5, rather than by
autograd through lazy tensors: a row is one data set with its own hyperparameters, and rows do not
interact. Anything that fits a Gaussian process to a loss of this kind can build on it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_risk.arguments import as_floating
from botorch_risk.posterior.kernels import correlation_and_slope


class Hyperparameters(NamedTuple):
    r"""Hyperparameters of a row, or the derivatives in them, in natural units.

    Args:
        lengthscale: `rows x d`, or `rows x 1` for one that all inputs share.
        noise: Noise variances, `rows x n`, or `rows x 1` for one that all points share.
        outputscale: Signal variances, `rows`.
        constant: Prior means, `rows`.

    Example:
        >>> X, Y = torch.tensor([[[0.0], [0.5], [1.0]]]), torch.tensor([[1.0, -1.0, 1.0]])
        >>> one = torch.ones(1)
        >>> theta = Hyperparameters(one.view(1, 1), 0.1 * one.view(1, 1), one, 0 * one)
        >>> gradient = log_marginal_likelihood(X, Y, theta).gradient
        >>> gradient.lengthscale < 0, gradient.outputscale > 0  # a shorter one is more likely
        (tensor([[True]]), tensor([True]))
    """

    lengthscale: Tensor
    noise: Tensor
    outputscale: Tensor
    constant: Tensor


class BestConstant(NamedTuple):
    r"""Bounds and density of the best prior mean, which maximises likelihood times density.

    Args:
        lower: Its lower bounds, `rows`.
        upper: Its upper bounds, `rows`.
        location: The mean of a normal density of it, `rows`.
        precision: The inverse of its variance, `rows`; 0 for none.
    """

    lower: Tensor
    upper: Tensor
    location: Tensor
    precision: Tensor


class LogMarginalLikelihood(NamedTuple):
    r"""The log marginal likelihood and its derivatives.

    Args:
        value: `rows`, not divided by the number of points. NaN where the covariance matrix of
            the row is not positive definite to working precision.
        gradient: The derivatives, in the shapes of the hyperparameters.
        constant: The prior means, `rows`: those that were given or the best ones.

    Example:
        >>> X, Y = torch.tensor([[[0.0], [1.0]]]), torch.tensor([[3.0, 5.0]])
        >>> one = torch.ones(1)
        >>> theta = Hyperparameters(one.view(1, 1), 0.1 * one.view(1, 1), one, 0 * one)
        >>> anywhere = BestConstant(-99 * one, 99 * one, 0 * one, 0 * one)
        >>> log_marginal_likelihood(X, Y, theta, best_constant=anywhere).constant
        tensor([4.])
    """

    value: Tensor
    gradient: Hyperparameters
    constant: Tensor


def log_marginal_likelihood(
    X: Tensor,
    Y: Tensor,
    hyperparameters: Hyperparameters,
    nu: float = math.inf,
    observed: Tensor | None = None,
    best_constant: BestConstant | None = None,
) -> LogMarginalLikelihood:
    r"""Value and gradient of `log N(Y | constant, outputscale * K + diag(noise))`.

    With `best_constant` the constant is not given but the best one, by generalised least squares:

        constant = (1' A^-1 Y + precision * location) / (1' A^-1 1 + precision)
        A = outputscale * K + diag(noise)

    moved to the nearer of its bounds where it lies outside. The value is the likelihood at this
    constant, without the density; the derivatives in the other hyperparameters are also the
    derivatives of likelihood times density at its maximum over the constant (the envelope theorem).

    Source: [Rasmussen2006gp]_, Eqs. (5.8) and (5.9).

    Args:
        X: Inputs, `rows x n x d`, distinct points or not.
        Y: Targets, `rows x n`.
        hyperparameters: Those of every row.
        nu: The smoothness of the Matern kernel, 0.5, 1.5 or 2.5; infinite for the squared
            exponential.
        observed: An optional boolean mask, `rows x n`. What it leaves out does not count, as if
            it had been removed from the data; `X` and `Y` must be finite there too.
        best_constant: What to seek the best constant by; what `hyperparameters` has for it then
            does not matter.

    Returns:
        The values and the derivatives. A row that fails leaves the others untouched.

    Raises:
        ValueError: If `nu` is another number.

    Example:
        >>> import torch
        >>> X, Y = torch.tensor([[[0.0], [1.0]]]), torch.tensor([[1.0, -1.0]])
        >>> one = torch.ones(1)
        >>> theta = Hyperparameters(one.view(1, 1), 0.1 * one.view(1, 1), one, 0 * one)
        >>> log_marginal_likelihood(X, Y, theta).value
        tensor([-3.7784])
    """
    if nu not in (0.5, 1.5, 2.5, math.inf):
        raise ValueError(f"Expected `nu` of 0.5, 1.5, 2.5 or infinity. Got {nu}.")
    lengthscale, noise, outputscale, constant = hyperparameters
    X, Y = as_floating(X, "X").to(lengthscale), as_floating(Y, "Y").to(lengthscale)
    Z = X / lengthscale.unsqueeze(-2)
    Z = Z - Z.mean(dim=-2, keepdim=True)  # gradients are differences of squares
    # The matrix-product form of distances is off by 1e-8 for close points: too much for Matern.
    distance = torch.cdist(Z, Z, compute_mode="donot_use_mm_for_euclid_dist")
    correlation, slope = correlation_and_slope(distance.square_(), nu)  # rows x n x n
    covariance = outputscale[:, None, None] * correlation
    if observed is not None:
        covariance, noise = _leave_out(observed, covariance, noise)
    covariance.diagonal(dim1=-2, dim2=-1).add_(noise)
    factor, info = torch.linalg.cholesky_ex(covariance)
    if info.any():  # what is left of a matrix without a factor may be singular: no inverse
        whole = torch.eye(Y.shape[-1], dtype=Y.dtype, device=Y.device)
        factor = torch.where((info == 0)[:, None, None], factor, whole)
    # The gradient reads every entry of the inverse: solves would save nothing.
    inverse = torch.cholesky_inverse(factor)
    if best_constant is not None:
        constant = _solve_constant(inverse, Y, observed, best_constant)
    residual = Y - constant.unsqueeze(-1)
    residual = residual if observed is None else residual * observed
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
    return LogMarginalLikelihood(value, gradient, constant)


def _solve_constant(
    inverse: Tensor, Y: Tensor, observed: Tensor | None, sought: BestConstant
) -> Tensor:
    r"""The best constant from the observed rows, within its bounds."""
    if observed is None:
        pull = inverse.sum(-1)  # A^-1 1
    else:
        pull = (inverse @ observed.to(Y).unsqueeze(-1)).squeeze(-1) * observed
    numerator = (pull * Y).sum(-1) + sought.precision * sought.location
    return (numerator / (pull.sum(-1) + sought.precision)).clamp(sought.lower, sought.upper)


def _leave_out(observed: Tensor, covariance: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    r"""Replaces unobserved rows by independent standard normals; their residuals become 0 later."""
    pairs = observed.unsqueeze(-1) & observed.unsqueeze(-2)
    return covariance * pairs, torch.where(observed, noise, 1.0)


def _lengthscale_gradient(
    Z: Tensor, weighted: Tensor, outputscale: Tensor, lengthscale: Tensor
) -> Tensor:
    r"""`sum_ij W_ij (z_i - z_j)^2 / (2 l)` for each input without an `n x n x d` tensor."""
    # W is symmetric: half the sum is `sum_i z_i^2 sum_j W_ij - z'W z`. The two terms grow with the
    # distance of the inputs from 0 and cancel, for which the caller centres Z.
    squares = (Z * Z * weighted.sum(-1, keepdim=True)).sum(-2)
    products = (Z * (weighted @ Z)).sum(-2)
    gradient = (squares - products) * outputscale.unsqueeze(-1)
    if lengthscale.shape[-1] == 1:
        gradient = gradient.sum(-1, keepdim=True)
    return gradient / lengthscale


def _noise_gradient(diagonal: Tensor, noise: Tensor) -> Tensor:
    gradient = 0.5 * diagonal
    return gradient.sum(-1, keepdim=True) if noise.shape[-1] == 1 else gradient
