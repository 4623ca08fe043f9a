r"""The posterior covariance over a finite domain, as a matrix or evaluated block by block."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from botorch_risk.chunks import ChunkSize
from botorch_risk.engine.posterior.process import Process

# Entries of the covariance that are computed at once.
_NEW_ENTRIES = ChunkSize(cpu=2**20)
# Units of rounding of the prior variance beyond which the updated matrix is recomputed.
_ROUND_OFF = 1e4
# Observations that wait for the matrix to be read.
_MOST_WAITING = 16


class DenseCovariance:
    r"""A covariance matrix `B x |D| x |D|` from which observations are subtracted.

    Every update subtracts, so rounding errors accumulate. Each update therefore compares its
    columns with those from the factor, and the matrix is recomputed if they differ by more than
    `1e4` rounding units of the prior variance.

    Memory traffic dominates the cost of a single observation, which is therefore subtracted only
    when rows of the matrix are read: if a caller reads them in order, they are in the cache and the
    matrix is streamed once. Reading some columns does not write to the matrix, so that up to 16
    observations are subtracted at once.
    """

    _matrix: Tensor
    _waiting: Tensor  # B x k x |D|
    _current: list[int]  # the number of rows from which these are subtracted

    def __init__(self, process: Process, domain: Process.Points) -> None:
        self._rebase(process, domain)

    @property
    def matrix(self) -> Tensor:
        if any(self._current):
            every = slice(None)
            return self.rows(every, every)
        if self._waiting.shape[-2]:
            self._rebased(self._matrix.baddbmm_(self._waiting.mT, self._waiting, alpha=-1.0))
        return self._matrix

    def rows(self, replicates: slice, rows: slice) -> Tensor:
        r"""Rows of some replicates as a view; the rows before them are updated too."""
        batch, size, _ = self._matrix.shape
        stop = rows.indices(size)[1]
        for r in range(*replicates.indices(batch)):
            start, waiting = self._current[r], self._waiting[r]
            if start < stop and len(waiting):
                part = self._matrix[r, start:stop]
                part.addmm_(waiting[:, start:stop].mT, waiting, alpha=-1.0)
                self._current[r] = stop
        return self._matrix[replicates, rows]

    def columns(self, replicates: slice, rows: slice, index: Tensor) -> Tensor:
        r"""The columns of a `B' x a` index, in some rows of some replicates."""
        if any(self._current[replicates]):
            return _columns(self.rows(replicates, rows), index)
        # The matrix is symmetric, and its rows lie together in memory.
        waiting, every = self._waiting[replicates], self._matrix[replicates]
        block = _rows(every[..., rows], index)
        return block.baddbmm_(_columns(waiting, index).mT, waiting[..., rows], alpha=-1.0).mT

    def copy(self) -> DenseCovariance:
        twin = copy.copy(self)
        twin._rebased(self.matrix.clone())
        return twin

    def subtract(
        self, process: Process, domain: Process.Points, cross: Tensor, rows: Tensor, index: Tensor
    ) -> None:
        r"""Condition on `b` observations.

        Args:
            process: The posterior before these observations.
            domain: The points of the domain under `process`.
            cross: `B x b x |D|` covariances with the points observed.
            rows: The same after whitening: `rows' rows` is what the observations explain.
            index: `B x b` rows of the points, -1 off the domain.
        """
        every = slice(None)
        known = self.columns(every, every, index.clamp_min(0)).mT
        error = (known - cross).abs().amax(dim=-1)
        unit = torch.finfo(cross.dtype).eps * domain.prior.variance.amax(dim=-1, keepdim=True)
        # A point off the domain has no row to compare with.
        if bool((error.where(index >= 0, 0.0) > _ROUND_OFF * unit).any()):
            self._rebase(process, domain)
        elif any(self._current) or self._waiting.shape[-2] + rows.shape[-2] > _MOST_WAITING:
            self._rebased(self.matrix)
        self._waiting = torch.cat([self._waiting, rows], dim=-2)

    def _rebase(self, process: Process, domain: Process.Points) -> None:
        batch, size = domain.mean.shape
        matrix = domain.mean.new_empty(batch, size, size)
        chunk = _NEW_ENTRIES.rows(domain.mean.device, batch * size)
        for rows in torch.arange(size, device=domain.mean.device).split(chunk):
            block = matrix.narrow(-2, int(rows[0]), len(rows))
            block.copy_(process.covariance(domain.take(rows.expand(batch, -1)), domain))
        self._rebased(matrix)

    def _rebased(self, matrix: Tensor) -> None:
        r"""Let a matrix be the covariance, with no observation that waits."""
        self._matrix = matrix
        self._waiting = matrix[:, :0]
        self._current = [0] * len(matrix)


def _rows(block: Tensor, index: Tensor) -> Tensor:
    r"""Rows `B x a x n` of `B x m x n`, of a `B x a` index."""
    if len(block) == 1:
        return block.index_select(-2, index.flatten())
    return block.gather(-2, index.unsqueeze(-1).expand(*index.shape, block.shape[-1]))


def _columns(block: Tensor, index: Tensor) -> Tensor:
    r"""Columns `B x m x a` of `B x m x |D|`, of a `B x a` index."""
    if len(block) == 1:  # several times faster than `gather`
        return block.index_select(-1, index.flatten())
    return block.gather(-1, index.unsqueeze(-2).expand(*block.shape[:-1], index.shape[-1]))


class CovarianceBlocks(Protocol):
    r"""Covariances between two lists of points of the domain, a block at a time."""

    @property
    def together(self) -> bool:
        r"""Whether a block always holds all replicates."""
        ...

    def __call__(self, replicates: slice, rows: slice, columns: slice) -> Tensor: ...


@dataclass(frozen=True)
class HeldBlocks:
    r"""Blocks of a dense covariance, as views if possible."""

    covariance: DenseCovariance
    rows: Tensor | None  # B x m rows of the domain; None for all in order
    columns: Tensor | None  # B x a rows of the domain; None for all in order
    together: bool = False

    def __call__(self, replicates: slice, rows: slice, columns: slice) -> Tensor:
        index = None if self.columns is None else self.columns[replicates, columns]
        if self.rows is None:
            if index is not None:
                return self.covariance.columns(replicates, rows, index)
            return self.covariance.rows(replicates, rows)[..., columns]
        block = _rows(self.covariance.matrix[replicates], self.rows[replicates, rows])
        return block[..., columns] if index is None else _columns(block, index)


@dataclass(frozen=True)
class MadeBlocks:
    r"""Blocks between `B x m` and `B x a` points, computed from the factor without gradients."""

    process: Process
    rows: Process.Points
    columns: Process.Points

    @property
    def together(self) -> bool:
        r"""Whether GPyTorch evaluates the kernel, which it does for all replicates at once."""
        return self.process.prior.cache.kernel is None

    @torch.no_grad()
    def __call__(self, replicates: slice, rows: slice, columns: slice) -> Tensor:
        first, second = self.rows.part(replicates, rows), self.columns.part(replicates, columns)
        return self.process.covariance(first, second)
