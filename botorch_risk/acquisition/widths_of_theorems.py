r"""Widths under which the theorems of the papers hold.

Each function gives a squared width, for `mean + sqrt(beta) sigma`. The authors of all five papers
use smaller widths in their experiments, see `widths.py`; `certified_regret` and RAHBO's Corollary
1.1 state their probability with these.
"""

import math
from typing import Any

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from botorch_risk.arguments import (
    as_floating,
    check_counts,
    check_nonnegative,
    check_positive,
    check_probability,
)


def heteroscedastic_beta(
    information: float | Tensor, rkhs_norm: float, delta: float = 0.1
) -> Tensor:
    r"""The squared width for a function of bounded norm under noise that varies.

        beta_t = (sqrt(2 (I_t + log(1 / delta))) + rkhs_norm)^2

    Eq. (8) of [Makarova2021rahbo]_ with the information `I_t = 1/2 log(det(S + K) / det(S))` of its
    Eq. (24). The paper's beta_t multiplies sigma; this is its square. With the largest possible
    information it is Eq. (25), in which the paper lost a factor of 2. The regularisation lambda is
    1, since another one only rescales the prior. The same width serves for the noise variance,
    `beta_t^var`, with the information and the norm of the noise process.

    Args:
        information: I_t in nats, of any shape: `information_of_readings(model)`, or a bound of it
            by `information_gain`.
        rkhs_norm: A bound of the function's norm in the space of the kernel, >= 0, in the units of
            the model's outcome.
        delta: Probability, in (0, 1), that a bound fails at some point and some time.

    Returns:
        Values of beta in the shape of the information.

    Raises:
        ValueError: If a number is out of its range.

    Example:
        >>> heteroscedastic_beta(0.5, rkhs_norm=1.0, delta=0.1)
        tensor(11.3402, dtype=torch.float64)
    """
    gain = _checked_information("information", information)
    check_probability(delta=delta)
    check_nonnegative(rkhs_norm=rkhs_norm)
    return ((2 * (gain - math.log(delta))).sqrt() + rkhs_norm).square()  # Eq. (8), Lemma 1


def rkhs_beta(
    information_gain: float | Tensor, noise_variance: float, rkhs_norm: float, delta: float = 0.1
) -> Tensor:
    r"""The squared width for a function of bounded norm under equal noise.

        beta_t = (rkhs_norm + sigma_n sqrt(2 (gamma_{t-1} + 1 + log(1 / delta))))^2

    Lemma 1 of [Nguyen2021vucb]_, for all (x, w) and all rounds.

    Args:
        information_gain: gamma_{t-1} in nats, the largest with t - 1 observations, or a bound of
            it; of any shape.
        noise_variance: sigma_n^2, >= 0.
        rkhs_norm: B, a bound of the function's norm in the space of the kernel, >= 0.
        delta: Probability, in (0, 1), that a bound fails at some point and some time.

    Returns:
        Values of beta in the shape of the gains.

    Raises:
        ValueError: If a number is out of its range.

    Example:
        >>> rkhs_beta(0.0, noise_variance=0.5, rkhs_norm=1.0, delta=0.5)
        tensor(5.2956, dtype=torch.float64)
    """
    gain = _checked_information("information_gain", information_gain)
    check_probability(delta=delta)
    check_nonnegative(noise_variance=noise_variance, rkhs_norm=rkhs_norm)
    width = rkhs_norm + (2 * noise_variance * (gain + 1 - math.log(delta))).sqrt()  # Lemma 1
    return width.square()


