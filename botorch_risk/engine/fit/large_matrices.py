r"""The matrix operations of the likelihood for many points, in panels of rows.

At 1,000 points a matrix takes 8 MB, and a dozen passes over it, each in fresh memory, cost as much
as factorising it. Here symmetric matrices are held as their lower triangle, are read and written in
panels that stay in the cache, and keep their memory while a fit goes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_risk.chunks import ChunkSize
from botorch_risk.engine.posterior.kernels import correlation_and_slope
from botorch_risk.matrices import squared_differences
from botorch_risk.steady import once

# The fewest points for which panels are faster, by a half.
LEAST = 400
# Entries of a panel of rows.
_PANEL = ChunkSize(cpu=2**16)
# Rows and columns of a block in matrix products and triangular solves. The products of smaller
# blocks are slow, and of larger ones the zeros above the diagonal count.
_BLOCK = 128


def is_large(X: Tensor) -> bool:
    r"""Whether there are many inputs `rows x n x d`, on a device whose cache matters."""
    return X.device.type == "cpu" and X.shape[-2] >= LEAST


def likelihood_of_large(
    X: Tensor,
    both: Tensor,
    lengthscale: Tensor,
    noise: Tensor,
    outputscale: Tensor | None,
    constant: Tensor,
    nu: float,
    best_constant: Callable[[Tensor], Tensor] | None,
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor | None, Tensor], Tensor]:
    r"""`likelihood_of` for many points, all of them observed.

    Args:
        X: Inputs, `rows x n x d`, centred.
        both: Ones and targets, `rows x n x 2`.
        lengthscale: As in `Hyperparameters`, as are the next three.
        nu: As in `correlation_and_slope`.
        best_constant: Maps `1' A^-1 1` and `1' A^-1 Y`, `rows x 2`, to the best constant, `rows`.

    Returns:
        The value, the derivatives in the order of the arguments, and the constant.
    """
    n, Z, room = X.shape[-2], X / lengthscale.unsqueeze(-2), _Room.of(X)
    factor = _factor(Z, noise, outputscale, nu, room)
    inverse = room.covariance  # has been read
    _invert_triangle(factor, inverse)
    products = _square(inverse, both)  # A^-1 1, A^-1 Y
    if best_constant is not None:
        constant = best_constant((both.mT @ products[..., :1]).squeeze(-1))
    residual_of = _residual_of(constant)
    weights = products @ residual_of  # w = A^-1 y, rows x n x 1
    fit = ((both @ residual_of).mT @ weights).flatten()
    value = _value(fit, factor)
    # With A^-1 - w w' in the place of -S in Eq. (5.9).
    diagonal = inverse.diagonal(dim1=-2, dim2=-1) - weights.squeeze(-1).square()
    squares, of_outputscale = _weighted_squares(inverse, weights, room.slope, Z), None
    if outputscale is not None:
        of_outputscale = 0.5 * (fit - n + (diagonal * noise).sum(-1)) / outputscale
        squares = squares * outputscale.unsqueeze(-1)
    if lengthscale.shape[-1] == 1:
        squares = squares.sum(-1, keepdim=True)
    of_noise = diagonal.sum(-1, keepdim=True) if noise.shape[-1] == 1 else diagonal
    slopes = squares / lengthscale, -0.5 * of_noise, of_outputscale, weights.sum((-2, -1))
    return value, slopes, constant


def value_of_large(
    X: Tensor,
    both: Tensor,
    lengthscale: Tensor,
    noise: Tensor,
    outputscale: Tensor | None,
    constant: Tensor,
    nu: float,
    best_constant: Callable[[Tensor], Tensor] | None,
) -> tuple[Tensor, Tensor]:
    r"""The value and the constant of `likelihood_of_large`, in less than half of the time."""
    factor = _factor(X / lengthscale.unsqueeze(-2), noise, outputscale, nu, _Room.of(X))
    root = torch.linalg.solve_triangular(factor, both, upper=False)
    products = root.mT @ root  # 1' A^-1 1 and 1' A^-1 Y in its first row
    if best_constant is not None:
        constant = best_constant(products[:, 0])
    residual_of = _residual_of(constant)
    return _value((residual_of.mT @ products @ residual_of).flatten(), factor), constant


def _factor(Z: Tensor, noise: Tensor, outputscale: Tensor | None, nu: float, room: _Room) -> Tensor:
    r"""Factorise the covariance; the pivots are NaN if it is not positive definite."""
    _write_covariance_and_slope(Z, outputscale, nu, room)
    room.covariance.diagonal(dim1=-2, dim2=-1).add_(noise)
    # Stored as its transpose, which is how LAPACK writes a factor.
    factor, info = room.factor.mT, noise.new_empty(len(Z), dtype=torch.int32)
    torch.linalg.cholesky_ex(room.covariance, out=(factor, info))
    factor.diagonal(dim1=-2, dim2=-1).masked_fill_((info > 0).unsqueeze(-1), torch.nan)
    return factor


def _residual_of(constant: Tensor) -> Tensor:
    r"""Maps ones and targets to the residuals, `rows x 2 x 1`."""
    return torch.stack([-constant, torch.ones_like(constant)], dim=-1).unsqueeze(-1)


def _value(fit: Tensor, factor: Tensor) -> Tensor:
    pivots = factor.diagonal(dim1=-2, dim2=-1)
    return -0.5 * (fit + pivots.shape[-1] * math.log(2 * math.pi)) - pivots.log().sum(-1)


class _Room(NamedTuple):
    r"""Memory for matrices `rows x n x n`, kept since the system provides fresh pages slowly.

    Entries above the diagonal blocks are never read.
    """

    covariance: Tensor
    slope: Tensor
    factor: Tensor

    @classmethod
    def of(cls, Z: Tensor) -> _Room:
        r"""Memory for the matrices of some inputs, the same throughout a `steady` block."""
        shape = 3, len(Z), Z.shape[-2], Z.shape[-2]

        def make() -> _Room:
            return cls(*Z.new_empty(shape))

        kept: _Room | None = once(("room for large matrices", shape, Z.dtype), None, make)
        return make() if kept is None else kept


def _panels(X: Tensor) -> Iterator[tuple[slice, slice, slice]]:
    r"""Rows, the columns before their block on the diagonal, and the columns with it."""
    n = X.shape[-2]
    # A power of 2, so that no block on the diagonal reaches above the blocks of `_square`.
    size = min(_BLOCK, 1 << _PANEL.rows(X.device, n).bit_length() - 1)
    for first in range(0, n, size):
        last = min(first + size, n)
        yield slice(first, last), slice(first), slice(last)


def _write_covariance_and_slope(
    Z: Tensor, outputscale: Tensor | None, nu: float, room: _Room
) -> None:
    r"""Write the lower triangles of `outputscale * K` and of the slope of `K`."""
    for rows, _, columns in _panels(Z):
        distance = squared_differences(Z[:, rows], Z[:, columns])
        profile, slope = correlation_and_slope(distance, nu)
        room.slope[:, rows, columns] = slope
        if outputscale is not None:
            profile = profile * outputscale[:, None, None]  # the profile may be the slope
        room.covariance[:, rows, columns] = profile


def _invert_triangle(factor: Tensor, out: Tensor) -> None:
    r"""Write the inverse of a lower triangular matrix to the lower triangle of another one."""
    n = factor.shape[-1]
    if n <= _BLOCK:
        one = torch.eye(n, dtype=factor.dtype, device=factor.device).expand_as(factor)
        out.copy_(torch.linalg.solve_triangular(factor, one, upper=False))
        return
    half = -(-n // (2 * _BLOCK)) * _BLOCK  # between two blocks of `_square`
    first, cross, last = factor[:, :half, :half], factor[:, half:, :half], factor[:, half:, half:]
    _invert_triangle(first, out[:, :half, :half])
    _invert_triangle(last, out[:, half:, half:])
    # Triangular solves take half of the operations of products with the inverses.
    right = torch.linalg.solve_triangular(first, cross, upper=False, left=False)
    below = torch.linalg.solve_triangular(last, right, upper=False)
    torch.neg(below, out=out[:, half:, :half])


def _square(root: Tensor, both: Tensor) -> Tensor:
    r"""Overwrite `M` by the lower triangle of `M' M`, and return `M' M both`, `rows x n x 2`.

    PyTorch's `cholesky_inverse` writes the upper triangle as well, against the memory order: at
    4,000 points this takes a third of its time.
    """
    columns = both.mT.contiguous()  # rows x 2 x n
    products = torch.zeros_like(columns)
    n = root.shape[-1]
    for first in range(0, n, _BLOCK):
        last = min(first + _BLOCK, n)
        # These rows of the result need the rows of `M` from here on only, and take the place of
        # rows that are not read again.
        block = root[:, first:, first:last].mT @ root[:, first:, :last]
        root[:, first:last, :last] = block
        products[..., first:last] += columns[..., :last] @ block.mT
        products[..., :first] += columns[..., first:last] @ block[..., :first]
    return products.mT


def _weighted_squares(inverse: Tensor, weights: Tensor, slope: Tensor, Z: Tensor) -> Tensor:
    r"""`-sum_ij W_ij (z_i - z_j)^2 / 2` with `W = (A^-1 - w w') * slope`, `rows x d`.

    The squares cancel, so the caller must centre `Z`.
    """
    squares, of_columns = Z.square(), torch.zeros_like(weights)
    found = Z.new_zeros(len(Z), Z.shape[-1])
    for rows, before, columns in _panels(Z):
        W = torch.addcmul(
            inverse[:, rows, columns], weights[:, rows], weights[:, columns].mT, value=-1
        )
        W *= slope[:, rows, columns]
        W[..., before.stop :] *= 0.5  # the block on the diagonal holds each pair twice
        cross = 2 * Z[:, rows] * (W @ Z[:, columns])
        found += (cross - squares[:, rows] * W.sum(-1, keepdim=True)).sum(-2)
        of_columns[:, columns] += W.sum(-2).unsqueeze(-1)
    return found - (squares * of_columns).sum(-2)
