r"""The posterior covariance over a finite domain, held as a matrix."""

from __future__ import annotations

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

    def block(self, rows: Tensor, columns: Tensor | None) -> Tensor:
        r"""Some rows and columns, `B x m x a`: a view where that is possible."""
        row = rows[0]
        if len(row) > 0 and bool((row.diff() == 1).all() & (rows == row).all()):
            block = self.matrix.narrow(-2, int(row[0]), len(row))
        else:
            spread = rows.unsqueeze(-1).expand(*rows.shape, self.matrix.shape[-1])
            block = self.matrix.gather(-2, spread)
        if columns is None:
            return block
        if len(self.matrix) == 1:
            return block.index_select(-1, columns[0])
        return block.gather(-1, columns.unsqueeze(-2).expand(*rows.shape, columns.shape[-1]))

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