def learnt_context_beta(
    t: int, d_x: int, side_length: float, slope_factor: float, slope_scale: float
) -> float:
    r"""The squared width of SBO-KDE and DRBO-KDE on a box of decisions.

        beta_t = 2 log(t^2 / sqrt(2 pi)) + 2 d_x log(t^2 d_x a b r sqrt(pi) / 2)

    Theorems 1 and 2 of [Huang2024kde]_ on `[0, r]^d_x`, for a function whose slopes obey
    `P(sup |df / dz_i| > L) <= a exp(-(L / b)^2)` (Assumption 1). The second logarithm counts the
    points of a grid along one axis. There is at least one, and a sum below 0 means that a width of
    0 is enough; the paper leaves both out. Its experiments use 2.25.

    Args:
        t: The round, >= 1.
        d_x: The number of decision variables, >= 1.
        side_length: r, > 0.
        slope_factor: a, > 0.
        slope_scale: b, > 0, in units of the outcome per unit of r.

    Raises:
        ValueError: If a number is out of its range.

    Example:
        >>> round(learnt_context_beta(10, 2, side_length=1, slope_factor=1, slope_scale=1), 3)
        28.083
        >>> from functools import partial  # a schedule, for a strategy's `beta`
        >>> schedule = partial(learnt_context_beta, d_x=2, side_length=1, slope_factor=1,
        ...                    slope_scale=1)
        >>> round(schedule(20), 3)
        36.4
    """
    check_counts(t=t, d_x=d_x)
    check_positive(side_length=side_length, slope_factor=slope_factor, slope_scale=slope_scale)
    log_grid = (
        2 * math.log(t)
        + math.log(d_x * math.sqrt(math.pi) / 2)
        + math.log(slope_factor)
        + math.log(slope_scale)
        + math.log(side_length)
    )
    # Lemma 6, and in Theorems 1 and 2, which the appendix repeats as Theorems 3 and 4.
    beta = 2 * (2 * math.log(t) - math.log(2 * math.pi) / 2) + 2 * d_x * max(log_grid, 0.0)
    return max(beta, 0.0)


def random_exploration_beta(
    t: int, d: int, side_length: float, slope_factor: float, slope_scale: float, delta: float = 0.1
) -> float:
    r"""The squared width of GP-UCB in every second round, after random exploration.

        beta_t = 2 log((t / 2)^2 2 pi^2 / (3 delta))
                 + 2 d log((t / 2)^2 d b_t r sqrt(log(4 d a_t / delta)))

    Theorem 6.5 of [Ha2023uhe]_ on `[0, r]^d`: `t / 2` rounds of GP-UCB have passed in round t.
    The grid of the second logarithm has at least one point along each axis, and a width is at least
    0; the paper leaves both out. The constants a_t and b_t belong to the estimated hyperparameters
    of round t.

    Args:
        t: The round, >= 2; the theorem is about even ones.
        d: The number of variables, >= 1.
        side_length: r, > 0.
        slope_factor: a_t, > `delta / (4 d)`: the outer constant of
            `P(sup |df / dx_i| > L) <= a_t exp(-(L / b_t)^2)`.
        slope_scale: b_t, > 0, in units of the outcome per unit of r.
        delta: Probability, in (0, 1).

    Raises:
        ValueError: If a number is out of its range.

    Example:
        >>> round(random_exploration_beta(10, 2, side_length=1, slope_factor=1, slope_scale=1), 3)
        33.414
    """
    check_counts(2, t=t)
    check_counts(d=d)
    check_positive(side_length=side_length, slope_factor=slope_factor, slope_scale=slope_scale)
    check_probability(delta=delta)
    if not 4 * d * slope_factor > delta:
        raise ValueError(
            f"Expected `slope_factor` > delta / (4 d) = {delta / (4 * d):g}. Got {slope_factor=}."
        )
    log_round = 2 * math.log(t / 2)
    log_slope = math.log(math.log(4 * d * slope_factor / delta)) / 2
    log_grid = log_round + math.log(d * slope_scale) + math.log(side_length) + log_slope
    beta = 2 * (log_round + math.log(2 * math.pi**2 / (3 * delta))) + 2 * d * max(log_grid, 0.0)
    return max(beta, 0.0)


