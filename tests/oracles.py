r"""Slow and independent answers: loops, numpy and scipy, and none of the package's maths."""

import itertools
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
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
    matern_scale: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Marginal moments of a GP, point by point.

    Its kernel is the squared exponential of variance 1, or Matern 5/2 of a given variance.
    """

    def kernel(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        squares = np.sum(((A[:, None] - B) / lengthscale) ** 2, axis=-1)
        if matern_scale is None:
            return np.exp(-0.5 * squares)
        r = np.sqrt(5 * squares)
        return matern_scale * (1 + r + r**2 / 3) * np.exp(-r)

    gram, cross = kernel(train_X, train_X) + np.diag(noise), kernel(X, train_X)
    weights = np.linalg.solve(gram, cross.T).T
    mean = constant + weights @ (targets - constant)
    variance = (matern_scale or 1.0) - np.sum(weights * cross, axis=-1)
    return mean, variance


class FurtherReadings(NamedTuple):
    r"""k more readings at a point `d`: their mean, and the unbiased log of their variance."""

    x: np.ndarray
    k: int
    mean: float
    log_variance: float


def rahbo_moments(
    model: Any, repeats: np.ndarray, X: np.ndarray, further: FurtherReadings | None = None
) -> dict[str, np.ndarray]:
    r"""Moments of f and of the noise process of an unbatched model with the log link.

    Everything but the hyperparameters comes from the raw repeats, by Eqs. (12)-(16).

    Args:
        model: Supplies lengthscales and constants, and `noise_beta`.
        repeats: `n x k` repeats without gaps, at distinct training points.
        X: `m x d` points.
        further: Readings that both processes are conditioned on, while the scales, and the noise of
            the rows that were there, stay as they are.
    """
    train_X = to_numpy(model.train_X)
    k = repeats.shape[1]
    means = repeats.mean(axis=1)  # Eq. (12)
    sites, site_noise, prior_mean, of_noise = noise_sites(model, repeats)

    def noise_process(
        points: np.ndarray, further: FurtherReadings | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        rows, targets, noise = train_X, sites, site_noise
        if further is not None and further.k > 1:
            rows = np.vstack([rows, further.x])
            targets = np.append(targets, further.log_variance)
            noise = np.append(noise, polygamma(1, (further.k - 1) / 2))
        return gp_posterior(points, rows, targets, noise, of_noise[0], prior_mean, of_noise[1])

    log_mean, log_variance = noise_process(train_X)
    noise = np.exp(log_mean + np.sqrt(model.noise_beta * log_variance)) / k  # Eq. (16)
    offset, scale = means.mean(), means.std(ddof=1)
    rows = train_X
    if further is not None:
        log_mean, log_variance = noise_process(further.x[None])
        upper = np.exp(log_mean + np.sqrt(model.noise_beta * log_variance))
        rows = np.vstack([rows, further.x])
        means, noise = np.append(means, further.mean), np.append(noise, upper / further.k)
    mean, variance = gp_posterior(
        X,
        rows,
        (means - offset) / scale,
        noise / scale**2,
        to_numpy(model.mean_model.covar_module.base_kernel.lengthscale).ravel(),
        model.mean_model.mean_module.constant.item(),
        model.mean_model.covar_module.outputscale.item(),
    )
    log_mean, log_variance = noise_process(X, further)
    return {
        "mean": offset + scale * mean,
        "variance": scale**2 * variance,
        "log_mean": log_mean,
        "log_variance": log_variance,
    }


def noise_sites(
    model: Any, repeats: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float, tuple[np.ndarray, float]]:
    r"""Gaussian observations of log rho^2 that act as the density of all readings does at the mode.

    Returns:
        The observations, their variances, the prior mean of log rho^2, and the lengthscales and the
        variance of its kernel.
    """
    kernels = []
    for process in (model.mean_model, model.noise_model):
        kernel = process.covar_module
        lengthscale = to_numpy(kernel.base_kernel.lengthscale).ravel()
        kernels.append((lengthscale.tobytes(), kernel.outputscale.item()))
    train_X, offset = to_numpy(model.train_X), model.noise_model.mean_module.constant.item()
    arrays = (train_X.tobytes(), train_X.shape, repeats.astype(float).tobytes(), repeats.shape)
    return _noise_sites(*arrays, *kernels, offset)


@cache
def _noise_sites(
    rows: bytes,
    rows_shape: tuple[int, int],
    readings: bytes,
    readings_shape: tuple[int, int],
    of_mean: tuple[bytes, float],
    of_noise: tuple[bytes, float],
    offset: float,
) -> tuple[np.ndarray, np.ndarray, float, tuple[np.ndarray, float]]:
    r"""The sites of the arrays in these bytes; they are the same for every point of a test.

    The density is one Gaussian over every reading. Scoring with the trace formulas of its slope and
    of its Fisher information leads to the mode.
    """
    X = np.frombuffer(rows).reshape(rows_shape)
    repeats = np.frombuffer(readings).reshape(readings_shape)
    n, k = readings_shape
    kernels = [(np.frombuffer(scales), variance) for scales, variance in (of_mean, of_noise)]
    s2, half = repeats.var(axis=1, ddof=1), (k - 1) / 2
    centre = np.mean(np.log(s2) - (digamma(half) - np.log(half)))
    prior_mean = centre + offset
    grams = []
    for lengthscale, scale in kernels:
        r = np.sqrt(5 * np.sum(((X[:, None] - X[None]) / lengthscale) ** 2, axis=-1))
        grams.append(scale * (1 + r + r**2 / 3) * np.exp(-r))
    means = repeats.mean(axis=1)
    row, unit = np.repeat(np.arange(n), k), means.var(ddof=1)
    residual = (repeats - means.mean()).ravel()
    # Of the mean, whose constant has four times the variance of the means, and a little more.
    covariance = unit * grams[0] + 4 * means.var() + 1e-8 * means.var() * np.eye(n)
    h, C = np.full(n, prior_mean), grams[1]
    for _ in range(500):
        noise = np.exp(h)[row]
        inverse = np.linalg.inv(covariance[row][:, row] + np.diag(noise))
        weights = inverse @ residual
        slope, weight = np.empty(n), np.empty(n)
        for i in range(n):
            own = np.where(row == i, noise, 0.0)
            slope[i] = 0.5 * (weights @ (own * weights) - np.trace(inverse * own))
            weight[i] = 0.5 * np.sum((inverse * own) * (inverse * own).T)
        observed = h + slope / weight
        gain = np.linalg.solve(C + np.diag(1 / weight), observed - prior_mean)
        step = np.clip(prior_mean + C @ gain - h, -1.0, 1.0)
        h = h + step
        if np.abs(step).max() < 1e-12:
            return observed, 1 / weight, prior_mean, kernels[1]
    raise AssertionError("no mode")


def spread_of_the_noise(logs: np.ndarray, noise: float) -> float:
    r"""Prior standard deviation of log rho^2: the spread of log s^2 less its known noise.

    The difference and the typical variance, 0.75, are averaged by their precisions; the typical
    one is as uncertain as the larger of the two.
    """
    signal = max(logs.var(ddof=1) - noise, 0.0)
    errors = [2 * (signal + noise) ** 2 / (len(logs) - 1), max(signal, 0.75) ** 2]
    average = np.average([signal, 0.75], weights=1 / np.array(errors))
    return float(np.sqrt(max(average, 0.25)))


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


def straddle(
    model: Any, repeats: np.ndarray, X: np.ndarray, threshold: float, width: float
) -> np.ndarray:
    r"""`min(upper - h, h - lower)` with bounds `width` standard deviations from the mean."""
    moments = rahbo_moments(model, repeats, X)
    reach = width * np.sqrt(moments["variance"])
    return np.minimum(moments["mean"] + reach - threshold, threshold - moments["mean"] + reach)


def variances_with(
    model: Any, repeats: np.ndarray, points: np.ndarray, candidate: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    r"""Moments at points of an ordinary GP of the means of repeats, in the units of the outcome.

    With a candidate, the variances are those after a sample there, by refitting.
    """
    targets, train_X = repeats.mean(axis=1), to_numpy(model.train_inputs[0])
    centre, scale = targets.mean(), targets.std(ddof=1)
    targets = (targets - centre) / scale
    if candidate is not None:
        train_X, targets = np.vstack([train_X, candidate]), np.append(targets, 0.0)
    mean, variance = gp_posterior(
        points,
        train_X,
        targets,
        np.full(len(targets), model.likelihood.noise.item()),
        to_numpy(model.covar_module.lengthscale).ravel(),
        model.mean_module.constant.item(),
    )
    return centre + scale * mean, scale**2 * variance


def truncated_reduction(
    model: Any, repeats: np.ndarray, X: np.ndarray, points: np.ndarray, beta: float, eta: float
) -> np.ndarray:
    r"""The numerator of TRUVAR's Eq. (3) as printed; `eta` in prior standard deviations."""
    floor = (eta * repeats.mean(axis=1).std(ddof=1)) ** 2
    before = np.maximum(beta * variances_with(model, repeats, points)[1], floor)
    after = [np.maximum(beta * variances_with(model, repeats, points, x)[1], floor) for x in X]
    return np.array([(before - each).sum() for each in after])


