r"""By how much a sample reduces variances down to a target: Eq. (3) of TRUVAR.

    max(beta s^2, eta^2) - max(beta (s^2 - D), eta^2) = beta min(max(s^2 - eta^2 / beta, 0), D)

The difference of the two sums is exact in this form, and points below the target drop out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_risk.acquisition.truncated_variance.state import TruncatedVarianceState
from botorch_risk.chunks import ChunkSize
from botorch_risk.engine import DomainPosterior


class Targets(NamedTuple):
    r"""The points whose variances should fall, for `B` replicates.

    Attributes:
        row: `B x a` rows of the domain; shorter lists are padded with rows of weight 0.
        weights: `B x a`, times `beta`.
        cap: `B x a`, the largest useful reduction of each variance; `None` without truncation.
        whole: Whether they are the whole domain, in order.
    """

    row: Tensor
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
        within: Tensor | None = None,
    ) -> Targets:
        r"""The points of `M_t`; if truncated, only where the variance is above the target.

        Args:
            posterior: The variances.
            state: The set `M_t`, `eta` and `beta`.
            weights: `|D|` weights of the points as representers of a continuous domain.
            truncate: Whether to stop at the target.
            within: `batch_shape x |D|`, the points instead of `M_t`.
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
        return cls(
            row=index,
            weights=weight.expand(variance.shape).gather(-1, index) * valid,
            cap=None if cap is None else cap.clamp_min(0.0).gather(-1, index),
            whole=whole or bool(within.all()),
        )


def padded_index(mask: Tensor) -> tuple[Tensor, Tensor]:
    r"""The true entries of a `B x n` mask in order, `B x a`, and which of them are not padding."""
    count = mask.sum(dim=-1, keepdim=True)
    size = int(count.max())
    # A stable sort of what is false puts the true entries in front in their order, for all
    # replicates at once; `nonzero` would return lists of different lengths.
    order = torch.argsort((~mask).to(torch.uint8), dim=-1, stable=True)[:, :size]
    valid = torch.arange(size, device=mask.device) < count
    return order, valid


def gain(covariance: Tensor, inverse: Tensor, targets: Targets) -> Tensor:
    r"""The gain of samples, differentiable.

        gain(x) = beta sum_j w_j min(cap_j, cov(x, x_j)^2 / (sigma^2(x) + noise(x)))

    Args:
        covariance: `B x m x a` posterior covariances with the targets.
        inverse: `B x m`, one over the variance of the outcome.
        targets: The points whose variances should fall.

    Returns:
        `B x m` gains, the numerator of Eq. (3).
    """
    reduction = covariance.square() * inverse.unsqueeze(-1)  # Eq. (18)
    if targets.cap is not None:
        reduction = torch.minimum(reduction, targets.cap.unsqueeze(-2))
    return weighted_sum(reduction, targets.weights)


def anticipated_set(posterior: DomainPosterior, state: TruncatedVarianceState) -> Tensor:
    r"""The points that may be in the set `M` after a sample, `batch_shape x |D|`.

    The points of `M_t`; and if sets are formed from scratch (`monotone=False`), all points that the
    present bounds leave open, since wider bounds in a new epoch bring points back. There are no
    others, as a sample at its mean only narrows bounds. The paper does not combine the two variants
    with each other or with costs. Its Eq. (3) subtracts a sum over the set after the sample from
    one over the set before it, and we form both by the same bounds, with the present `beta_(i)`.
    With the set of the last round instead, returning points would count in the second sum only: all
    gains fall by the same amount, which is harmless at equal costs but may make them all negative
    at unequal costs. Then the ratio of Eq. (3) prefers the most expensive sample, however
    uninformative it is.
    """
    if state.monotone:
        return state.unclassified
    bounds = state.confidence_bounds(posterior)
    open_now, _, _ = state.goal.classify(state.sets, *bounds, monotone=False)
    return state.unclassified | open_now


