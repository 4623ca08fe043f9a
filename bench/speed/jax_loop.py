r"""RAHBO's loop on Branin as a user of JAX would write it: `jit(vmap(loop))`, one replicate a lane.

The models, the acquisition function, the sizes of the search and the rule that reports are of
`bench.speed.rahbo_loop`'s plain loop: two Gaussian processes with the priors of `SingleTaskGP`, the
second of the log variances. Arrays have their final length, and a mask says which rows are there.
Fits and searches are by a BFGS whose every step is one evaluation: that of `jax.scipy` ended at a
gradient of 0.1 and more in 11 of 32 fits, and the rest of a batch waits for its line searches. It
knows no bounds: a decision is `(1 - cos(z)) / 2`, so that the edges of the box are reached at a
finite `z`.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import Array, lax

jax.config.update("jax_enable_x64", True)

VERSION = f"JAX {jax.__version__}"
SHORTEST = 2.5e-2  # lengthscale, as in BoTorch
GRADIENT_TOLERANCE, MAX_EVALUATIONS, MAX_STEP = 1e-5, 100, 2.0


class Process(NamedTuple):
    r"""A fitted process of one outcome, standardised inside.

    Attributes:
        X: `n x d` inputs in the unit cube.
        lengthscale: `d`.
        constant: The prior mean.
        root: `n x n`, the lower Cholesky factor of the covariance of the targets.
        weights: `n`, the solution of the factor with the centred targets.
        mask: `n`, 1 for a row that is there.
        centre: Of the outcomes.
        scale: Of the outcomes.
    """

    X: Array
    lengthscale: Array
    constant: Array
    root: Array
    weights: Array
    mask: Array
    centre: Array
    scale: Array


class Descent(NamedTuple):
    r"""Where a descent is.

    Attributes:
        x: The lowest point so far.
        value: There.
        gradient: There.
        metric: An approximate inverse Hessian.
        step: How much of the next step to try.
        count: Evaluations so far.
    """

    x: Array
    value: Array
    gradient: Array
    metric: Array
    step: Array
    count: Array


def minimized(function: Callable[[Array], Array], start: Array) -> Descent:
    r"""BFGS with backtracking, one evaluation of value and gradient in each step of one loop."""
    value_and_gradient = jax.value_and_grad(function)
    value, gradient = value_and_gradient(start)
    scale = 1 / jnp.maximum(1.0, jnp.linalg.norm(gradient))
    identity = jnp.eye(len(start))

    def goes_on(at: Descent) -> Array:
        is_steep = jnp.abs(at.gradient).max() > GRADIENT_TOLERANCE
        return is_steep & (at.step > 1e-8) & (at.count < MAX_EVALUATIONS)

    def stepped(at: Descent) -> Descent:
        direction = -at.metric @ at.gradient
        direction *= jnp.minimum(1.0, MAX_STEP / jnp.abs(direction).max())
        x = at.x + at.step * direction
        value, gradient = value_and_gradient(x)
        enough = at.value + 1e-4 * at.step * (direction @ at.gradient)
        accepted = (value <= enough) & jnp.isfinite(gradient).all()
        s, y = x - at.x, gradient - at.gradient
        curvature = s @ y
        weight = jnp.where(accepted & (curvature > 1e-12), 1 / curvature, 0.0)
        # The first curvature sets the scale of the metric.
        is_first = (at.count == 1) & (weight > 0)
        metric = jnp.where(is_first, curvature / (y @ y) * identity, at.metric)
        turn = identity - weight * jnp.outer(s, y)
        learnt = turn @ metric @ turn.T + weight * jnp.outer(s, s)
        new = Descent(x, value, gradient, jnp.where(weight > 0, learnt, metric), 1.0, at.count)
        kept = at._replace(step=0.3 * at.step)
        found = jax.tree.map(lambda one, two: jnp.where(accepted, one, two), new, kept)
        return found._replace(count=at.count + 1)

    first = Descent(start, value, gradient, scale * identity, jnp.ones(()), jnp.ones((), int))
    return lax.while_loop(goes_on, stepped, first)


def lengthscale_prior(dimension: int) -> tuple[float, float]:
    r"""Location and scale of the log-normal prior of `SingleTaskGP`."""
    return math.sqrt(2) + math.log(dimension) / 2, math.sqrt(3)


def gaussian_kernel(A: Array, B: Array, lengthscale: Array) -> Array:
    difference = (A[:, None] - B[None]) / lengthscale
    return jnp.exp(-0.5 * (difference**2).sum(-1))


def standardized(y: Array, variance: Array, mask: Array) -> tuple[Array, Array, Array, Array]:
    r"""Targets, their noise, centre and scale; a row that is not there has target 0 and noise 1."""
    centre = (mask * y).sum() / mask.sum()
    scale = jnp.sqrt((mask * (y - centre) ** 2).sum() / (mask.sum() - 1))
    noise = jnp.where(mask > 0, variance / scale**2, 1.0)
    return mask * (y - centre) / scale, noise, centre, scale


def factorized(
    X: Array, z: Array, noise: Array, mask: Array, theta: Array
) -> tuple[Array, Array, Array]:
    r"""Lengthscales, the factor of the covariance and its solution with the centred targets."""
    lengthscale = SHORTEST + jnp.exp(theta[:-1])
    kernel = gaussian_kernel(X, X, lengthscale) * mask[:, None] * mask[None]
    root = jnp.linalg.cholesky(kernel + jnp.diag(noise))
    weights = jsp.linalg.solve_triangular(root, mask * (z - theta[-1]), lower=True)
    return lengthscale, root, weights


def loss(theta: Array, X: Array, z: Array, noise: Array, mask: Array) -> Array:
    r"""Minus what `ExactMarginalLogLikelihood` is: likelihood and prior, logarithms, a row."""
    lengthscale, root, weights = factorized(X, z, noise, mask, theta)
    location, scale = lengthscale_prior(X.shape[-1])
    prior = jsp.stats.norm.logpdf(jnp.log(lengthscale), location, scale) - jnp.log(lengthscale)
    log_determinant = jnp.log(jnp.diagonal(root)).sum()
    constant = 0.5 * mask.sum() * math.log(2 * math.pi)
    likelihood = -0.5 * weights @ weights - log_determinant - constant
    return -(likelihood + prior.sum()) / mask.sum()


def maximized(X: Array, z: Array, noise: Array, mask: Array) -> Descent:
    r"""The maximum a posteriori from the mode of the prior, as BoTorch starts."""
    location, spread = lengthscale_prior(X.shape[-1])
    mode = jnp.full(X.shape[-1], math.exp(location - spread**2))
    start = jnp.append(jnp.log(mode - SHORTEST), 0.0)
    return minimized(lambda theta: loss(theta, X, z, noise, mask), start)


def best_likelihood(X: Array, y: Array, variance: Array, mask: Array) -> Array:
    r"""What a fit reaches: the log likelihood with the log prior, a row."""
    z, noise, _, _ = standardized(y, variance, mask)
    return -maximized(X, z, noise, mask).value


def fitted(X: Array, y: Array, variance: Array, mask: Array) -> Process:
    r"""A process with given noise, its lengthscales and mean at the maximum a posteriori."""
    z, noise, centre, scale = standardized(y, variance, mask)
    found = maximized(X, z, noise, mask)
    lengthscale, root, weights = factorized(X, z, noise, mask, found.x)
    return Process(X, lengthscale, found.x[-1], root, weights, mask, centre, scale)


def moments(process: Process, x: Array) -> tuple[Array, Array]:
    r"""Mean and standard deviation at one point, in the outcome's units."""
    covariance = gaussian_kernel(x[None], process.X, process.lengthscale)[0] * process.mask
    reduced = jsp.linalg.solve_triangular(process.root, covariance, lower=True)
    mean = process.constant + reduced @ process.weights
    deviation = jnp.sqrt(jnp.maximum(1 - reduced @ reduced, 1e-12))
    return process.centre + process.scale * mean, process.scale * deviation