def upper_bound(model: Any, repeats: np.ndarray, X: np.ndarray, beta: float) -> np.ndarray:
    r"""`mean + sqrt(beta) sigma` of an ordinary GP of the means of repeats, standardised."""
    targets = repeats.mean(axis=1)
    centre, scale = targets.mean(), targets.std(ddof=1)
    mean, variance = gp_posterior(
        X,
        to_numpy(model.train_inputs[0]),
        (targets - centre) / scale,
        np.full(len(targets), model.likelihood.noise.item()),
        to_numpy(model.covar_module.lengthscale).ravel(),
        model.mean_module.constant.item(),
    )
    return centre + scale * (mean + np.sqrt(beta * variance))


def expectation(values: np.ndarray, weights: np.ndarray) -> float:
    return sum(w * v for v, w in zip(values, weights, strict=True))


def value_at_risk(values: np.ndarray, weights: np.ndarray, risk_level: float) -> float:
    r"""Tries every value in turn, Eq. (1) of V-UCB."""
    for value in sorted(values):
        if weights[values <= value].sum() >= risk_level * (1 - 1e-7):
            return value
    raise AssertionError("the weights do not sum to 1")


def conditional_value_at_risk(values: np.ndarray, weights: np.ndarray, level: float) -> float:
    r"""The variational form, whose maximum lies at one of the values."""
    return max(c - expectation(np.maximum(c - values, 0), weights) / level for c in values)