def anticipated_gain(
    covariance: Tensor,
    inverse: Tensor,
    targets: Targets,
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
    return weighted_sum(fall, targets.weights)


def inverse_variance(variance: Tensor, posterior: DomainPosterior) -> Tensor:
    r"""One over a variance of outcomes, `B x ...`; 0 where there is neither variance nor noise."""
    known = variance > posterior.resolution.reshape(-1, *[1] * (variance.dim() - 1))
    # The 1 under the reciprocal keeps its gradient finite: infinity times the 0 outside is NaN.
    return torch.where(known, variance, 1.0).reciprocal().where(known, 0.0)


def weighted_sum(values: Tensor, weights: Tensor) -> Tensor:
    r"""`B x m` sums of `B x m x a` values, one matrix-vector product if `B` is 1."""
    if len(values) == 1:
        return (values[0] @ weights[0]).unsqueeze(0)
    return (values @ weights.unsqueeze(-1)).squeeze(-1)


# Entries of a covariance that is held, or made by a matrix product, at hand at once: they stay in
# a core's cache, or fill a GPU.
_HELD_ENTRIES = ChunkSize(cpu=2**16)
_MADE_ENTRIES = ChunkSize(cpu=2**18)
_SMALLEST_SIDE = 64


class Candidates(NamedTuple):
    r"""Points of the domain to evaluate, for `B` replicates.

    Attributes:
        row: `B x m` rows of the domain.
        valid: `B x m`, True for candidates and False for padding.
        shared: How many of the first rows are the targets, in the same order.
    """

    row: Tensor
    valid: Tensor
    shared: int

    @classmethod
    def of(cls, mask: Tensor, targets: Targets, dense: bool) -> Candidates:
        r"""The points of a `B x |D|` mask, the targets first if it pays to evaluate them too."""
        row = targets.row
        if dense or 2 * int(mask.gather(-1, row).sum()) < row.numel():
            return cls(*padded_index(mask), shared=0)
        others, valid = padded_index(mask.scatter(-1, row, False))
        return cls(
            torch.cat([row, others], dim=-1),
            torch.cat([mask.gather(-1, row), valid], dim=-1),
            shared=row.shape[-1],
        )


class Tile(NamedTuple):
    r"""A part of the covariance between candidates and targets.

    Attributes:
        replicates: Which replicates.
        rows: Which candidates.
        columns: Which targets.
        mirrored: Whether the columns are also candidates, and the rows also targets.
    """

    replicates: slice
    rows: slice
    columns: slice
    mirrored: bool


def gain_on_domain(
    posterior: DomainPosterior, candidates: Candidates, inverse: Tensor, targets: Targets
) -> Tensor:
    r"""The gain of samples at points of the domain, in bounded memory, without gradients.

    Args:
        posterior: Supplies the covariance.
        candidates: The points.
        inverse: `B x m x K`, one over the variance of the outcome at each noise level.
        targets: The points whose variances should fall.

    Returns:
        `B x m x K` gains.
    """
    blocks = _blocks(posterior, candidates, targets)
    total, scratch = torch.zeros_like(inverse), ScratchBuffer()
    with torch.no_grad():
        for tile in _tiles(candidates, targets, blocks, posterior.dense):
            _add_tile(total, blocks(*tile[:3]), tile, inverse, targets, scratch)
    return total


def map_rows(
    function: Callable[[Tensor, Tensor], Tensor],
    posterior: DomainPosterior,
    candidates: Candidates,
    inverse: Tensor,
    targets: Targets,
) -> Tensor:
    r"""Apply a function of `B x c x a` covariances and `B x c x K` inverses, chunk by chunk."""
    blocks, every = _blocks(posterior, candidates, targets), slice(None)
    limit = _HELD_ENTRIES.entries(inverse.device)
    size = max(1, limit // max(1, targets.row.numel()))
    with torch.no_grad():
        parts = [
            function(blocks(every, rows, every), inverse[:, rows])
            for rows in _slices(0, inverse.shape[-2], size)
        ]
    return torch.cat(parts, dim=-2)


class ScratchBuffer:
    r"""Reusable scratch memory; allocation takes longer than the arithmetic."""

    def __init__(self) -> None:
        self._held: dict[str, Tensor] = {}

    def like(self, block: Tensor, name: str) -> Tensor:
        r"""Uninitialised memory of the shape of a block, the same for every call with a name."""
        held = self._held.get(name)
        if held is None or held.numel() < block.numel():
            held = self._held[name] = block.new_empty(block.numel())
        return held[: block.numel()].view(block.shape)


def _blocks(
    posterior: DomainPosterior, candidates: Candidates, targets: Targets
) -> DomainPosterior.Blocks:
    size = posterior.domain.shape[-2]
    in_order = bool((candidates.row.diff(dim=-1) == 1).all())
    every = in_order and candidates.row.shape[-1] == size
    return posterior.covariance_between(
        None if every else candidates.row, None if targets.whole else targets.row
    )


def _tiles(
    candidates: Candidates, targets: Targets, blocks: DomainPosterior.Blocks, dense: bool
) -> Iterator[Tile]:
    r"""Tiles that cover the covariance, one of each mirrored pair.

    On a CPU the replicates are processed in sequence, so a tile is a matrix, not a batch.
    """
    device, shared = targets.row.device, candidates.shared
    count, num_rows = candidates.row.shape
    num_columns = targets.row.shape[-1]
    group = count if blocks.together or device.type != "cpu" else 1
    # A held covariance is read in whole rows, as it lies in memory; one that is made on demand
    # comes in squares, which need the fewest points for their entries.
    if dense:
        width = max(1, num_columns)
        height = max(1, _HELD_ENTRIES.entries(device) // (group * width))
    else:
        entries = _MADE_ENTRIES.entries(device)
        height = width = max(_SMALLEST_SIDE, math.isqrt(entries // group))
    for replicates in _slices(0, count, group):
        # Columns beyond the last weight are padding.
        filled = _last_column(targets.weights[replicates]) + 1
        columns = [some for some in _slices(0, num_columns, width) if some.start < filled]
        # Candidates that are targets are cut as the columns are: a tile off the diagonal then has a
        # mirror image among the tiles.
        for rows in (*_slices(0, shared, height), *_slices(shared, num_rows, height)):
            # The covariance is symmetric: columns left of the diagonal were rows of a tile before,
            # and were added from its mirrored side. Not so for rows from `filled` on, whose columns
            # were left out as padding.
            first = rows.start if rows.start < min(shared, filled) else 0
            for some in columns:
                if some.start >= first:
                    yield Tile(replicates, rows, some, shared > some.start > rows.start)


def _add_tile(
    total: Tensor,
    block: Tensor,
    tile: Tile,
    inverse: Tensor,
    targets: Targets,
    scratch: ScratchBuffer,
) -> None:
    r"""Add the contributions of a tile's targets to the gains of its candidates."""
    replicates, rows, columns, mirrored = tile
    square = torch.mul(block, block, out=scratch.like(block, "square"))
    # Beside its own candidates, a mirrored tile serves its columns as candidates.
    sides = [(rows, columns, False)] + [(columns, rows, True)] * mirrored
    left = len(sides) * inverse.shape[-1]
    for candidates, points, turned in sides:
        cap = None if targets.cap is None else targets.cap[replicates, points]
        weights = targets.weights[replicates, points]
        for level in range(inverse.shape[-1]):
            left -= 1  # the last product may overwrite the squares
            fall = scratch.like(block, "fall") if left else square
            factor = inverse[replicates, candidates, level]
            torch.mul(square, factor.unsqueeze(-2 if turned else -1), out=fall)  # Eq. (18)
            if cap is not None:
                torch.minimum(fall, cap.unsqueeze(-1 if turned else -2), out=fall)
            values = fall.mT if turned else fall
            total[replicates, candidates, level] += weighted_sum(values, weights)


def _slices(start: int, stop: int, size: int) -> list[slice]:
    return [slice(i, min(stop, i + size)) for i in range(start, stop, size)]


def _last_column(weights: Tensor) -> int:
    r"""The last column in which some replicate has a weight, -1 if no column has one."""
    columns = (weights != 0).any(dim=0).nonzero()
    return int(columns[-1]) if len(columns) > 0 else -1
