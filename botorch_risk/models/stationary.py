r"""Direct formulas of the stationary kernels that BoTorch models use most.

A kernel here is a radial profile of the scaled inputs `z = x / lengthscale`, times an
outputscale. The profile and its derivative are functions of the squared distance alone,
so that a gradient with respect to the inputs needs no `m x n x d` tensor:

    d k(z, z') / d z = -slope(z, z') (z - z'),   slope = -k'(r) / r
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from torch import Tensor

_SMOOTHNESS = {0.5: 1, 1.5: 2, 2.5: 3}


@dataclass(frozen=True)
class StationaryKernel:
    r"""A squared-exponential or Matern kernel, its hyperparameters taken out as tensors.

    Attributes:
        nu: The smoothness of a Matern kernel (0.5, 1.5 or 2.5), or infinity for the
            squared exponential.
        lengthscale: `batch_shape x 1 x d` or `batch_shape x 1 x 1`.
        outputscale: `batch_shape x 1 x 1` prior variance.
    """

    nu: float
    lengthscale: Tensor
    outputscale: Tensor

    @classmethod
    def of(cls, kernel: Kernel) -> StationaryKernel | None:
        r"""Reads a kernel of GPyTorch; `None` if these formulas do not cover it."""
        outputscale = None
        if type(kernel) is ScaleKernel and kernel.active_dims is None:
            outputscale = kernel.outputscale.detach()[..., None, None]
            kernel = kernel.base_kernel
        if kernel.active_dims is not None:
            return None
        if type(kernel) is RBFKernel:
            nu = math.inf
        elif type(kernel) is MaternKernel and kernel.nu in _SMOOTHNESS:
            nu = kernel.nu
        else:
            return None
        lengthscale = kernel.lengthscale.detach()
        if outputscale is None:
            outputscale = torch.ones_like(lengthscale[..., :1])
        return cls(nu=nu, lengthscale=lengthscale, outputscale=outputscale)

    def correlation(self, squared_distance: Tensor) -> Tensor:
        r"""The profile of the scaled squared distance, 1 at 0."""
        if self.nu == math.inf:
            return squared_distance.mul(-0.5).exp_()
        r = squared_distance.mul(2 * self.nu).sqrt_()
        decay = r.neg().exp_()
        if self.nu == 0.5:
            return decay
        if self.nu == 1.5:
            return decay.mul_(r + 1)
        return decay.mul_((r / 3 + 1).mul_(r).add_(1))

    def correlation_and_slope(self, squared_distance: Tensor) -> tuple[Tensor, Tensor]:
        r"""The profile and `-k'(r) / r`, both of the scaled squared distance."""
        if self.nu == math.inf:
            correlation = squared_distance.mul(-0.5).exp_()
            return correlation, correlation
        r = squared_distance.mul(2 * self.nu).sqrt_()
        decay = r.neg().exp_()
        if self.nu == 0.5:
            # The kink at zero distance has no derivative: 0 is the centre of its subgradients.
            return decay, (decay / r).masked_fill_(r == 0, 0.0)
        if self.nu == 1.5:
            return (r + 1).mul_(decay), decay.mul(3)
        linear = r + 1
        slope = linear.mul(5 / 3).mul_(decay)
        return (r.square().div_(3).add_(linear)).mul_(decay), slope


def squared_distance(first: Tensor, second: Tensor) -> Tensor:
    r"""Squared distances by one matrix product.

    Args:
        first: `batch_shape x m x d`.
        second: `batch_shape x n x d`.

    Returns:
        `batch_shape x m x n`, at least 0.
    """
    cross = first.mul(-2.0) @ second.mT
    cross += first.square().sum(dim=-1, keepdim=True)
    cross += second.square().sum(dim=-1, keepdim=True).mT
    return cross.clamp_min_(0.0)
