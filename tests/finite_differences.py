r"""Gradients against finite differences."""

from collections.abc import Callable

import torch
from torch import Tensor


def assert_gradient(function: Callable[[Tensor], Tensor], X: Tensor, step: float = 1e-7) -> None:
    r"""The gradient agrees with central differences along a direction in every entry.

    The step is short, since 512 samples of a CVaR have a kink wherever two values change places.
    """
    X = X.detach().requires_grad_()
    direction = torch.randn(X.shape, generator=torch.Generator().manual_seed(2), dtype=X.dtype)
    direction = direction.to(X)
    (gradient,) = torch.autograd.grad(function(X).sum(), X)
    assert (gradient != 0).any()
    with torch.no_grad():
        ahead, behind = function(X + step * direction), function(X - step * direction)
    slopes = (gradient * direction).flatten(-2).sum(dim=-1)
    atol = 1e-6 * float(slopes.abs().max())
    torch.testing.assert_close(slopes, (ahead - behind) / (2 * step), rtol=0, atol=atol)
