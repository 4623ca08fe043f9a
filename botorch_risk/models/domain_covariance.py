r"""The posterior covariance over a finite domain: held as a matrix, or made block by block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from botorch_risk.models.conditioned_process import ConditionedPoints, ConditionedProcess

# Entries made at once.
_CHUNK_ENTRIES = {"cpu": 2**20, "cuda": 2**26}
# Units of rounding of the prior variance beyond which the running matrix is computed anew.
_ROUND_OFF = 1e4


class DenseCovariance:
    r"""A covariance that is held, and updated by one rank at a time.

    It is a running difference. Each update compares the column that the factor gives with
    its own, and the matrix is computed anew from the factor when they differ by more than
    `1e4` units of rounding of the prior variance.
    """

    def __init__(self, process: ConditionedProcess, domain: ConditionedPoints) -> None:
        r"""Computes the matrix, `B x |D| x |D|`."""
        self.matrix = self._make(process, domain)

    def copy(self) -> DenseCovariance:
        r"""An independent one."""
        twin = DenseCovariance.__new__(DenseCovariance)
        twin.matrix = self.matrix.clone()
        return twin

    def subtract(
        self,
        process: ConditionedProcess,
        domain: ConditionedPoints,
        column: Tensor,
        root: Tensor,
        index: Tensor,
    ) -> None:
        r"""Conditions on one observation.

        Args:
            process: The posterior before it.
            domain: The domain before it.
            column: `B x |D|` covariances with the point observed.
            root: `B` inverse standard deviations of the outcome.
            index: `B` rows of the point, -1 off the domain.
        """
        batch = torch.arange(len(self.matrix), device=index.device)
        error = (self.matrix[batch, index.clamp_min(0)] - column).abs().amax(dim=-1)
        unit = torch.finfo(column.dtype).eps * domain.prior.variance.amax(dim=-1)
        if bool((error.where(index >= 0, 0.0) > _ROUND_OFF * unit).any()):
            self.matrix = self._make(process, domain)
        for matrix, row in zip(self.matrix, column * root.unsqueeze(-1), strict=True):
            matrix.addr_(row, row, alpha=-1.0)

    @staticmethod
    def _make(process: ConditionedProcess, domain: ConditionedPoints) -> Tensor:
        batch, size = domain.mean.shape
        matrix = domain.mean.new_empty(batch, size, size)
        chunk = max(1, _CHUNK_ENTRIES.get(matrix.device.type, 2**20) // (batch * size))
        for rows in torch.arange(size, device=matrix.device).split(chunk):
            block = matrix.narrow(-2, int(rows[0]), len(rows))
            block.copy_(process.covariance(domain.take(rows.expand(batch, -1)), domain))
        return matrix


class CovarianceBlocks(Protocol):
    r"""Covariances between two lists of points of the domain, a block at a time."""

    @property
    def together(self) -> bool:
        r"""Whether blocks are made for all replicates at once only."""
        ...

    def __call__(self, replicates: slice, rows: slice, columns: slice) -> Tensor:
        r"""The block of some places in both lists, for some replicates. Not to be changed."""
        ...


@dataclass(frozen=True)
class HeldBlocks:
    r"""Blocks of a matrix, which are views of it where that is possible.

    Attributes:
        matrix: `B x |D| x |D|`.
        rows: `B x m` places in the domain; `None` for all in order.
        columns: `B x a` places; `None` for all in order.
    """

    matrix: Tensor
    rows: Tensor | None
    columns: Tensor | None
    together: bool = False

    def __call__(self, replicates: slice, rows: slice, columns: slice) -> Tensor:
        r"""The block of some places in both lists, for some replicates."""
        if self.rows is None:
            block = self.matrix[replicates, rows]
        else:
            block = self.matrix[replicates]
            places = self.rows[replicates, rows].unsqueeze(-1)
            block = block.gather(-2, places.expand(*places.shape[:-1], block.shape[-1]))
        if self.columns is None:
            return block[..., columns]
        places = self.columns[replicates, columns].unsqueeze(-2)
        if len(block) == 1:
            return block.index_select(-1, places.flatten())
        return block.gather(-1, places.expand(*block.shape[:-1], places.shape[-1]))


@dataclass(frozen=True)
class MadeBlocks:
    r"""Blocks that are made from the factor, without gradients.

    Attributes:
        process: The posterior.
        rows: `B x m` points.
        columns: `B x a` points.
    """

    process: ConditionedProcess
    rows: ConditionedPoints
    columns: ConditionedPoints

    @property
    def together(self) -> bool:
        r"""Whether the kernel is one that GPyTorch evaluates, for all replicates."""
        return self.process.process.cache.kernel is None

    @torch.no_grad()
    def __call__(self, replicates: slice, rows: slice, columns: slice) -> Tensor:
        r"""The block of some places in both lists, for some replicates."""
        first, second = self.rows.part(replicates, rows), self.columns.part(replicates, columns)
        return self.process.covariance(first, second)
