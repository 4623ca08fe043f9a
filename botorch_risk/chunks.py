r"""Bounded memory: how many numbers to hold at once, and pointwise functions in chunks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def entries_at_once(limits: Mapping[str, int], device: torch.device) -> int:
    r"""The limit of a kind of device; that of the CPU for a kind that is not listed.

    Args:
        limits: Numbers that may be held at once, by the kind of device, `"cpu"` among them.
        device: Where they are to be held.

    Example:
        >>> entries_at_once({"cpu": 2**16, "cuda": 2**26}, torch.device("cpu"))
        65536
    """
    return limits.get(device.type, limits["cpu"])


def evaluate_in_chunks(function: Callable[[Tensor], Tensor], X: Tensor, chunk_size: int) -> Tensor:
    r"""Values of a pointwise function, some points at a time, with gradients at once.

    A point's value does not depend on the others, so that the gradient of the sum over a
    chunk holds the gradient of each value. It is computed chunk by chunk, and none of the
    function's intermediate results are kept: memory is that of one chunk.

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
