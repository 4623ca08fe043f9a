r"""By how much samples of a finite domain reduce variances: sums over tiles of a covariance."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from botorch_risk.chunks import ChunkSize
from botorch_risk.engine.posterior.covariance import CovarianceBlocks
from botorch_risk.matrices import padded_index

if TYPE_CHECKING:
    from botorch_risk.engine.posterior.domain import DomainPosterior

# Entries of a covariance that is held, or made by a matrix product, at hand at once: they stay in
# a core's cache, or fill a GPU.
_HELD_ENTRIES = ChunkSize(cpu=2**16)
_MADE_ENTRIES = ChunkSize(cpu=2**18)
_SMALLEST_SIDE = 64


class Targets(NamedTuple):
    r"""Weighted points of the domain whose variances should fall, for `B` replicates."""

    row: Tensor  # B x a rows of the domain; shorter lists are padded with rows of weight 0
    weights: Tensor  # B x a
    # `B x a`, the largest useful reduction of each variance; `None` without truncation.
    cap: Tensor | None
    whole: bool  # whether they are the whole domain, in order

    def weighted_sum(self, values: Tensor) -> Tensor:
        r"""`B x m` sums of `B x m x a` values under the weights."""
        return weighted_sum(values, self.weights)


def weighted_sum(values: Tensor, weights: Tensor) -> Tensor:
    r"""`B x m` sums of `B x m x a` values, one matrix-vector product if `B` is 1."""
    if len(values) == 1:
        return (values[0] @ weights[0]).unsqueeze(0)
    return (values @ weights.unsqueeze(-1)).squeeze(-1)


class Candidates(NamedTuple):
    r"""Points of the domain to evaluate, for `B` replicates."""

    row: Tensor  # B x m rows of the domain
    valid: Tensor  # B x m, True for candidates and False for padding
    shared: int  # how many of the first rows are the targets, in the same order

    @classmethod
    def of(cls, mask: Tensor, targets: Targets, dense: bool) -> Candidates:
        r"""The points of a `B x |D|` mask, the targets first if that saves covariances."""
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
    r"""A part of the covariance between candidates and targets."""

    replicates: slice
    rows: slice  # which candidates
    columns: slice  # which targets
    mirrored: bool  # whether the columns are also candidates, and the rows also targets


def reductions_on_domain(
    posterior: DomainPosterior, candidates: Candidates, inverse: Tensor, targets: Targets
) -> Tensor:
    r"""`DomainPosterior.reductions`, in bounded memory."""
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
    r"""`DomainPosterior.map_rows`."""
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
        r"""Uninitialised memory of the shape of a block, the same in all calls with one name."""
        held = self._held.get(name)
        if held is None or held.numel() < block.numel():
            held = self._held[name] = block.new_empty(block.numel())
        return held[: block.numel()].view(block.shape)


def _blocks(
    posterior: DomainPosterior, candidates: Candidates, targets: Targets
) -> CovarianceBlocks:
    size = posterior.domain.shape[-2]
    in_order = bool((candidates.row.diff(dim=-1) == 1).all())
    every = in_order and candidates.row.shape[-1] == size
    return posterior.covariance_between(
        None if every else candidates.row, None if targets.whole else targets.row
    )


def _tiles(
    candidates: Candidates, targets: Targets, blocks: CovarianceBlocks, dense: bool
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
    r"""Add the contributions of a tile's targets to the sums of its candidates."""
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
            torch.mul(square, factor.unsqueeze(-2 if turned else -1), out=fall)
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