def information_of_readings(model: Any) -> Tensor:
    r"""The information of a model's readings about its function, in nats.

        I(y, f) = 1/2 log(det(S + K) / det(S))

    Eq. (24) of [Makarova2021rahbo]_ with lambda = 1: K is the kernel matrix of the training points
    and S the diagonal matrix of their noise variances. For a `MeanVarianceGP` use
    `model.mean_model` and `model.noise_model`.

    Args:
        model: An exact Gaussian process of one outcome with Gaussian noise, fixed or inferred.

    Returns:
        The information, `batch_shape`.

    Example:
        >>> from botorch.models import SingleTaskGP
        >>> X = torch.tensor([[0.0]], dtype=torch.double)
        >>> model = SingleTaskGP(X, X, torch.full_like(X, 0.25), outcome_transform=None)
        >>> model.likelihood.noise_covar.noise, information_of_readings(model)  # log(5) / 2
        (tensor([0.2500], dtype=torch.float64), tensor(0.8047, dtype=torch.float64))
    """
    model.eval()
    with torch.no_grad():
        covariance = model.covar_module(model.train_inputs[0]).to_dense()
        scale = model.likelihood.noise.expand(covariance.shape[:-1]).rsqrt()
        # det(S + K) / det(S) = det(I + S^(-1/2) K S^(-1/2)), whose eigenvalues are at least 1.
        scaled = scale.unsqueeze(-1) * covariance * scale.unsqueeze(-2)
        scaled.diagonal(dim1=-2, dim2=-1).add_(1.0)
        # Eqs. (21) and (24); of the mean and the noise process Eqs. (41) and (43).
        return psd_safe_cholesky(scaled).diagonal(dim1=-2, dim2=-1).log().sum(dim=-1)


def information_gain(
    covariance: Tensor, noise_variance: float | Tensor, num_observations: int
) -> Tensor:
    r"""The information about a function from readings that are chosen greedily, in nats.

        I_t = 1/2 sum_{i <= t} log(1 + sigma_{i-1}^2(x_i) / noise_variance(x_i))

    The maximum over all choices is gamma_t, Eq. (10) of [Makarova2021rahbo]_. Greedy choice gives
    at least `1 - 1/e` of it [Srinivas2010gpucb]_, so `I_t <= gamma_t <= I_t / (1 - 1/e)` over the
    candidates. For a bound that holds, use the latter. A candidate may be read again.

    Args:
        covariance: The prior covariance of the candidates, `batch_shape x N x N`, such as
            `model.covar_module(X).to_dense()`.
        noise_variance: > 0: one number, or one per candidate, broadcastable to
            `batch_shape x N`.
        num_observations: T, >= 0.

    Returns:
        The gains after 0 to T readings, `batch_shape x (T + 1)`.

    Raises:
        BotorchTensorDimensionError: If the covariance is not square, or the noise does not fit it.
        InputDataError: If the covariance is not finite.
        ValueError: If a noise variance is not positive, or T negative.

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
    noise = as_floating(noise_variance, "noise_variance").to(covariance)
    try:
        noise = noise.expand(covariance.shape[:-1])
    except RuntimeError as error:
        raise BotorchTensorDimensionError(
            "Expected `noise_variance` to broadcast to `batch_shape x N`. "
            f"Got {noise.shape=}, {covariance.shape=}."
        ) from error
    check_positive(noise_variance=noise.min().item())
    check_counts(0, num_observations=num_observations)
    covariance = covariance.detach().clone()
    gains = [torch.zeros_like(covariance[..., 0, 0])]
    # Eqs. (11), (42) and (44) of [Makarova2021rahbo]_; with equal noise Eq. (16) of
    # [Bogunovic2016truvar]_ and Eq. (11) of [Ha2023uhe]_.
    for _ in range(num_observations):
        variance = covariance.diagonal(dim1=-2, dim2=-1).clamp_min(0.0)
        ratio, index = (variance / noise).max(dim=-1)
        gains.append(gains[-1] + 0.5 * torch.log1p(ratio))
        rows = index[..., None, None].expand(*index.shape, 1, covariance.shape[-1])
        row = covariance.gather(-2, rows)  # batch_shape x 1 x N
        of_reading = (variance + noise).gather(-1, index.unsqueeze(-1)).unsqueeze(-1)
        covariance -= row.mT * row / of_reading
    return torch.stack(gains, dim=-1)


def _checked_information(name: str, information: float | Tensor) -> Tensor:
    gain = as_floating(information, name).double()
    check_nonnegative(**{name: gain.min().item()})
    return gain
