r"""The log marginal likelihood of exact Gaussian processes in closed form, batched over rows.

Value and gradient are computed together, by the equations of [Rasmussen2006gp]_, Chapter 5, rather
than by autograd through lazy tensors. A row is one data set with its own hyperparameters, and rows
do not interact.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from botorch_risk.arguments import as_floating
from botorch_risk.engine.fit.large_matrices import is_large, likelihood_of_large
from botorch_risk.engine.posterior.kernels import correlation_and_slope
from botorch_risk.matrices import inverse_of_factored, squared_differences
from botorch_risk.steady import may_look


class Hyperparameters(NamedTuple):
    r"""Hyperparameters of a row, or the derivatives in them, in natural units."""

    lengthscale: Tensor  # rows x d, or rows x 1 for one that all inputs share
    noise: Tensor  # noise variances, rows x n, or rows x 1 for one that all points share
    outputscale: Tensor | None  # signal variances, rows; None if they are 1
    constant: Tensor  # prior means, rows


class BestConstant(NamedTuple):
    r"""Bounds and density of the best prior mean, which maximises likelihood times density."""

    lower: Tensor  # its lower bounds, rows
    upper: Tensor  # its upper bounds, rows
    location: Tensor  # the mean of a normal density of it, rows
    precision: Tensor  # the inverse of its variance, rows; 0 for none

    def of(self, products: Tensor) -> Tensor:
        r"""The constant, `rows`, from `1' A^-1 1` and `1' A^-1 Y`, `rows x 2`."""
        own, pull = products.unbind(-1)
        pull = torch.addcmul(pull, self.precision, self.location)
        return (pull / (own + self.precision)).clamp(self.lower, self.upper)


class Targets(NamedTuple):
    r"""Targets prepared for repeated use in the likelihood."""

    both: Tensor  # ones and the targets, rows x n x 2; 0 where they are not observed
    observed: Tensor | None  # the observed targets, rows x n; None if all are
    pairs: Tensor | None  # the observed pairs, rows x n x n; None if all are
    number: Tensor | int  # the number of observed targets, rows, or one number

    @classmethod
    def of(cls, Y: Tensor, observed: Tensor | None) -> Targets:
        if observed is None:
            return cls(pad(Y.unsqueeze(-1), (1, 0), value=1.0), None, None, Y.shape[-1])
        both = torch.stack([observed.to(Y), Y * observed], dim=-1)
        pairs = observed.unsqueeze(-1) & observed.unsqueeze(-2)
        return cls(both, observed, pairs, both[..., 0].sum(-1))

    def rows(self, index: Tensor) -> Targets:
        parts = (part[index] if isinstance(part, Tensor) else part for part in self)
        return Targets(*parts)  # type: ignore[arg-type]


class LogMarginalLikelihood(NamedTuple):
    r"""The log marginal likelihood and its derivatives.

    Args:
        value: `rows`, not divided by the number of points. NaN where the covariance matrix of
            the row is not positive definite to working precision.
        gradient: The derivatives, in the shapes of the hyperparameters.
        constant: The prior means, `rows`: the given or the best ones.
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

    With `best_constant` the constant is the best one, by generalised least squares:

        constant = (1' A^-1 Y + precision * location) / (1' A^-1 1 + precision)
        A = outputscale * K + diag(noise)

    moved to the nearer of its bounds if it lies outside. The value is the likelihood at this
    constant, without the density; the derivatives in the other hyperparameters are also the
    derivatives of likelihood times density at its maximum over the constant (the envelope theorem).

    Source: [Rasmussen2006gp]_, Eqs. (5.8) and (5.9).

    Args:
        X: Inputs, `rows x n x d`, distinct points or not. Centre them: derivatives in lengthscales
            are differences of squares, and lose digits with the distance from 0.
        Y: Targets, `rows x n`.
        hyperparameters: The hyperparameters of every row.
        nu: The smoothness of the Matern kernel, 0.5, 1.5 or 2.5; infinite for the squared
            exponential.
        observed: An optional boolean mask, `rows x n`. The result excludes the masked points, but
            `X` and `Y` must be finite there too.
        best_constant: Replaces the constant in `hyperparameters`.
    """
    if nu not in (0.5, 1.5, 2.5, math.inf):
        raise ValueError(f"Expected `nu` of 0.5, 1.5, 2.5 or infinity. Got {nu}.")
    like = hyperparameters.lengthscale
    X, Y = as_floating(X, "X").to(like), as_floating(Y, "Y").to(like)
    return likelihood_of(X, Targets.of(Y, observed), hyperparameters, nu, best_constant)


def likelihood_of(
    X: Tensor,
    targets: Targets,
    hyperparameters: Hyperparameters,
    nu: float,
    best_constant: BestConstant | None,
) -> LogMarginalLikelihood:
    r"""`log_marginal_likelihood` of prepared targets."""
    if targets.pairs is None and is_large(X):
        of = None if best_constant is None else best_constant.of
        value, slopes, constant = likelihood_of_large(X, targets.both, *hyperparameters, nu, of)
        return LogMarginalLikelihood(value, Hyperparameters(*slopes), constant)
    lengthscale, _, outputscale, constant = hyperparameters
    both, _, pairs, count = targets
    ones, Y = both.unbind(-1)
    factored = FactoredCovariance.of(X, targets, hyperparameters, nu)
    Z, slope, noise, factor = factored
    # The gradient reads every entry of the inverse: solves would save nothing.
    inverse = inverse_of_factored(factor)
    if best_constant is None:
        residual = torch.addcmul(Y, ones, constant.unsqueeze(-1), value=-1)
        weights = inverse @ residual.unsqueeze(-1)  # rows x n x 1
    else:
        pull = inverse @ both  # A^-1 1, A^-1 Y
        constant = best_constant.of((both.mT @ pull[..., :1]).squeeze(-1))
        shift = constant.unsqueeze(-1)
        residual = torch.addcmul(Y, ones, shift, value=-1)
        weights = torch.addcmul(pull[..., 1], pull[..., 0], shift, value=-1).unsqueeze(-1)
    half_log_determinant = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    fit = (residual.unsqueeze(-2) @ weights).flatten()
    lost = torch.add(half_log_determinant, fit, alpha=0.5)
    value = lost.neg_().add_(count * (-0.5 * math.log(2 * math.pi)))
    # Eq. (5.9): d value / d theta = tr(S dA / d theta) / 2 with S = w w' - A^-1; here is -S
    sensitivity = torch.addcmul(inverse, weights, weights.mT, value=-1)
    if pairs is not None:
        sensitivity *= pairs
    diagonal = sensitivity.diagonal(dim1=-2, dim2=-1)
    of_outputscale = None
    if outputscale is not None:
        # tr(S A) = y' A^-1 y - n, and of A all but the noise is proportional to the outputscale.
        of_outputscale = 0.5 * (fit - count + (diagonal * noise).sum(-1)) / outputscale
    gradient = Hyperparameters(
        lengthscale=lengthscale_gradient(Z, sensitivity * slope, outputscale, lengthscale),
        noise=_noise_gradient(diagonal, hyperparameters.noise),
        outputscale=of_outputscale,
        constant=weights.sum((-2, -1)),
    )
    return LogMarginalLikelihood(value, gradient, constant)


class FactoredCovariance(NamedTuple):
    r"""The factor of `outputscale * K + diag(noise)`, and what its derivatives need."""

    Z: Tensor  # scaled inputs, rows x n x d
    slope: Tensor  # the slopes of the correlations, rows x n x n
    noise: Tensor  # the noise of each observed point; 1 for an unobserved one
    factor: Tensor  # the Cholesky factor, rows x n x n; NaN on the diagonal where it fails

    @classmethod
    def of(
        cls, X: Tensor, targets: Targets, hyperparameters: Hyperparameters, nu: float
    ) -> FactoredCovariance:
        lengthscale, noise, outputscale, _ = hyperparameters
        _, observed, pairs, _ = targets
        Z = X / lengthscale.unsqueeze(-2)
        correlation, slope = correlation_and_slope(squared_differences(Z, Z), nu)  # rows x n x n
        # A copy in any case: the profile of a squared exponential is its slope, used later.
        covariance = correlation * (1.0 if outputscale is None else outputscale[:, None, None])
        if observed is not None and pairs is not None:
            # Independent standard normals instead of unobserved rows, whose targets are 0.
            covariance, noise = covariance * pairs, torch.where(observed, noise, 1.0)
        covariance.diagonal(dim1=-2, dim2=-1).add_(noise)
        factor, info = torch.linalg.cholesky_ex(covariance)
        if not may_look(info) or bool(info.any()):
            # What is left of a matrix without a factor may be singular: no inverse, no value.
            factor.diagonal(dim1=-2, dim2=-1).masked_fill_((info > 0).unsqueeze(-1), torch.nan)
        return cls(Z, slope, noise, factor)


class MarginalOverConstant(NamedTuple):
    r"""The likelihood with the prior mean integrated out, `rows` each.

    Args:
        value: The log likelihood times the density of the constant, integrated over it; up to a
            number that depends on the density alone.
        constant: The mean of the constant given the targets.
        precision: The inverse of the constant's variance; 0 for a constant that is given.
    """

    value: Tensor
    constant: Tensor
    precision: Tensor


def marginal_over_constant(
    X: Tensor,
    targets: Targets,
    hyperparameters: Hyperparameters,
    nu: float,
    best_constant: BestConstant | None,
) -> MarginalOverConstant:
    r"""The log marginal likelihood without derivatives, integrated over the constant.

    With `u = 1' A^-1 1 + precision` and the best constant `c` of `log_marginal_likelihood`,

        log int N(Y | t, A) N(t | location, 1 / precision) dt = value(c) - log(u) / 2 + ...

    Source: [Rasmussen2006gp]_, Eq. (2.45). The bounds of the constant are not used.
    """
    factor = FactoredCovariance.of(X, targets, hyperparameters, nu).factor
    # Without a gradient nothing reads the inverse: two solves take its place.
    whitened = torch.linalg.solve_triangular(factor, targets.both, upper=False)
    gram = whitened.mT @ whitened  # of ones and targets, rows x 2 x 2
    own, pull, square = gram[:, 0, 0], gram[:, 0, 1], gram[:, 1, 1]
    value = -factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    if best_constant is None:
        constant, precision = hyperparameters.constant, torch.zeros_like(value)
        square = square - 2 * constant * pull + constant.square() * own
        return MarginalOverConstant(value - 0.5 * square, constant, precision)
    location, known = best_constant.location, best_constant.precision
    precision = own + known
    total = pull + known * location
    square = square + known * location.square() - total.square() / precision
    value = value - 0.5 * square - 0.5 * precision.log()
    return MarginalOverConstant(value, total / precision, precision)


def lengthscale_gradient(
    Z: Tensor, weighted: Tensor, outputscale: Tensor | None, lengthscale: Tensor
) -> Tensor:
    r"""`-sum_ij W_ij (z_i - z_j)^2 / (2 l)` for each input without an `n x n x d` tensor."""
    # W is symmetric: half the sum is `sum_i z_i (z_i sum_j W_ij - (W z)_i)`. The two terms grow
    # with the distance of the inputs from 0 and cancel, for which the caller centres Z.
    offset = torch.addcmul(weighted @ Z, Z, weighted.sum(-1, keepdim=True), value=-1)
    gradient = offset.mul_(Z).sum(-2)
    if outputscale is not None:
        gradient *= outputscale.unsqueeze(-1)
    if lengthscale.shape[-1] == 1:
        gradient = gradient.sum(-1, keepdim=True)
    return gradient / lengthscale


def _noise_gradient(diagonal: Tensor, noise: Tensor) -> Tensor:
    return -0.5 * (diagonal.sum(-1, keepdim=True) if noise.shape[-1] == 1 else diagonal)
