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

from botorch_risk.posterior.inputs import as_points
from botorch_risk.posterior.t_batch import TBatch


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

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        r"""Keeps points under evaluation; a subclass conditions its model on them.

        Args:
            X_pending: `batch_shape x n' x d` points, or `None`; integers count as floats.
        """
        super().set_X_pending(None if X_pending is None else as_points(X_pending, self.model))

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
        function: Maps `batch_shape x m x d` points to `batch_shape x m` values. Where the points
            broadcast, so that several replicates share them, the values have the batch shape of
            the replicates.
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
    t_batch = TBatch.of(X, batch_shape)
    folded = t_batch.fold(X)  # batch_shape x m' x d
    values = function(folded.reshape(batch_shape.numel(), *folded.shape[-2:]))
    return t_batch.unfold(values.reshape(folded.shape[:-1]))


class _Chunked(torch.autograd.Function):
    r"""Keeps one gradient row for each point of each replicate."""

    @staticmethod
    def forward(
        ctx: Any, X: Tensor, function: Callable[[Tensor], Tensor], chunk_size: int
    ) -> Tensor:
        ctx.shape = X.shape
        if not ctx.needs_input_grad[0]:
            return torch.cat([function(points) for points in X.split(chunk_size, dim=-2)], dim=-1)
        parts = []
        for start in range(0, X.shape[-2], chunk_size):
            size = min(chunk_size, X.shape[-2] - start)
            part = _value_and_gradient(function, X.narrow(-2, start, size))
            batch = part[0].shape[:-1]
            if X.shape[:-2] != batch:  # replicates share the points: each has a gradient there
                X = X.expand(*batch, *X.shape[-2:])
                part = _value_and_gradient(function, X.narrow(-2, start, size))
            parts.append(part)
        values, gradients = zip(*parts, strict=True)
        ctx.save_for_backward(torch.cat(gradients, dim=-2))
        return torch.cat(values, dim=-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_values: Tensor) -> tuple[Any, ...]:
        (gradient,) = ctx.saved_tensors
        return (grad_values.unsqueeze(-1) * gradient).sum_to_size(ctx.shape), None, None


def _value_and_gradient(
    function: Callable[[Tensor], Tensor], points: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Values of a pointwise function and the gradient of each in its own point."""
    with torch.enable_grad():
        points = points.detach().requires_grad_()
        values = function(points)
        (gradient,) = torch.autograd.grad(values.sum(), points)
    return values.detach(), gradient
