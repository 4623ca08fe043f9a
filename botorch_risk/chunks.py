r"""Block sizes of large computations.

No result depends on them. Replicates, points and environmental values multiply: tensors of all of
them may not fit in memory, and are slow long before that: on a CPU a block that leaves the core's
cache costs up to three times as much per entry. On a GPU a small block leaves most of the device
idle, and only its memory limits the block. Each computation that works in blocks therefore has two
sizes: that for a CPU was measured, and that for a GPU bounds its memory.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


@dataclass(frozen=True)
class ChunkSize:
    r"""The number of entries in a block; each use defines what an entry is.

    Args:
        cpu: The size on a CPU, where the block should stay in a core's cache.
        gpu: The size on any other device, which it should keep busy without filling its memory.
    """

    cpu: int
    gpu: int = 2**26

    def entries(self, device: torch.device) -> int:
        return self.cpu if device.type == "cpu" else self.gpu

    def rows(self, device: torch.device, entries_per_row: int) -> int:
        r"""The number of rows in a block on a device, at least one."""
        return max(1, self.entries(device) // max(1, entries_per_row))


def evaluate_in_chunks(function: Callable[[Tensor], Tensor], X: Tensor, chunk_size: int) -> Tensor:
    r"""Evaluate a pointwise function in chunks, computing the gradients at the same time.

    A point's value does not depend on the others, so the gradient of the sum over a chunk contains
    the gradient of each value. It is computed chunk by chunk, and none of the function's
    intermediate results are kept: memory is bounded by one chunk.

    Args:
        function: Maps `batch_shape x m x d` points to `batch_shape x m` values. If the points
            broadcast, so that several replicates share them, the values have the batch shape of
            the replicates.
        X: The points, `batch_shape x m x d`; the values are once differentiable in them.
        chunk_size: The number of points to evaluate at a time.
    """
    if X.shape[-2] <= chunk_size:
        return function(X)
    values: Tensor = _Chunked.apply(X, function, chunk_size)
    return values


class _Chunked(torch.autograd.Function):
    r"""Keep one gradient row for each point of each replicate."""

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
    with torch.enable_grad():
        points = points.detach().requires_grad_()
        values = function(points)
        (gradient,) = torch.autograd.grad(values.sum(), points)
    return values.detach(), gradient
