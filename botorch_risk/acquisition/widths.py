r"""Widths of confidence bounds: what the theory prescribes for a round or a model."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from botorch.models.model import Model
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from botorch_risk.acquisition.pointwise import as_nonnegative
from botorch_risk.arguments import (
    as_floating,
    check_counts,
    check_nonnegative,
    check_positive,
    check_probability,
)

Beta = float | Tensor | Callable[[int], float]


def check_beta(beta: Beta) -> None:
    r"""Raises a `ValueError` if a constant squared width is negative or not finite."""
    if not callable(beta):
        as_nonnegative("beta", beta)


def beta_of_round(beta: Beta, t: int) -> float | Tensor:
    r"""The squared width of round t: `beta` itself, or what a schedule says of the round."""
    check_counts(t=t)
    return beta(t) if callable(beta) else beta


def finite_domain_beta(t: int, num_decisions: int) -> float:
    r"""The squared width beta under which Bayesian regret is bounded on finitely many decisions.

        beta_t = 2 log( t^2 num_decisions / sqrt(2 pi) )

    Lemma 6 of [Huang2024kde]_ with the decisions in place of its grid: the expected excess of f
    over its bound, at most `sigma exp(-beta / 2) / sqrt(2 pi)` for each, sums to at most
    `1 / t^2`. It assumes f to be drawn from the GP, with a prior variance of at most 1. Where the
    formula is negative, a width of 0 is enough for that, and is returned.

    Args:
        t: The round, >= 1.
        num_decisions: How many decisions there are, >= 1.

    Returns:
        beta, for `mean + sqrt(beta) sigma`.

    Raises:
        ValueError: If an argument is out of its range.

    Example:
        >>> round(finite_domain_beta(10, num_decisions=100), 4)
        16.5828
    """
    check_counts(t=t, num_decisions=num_decisions)
    return _beta(t, math.log(num_decisions))


def continuous_domain_beta(
    t: int, d_x: int, side_length: float, slope_factor: float, slope_scale: float
) -> float:
    r"""The squared width beta under which Bayesian regret is bounded on a box of decisions.

        beta_t = 2 log(t^2 / sqrt(2 pi)) + 2 d_x log(max(1, t^2 d_x a b r sqrt(pi) / 2))

    Theorems 1 and 2 of [Huang2024kde]_, for SBO-KDE and DRBO-KDE on `[0, r]^d_x`, whose f has
    slopes with `P(sup |df / dz_i| > L) <= a exp(-(L / b)^2)` (Assumption 1). The second logarithm
    counts the points of a grid along each axis, of which there is at least one: hence the
    maximum, which the paper leaves out. Where the sum is negative, 0 is returned as by
    `finite_domain_beta`. The experiments of the paper take the constant 2.25.

    Args:
        t: The round, >= 1.
        d_x: The number of decision variables, >= 1.
        side_length: The side of the box, the paper's r, > 0.
        slope_factor: The paper's a, > 0.
        slope_scale: The paper's b, > 0, in standardised outcomes per unit of r.

    Returns:
        beta, for `mean + sqrt(beta) sigma`.

    Raises:
        ValueError: If an argument is out of its range.

    Example:
        >>> round(continuous_domain_beta(10, 2, side_length=1.0, slope_factor=1, slope_scale=1), 3)
        28.083
        >>> from functools import partial  # as a function of the round, for a strategy
        >>> schedule = partial(
        ...     continuous_domain_beta, d_x=2, side_length=1.0, slope_factor=1.0, slope_scale=1.0
        ... )
        >>> schedule(10) < schedule(20)
        True
    """
    check_counts(t=t, d_x=d_x)
    check_positive(side_length=side_length, slope_factor=slope_factor, slope_scale=slope_scale)
    slope = slope_factor * slope_scale * math.sqrt(math.pi) / 2
    points_per_axis = max(1.0, t**2 * d_x * side_length * slope)
    return _beta(t, d_x * math.log(points_per_axis))


def bayesian_beta(t: int, delta: float = 0.1, num_points: int = 1) -> float:
    r"""The squared width for a function drawn from the prior, at finitely many points.

        beta_t = 2 log(num_points t^2 pi^2 / (6 delta))

    All bounds of all rounds hold together with probability 1 - delta [Srinivas2010gpucb]_, Theorem
    1, and so do the bounds of the value-at-risk (Lemma 2 of [Nguyen2021vucb]_). With the defaults
    it is `2 log(t^2 pi^2 / 0.6)`, the schedule of V-UCB's experiments (Appendix I), which holds for
    one point. Its square root multiplies sigma; the authors' program has the constant 9 instead.
    `finite_domain_beta` bounds the regret in expectation, not with high probability.

    Args:
        t: The round, from 1.
        delta: Probability, in (0, 1), that some bound fails at some time.
        num_points: The number of pairs (x, w) at which the bounds are to hold.

    Raises:
        ValueError: If a number is out of its range.

    Example:
        >>> round(bayesian_beta(1), 4), round(bayesian_beta(10), 4)
        (5.6006, 14.8109)
    """
    check_probability(delta=delta)
    check_counts(t=t, num_points=num_points)
    return 2 * math.log(num_points * t**2 * math.pi**2 / (6 * delta))


def rkhs_beta(
    information_gain: float | Tensor, noise_variance: float, rkhs_norm: float, delta: float
) -> Tensor:
    r"""The squared width for a function of bounded norm, at all points and in all rounds.

        beta_t = (rkhs_norm + sigma_n sqrt(2 (gamma_{t-1} + 1 + log(1 / delta))))^2

    Source: Lemma 1 of [Nguyen2021vucb]_. Very conservative in practice, as the authors say.

    Args:
        information_gain: gamma_{t-1}, the largest possible with t - 1 observations, in nats; or
            an upper bound of it. A tensor of any shape, such as one of `information_gain`.
        noise_variance: sigma_n^2, >= 0.
        rkhs_norm: B, a bound of the norm of the function in the space of the kernel, >= 0.
        delta: Probability, in (0, 1), that some bound fails at some time.

    Returns:
        Values of beta in the shape of the gains.

    Raises:
        ValueError: If a number is out of its range.

    Example:
        >>> rkhs_beta(0.0, noise_variance=0.5, rkhs_norm=1.0, delta=0.5).item()
        5.295...
    """
    gain = torch.as_tensor(information_gain, dtype=torch.double)
    check_probability(delta=delta)
    check_nonnegative(noise_variance=noise_variance, rkhs_norm=rkhs_norm)
    check_nonnegative(information_gain=gain.min().item())
    width = rkhs_norm + (2 * noise_variance * (gain + 1 + math.log(1 / delta))).sqrt()  # Lemma 1
    return width.square()


def information_gain(covariance: Tensor, noise_variance: float, num_observations: int) -> Tensor:
    r"""Information about a function that greedily chosen observations give.

        I_t = 1/2 sum_{i <= t} log(1 + sigma_{i-1}^2(x_i) / noise_variance)

    with x_i where the variance is largest; a point may be observed again. The best choice gives
    gamma_t, and greedy choice at least (1 - 1/e) of it [Srinivas2010gpucb]_, so that
    `I_t <= gamma_t <= I_t / (1 - 1/e)` over these points. For a bound that holds, give
    `rkhs_beta` the latter.

    Args:
        covariance: Prior covariance of the function at candidates, `batch_shape x N x N`, such as
            `model.covar_module(X).to_dense()`.
        noise_variance: Of the observations, > 0, in the same units.
        num_observations: T.

    Returns:
        `batch_shape x (T + 1)` gains in nats after 0 to T observations.

    Raises:
        BotorchTensorDimensionError: If the covariance is not square.
        InputDataError: If it is not finite.
        ValueError: If the noise is not positive, or T negative.

    Example:
        >>> information_gain(torch.eye(2).double(), noise_variance=1.0, num_observations=2)
        tensor([0.0000, 0.3466, 0.6931], dtype=torch.float64)
    """
    covariance = as_floating(covariance, "covariance")
    if covariance.dim() < 2 or covariance.shape[-1] != covariance.shape[-2]:
        raise BotorchTensorDimensionError(
            f"Expected `covariance` to have shape `batch_shape x N x N`. Got {covariance.shape=}."
        )
    if not covariance.isfinite().all():
        raise InputDataError("Expected a finite `covariance`. Got an entry that is not.")
    check_positive(noise_variance=noise_variance)
    check_counts(0, num_observations=num_observations)
    covariance = covariance.detach().clone()
    gains = [torch.zeros_like(covariance[..., 0, 0])]
    for _ in range(num_observations):
        variance, index = covariance.diagonal(dim1=-2, dim2=-1).max(dim=-1)
        variance = variance.clamp_min(0.0)
        rows = index[..., None, None].expand(*index.shape, 1, covariance.shape[-1])
        row = covariance.gather(-2, rows)  # batch_shape x 1 x N
        covariance -= row.mT * row / (variance + noise_variance)[..., None, None]
        gains.append(gains[-1] + 0.5 * torch.log1p(variance / noise_variance))
    return torch.stack(gains, dim=-1)


def heteroscedastic_beta(model: Model, delta: float, rkhs_norm: float) -> Tensor:
    r"""The squared width beta for an exact GP with one output, Eq. (8) of [Makarova2021rahbo]_.

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
    check_probability(delta=delta)
    check_nonnegative(rkhs_norm=rkhs_norm)
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


