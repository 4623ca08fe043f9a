r"""The evidence of all readings for a process of the mean and one of the log noise variance.

At `n` distinct inputs with `k_i` readings each, of mean `y_i` and sum of squares `SS_i` about it,

    log p(readings | h) = log N(y | 0, K + R) - sum_i [(k_i - 1) h_i + SS_i exp(-h_i)] / 2 + const,
    R = diag(exp(h) / k)

by Woodbury over the distinct inputs [Binois2018hetgp]_. `h` is a Gaussian process itself, of mean
`m` and covariance `C`, and is integrated out by Laplace's approximation
([Rasmussen2006gp]_, Section 3.4):

    evidence = log p(readings | h) - (h - m)' C^-1 (h - m) / 2 - log |I + W C| / 2  at the mode h

With `P = (K + R)^-1` and `a = P y` the slope of the log likelihood in `h`, its curvature (minus the
second derivative) and the expected curvature are

    g = (SS exp(-h) - (k - 1) + R a^2 - R diag(P)) / 2
    E = diag(SS exp(-h) - R a^2 + R diag(P)) / 2 + (R a) P (R a)' - R (P * P) R / 2
    W = (diag(k - 1) + R (P * P) R) / 2

The mode is `h = m + C v` with `v = g`, so that `C` is never inverted. All matrices are batched over
rows, each with its own data and hyperparameters; rows do not interact.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

# Added to the noise variances, in units of the targets' variance: a covariance has a Cholesky
# factor then, even if the noise is far below what the data resolve.
FLOOR = 1e-8
# The most that a log noise variance may move in one step: the likelihood is an exponential in it.
MAX_STEP = 2.0
# A step of the exact curvature is the last one if it is shorter: what is left is its square.
_LAST_STEP = 1e-5
# A step of the expected curvature leaves a share of itself.
_LAST_SCORING_STEP = 1e-9


class Readings(NamedTuple):
    r"""Statistics of the readings of each row.

    Args:
        means: Their means about the prior mean, `rows x n`; 0 where there is no reading.
        counts: Numbers of readings, `rows x n`.
        squares: Sums of squares about the means, `rows x n`.
        level: The log noise variance at which the process of the noise is 0, `rows`.
        floor: What is added to noise variances, `rows`.
    """

    means: Tensor
    counts: Tensor
    squares: Tensor
    level: Tensor
    floor: Tensor

    def rows(self, index: Tensor) -> Readings:
        return Readings(*(tensor[index] for tensor in self))

    def masked(self, covariance: Tensor) -> Tensor:
        r"""A covariance of the mean `rows x n x n` without inputs that have no reading."""
        observed = self.counts > 0
        return covariance * (observed.unsqueeze(-1) & observed.unsqueeze(-2))


class Likelihood(NamedTuple):
    r"""The log likelihood of log noise variances, and the matrices in its derivatives.

    Args:
        value: `rows`; NaN if the covariance has no factor.
        slope: `g` above, `rows x n`.
        noise: The diagonal of `R`, `rows x n`; 0 for inputs without a reading.
        precision: `P`, `rows x n x n`.
        weights: `a`, `rows x n`.
    """

    value: Tensor
    slope: Tensor
    noise: Tensor
    precision: Tensor
    weights: Tensor

    def curvatures(self, h: Tensor, data: Readings) -> tuple[Tensor, Tensor]:
        r"""The exact curvature `E` and the expected one `W`, `rows x n x n` each."""
        pulled = self.noise * self.weights
        leverage = self.noise * self.precision.diagonal(dim1=-2, dim2=-1)
        outer = self.noise.unsqueeze(-1) * self.precision
        squared = outer * outer.mT * 0.5
        exact = pulled.unsqueeze(-1) * self.precision * pulled.unsqueeze(-2) - squared
        curve = data.squares * (-h).exp() - pulled * self.weights + leverage
        exact.diagonal(dim1=-2, dim2=-1).add_(curve, alpha=0.5)
        squared.diagonal(dim1=-2, dim2=-1).add_((data.counts - 1).clamp_min(0.0), alpha=0.5)
        return exact, squared


def log_likelihood(h: Tensor, covariance: Tensor, data: Readings) -> Likelihood:
    r"""The log likelihood of log noise variances `rows x n`.

    `covariance` is that of the mean, `rows x n x n`, from `Readings.masked`.
    """
    observed = data.counts > 0
    noise = (h.exp() / data.counts).where(observed, torch.zeros_like(h))
    within = (data.counts - 1).clamp_min(0.0)
    diagonal = torch.where(observed, noise + data.floor.unsqueeze(-1), 1.0)
    factor, info = torch.linalg.cholesky_ex(covariance + torch.diag_embed(diagonal))
    # What is left of a matrix without a factor may be singular; its row is NaN.
    log_determinant = torch.where(info == 0, 0.0, torch.nan)
    log_determinant = log_determinant + factor.diagonal(dim1=-2, dim2=-1).abs().log().sum(-1)
    precision = torch.cholesky_inverse(factor)
    weights = (precision @ data.means.unsqueeze(-1)).squeeze(-1)
    spread = data.squares * (-h).exp()
    constant = (data.counts.sum(-1) * math.log(2 * math.pi)).add(
        data.counts.clamp_min(1.0).log().sum(-1)
    )
    fit = (data.means * weights + within * h + spread).sum(-1) + constant
    pull = noise * (weights.square() - precision.diagonal(dim1=-2, dim2=-1))
    return Likelihood(
        value=-0.5 * fit - log_determinant,
        slope=0.5 * (spread - within + pull),
        noise=noise,
        precision=precision,
        weights=weights,
    )


class Mode(NamedTuple):
    r"""Where the search for the most probable log noise variances stands.

    Args:
        pull: `v`, with the mode at `level + C v`, `rows x n`.
        found: Whether it has ended, `rows`.
    """

    pull: Tensor
    found: Tensor


def find_mode(
    covariance: Tensor, noise_covariance: Tensor, data: Readings, start: Tensor, num_steps: int
) -> Mode:
    r"""Newton's method for the most probable log noise variances.

    A row takes steps of the exact curvature where these lead upwards, and of the expected one
    elsewhere; a step that lowers the objective is shortened. A row that has ended does not change
    any more, so that it does not depend on the rows beside it.

    Args:
        covariance: Of the mean, masked, `rows x n x n`.
        noise_covariance: `C`, `rows x n x n`.
        data: The readings.
        start: `v` to begin with, `rows x n`.
        num_steps: How many steps to take, without asking the device how it goes.
    """
    one = torch.eye(start.shape[-1], dtype=start.dtype, device=start.device)
    pull, step = start, torch.zeros_like(start)
    best = torch.full_like(start[..., 0], -torch.inf)
    exact = torch.ones_like(best, dtype=torch.bool)
    found = ~exact
    for _ in range(num_steps):
        trial = pull + step
        offset = _times(noise_covariance, trial)
        h = data.level.unsqueeze(-1) + offset
        part = log_likelihood(h, covariance, data)
        value = part.value - 0.5 * (trial * offset).sum(-1)
        higher = value >= best - 1e-10 * best.abs()  # False for NaN
        curvature = torch.where((exact & higher)[:, None, None], *part.curvatures(h, data))
        miss = part.slope - trial
        newton = _solve(one + curvature @ noise_covariance, miss)
        move = _times(noise_covariance, newton)
        length = move.abs().amax(-1)
        upwards = (move * miss).sum(-1) >= 0  # False for NaN
        newton = newton * (MAX_STEP / length.clamp_min(MAX_STEP)).unsqueeze(-1)
        last = torch.where(exact, length <= _LAST_STEP, length <= _LAST_SCORING_STEP)
        last = last & higher & upwards & ~found
        # A row that goes down, or whose exact curvature leads down, scores in its next step.
        exact = higher & upwards & (length < 1.0)
        proposed = newton.where(upwards.unsqueeze(-1), torch.zeros_like(newton))
        pull = torch.where((higher & ~found).unsqueeze(-1), trial, pull)
        best = value.where(higher & ~found, best)
        step = torch.where(higher.unsqueeze(-1), proposed, 0.25 * step)
        pull = torch.where(last.unsqueeze(-1), pull + step, pull)
        found = found | last
        if found.device.type == "cpu" and bool(found.all()):  # asking costs nothing here
            break
        step = step.masked_fill(found.unsqueeze(-1), 0.0)
    return Mode(pull, found)


class Evidence(NamedTuple):
    r"""The evidence, and its derivatives in the two covariances.

    Args:
        value: `rows`.
        of_mean: The derivative in the covariance of the mean, `rows x n x n`, symmetric.
        of_noise: The derivative in `C`, likewise.
    """

    value: Tensor
    of_mean: Tensor
    of_noise: Tensor


def evidence_at(
    covariance: Tensor, noise_covariance: Tensor, data: Readings, pull: Tensor
) -> Evidence:
    r"""The evidence and its exact derivatives, with the mode in `pull`.

    The first two terms are stationary at the mode. The determinant is not: how the mode moves comes
    from one system of equations with the exact curvature.
    """
    C, v = noise_covariance, pull
    one = torch.eye(v.shape[-1], dtype=v.dtype, device=v.device)
    offset = _times(C, v)
    h = data.level.unsqueeze(-1) + offset
    part = log_likelihood(h, covariance, data)
    exact, expected = part.curvatures(h, data)
    R, P, a = part.noise, part.precision, part.weights
    factor, pivots, _ = torch.linalg.lu_factor_ex(one + expected @ C)
    log_determinant = factor.diagonal(dim1=-2, dim2=-1).abs().log().sum(-1)
    M = torch.linalg.lu_solve(factor, pivots, expected)  # (I + W C)^-1 W
    covariance_of_h = C - C @ M @ C
    Q = R.unsqueeze(-1) * covariance_of_h * P * R.unsqueeze(-2)
    PQ = P @ Q
    slope = 0.5 * (R * (PQ * P).sum(-1) - (Q * P).sum(-1))  # of -log |I + W C| / 2 in h
    q = _solve(one + exact @ C, slope)
    s = _times(C, q) * R
    b = _times(P, s * a)
    of_mean = (PQ + P * s.unsqueeze(-2) - one) @ P
    of_mean = 0.5 * (of_mean + _outer(a, a) - _outer(a, b) - _outer(b, a))
    of_noise = 0.5 * (_outer(v, v) - M + _outer(q, v) + _outer(v, q))
    return Evidence(part.value - 0.5 * ((v * offset).sum(-1) + log_determinant), of_mean, of_noise)


def _times(matrix: Tensor, vector: Tensor) -> Tensor:
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def _solve(matrix: Tensor, vector: Tensor) -> Tensor:
    solution, _ = torch.linalg.solve_ex(matrix, vector.unsqueeze(-1))
    return solution.squeeze(-1)


def _outer(first: Tensor, second: Tensor) -> Tensor:
    return first.unsqueeze(-1) * second.unsqueeze(-2)
