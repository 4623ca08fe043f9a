r"""Slow and independent answers: loops, numpy and scipy, and none of the package's maths."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from scipy.integrate import quad
from scipy.special import digamma, polygamma
from scipy.stats import norm
from torch import Tensor


def gp_posterior(
    X: np.ndarray,
    train_X: np.ndarray,
    targets: np.ndarray,
    noise: np.ndarray,
    lengthscale: np.ndarray,
    constant: float,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Marginal moments of a GP with a unit squared-exponential kernel, point by point."""

    def kernel(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.exp(-0.5 * np.sum(((a - b) / lengthscale) ** 2)))

    gram = np.array([[kernel(a, b) for b in train_X] for a in train_X]) + np.diag(noise)
    mean, variance = np.empty(len(X)), np.empty(len(X))
    for i, x in enumerate(X):
        cross = np.array([kernel(x, a) for a in train_X])
        weights = np.linalg.solve(gram, cross)
        mean[i] = constant + weights @ (targets - constant)
        variance[i] = 1.0 - weights @ cross
    return mean, variance


def rahbo_moments(model: Any, repeats: np.ndarray, X: np.ndarray) -> dict[str, np.ndarray]:
    r"""Moments of f and of the noise process of an unbatched model with the log link.

    Everything but the hyperparameters comes from the raw repeats, by Eqs. (12)-(16).

    Args:
        model: Supplies lengthscales and constants, and `noise_beta`.
        repeats: `n x k` repeats without gaps, at distinct training points.
        X: `m x d` points.
    """
    train_X = to_numpy(model.train_X)
    k = repeats.shape[1]
    means, s2 = repeats.mean(axis=1), repeats.var(axis=1, ddof=1)  # Eq. (12)
    half = (k - 1) / 2
    logs = np.log(s2) - (digamma(half) - np.log(half))
    centre, spread = logs.mean(), logs.std(ddof=1)

    def noise_process(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = gp_posterior(
            points,
            train_X,
            (logs - centre) / spread,
            np.full(len(logs), polygamma(1, half) / spread**2),
            to_numpy(model.noise_model.covar_module.lengthscale).ravel(),
            model.noise_model.mean_module.constant.item(),
        )
        return centre + spread * mean, spread**2 * variance

    log_mean, log_variance = noise_process(train_X)
    noise = np.exp(log_mean + np.sqrt(model.noise_beta * log_variance)) / k  # Eq. (16)
    offset, scale = means.mean(), means.std(ddof=1)
    mean, variance = gp_posterior(
        X,
        train_X,
        (means - offset) / scale,
        noise / scale**2,
        to_numpy(model.mean_model.covar_module.lengthscale).ravel(),
        model.mean_model.mean_module.constant.item(),
    )
    log_mean, log_variance = noise_process(X)
    return {
        "mean": offset + scale * mean,
        "variance": scale**2 * variance,
        "log_mean": log_mean,
        "log_variance": log_variance,
    }


def risk_averse_bound(
    model: Any,
    repeats: np.ndarray,
    X: np.ndarray,
    beta: float,
    noise_beta: float,
    risk_aversion: float,
    optimistic: bool,
) -> np.ndarray:
    r"""`ucb_f - alpha lcb_var` (Sec. 3.3) or `lcb_f - alpha ucb_var` (Corollary 1.1)."""
    sign = 1.0 if optimistic else -1.0
    moments = rahbo_moments(model, repeats, X)
    f = moments["mean"] + sign * np.sqrt(beta * moments["variance"])
    log_noise = moments["log_mean"] - sign * np.sqrt(noise_beta * moments["log_variance"])
    return f - risk_aversion * np.exp(log_noise)


def discrete_expectation(
    points: np.ndarray, probabilities: Sequence[float], a: float, b: np.ndarray
) -> float:
    r"""Expectation of `cos(a + b . w)`, point by point."""
    return sum(
        p * float(np.cos(a + np.dot(b, w))) for w, p in zip(points, probabilities, strict=True)
    )


def wave_mean(law: Any, rate: float, clipped: bool = False) -> complex:
    r"""Expectation of `exp(i rate w)` for a scipy law cut off at, or clipped to, [0, 1]."""
    mass = 1.0 if clipped else law.cdf(1.0) - law.cdf(0.0)
    real, imaginary = (
        quad(lambda w: wave(rate * w) * law.pdf(w), 0.0, 1.0, epsabs=1e-11, limit=200)[0]
        for wave in (np.cos, np.sin)
    )
    inside = complex(real, imaginary)
    if clipped:
        inside += law.cdf(0.0) + law.sf(1.0) * np.exp(1j * rate)
    return inside / mass


def normal_expectation(
    loc: Tensor, scale: Tensor, a: float, b: np.ndarray, clipped: bool = False
) -> float:
    r"""Of `cos(a + b . w)` for independent normal coordinates bounded to [0, 1]."""
    waves = [
        wave_mean(norm(m, s), rate, clipped)
        for m, s, rate in zip(loc.tolist(), scale.tolist(), b, strict=True)
    ]
    return float((np.exp(1j * a) * np.prod(waves)).real)


def kernel_density_expectation(observed: np.ndarray, a: float, b: np.ndarray) -> float:
    r"""Of `cos(a + b . w)` under truncated normal kernels of Silverman's width."""
    t, d = observed.shape
    total = 0.0
    for w in observed:
        product = np.exp(1j * a)
        for j in range(d):
            deviation = np.sqrt(np.mean((observed[:, j] - observed[:, j].mean()) ** 2))
            h = (4 / (d + 2)) ** (1 / (d + 4)) * deviation * t ** (-1 / (d + 4))
            product *= wave_mean(norm(w[j], h), b[j])
        total += product.real / t
    return float(total)


def box_expectation(observed: np.ndarray, a: float, b: np.ndarray) -> float:
    r"""Of `cos(a + b . w)` for a uniform law within one deviation of the mean."""
    product = np.exp(1j * a)
    for values, rate in zip(observed.T, b, strict=True):
        lower, upper = values.mean() - values.std(), values.mean() + values.std()
        product *= (np.exp(1j * rate * upper) - np.exp(1j * rate * lower)) / (
            1j * rate * (upper - lower)
        )
    return float(product.real)


def to_numpy(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().double().numpy()


def loop(batch_shape: tuple[int, ...], one: Callable[[tuple[int, ...]], Any]) -> Tensor:
    r"""Stacks the answers of a function of the batch index."""
    answers = [torch.as_tensor(one(index)) for index in itertools.product(*map(range, batch_shape))]
    return torch.stack(answers).reshape(*batch_shape, *answers[0].shape)
