r"""The evidence of all readings for a process of the mean and one of the log noise variance.

At `n` distinct inputs with `k_i` readings each, of mean `y_i` and sum of squares `SS_i` about it,

    log p(readings | h) = log N(y | 0, K + R) - sum_i [(k_i - 1) h_i + SS_i exp(-h_i)] / 2 + const,
    R = diag(exp(h) / k)

by Woodbury over the distinct inputs [Binois2018hetgp]_. `h` is a Gaussian process itself, of mean
`m` and covariance `C`. It is integrated out by Laplace's approximation ([Rasmussen2006gp]_,
Section 3.4) at its mode:

    evidence = log p(readings | h) - (h - m)' C^-1 (h - m) / 2 - log |I + W C| / 2

Let `P = (K + R)^-1` and `a = P y`. In `h`, the log likelihood has the slope `g`, the curvature `E`
(minus the second derivative), and an expected curvature, of which `W = diag(w)` is the diagonal:

    g = (SS exp(-h) - (k - 1) + R a^2 - R diag(P)) / 2
    E = diag(SS exp(-h) - R a^2 + R diag(P)) / 2 + (R a) P (R a)' - R (P * P) R / 2
    w = (k - 1 + (R diag(P))^2) / 2

so a row counts as `k - R diag(P)` degrees of freedom, and even a single reading is informative. The
mode is `h = m + C v` with `v = g`: `C` is never inverted. At the mode, the likelihood acts like
Gaussian observations `h + g / w` of variance `1 / w`.

All matrices are batched over rows, each with its own data and hyperparameters; rows do not
interact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_risk.matrices import inverse_of_factored

# The most that a log noise variance may move in one step: the likelihood is an exponential in it.
MAX_STEP = 2.0
# The search for a fit ends before a step shorter than this: the value is off by the square of the
# step, and the derivatives by its length.
LAST_STEP = 1e-5
MAX_STEPS = 64
# The steps after which an accelerator is asked whether all rows have ended. It has to finish its
# queue to answer; on a CPU this costs nothing. A search from the mode of a point nearby needs three
# or four steps.
ASKS = (3, 6, 12, 24)
# On a CPU the search goes on without the rows that have ended, once they are this share: one row
# in a hundred needs ten times the steps of the others.
_SHARE_ENDED = 0.25


class Readings(NamedTuple):
    r"""Statistics of the readings of each row.

    Args:
        means: Means of the readings, less the prior mean, `rows x n`; 0 without a reading.
        counts: Numbers of readings, `rows x n`.
        squares: Sums of squares about the means, `rows x n`.
        level: The prior mean of the log noise variances, `rows`.
        floor: Added to the noise of each mean, `rows`, so that covariances have Cholesky factors.
        observed: Whether there is a reading, `rows x n`; None if there is one everywhere.
    """

    means: Tensor
    counts: Tensor
    squares: Tensor
    level: Tensor
    floor: Tensor
    observed: Tensor | None = None

    def rows(self, index: Tensor) -> Readings:
        observed = None if self.observed is None else self.observed[index]
        means, counts, squares, level, floor = (tensor[index] for tensor in self[:5])
        return Readings(means, counts, squares, level, floor, observed)

    def masked(self, covariance: Tensor) -> Tensor:
        r"""A covariance `rows x n x n` in which inputs without a reading are masked."""
        if self.observed is None:
            return covariance
        observed = self.observed.to(covariance)
        return covariance * observed.unsqueeze(-1) * observed.unsqueeze(-2)


class Likelihood(NamedTuple):
    r"""The log likelihood of log noise variances, and the matrices in its derivatives.

    Args:
        value: The log likelihood, `rows`; NaN if the covariance has no Cholesky factor.
        slope: `g` above, `rows x n`.
        noise: The diagonal of `R`, `rows x n`; 0 for inputs without a reading.
        precision: `P`, `rows x n x n`.
        weights: `a`, `rows x n`.
        leverage: `R diag(P)`, `rows x n`.
    """

    value: Tensor
    slope: Tensor
    noise: Tensor
    precision: Tensor
    weights: Tensor
    leverage: Tensor

    def expected_curvature(self, data: Readings) -> Tensor:
        r"""The weights `w`, `rows x n`."""
        within = data.counts - 1 if data.observed is None else (data.counts - 1).clamp_min(0.0)
        return 0.5 * (within + self.leverage.square())

    def curvature(self, h: Tensor, data: Readings) -> Tensor:
        r"""The exact curvature `E`, `rows x n x n`."""
        pulled = self.noise * self.weights
        half = self.noise * math.sqrt(0.5)
        squared = self.precision * half.unsqueeze(-1)
        squared *= half.unsqueeze(-2)
        curvature = pulled.unsqueeze(-1) * pulled.unsqueeze(-2)
        curvature -= squared
        curvature *= self.precision
        own = data.squares * (-h).exp() - pulled * self.weights + self.leverage
        curvature.diagonal(dim1=-2, dim2=-1).add_(own, alpha=0.5)
        return curvature


class LogLikelihood:
    r"""The log likelihood of log noise variances for rows of readings.

    The `rows x n x n` covariance of the mean comes from `Readings.masked`.
    """

    def __init__(self, covariance: Tensor, data: Readings) -> None:
        self._data, self._share = data, 1 / data.counts
        self._within = data.counts - 1
        self._covariance = covariance.clone()
        diagonal = self._covariance.diagonal(dim1=-2, dim2=-1)
        diagonal += data.floor.unsqueeze(-1)
        if data.observed is not None:
            zero = torch.zeros_like(data.counts)
            self._share = self._share.where(data.observed, zero)
            self._within = self._within.where(data.observed, zero)
            # A row of the identity, up to the floor: independent of all others.
            diagonal += torch.where(data.observed, 0.0, 1.0)
        of_counts = data.counts.clamp_min(1.0).log().sum(-1)
        self._constant = 0.5 * (data.counts.sum(-1) * math.log(2 * math.pi) + of_counts)

    def __call__(self, h: Tensor) -> Likelihood:
        data, noise = self._data, h.exp() * self._share
        covariance = self._covariance.clone()
        covariance.diagonal(dim1=-2, dim2=-1).add_(noise)
        factor, info = torch.linalg.cholesky_ex(covariance)
        precision = inverse_of_factored(factor)
        weights = (precision @ data.means.unsqueeze(-1)).squeeze(-1)
        spread = data.squares * (-h).exp()
        leverage = noise * precision.diagonal(dim1=-2, dim2=-1)
        log_determinant = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        fit = (data.means * weights + self._within * h + spread).sum(-1)
        value = -0.5 * fit - log_determinant - self._constant
        slope = 0.5 * (spread - self._within + noise * weights.square() - leverage)
        # `cholesky_ex` does not raise: what it returns for a matrix without a factor is arbitrary.
        value = value.masked_fill(info > 0, torch.nan)
        return Likelihood(value, slope, noise, precision, weights, leverage)


def sites_of_spread(data: Readings, level: Tensor) -> Tensor:
    r"""The log noise variances estimated from the spread of repeats; `level` in rows without any.

    A sum of squares acts like an observation `log(SS / (k - 1))` of weight `(k - 1) / 2`. Returns
    the observations and their weights, `rows x 2 x n`.
    """
    within = data.counts - 1
    tells = (within > 0) & (data.squares > 0)
    found = (data.squares / within).where(tells, torch.ones_like(within)).log()
    of_single = torch.full_like(within, 0.5)
    if data.observed is not None:
        of_single = of_single * data.observed
    sites = found.where(tells, level.unsqueeze(-1)), (0.5 * within).where(tells, of_single)
    return torch.stack(sites, dim=1)


def pull_of_sites(noise_covariance: Tensor, data: Readings, sites: Tensor) -> Tensor:
    r"""The `v` from which a search for a mode begins, given observations `h` and their weights.

    From a flat start that is too low, Newton's method would need a step per factor of e. The sites
    of one mode give a start close to the mode under another prior.
    """
    target, weight = sites.unbind(1)
    root, factor = _balanced(noise_covariance, weight)
    miss = root * (target - data.level.unsqueeze(-1))
    return root * torch.cholesky_solve(miss.unsqueeze(-1), factor).squeeze(-1)


class Mode(NamedTuple):
    r"""The most probable log noise variances.

    Args:
        pull: `v`, with the mode at `level + C v`, `rows x n`.
        h: The mode, `rows x n`.
        found: Whether the search has ended, `rows`.
        value: Log likelihood plus log prior of `h`, without its determinant, `rows`.
        likelihood: The likelihood there.
        system: The factors of `I + E C`.
    """

    pull: Tensor
    h: Tensor
    found: Tensor
    value: Tensor
    likelihood: Likelihood
    system: tuple[Tensor, Tensor]

    def rows(self, index: Tensor) -> Mode:
        return Mode.of(each[index] for each in self._tensors)

    @classmethod
    def joined(cls, parts: Sequence[Mode]) -> Mode:
        return cls.of(map(torch.cat, zip(*(each._tensors for each in parts), strict=True)))

    @classmethod
    def of(cls, tensors: Iterable[Tensor]) -> Mode:
        pull, h, found, value, *part, factor, pivots = tensors
        return cls(pull, h, found, value, Likelihood(*part), (factor, pivots))

    @property
    def _tensors(self) -> list[Tensor]:
        return [self.pull, self.h, self.found, self.value, *self.likelihood, *self.system]

    def sites(self, data: Readings) -> Tensor:
        r"""The observations `h + g / w` and their weights `w`, `rows x 2 x n`."""
        weight = self.likelihood.expected_curvature(data)
        tells = weight > 0
        step = self.likelihood.slope / weight.where(tells, 1.0)
        return torch.stack([self.h + step.where(tells, 0.0), weight], dim=1)

    def log_evidence(self, noise_covariance: Tensor, data: Readings) -> Tensor:
        r"""The evidence without derivatives, `rows`; off by the square of the last step."""
        _, factor = _balanced(noise_covariance, self.likelihood.expected_curvature(data))
        return self.value - factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def level_given_sites(
        self, noise_covariance: Tensor, data: Readings, variance: Tensor
    ) -> tuple[Tensor, Tensor]:
        r"""Mean and variance, `rows`, of a constant in `h` whose prior variance is part of `C`."""
        root, factor = _balanced(noise_covariance, self.likelihood.expected_curvature(data))
        whitened = torch.linalg.solve_triangular(factor, root.unsqueeze(-1), upper=False)
        known = whitened.square().sum((-2, -1))  # 1' (W^-1 + C)^-1 1
        return variance * self.pull.sum(-1), variance - variance.square() * known


def find_mode(
    covariance: Tensor,
    noise_covariance: Tensor,
    data: Readings,
    start: Tensor,
    last_step: float = LAST_STEP,
) -> Mode:
    r"""Newton's method for the most probable log noise variances.

    The steps of a row use the exact curvature if they then lead upwards, and the expected one
    otherwise; a step that lowers the objective is shortened. A finished row no longer changes, and
    no row depends on its neighbours.

    Args:
        covariance: Covariance of the mean, from `Readings.masked`, `rows x n x n`.
        noise_covariance: `C`, `rows x n x n`.
        data: The readings.
        start: `v` to begin with, `rows x n`.
        last_step: The search ends before a step of `h` shorter than this.
    """
    likelihood_at = LogLikelihood(covariance, data)
    level = data.level.unsqueeze(-1)
    pull, step = start, torch.zeros_like(start)
    best = torch.full_like(data.level, -torch.inf)
    exact = torch.ones_like(best, dtype=torch.bool)
    found = ~exact
    is_free = start.device.type == "cpu"  # to look at results
    asks = range(MAX_STEPS) if is_free else ASKS
    rows, ended = torch.arange(len(start), device=start.device), list[tuple[Tensor, Mode]]()
    for number in range(MAX_STEPS):
        trial = pull + step
        offset = _times(noise_covariance, trial)
        h = level + offset
        part = likelihood_at(h)
        value = part.value - 0.5 * (trial * offset).sum(-1)
        # 1e-10: near the mode, rounding of the value is larger than what a step gains.
        higher = value >= best - 1e-10 * best.abs()  # False for NaN
        exact = exact & higher
        curvature = part.curvature(h, data)
        if not (is_free and bool(exact.all())):
            expected = torch.diag_embed(part.expected_curvature(data))
            curvature = torch.where(exact[:, None, None], curvature, expected)
        system = curvature @ noise_covariance
        system.diagonal(dim1=-2, dim2=-1).add_(1.0)
        # Not symmetric, and the exact curvature may be indefinite, so no Cholesky factor.
        factor, pivots, _ = torch.linalg.lu_factor_ex(system)
        miss = part.slope - trial
        newton = torch.linalg.lu_solve(factor, pivots, miss.unsqueeze(-1)).squeeze(-1)
        move = _times(noise_covariance, newton)
        length = move.abs().amax(-1)
        upwards = (move * miss).sum(-1) >= 0  # False for NaN
        # A row that is not there yet, but that can do no better, ends as well.
        found = found | (exact & (length <= last_step) & (upwards | (length <= 1e-3 * last_step)))
        mode = Mode(trial, h, found, value, part, (factor, pivots))
        num_ended = int(found.sum()) if number in asks else 0
        if num_ended == len(found):
            break
        pull, best = trial.where(higher.unsqueeze(-1), pull), value.where(higher, best)
        newton = newton * (MAX_STEP / length.clamp_min(MAX_STEP)).unsqueeze(-1)
        newton = newton.masked_fill(~upwards.unsqueeze(-1), 0.0)
        # A step that failed is taken back to a quarter, from the same point.
        step = torch.where(higher.unsqueeze(-1), newton, 0.25 * step)
        step = step.masked_fill(found.unsqueeze(-1), 0.0)
        # If the exact curvature led down or far, the next step uses the expected one.
        exact = found | (higher & upwards & (length < 1.0))
        if is_free and num_ended >= _SHARE_ENDED * len(found):
            ended.append((rows[found], mode.rows(found)))
            left = ~found
            rows, pull, step, best, exact = (x[left] for x in (rows, pull, step, best, exact))
            covariance, noise_covariance = covariance[left], noise_covariance[left]
            data, level, found = data.rows(left), level[left], found[left]
            likelihood_at = LogLikelihood(covariance, data)
    if not ended:
        return mode
    order = torch.cat([*(index for index, _ in ended), rows]).argsort()
    return Mode.joined([*(part for _, part in ended), mode]).rows(order)


class Evidence(NamedTuple):
    r"""The evidence, and its derivatives in the two covariances.

    Args:
        value: The evidence, `rows`.
        of_mean: The derivative in the covariance of the mean, `rows x n x n`, symmetric.
        of_noise: The derivative in `C`, likewise.
    """

    value: Tensor
    of_mean: Tensor
    of_noise: Tensor


def evidence_at(mode: Mode, noise_covariance: Tensor, data: Readings) -> Evidence:
    r"""The evidence and its exact derivatives.

    The likelihood and the prior are stationary at the mode. The determinant is not: the movement of
    the mode needs one more solve with the exact curvature.
    """
    C, v, part = noise_covariance, mode.pull, mode.likelihood
    R, P, a = part.noise, part.precision, part.weights
    root, factor = _balanced(C, part.expected_curvature(data))
    log_determinant = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    M = inverse_of_factored(factor) * root.unsqueeze(-1) * root.unsqueeze(-2)  # (W^-1 + C)^-1
    # What the variance of h given the readings adds to the derivatives of the weights.
    variance = C.diagonal(dim1=-2, dim2=-1) - ((C @ M) * C).sum(-1)
    p = part.leverage
    own = variance * p * R
    slope = 0.5 * (R * _times(P.square(), own) - variance * p.square())  # in h
    q = torch.linalg.lu_solve(*mode.system, slope.unsqueeze(-1)).squeeze(-1)
    s = _times(C, q)
    b = _times(P, s * R * a)
    of_mean = (P * (own + s * R).unsqueeze(-2)) @ P - P
    of_mean = of_mean + _outer(a, a - b) - _outer(b, a)
    of_noise = _outer(v + q, v) + _outer(v, q) - M
    # The search ends a little before the mode; over that distance the determinant is a straight
    # line.
    value = mode.value - 0.5 * log_determinant + (s * (part.slope - v)).sum(-1)
    return Evidence(value, 0.5 * of_mean, 0.5 * of_noise)


def _balanced(noise_covariance: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    r"""`W^1/2` and the factor of `I + W^1/2 C W^1/2`, which has the determinant of `I + W C`.

    Its eigenvalues are at least 1.
    """
    root = weight.sqrt()
    balanced = noise_covariance * root.unsqueeze(-1) * root.unsqueeze(-2)
    balanced.diagonal(dim1=-2, dim2=-1).add_(1.0)
    factor, _ = torch.linalg.cholesky_ex(balanced)
    return root, factor


def _times(matrix: Tensor, vector: Tensor) -> Tensor:
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def _outer(first: Tensor, second: Tensor) -> Tensor:
    return first.unsqueeze(-1) * second.unsqueeze(-2)