def models(X: Array, Y: Array, mask: Array) -> tuple[Process, Process]:
    r"""The process of the means and that of the log variances, from `n x k` readings."""
    num_repeats = Y.shape[-1]
    half = (num_repeats - 1) / 2
    variance = jnp.where(mask > 0, Y.var(axis=-1, ddof=1), 1.0)
    logs = jnp.log(variance) - jsp.special.digamma(half) + math.log(half)
    of_log = jnp.full_like(logs, jsp.special.polygamma(1, half))
    noise_process = fitted(X, logs, of_log, mask)
    mean, deviation = jax.vmap(lambda x: moments(noise_process, x))(X)
    upper = jnp.exp(mean + 2 * deviation)
    return fitted(X, Y.mean(axis=-1), upper / num_repeats, mask), noise_process


def bound(
    pair: tuple[Process, Process], x: Array, risk_aversion: float, sign: float = 1.0
) -> Array:
    r"""`ucb_f - risk_aversion * lcb_var` at one point, or its pessimistic twin."""
    (mean, deviation), (log_mean, log_deviation) = (moments(each, x) for each in pair)
    noise = jnp.exp(log_mean - 2 * sign * log_deviation)
    return mean + 2 * sign * deviation - risk_aversion * noise


def best_decision(
    pair: tuple[Process, Process], raw: Array, num_restarts: int, risk_aversion: float
) -> Array:
    r"""The maximum of the bound that is found from the highest of the raw points."""

    def downwards(z: Array) -> Array:
        return -bound(pair, (1 - jnp.cos(z)) / 2, risk_aversion)

    values = jax.vmap(lambda x: bound(pair, x, risk_aversion))(raw)
    starts = jnp.arccos(1 - 2 * raw[lax.top_k(values, num_restarts)[1]])
    found = jax.vmap(lambda z: minimized(downwards, z))(starts)
    best = found.x[jnp.nanargmin(found.value)]
    return (1 - jnp.cos(best)) / 2


