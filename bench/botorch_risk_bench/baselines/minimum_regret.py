r"""Minimum regret search: the sample after which the recommended point has the least regret."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from botorch_risk.acquisition.truncated_variance.covering import top_candidates
from botorch_risk.acquisition.truncated_variance.gain import inverse_variance
from botorch_risk.chunks import ChunkSize
from botorch_risk.posterior.domain import DomainPosterior

# The next outcome, in standard deviations from its mean: an equidistant rule for a normal
# distribution.
_REACH, _NUM_OUTCOMES = 6.0, 49
# Means after an outcome that are held at once.
_CHUNK_ENTRIES = ChunkSize(cpu=2**16)


def expected_regret_reduction(
    posterior: DomainPosterior, noise: Tensor, num_recommended: int = 100
) -> Tensor:
    r"""By how much a sample at each point reduces the expected regret of the recommended point.

        score(x) = regret - E_y[ regret | x, y ],   regret = E[ max f - f(x*) ]
                 = E_y[ max_{x'} mean(x' | x, y) ] - max_{x'} mean(x')

    where `x*` is the point of highest posterior mean, the one that is recommended. The expected
    maximum of f is the same before and after the sample, and drops out: what is left of the
    minimum regret of a recommended point [Metzen2016mrs]_ is the knowledge gradient. There is
    nothing to draw from the posterior, and y is integrated numerically over 6 standard
    deviations either side.

    Args:
        posterior: Over the domain.
        noise: `R x |D|` noise variances of the next sample, for `R` replicates (1 if the posterior
            has no batch shape).
        num_recommended: Points `x'` that may be recommended: those with the largest
            `mean + 2 sigma`.

    Returns:
        `batch_shape x |D|` scores >= 0; 0 where the outcome is known already.

    Example:
        >>> from botorch.models import SingleTaskGP
        >>> domain = torch.linspace(0, 1, 50, dtype=torch.double).unsqueeze(-1)
        >>> posterior = DomainPosterior(SingleTaskGP(domain[:9:2], domain[:9:2].sin()), domain)
        >>> expected_regret_reduction(posterior, posterior.inferred_noise()).shape
        torch.Size([50])
    """
    R, size = noise.shape
    mask = top_candidates(posterior, min(num_recommended, size)).reshape(R, size)
    columns = mask.nonzero()[:, 1].reshape(R, -1)  # R x c
    mean = posterior.mean.reshape(R, size)
    # A sample of a point that is known without noise has no effect: its slope is 0, not 0 / 0.
    precision = inverse_variance(posterior.variance.reshape(R, size) + noise, posterior)
    # How the means of recommendable points move with y, R x |D| x c.
    every = slice(None)
    covariance = posterior.covariance_between(None, columns)(every, every, every)
    slope = covariance * precision.sqrt().unsqueeze(-1)
    height, best = mean.gather(-1, columns).sort(dim=-1, descending=True, stable=True)
    slope = slope.gather(-1, best.unsqueeze(-2).expand_as(slope))
    behind = (height - height[:, :1]).unsqueeze(-2)  # R x 1 x c, 0 for the present recommendation
    ahead = slope - slope[..., :1]
    outcomes = torch.linspace(-_REACH, _REACH, _NUM_OUTCOMES, dtype=mean.dtype)
    weights = torch.exp(-0.5 * outcomes.square()) / math.sqrt(2 * math.pi)
    weights = weights / weights.sum()
    score = torch.zeros_like(mean)
    rows = _CHUNK_ENTRIES.rows(mean.device, columns.shape[-1])
    for r, heights in enumerate(behind):  # one replicate at a time, in a core's cache
        for total, slopes in zip(score[r].split(rows), ahead[r].split(rows), strict=True):
            means = torch.empty_like(slopes)
            for z, weight in zip(outcomes.tolist(), weights.tolist(), strict=True):
                total += weight * torch.add(heights, slopes, alpha=z, out=means).amax(dim=-1)
    return score.reshape(*posterior.batch_shape, size)