def share_above(values: np.ndarray, weights: np.ndarray, threshold: float) -> float:
    return sum(w for v, w in zip(values, weights, strict=True) if v > threshold)


def mean_variance(values: np.ndarray, weights: np.ndarray, risk_aversion: float) -> float:
    r"""The variance as half the mean squared difference of two independent draws."""
    n = range(len(values))
    variance = sum(weights[i] * weights[j] * (values[i] - values[j]) ** 2 / 2 for i in n for j in n)
    return expectation(values, weights) - risk_aversion * variance


def total_variation_worst_case(values: np.ndarray, weights: np.ndarray, radius: float) -> float:
    r"""A linear program in what each probability gains and loses."""
    n = len(values)
    solution = linprog(
        np.concatenate([values, -values]),
        A_ub=np.block([[np.ones(2 * n)], [-np.eye(n), np.eye(n)]]),  # distance; probabilities >= 0
        b_ub=np.concatenate([[radius], weights]),
        A_eq=np.concatenate([np.ones(n), -np.ones(n)])[None],
        b_eq=[0.0],
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert solution.status == 0, solution.message
    return expectation(values, weights) + solution.fun


def squared_exponential(points: np.ndarray, lengthscale: float) -> np.ndarray:
    return np.array(
        [[np.exp(-0.5 * np.sum((v - w) ** 2) / lengthscale**2) for w in points] for v in points]
    )


def mmd_worst_case(
    values: np.ndarray, weights: np.ndarray, kernel_matrix: np.ndarray, radius: float
) -> float:
    r"""The cone program as it stands."""
    if radius == 0:
        return expectation(values, weights)
    eigenvalues, vectors = np.linalg.eigh(kernel_matrix)
    root = (vectors * np.sqrt(np.clip(eigenvalues, 0, None))).T / radius
    cp = pytest.importorskip("cvxpy")
    worst = cp.Variable(len(values), nonneg=True)
    within = cp.norm(root @ worst - root @ weights) <= 1
    problem = cp.Problem(cp.Minimize(values @ worst), [cp.sum(worst) == 1, within])
    names = ("gap_abs", "gap_rel", "feas")
    tight = {f"tol_{name}": 1e-9 for name in names}
    tight |= {f"reduced_tol_{name}": 1e-7 for name in names}  # enough for these tests
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        try:
            problem.solve(solver=cp.CLARABEL, **tight)
        except cp.SolverError:
            problem.solve(solver=cp.CLARABEL)
    assert problem.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE), problem.status
    return problem.value


