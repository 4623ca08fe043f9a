r"""An orthonormal basis of the rows of a matrix of low rank."""

from collections.abc import Iterator
from itertools import chain

import torch
from torch import Tensor

# Singular values below this, relative to the largest, are rounding.
_TOLERANCE = 1e-13
# On a device: after how many rows the host looks whether there are more.
_LOOK = 16


def row_basis(chunks: Iterator[Tensor]) -> Tensor:
    r"""Orthonormal rows `... x r x n` that span the rows of a matrix `... x n_w x n`, in chunks.

    The matrix itself is never held. The rank `r` is the largest of the batch. On a CPU the rows are
    singular vectors. A GPU would decompose the matrices of a batch one at a time, so there rows are
    chosen by pivoting, for all matrices at once.
    """
    first = next(chunks)
    if first.device.type == "cpu":
        return _singular_vectors(first, chunks)
    return _pivoted_rows(first, chunks)


def _singular_vectors(root: Tensor, chunks: Iterator[Tensor]) -> Tensor:
    # The triangular factor of what has been seen so far has the row space and the singular values
    # of all of it, in n rows.
    for chunk in chunks:
        root = torch.linalg.qr(torch.cat([root, chunk], dim=-2), mode="r").R
    _, values, basis = torch.linalg.svd(root, full_matrices=False)
    rank = int((values > _TOLERANCE * values[..., :1]).sum(dim=-1).max())
    return basis[..., :rank, :]


def _pivoted_rows(first: Tensor, chunks: Iterator[Tensor]) -> Tensor:
    r"""Gram-Schmidt from the row that is farthest from the span of those before.

    A matrix of a lower rank than the others of its batch gets zero rows.
    """
    basis = first[..., :0, :]
    size = torch.zeros_like(first[..., 0, 0])
    for chunk in chain([first], chunks):
        size = size + chunk.square().sum(dim=(-2, -1))
        basis = _with_rows_of(chunk, basis, _TOLERANCE**2 * size)
    rank = int((basis.square().sum(dim=-1) > 0).sum(dim=-1).max())
    order = (basis.square().sum(dim=-1) == 0).to(torch.uint8).argsort(dim=-1, stable=True)
    return basis.gather(-2, order.unsqueeze(-1).expand_as(basis))[..., :rank, :]


def _with_rows_of(rows: Tensor, basis: Tensor, rounding: Tensor) -> Tensor:
    r"""A basis and what rows add to it, until the squares of the rest are at most rounding."""
    rest = rows - (rows @ basis.mT) @ basis
    for step in range(min(rest.shape[-2:])):
        squares = rest.square().sum(dim=-1)
        is_left = squares.sum(dim=-1) > rounding
        if step % _LOOK == 0 and not is_left.any():
            break
        pivot = squares.argmax(dim=-1)[..., None, None]
        row = rest.gather(-2, pivot.expand(*pivot.shape[:-1], rest.shape[-1]))
        row = row - (row @ basis.mT) @ basis  # once more, as rounding of small rows is not small
        row = torch.where(is_left[..., None, None], row / row.norm(dim=-1, keepdim=True), 0.0)
        rest = rest - (rest @ row.mT) @ row
        basis = torch.cat([basis, row], dim=-2)
    return basis