def branin(x: Array, noise_scale: float) -> tuple[Array, Array]:
    r"""Value and noise level of `HeteroscedasticBranin` in the unit square."""
    first, second = -5 + 15 * x[0], 15 * x[1]
    bowl = second - 5.1 / (4 * math.pi**2) * first**2 + 5 / math.pi * first - 6
    value = bowl**2 + 10 * (1 - 1 / (8 * math.pi)) * jnp.cos(first) + 10
    levels = noise_scale * jax.nn.sigmoid(jnp.stack([2 * (first - 3.2), 2 * second])) + 0.2
    return -value, levels.prod()


def rahbo(
    X: Array,
    Y: Array,
    raw: Array,
    draws: Array,
    *,
    num_restarts: int,
    risk_aversion: float,
    noise_scale: float = 1.0,
) -> Array:
    r"""One replicate: `T` rounds after an initial design, and the decision that is reported.

    Args:
        X: `n0 x d` initial inputs in the unit square.
        Y: `n0 x k` their readings.
        raw: `T x m x d` raw points of each round.
        draws: `T x k` standard normal draws of the observation noise.
        num_restarts: Starts of each search.
        risk_aversion: Weight of the noise variance.
        noise_scale: Of the problem.
    """
    num_initial, num_rounds = len(X), len(raw)
    X = jnp.concatenate([X, jnp.full((num_rounds, X.shape[-1]), 0.5)])
    Y = jnp.concatenate([Y, jnp.zeros((num_rounds, Y.shape[-1]))])

    def mask(count: Array | int) -> Array:
        return (jnp.arange(len(X)) < count).astype(X.dtype)

    def played(index: Array, data: tuple[Array, Array]) -> tuple[Array, Array]:
        X, Y = data
        pair = models(X, Y, mask(num_initial + index))
        x = best_decision(pair, raw[index], num_restarts, risk_aversion)
        value, level = branin(x, noise_scale)
        row = num_initial + index
        return X.at[row].set(x), Y.at[row].set(value + level * draws[index])

    X, Y = lax.fori_loop(0, num_rounds, played, (X, Y))
    pair = models(X, Y, mask(len(X)))
    scores = jax.vmap(lambda x: bound(pair, x, risk_aversion, sign=-1.0))(X)
    return X[jnp.argmax(scores)]


def compiled(
    function: Callable[..., Array], arrays: Sequence[np.ndarray], **options: float
) -> Callable[..., Array]:
    r"""`jit(vmap(function))` for arrays of these shapes, one replicate a row."""

    def of_one(*each: Array) -> Array:
        return function(*each, **options)

    return jax.jit(jax.vmap(of_one)).lower(*arrays).compile()
