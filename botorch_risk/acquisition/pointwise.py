r"""Acquisition functions of one point at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.exceptions.errors import UnsupportedError
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor
from torch.autograd.function import once_differentiable


class PointwiseAcquisitionFunction(AcquisitionFunction, ABC):
    r"""An acquisition function that scores points independently of each other.

    A subclass defines `evaluate`; `forward`, what BoTorch's optimisers call, is its face for
    q = 1. A batch of q points is built with `optimize_acqf(..., sequential=True)`, where
    each point sees its predecessors through `X_pending`.
    """

    _q_twin: ClassVar[str | None] = None

    @abstractmethod
    def evaluate(self, X: Tensor) -> Tensor:
        r"""Values at points that do not interact.

        Args:
            X: `batch_shape x m x d` points, where `batch_shape` broadcasts with that of the
                model.

        Returns:
            `batch_shape x m` values.
        """

    @t_batch_mode_transform()  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        r"""Values of single candidates.

        Args:
            X: `batch_shape x 1 x d` candidates.

        Returns:
            `batch_shape` values.

        Raises:
            UnsupportedError: If q is not 1.
        """
        if X.shape[-2] != 1:
            twin = f", or use {self._q_twin} for a joint batch" if self._q_twin else ""
            raise UnsupportedError(
                f"Expected q = 1 in {type(self).__name__}. Got {X.shape[-2]} points; pass "
                f"`sequential=True` to `optimize_acqf`{twin}."
            )
        return self.evaluate(X).squeeze(-1)


def evaluate_in_chunks(function: Callable[[Tensor], Tensor], X: Tensor, chunk_size: int) -> Tensor:
    r"""Values of a pointwise function, some points at a time, with gradients at once.

    A point's value does not depend on the others, so that the gradient of the sum over a
    chunk is that of each value. It is computed while the chunk is at hand, and nothing of the
    function's intermediate results is kept: memory is that of one chunk.

    Args:
        function: Maps `batch_shape x m x d` points to `batch_shape x m` values.
        X: The points, `batch_shape x m x d`.
        chunk_size: How many of the m points to evaluate at a time.

    Returns:
        `batch_shape x m` values, once differentiable in `X`.
    """
    if X.shape[-2] <= chunk_size:
        return function(X)
    values: Tensor = _Chunked.apply(X, function, chunk_size)
    return values


def map_replicates(
    function: Callable[[Tensor], Tensor], X: Tensor, batch_shape: torch.Size
) -> Tensor:
    r"""Applies a function of one list of points a replicate to points of any batch shape.

    Args:
        function: Maps `B x m x d` points to `B x m` values, for the `B` replicates.
        X: `... x m x d` points, where `...` broadcasts with the batch shape at its end.
        batch_shape: That of the model, `[]` (then `B` is 1) or `[R]`.

    Returns:
        `... x m` values.
    """
    shape = torch.broadcast_shapes(X.shape[:-2], batch_shape)
    X = X.expand(*shape, *X.shape[-2:])
    if batch_shape:
        X = X.movedim(-3, 0)
    values = function(X.reshape(batch_shape.numel(), -1, X.shape[-1])).reshape(X.shape[:-1])
    return values.movedim(0, -2) if batch_shape else values


class _Chunked(torch.autograd.Function):
    r"""Keeps one gradient row for each point."""

    @staticmethod
    def forward(
        ctx: Any, X: Tensor, function: Callable[[Tensor], Tensor], chunk_size: int
    ) -> Tensor:
        values, gradients = [], []
        for points in X.split(chunk_size, dim=-2):
            with torch.set_grad_enabled(ctx.needs_input_grad[0]):
                points = points.detach().requires_grad_(ctx.needs_input_grad[0])
                value = function(points)
                if ctx.needs_input_grad[0]:
                    gradients += torch.autograd.grad(value.sum(), points)
            values.append(value.detach())
        if gradients:
            ctx.save_for_backward(torch.cat(gradients, dim=-2))
        return torch.cat(values, dim=-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_values: Tensor) -> tuple[Any, ...]:
        (gradient,) = ctx.saved_tensors
        return (grad_values.unsqueeze(-1) * gradient).sum_to_size(gradient.shape), None, None
