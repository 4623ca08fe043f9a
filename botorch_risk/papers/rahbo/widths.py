r"""Widths under which RAHBO's theorems hold [Makarova2021rahbo]_.

The authors use smaller ones in their experiments. The probability in Corollary 1.1 is for these.
"""

import math
from typing import Any

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from botorch_risk.acquisition.widths import checked_information
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
    r"""The squared width for a function of bounded norm under noise that varies between points.

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

    Example:
        >>> heteroscedastic_beta(0.5, rkhs_norm=1.0, delta=0.1)
        tensor(11.3402, dtype=torch.float64)
    """
    gain = checked_information("information", information)
    check_probability(delta=delta)
    check_nonnegative(rkhs_norm=rkhs_norm)
    return ((2 * (gain - math.log(delta))).sqrt() + rkhs_norm).square()  # Eq. (8), Lemma 1


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
        # Eqs. (21) and (24); of the mean and the noise process Eqs. (41) and (43).
        # det(S + K) / det(S) = det(I + S^(-1/2) K S^(-1/2)), whose eigenvalues are at least 1.
        scaled = scale.unsqueeze(-1) * covariance * scale.unsqueeze(-2)
        scaled.diagonal(dim1=-2, dim2=-1).add_(1.0)
        return psd_safe_cholesky(scaled).diagonal(dim1=-2, dim2=-1).log().sum(dim=-1)


def information_gain(
    covariance: Tensor, noise_variance: float | Tensor, num_observations: int
) -> Tensor:
    r"""The information about a function from readings that are chosen greedily, in nats.

        I_t = 1/2 sum_{i <= t} log(1 + sigma_{i-1}^2(x_i) / noise_variance(x_i))

    The maximum over all choices is gamma_t, Eq. (10) of [Makarova2021rahbo]_. Greedy choice gives
    at least `1 - 1/e` of it [Srinivas2010gpucb]_, so `I_t <= gamma_t <= I_t / (1 - 1/e)` over the
    candidates. For a valid upper bound, use the right side. A candidate may be read again.

    Args:
        covariance: The prior covariance of the candidates, `batch_shape x N x N`, such as
            `model.covar_module(X).to_dense()`.
        noise_variance: > 0: one number, or one per candidate, broadcastable to
            `batch_shape x N`.
        num_observations: T, >= 0.

    Returns:
        The gains after 0 to T readings, `batch_shape x (T + 1)`.

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
    # Eqs. (11), (42) and (44) of [Makarova2021rahbo]_; with equal noise Eq. (16) of
    # [Bogunovic2016truvar]_ and Eq. (11) of [Ha2023uhe]_.
    covariance = covariance.detach().clone()
    gains = [torch.zeros_like(covariance[..., 0, 0])]
    for _ in range(num_observations):
        variance = covariance.diagonal(dim1=-2, dim2=-1).clamp_min(0.0)
        ratio, index = (variance / noise).max(dim=-1)
        gains.append(gains[-1] + 0.5 * torch.log1p(ratio))
        rows = index[..., None, None].expand(*index.shape, 1, covariance.shape[-1])
        row = covariance.gather(-2, rows)  # batch_shape x 1 x N
        of_reading = (variance + noise).gather(-1, index.unsqueeze(-1)).unsqueeze(-1)
        covariance -= row.mT * row / of_reading
    return torch.stack(gains, dim=-1)