def minimax_approximation(
    values: np.ndarray,
    weights: np.ndarray,
    kernel_matrix: np.ndarray,
    radius: float,
    sensitivity: str,
) -> float:
    r"""Tay et al.'s tangent and chord, with the inverse of the kernel matrix."""
    metric = kernel_matrix if sensitivity == "kernel" else np.eye(len(values))
    inverse, ones = np.linalg.inv(metric), np.ones(len(values))
    along = ones @ inverse @ values
    slope = np.sqrt(values @ inverse @ values - along**2 / (ones @ inverse @ ones))
    apart = np.eye(len(values))[values.argmin()] - weights
    farthest = np.sqrt(apart @ kernel_matrix @ apart)
    if radius >= farthest:
        return values.min()
    mean = expectation(values, weights)
    tau = (values.min() - mean) / farthest
    return (max(mean - radius * slope, values.min()) + mean + radius * tau) / 2


def discrete_wave(points: np.ndarray, probabilities: Sequence[float], rates: np.ndarray) -> complex:
    r"""The characteristic function `E exp(i rates . w)`, point by point."""
    return sum(
        p * np.exp(1j * np.dot(rates, w)) for w, p in zip(points, probabilities, strict=True)
    )


# Gauss and Legendre's rule on [0, 1], exact to 1e-11 for deviations of 0.02 or more.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(400)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2


def bounded_wave(distribution: Any, rate: float, clipped: bool = False) -> complex:
    r"""`E exp(i rate w)` for a scipy distribution cut off at, or clipped to, [0, 1]."""

    inside = _WEIGHTS @ (np.exp(1j * rate * _NODES) * distribution.pdf(_NODES))
    if clipped:
        return inside + distribution.cdf(0.0) + distribution.sf(1.0) * np.exp(1j * rate)
    return inside / (distribution.cdf(1.0) - distribution.cdf(0.0))


def normal_wave(loc: Tensor, scale: Tensor, rates: np.ndarray, clipped: bool = False) -> complex:
    r"""`E exp(i rates . w)` for independent normal coordinates bounded to [0, 1]."""
    marginals = zip(loc.tolist(), scale.tolist(), rates, strict=True)
    return np.prod([bounded_wave(norm(m, s), rate, clipped) for m, s, rate in marginals])


def kernel_density_wave(observed: np.ndarray, rates: np.ndarray) -> complex:
    r"""`E exp(i rates . w)` under truncated normal kernels of Silverman's width."""
    t, d = observed.shape
    factor = (4 / (d + 2)) ** (1 / (d + 4)) * t ** (-1 / (d + 4))
    h = factor * np.sqrt(np.mean((observed - observed.mean(axis=0)) ** 2, axis=0))
    kernels = [
        np.prod([bounded_wave(norm(w[j], h[j]), rates[j]) for j in range(d)]) for w in observed
    ]
    return np.mean(kernels)


def box_wave(observed: np.ndarray, rates: np.ndarray) -> complex:
    r"""`E exp(i rates . w)` for a uniform distribution within one deviation of the mean."""
    lower, upper = observed.mean(axis=0) - observed.std(axis=0), observed.mean(0) + observed.std(0)
    waves = np.exp(1j * rates * upper) - np.exp(1j * rates * lower)
    return np.prod(waves / (1j * rates * (upper - lower)))


def to_numpy(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().double().numpy()


def loop(batch_shape: tuple[int, ...], one: Callable[[tuple[int, ...]], Any]) -> Tensor:
    r"""Stacks the answers of a function of the batch index."""
    answers = [torch.as_tensor(one(index)) for index in itertools.product(*map(range, batch_shape))]
    return torch.stack(answers).reshape((*batch_shape, *answers[0].shape))


def non_dominated(values: np.ndarray) -> list[int]:
    r"""The rows that no other one is at least as large as everywhere and larger somewhere."""
    return [
        i
        for i, own in enumerate(values)
        if not any((other >= own).all() and (other > own).any() for other in values)
    ]


def dominated_area(values: np.ndarray, reference: np.ndarray) -> float:
    r"""The area that points of two values dominate above a reference, cell by cell."""
    above = np.maximum(values, reference)
    xs, ys = (np.unique([*column, start]) for column, start in zip(above.T, reference, strict=True))
    total = 0.0
    for left, right in itertools.pairwise(xs):
        for bottom, top in itertools.pairwise(ys):
            if any(x >= right and y >= top for x, y in above):
                total += (right - left) * (top - bottom)
    return total
