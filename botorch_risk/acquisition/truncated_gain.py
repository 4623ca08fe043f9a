r"""How much a sample brings variances down to a target: Eq. (3) of TRUVAR, without cancellation.

    max(beta s^2, eta^2) - max(beta (s^2 - D), eta^2) = beta min(max(s^2 - eta^2 / beta, 0), D)

The difference of the two sums is exact in this form, and points below the target drop out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_risk.acquisition.confidence_sets import classify
from botorch_risk.acquisition.truncated_variance_state import TruncatedVarianceState
from botorch_risk.models.domain import DomainPosterior

# Entries of the covariance at hand at once: read from memory they stay in a core's cache; made on
# demand they should fill a matrix product.
_READ_ENTRIES = {"cpu": 2**16, "cuda": 2**26}
_MADE_ENTRIES = {"cpu": 2**20, "cuda": 2**26}


class Targets(NamedTuple):
    r"""The points whose variances are to fall, for `B` replicates.

    Attributes:
        place: `B x a` places in the domain; the same place with weight 0 fills up.
        weights: `B x a`, times `beta`.
        cap: `B x a`, the most that a variance may usefully fall; `None` without truncation.
        whole: Whether they are the whole domain, in order.
    """

    place: Tensor
    weights: Tensor
    cap: Tensor | None
    whole: bool

    @classmethod
    def of(
        cls,
        posterior: DomainPosterior,
        state: TruncatedVarianceState,
        weights: Tensor | None = None,
        truncate: bool = True,
    ) -> Targets:
        r"""The points of `M_t`, or those of them that are above the target if truncated.

        Args:
            posterior: The variances.
            state: The set `M_t`, `eta` and `beta`.
            weights: `|D|` weights of the points as representers of a continuous domain.
            truncate: Whether to stop at the target.
        """
        variance = posterior.variance.reshape(-1, posterior.domain.shape[-2])
        within = state.unclassified.reshape(variance.shape)
        beta = state.beta.to(variance).reshape(-1, 1)
        cap = None
        if truncate:
            target = state.target_variance(posterior).to(variance).reshape(-1, 1)
            cap = variance - target
            within = within & (cap > posterior.resolution.reshape(-1, 1))
        index, valid = padded_index(within)
        weight = beta * (1.0 if weights is None else weights.to(variance))
        return cls(
            place=index,
            weights=weight.expand(variance.shape).gather(-1, index) * valid,
            cap=None if cap is None else cap.gather(-1, index),
            whole=bool(within.all()),
        )


def padded_index(mask: Tensor) -> tuple[Tensor, Tensor]:
    r"""The places of a `B x n` mask in order, `B x a`, and which of them are not filling."""
    count = mask.sum(dim=-1, keepdim=True)
    size = int(count.max())
    order = torch.argsort((~mask).to(torch.uint8), dim=-1, stable=True)[:, :size]
    valid = torch.arange(size, device=mask.device) < count
    return order, valid


def gain(covariance: Tensor, inverse: Tensor, targets: Targets) -> Tensor:
    r"""The gain of samples, differentiable.

        gain(x) = beta sum_j w_j min(cap_j, cov(x, x_j)^2 / (sigma^2(x) + noise(x)))

    Args:
        covariance: `B x m x a` posterior covariances with the targets.
        inverse: `B x m`, one over the variance of the outcome.
        targets: The points whose variances are to fall.

    Returns:
        `B x m` gains, the numerator of Eq. (3).
    """
    reduction = covariance.square() * inverse.unsqueeze(-1)  # Eq. (18)
    if targets.cap is not None:
        reduction = torch.minimum(reduction, targets.cap.unsqueeze(-2))
    return _weighted_sum(reduction, targets.weights)


def gain_on_domain(
    posterior: DomainPosterior, rows: Tensor, inverse: Tensor, targets: Targets
) -> Tensor:
    r"""The gain of samples at points of the domain, in bounded memory, without gradients.

    Args:
        posterior: Supplies the covariance.
        rows: `B x m` candidates.
        inverse: `B x m x K`, one over the variance of the outcome at each noise level.
        targets: The points whose variances are to fall.

    Returns:
        `B x m x K` gains.
    """
    cap = None if targets.cap is None else targets.cap.unsqueeze(-2)

    def of_block(block: Tensor, inverse: Tensor) -> Tensor:
        square, gains = block.square(), []
        last = inverse.shape[-1] - 1
        for level, factor in enumerate(inverse.unbind(dim=-1)):
            room = square if level == last else torch.empty_like(square)
            reduction = torch.mul(square, factor.unsqueeze(-1), out=room)
            if cap is not None:
                torch.minimum(reduction, cap, out=reduction)
            gains.append(_weighted_sum(reduction, targets.weights))
        return torch.stack(gains, dim=-1)

    return map_rows(of_block, posterior, rows, inverse, targets)


def map_rows(
    function: Callable[[Tensor, Tensor], Tensor],
    posterior: DomainPosterior,
    rows: Tensor,
    inverse: Tensor,
    targets: Targets,
) -> Tensor:
    r"""Applies a function of `B x c x a` covariances and `B x c x K` inverses, chunk by chunk."""
    entries = _READ_ENTRIES if posterior.dense else _MADE_ENTRIES
    limit = entries.get(rows.device.type, 2**16)
    size = max(1, limit // max(1, targets.place.numel()))
    with torch.no_grad():
        block = posterior.covariance_with(None if targets.whole else targets.place)
        parts = [
            function(block(some), inverses)
            for some, inverses in zip(
                rows.split(size, dim=-1), inverse.split(size, dim=-2), strict=True
            )
        ]
    return torch.cat(parts, dim=-2)


def anticipated_gain(
    covariance: Tensor,
    inverse: Tensor,
    targets: Targets,
    posterior: DomainPosterior,
    state: TruncatedVarianceState,
) -> Tensor:
    r"""The gain where the set `M` after the sample is anticipated (Appendix A).

    The outcome is replaced by its mean, so that only the variances change. The second sum of
    Eq. (3) then runs over the points that would stay in M; the first still runs over M, else
    there were no merit in ruling points out. One that would be ruled out thus counts with all
    of `max(beta s^2, eta^2)`.

    Args:
        covariance: `B x m x a`.
        inverse: `B x m`.
        targets: All of M, `truncate=False`.
        posterior: Means and variances.
        state: The sets, the threshold, `eta` and `beta`.

    Returns:
        `B x m` gains.
    """
    size = posterior.domain.shape[-2]
    mean, variance = (
        part.reshape(-1, size).gather(-1, targets.place).unsqueeze(-2)
        for part in (posterior.mean, posterior.variance)
    )
    within, high, low = (
        part.reshape(-1, size).gather(-1, targets.place).unsqueeze(-2)
        for part in (state.unclassified, state.high, state.low)
    )
    beta = state.beta.to(variance).reshape(-1, 1, 1)
    target = state.target_variance(posterior).to(variance).reshape(-1, 1, 1)
    reduction = torch.minimum(covariance.square() * inverse.unsqueeze(-1), variance)
    half_width = (beta * (variance - reduction)).clamp_min(torch.finfo(mean.dtype).tiny).sqrt()
    stays, _, _ = classify(
        (within & (targets.weights > 0).unsqueeze(-2), high, low),
        mean - half_width,
        mean + half_width,
        state.threshold,
    )
    capped = torch.minimum(reduction, (variance - target).clamp_min(0.0))
    fall = torch.where(stays, capped, torch.maximum(variance, target))
    return _weighted_sum(fall, targets.weights)


def inverse_variance(variance: Tensor, posterior: DomainPosterior) -> Tensor:
    r"""One over a variance of outcomes, `B x ...`; 0 where there is neither variance nor noise."""
    known = variance > posterior.resolution.reshape(-1, *[1] * (variance.dim() - 1))
    return torch.where(known, variance, 1.0).reciprocal().where(known, 0.0)


def _weighted_sum(values: Tensor, weights: Tensor) -> Tensor:
    r"""`B x m` sums of `B x m x a` values, one matrix-vector product where `B` is 1."""
    if len(values) == 1:
        return (values[0] @ weights[0]).unsqueeze(0)
    return (values @ weights.unsqueeze(-1)).squeeze(-1)
