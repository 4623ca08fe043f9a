r"""How wide V-UCB's confidence bounds are to be in each round.

.. [Nguyen2021vucb]
    Q. P. Nguyen, Z. Dai, B. K. H. Low, P. Jaillet. Value-at-Risk Optimization with Gaussian
    Processes. International Conference on Machine Learning, 2021.

.. [Srinivas2010gpucb]
    N. Srinivas, A. Krause, S. M. Kakade, M. Seeger. Gaussian Process Optimization in the Bandit
    Setting: No Regret and Experimental Design. International Conference on Machine Learning, 2010.
"""

from __future__ import annotations

import math

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from torch import Tensor


def bayesian_beta(t: int, delta: float = 0.1, num_points: int = 1) -> float:
    r"""The squared width for a function drawn from the prior, at finitely many points.

        beta_t = 2 log(num_points t^2 pi^2 / (6 delta))

    All bounds of all rounds hold together with probability 1 - delta [Srinivas2010gpucb]_, Theorem
    1, and so do those of the value-at-risk (Lemma 2 of [Nguyen2021vucb]_). With the defaults it
    is `2 log(t^2 pi^2 / 0.6)`, the schedule of V-UCB's experiments (Appendix I), which holds for
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
    _check_delta(delta)
    if t < 1 or num_points < 1:
        raise ValueError(f"Expected `t` and `num_points` of at least 1. Got {t=}, {num_points=}.")
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
    _check_delta(delta)
    numbers = {"noise_variance": noise_variance, "rkhs_norm": rkhs_norm}
    for name, number in (*numbers.items(), ("information_gain", gain.min().item())):
        if not 0 <= number < math.inf:
            raise ValueError(f"Expected `{name}` to be finite and >= 0. Got {number}.")
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
    if covariance.dim() < 2 or covariance.shape[-1] != covariance.shape[-2]:
        raise BotorchTensorDimensionError(
            f"Expected `covariance` to have shape `batch_shape x N x N`. Got {covariance.shape=}."
        )
    if not covariance.isfinite().all():
        raise InputDataError("Expected a finite `covariance`. Got an entry that is not.")
    if not 0 < noise_variance < math.inf or num_observations < 0:
        raise ValueError(
            "Expected a positive `noise_variance` and `num_observations` >= 0. "
            f"Got {noise_variance=}, {num_observations=}."
        )
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


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise ValueError(f"Expected `delta` in (0, 1). Got {delta=}.")
