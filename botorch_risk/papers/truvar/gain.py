r"""The amount by which a sample reduces variances down to a target: Eq. (3) of TRUVAR.

    max(beta s^2, eta^2) - max(beta (s^2 - D), eta^2) = beta min(max(s^2 - eta^2 / beta, 0), D)

The difference of the two sums is exact in this form, and points below the target drop out.
"""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_risk.engine import DomainPosterior
from botorch_risk.matrices import padded_index
from botorch_risk.papers.truvar.state import TruncatedVarianceState


def targets_of(
    posterior: DomainPosterior,
    state: TruncatedVarianceState,
    weights: Tensor | None = None,
    truncate: bool = True,
    within: Tensor | None = None,
) -> DomainPosterior.Targets:
    r"""The points of `M_t`; if truncated, only where the variance is above the target.

    Args:
        posterior: The variances.
        state: The set `M_t`, `eta` and `beta`.
        weights: `|D|` weights of the points, which represent a continuous domain.
        truncate: Whether to stop at the target.
        within: `batch_shape x |D|`, the points to use instead of `M_t`.
    """
    variance = posterior.variance.reshape(-1, posterior.domain.shape[-2])
    within = (state.unclassified if within is None else within).reshape(variance.shape)
    beta = state.beta.to(variance).reshape(-1, 1)
    cap = None
    if truncate:
        target = state.target_variance(posterior).to(variance).reshape(-1, 1)
        cap = variance - target
        # A cap of rounding size is no gain: it would keep an epoch going on noise of the sums.
        within = within & (cap > posterior.resolution.reshape(-1, 1))
    # Where most points count it is faster to read whole rows than to pick columns.
    count = int(within.sum(dim=-1).max())
    whole = posterior.dense and 2 * count >= within.shape[-1]
    index, valid = padded_index(within | whole)
    valid = valid & within.gather(-1, index)
    weight = beta * (1.0 if weights is None else weights.to(variance))
    return DomainPosterior.Targets(
        row=index,
        weights=weight.expand(variance.shape).gather(-1, index) * valid,
        cap=None if cap is None else cap.clamp_min(0.0).gather(-1, index),
        whole=whole or bool(within.all()),
    )


def gain(covariance: Tensor, inverse: Tensor, targets: DomainPosterior.Targets) -> Tensor:
    r"""The gain of samples, differentiable.

        gain(x) = beta sum_j w_j min(cap_j, cov(x, x_j)^2 / (sigma^2(x) + noise(x)))

    Args:
        covariance: `B x m x a` posterior covariances with the targets.
        inverse: `B x m`, one over the variance of the outcome.
        targets: The points whose variances should fall.

    Returns:
        `B x m` gains, the numerator of Eq. (3).
    """
    reduction = covariance.square() * inverse.unsqueeze(-1)  # Eq. (18) of [Bogunovic2016truvar]_
    if targets.cap is not None:
        reduction = torch.minimum(reduction, targets.cap.unsqueeze(-2))
    return targets.weighted_sum(reduction)


def anticipated_set(posterior: DomainPosterior, state: TruncatedVarianceState) -> Tensor:
    r"""The points that may be in the set `M` after a sample, `batch_shape x |D|`.

    These are the points of `M_t` and, if sets are formed from scratch (`monotone=False`), all
    points that the present bounds leave open, since wider bounds in a new epoch bring points back.
    There are no others, as a sample at its mean only narrows bounds. The paper does not combine the
    two variants with each other or with costs. Its Eq. (3) subtracts a sum over the set after the
    sample from one over the set before it; here both sets use the same bounds, with the present
    `beta_(i)`. If the first were the set of the last round, returning points would count in the
    second sum only: all gains would fall by the same amount, which is harmless at equal costs but
    may make them all negative at unequal costs. Then the ratio of Eq. (3) prefers the most
    expensive sample, however uninformative it is.
    """
    if state.monotone:
        return state.unclassified
    bounds = state.confidence_bounds(posterior)
    open_now, _, _ = state.goal.classify(state.sets, *bounds, monotone=False)
    return state.unclassified | open_now


def anticipated_gain(
    covariance: Tensor,
    inverse: Tensor,
    targets: DomainPosterior.Targets,
    posterior: DomainPosterior,
    state: TruncatedVarianceState,
) -> Tensor:
    r"""The gain if the set `M` after the sample is anticipated (Appendix A).

    The outcome is replaced by its mean, so that only the variances change. The second sum of Eq.
    (3) then runs over the points that would be in M; the first runs over all that may be,
    `anticipated_set`, since otherwise there would be no reward for ruling points out. A point that
    would be ruled out thus counts with all of `max(beta s^2, eta^2)`, and a sample that changes
    nothing has a gain of 0.

    Args:
        covariance: `B x m x a`.
        inverse: `B x m`.
        targets: The points of `anticipated_set`, `truncate=False`.
        posterior: Means and variances.
        state: The sets, the goal, `eta` and `beta`.

    Returns:
        `B x m` gains.
    """
    size = posterior.domain.shape[-2]
    mean, variance = (
        part.reshape(-1, size).gather(-1, targets.row).unsqueeze(-2)
        for part in (posterior.mean, posterior.variance)
    )
    high, low = (
        part.reshape(-1, size).gather(-1, targets.row).unsqueeze(-2) & state.monotone
        for part in (state.high, state.low)
    )
    beta = state.beta.to(variance).reshape(-1, 1, 1)
    target = state.target_variance(posterior).to(variance).reshape(-1, 1, 1)
    # No sample reduces a variance below 0, but rounding does if noise is next to nothing.
    reduction = torch.minimum(covariance.square() * inverse.unsqueeze(-1), variance)
    # Rounding may leave a variance below 0; the floor keeps the gradient of the root finite.
    half_width = (beta * (variance - reduction)).clamp_min(torch.finfo(mean.dtype).tiny).sqrt()
    before = (targets.weights > 0).unsqueeze(-2), high, low
    stays, _, _ = state.goal.classify(before, mean - half_width, mean + half_width)
    # Term by term as in `gain`, not a difference of two sums over |D| points, which would lose the
    # digits of a sample that changes few of them.
    capped = torch.minimum(reduction, (variance - target).clamp_min(0.0))
    fall = torch.where(stays, capped, torch.maximum(variance, target))
    return targets.weighted_sum(fall)


def inverse_variance(variance: Tensor, posterior: DomainPosterior) -> Tensor:
    r"""One over a variance of outcomes, `B x ...`; 0 where there is neither variance nor noise."""
    known = variance > posterior.resolution.reshape(-1, *[1] * (variance.dim() - 1))
    # The 1 under the reciprocal keeps its gradient finite: infinity times the 0 outside is NaN.
    return torch.where(known, variance, 1.0).reciprocal().where(known, 0.0)
