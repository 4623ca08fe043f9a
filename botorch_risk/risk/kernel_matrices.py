r"""Kernel matrices of the points of an environment: evaluation, factors and checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from linear_operator import to_dense
from torch import Tensor

Kernel = Callable[[Tensor, Tensor], Any]
T = TypeVar("T")


def kernel_matrix_of(kernel: Kernel, environment: Any) -> Tensor:
    r"""The kernel matrix of an environment's points, in float64 and without a graph.

    Args:
        kernel: Takes two `batch_shape x n_w x d_w` tensors and returns a
            `batch_shape x n_w x n_w` tensor or linear operator, as GPyTorch's kernels do.
        environment: Has `points: batch_shape x n_w x d_w`.

    Returns:
        A `batch_shape x n_w x n_w` tensor.

    Raises:
        BotorchTensorDimensionError: If the kernel returns another shape.
    """
    points = environment.points.double()
    with torch.no_grad():
        matrix = to_dense(kernel(points, points)).double()
    if matrix.shape[-2:] != (points.shape[-2], points.shape[-2]):
        raise BotorchTensorDimensionError(
            "Expected a kernel matrix of shape `batch_shape x n_w x n_w` for the points. "
            f"Got {matrix.shape=}, {points.shape=}."
        )
    return matrix


def without_copies(kernel_matrix: Tensor) -> Tensor:
    r"""One matrix in place of equal ones, so that replicates on one grid are served together.

    Args:
        kernel_matrix: `batch_shape x n_w x n_w`.

    Returns:
        `n_w x n_w` if all are equal, else what is given.
    """
    if kernel_matrix.dim() < 3:
        return kernel_matrix
    matrices = kernel_matrix.flatten(end_dim=-3)
    same = torch.equal(matrices, matrices[:1].expand_as(matrices))
    return matrices[0] if same else kernel_matrix


def eigen(kernel_matrix: Tensor) -> tuple[Tensor, Tensor]:
    r"""Eigenvalues and eigenvectors in float64, with negative rounding errors set to 0.

    Args:
        kernel_matrix: `batch_shape x n_w x n_w`.

    Returns:
        The eigenvalues, `batch_shape x n_w`, and the vectors as columns.

    Raises:
        BotorchTensorDimensionError: If the matrix is not square.
        InputDataError: If it is not symmetric or has an eigenvalue below 0, up to rounding.
    """
    if kernel_matrix.dim() < 2 or kernel_matrix.shape[-1] != kernel_matrix.shape[-2]:
        raise BotorchTensorDimensionError(
            "Expected `kernel_matrix` to have shape `batch_shape x n_w x n_w`. "
            f"Got {kernel_matrix.shape=}."
        )
    matrix = kernel_matrix.detach().double()
    rounding = 10 * matrix.shape[-1] * torch.finfo(kernel_matrix.dtype).eps
    scale = matrix.abs().amax(dim=(-2, -1), keepdim=True)
    asymmetry = (matrix - matrix.mT).abs()
    if not (asymmetry <= rounding * scale).all():  # also where it is not finite
        raise InputDataError(
            "Expected `kernel_matrix` to be finite and symmetric. "
            f"Got a largest difference of {asymmetry.max():.3g} to its transpose."
        )
    values, vectors = torch.linalg.eigh((matrix + matrix.mT) / 2)
    if not (values[..., 0] >= -rounding * values[..., -1].abs()).all():
        raise InputDataError(
            "Expected `kernel_matrix` to be positive semi-definite. "
            f"Got the eigenvalue {values[..., 0].min():.3g}."
        )
    return values.clamp_min(0.0), vectors


def same_points(bound: Tensor | None, points: Tensor) -> bool:
    r"""Whether a measure bound to the points `bound` is bound to these, value by value."""
    if bound is None or bound.dtype != points.dtype or bound.device != points.device:
        return False
    return torch.equal(bound, points)


def require_bound(part: T | None, measure: object) -> T:
    r"""A part that `bind` makes; raises RuntimeError if the measure is not bound."""
    if part is None:
        raise RuntimeError(
            "Expected a measure that knows the points: call `bind(environment)` first. "
            f"Got {measure}."
        )
    return part


def check_size(kernel_matrix: Tensor, values: Tensor) -> None:
    r"""Raises BotorchTensorDimensionError unless there is one kernel matrix for the values."""
    *batch_shape, n_w, _ = kernel_matrix.shape
    if values.shape[-1] != n_w or list(values.shape[: len(batch_shape)]) != batch_shape:
        raise BotorchTensorDimensionError(
            "Expected `kernel_matrix: batch_shape x n_w x n_w` for `values: batch_shape x ... x "
            f"n_w`. Got {kernel_matrix.shape=}, {values.shape=}."
        )
