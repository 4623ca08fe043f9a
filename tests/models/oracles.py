r"""RAHBO's equations in plain numpy, with given hyperparameters (Makarova et al. 2021)."""

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, polygamma

from tests.oracles import spread_of_the_noise


@dataclass
class Process:
    r"""Hyperparameters of a Matern-5/2 process, in the units that the model works in."""

    lengthscale: np.ndarray
    outputscale: float
    constant: float


def matern(X1, X2, process):
    values = np.empty((len(X1), len(X2)))
    for i, a in enumerate(X1):
        for j, b in enumerate(X2):
            r = np.sqrt(5 * np.sum(((a - b) / process.lengthscale) ** 2))
            values[i, j] = process.outputscale * (1 + r + r**2 / 3) * np.exp(-r)
    return values


def gaussian_process(X, y, noise, test_X, process):
    r"""Eqs. (5), (6) with lambda = 1 and a constant prior mean."""
    gram = matern(X, X, process) + np.diag(noise)
    cross = matern(test_X, X, process)
    mean = process.constant + cross @ np.linalg.solve(gram, y - process.constant)
    explained = np.einsum("ij,ji->i", cross, np.linalg.solve(gram, cross.T))
    return mean, process.outputscale - explained


def statistics(repeats):
    r"""Eq. (12) for rows of different lengths."""
    rows = [row[~np.isnan(row)] for row in repeats]
    means = np.array([row.mean() for row in rows])
    counts = np.array([len(row) for row in rows])
    variances = np.array([row.var(ddof=1) if len(row) > 1 else np.nan for row in rows])
    return means, variances, counts


def noise_process(X, repeats, test_X, process, link, sample_noise, ceiling=None, level=None):
    r"""Mean and variance of the process of the noise on the scale of its link (Eqs. 13, 32, 33).

    Args:
        sample_noise: As in the model; with `"inferred"`, `level` is the noise in the units
            that the model works in.
    """
    _, variances, counts = statistics(repeats)
    several = counts > 1
    X, variances, half = X[several], variances[several], (counts[several] - 1) / 2
    if link == "log":
        targets = np.log(variances) - digamma(half) + np.log(half)
        noise = polygamma(1, half)
        centre, scale = targets.mean(), spread_of_the_noise(targets, noise.mean())
    else:
        targets = variances
        if sample_noise == "bound":
            noise = ceiling**2 / half
        elif sample_noise == "pointwise":  # before the first fit, the typical noise
            noise = variances.mean() ** 2 / half
        centre = scale = targets.mean()
    if sample_noise == "inferred":
        noise = np.full(len(targets), level * scale**2)
    mean, variance = gaussian_process(
        X, (targets - centre) / scale, noise / scale**2, test_X, process
    )
    return centre + scale * mean, scale**2 * variance


def noise_bounds(moments, beta, link):
    r"""Eqs. (14), (15); quantiles where the process is on the logarithmic scale."""
    mean, variance = moments
    bounds = mean - np.sqrt(beta * variance), mean + np.sqrt(beta * variance)
    return tuple(np.exp(b) for b in bounds) if link == "log" else bounds


def noise_moments(moments, link):
    r"""Mean and variance of the noise variance itself."""
    mean, variance = moments
    if link != "log":
        return mean, variance
    return np.exp(mean + variance / 2), np.expm1(variance) * np.exp(2 * mean + variance)


def mean_process(X, repeats, noise_of_one, test_X, process, standardize):
    r"""Eqs. (5), (6) on the sample means with the noise of Eq. (16)."""
    means, _, counts = statistics(repeats)
    centre, scale = (means.mean(), means.std(ddof=1)) if standardize else (0.0, 1.0)
    noise = noise_of_one / counts / scale**2
    mean, variance = gaussian_process(X, (means - centre) / scale, noise, test_X, process)
    return centre + scale * mean, scale**2 * variance