def _beta(t: int, log_decisions: float) -> float:
    return max(0.0, 2 * (2 * math.log(t) - 0.5 * math.log(2 * math.pi) + log_decisions))


def total_variation_radius(t: int, d_w: int) -> float:
    r"""The radius of DRBO-KDE's ball in round t.

        t ** (-2 / (4 + d_w))

    Sec. 4.1 of [Huang2024kde]_: the rate at which the kernel density approaches the distribution,
    which keeps the regret of Theorem 2 sub-linear. In l1 units, the convention of
    `TotalVariationBall`.

    Args:
        t: The round, >= 1.
        d_w: The number of environmental variables, >= 1.

    Raises:
        ValueError: If an argument is out of its range.

    Example:
        >>> round(total_variation_radius(32, d_w=1), 4)
        0.25
    """
    check_counts(t=t, d_w=d_w)
    return t ** (-2 / (4 + d_w))


def maximum_mean_discrepancy_radius(t: int, gamma: float = 0.1) -> float:
    r"""The radius of DRBO-MMD's ball in round t.

        (2 + sqrt(2 log(1 / gamma))) / sqrt(t)

    Lemma 3 of [Kirschner2020drbo]_: with probability `1 - gamma` the distribution lies within
    it of the empirical one of t draws, for a kernel whose diagonal is at most 1.

    Args:
        t: The round, >= 1.
        gamma: Probability, in (0, 1), that the distribution lies outside.

    Raises:
        ValueError: If an argument is out of its range.

    Example:
        >>> round(maximum_mean_discrepancy_radius(16), 4)
        1.0365
    """
    check_counts(t=t)
    check_probability(gamma=gamma)
    return (2 + math.sqrt(2 * math.log(1 / gamma))) / math.sqrt(t)
