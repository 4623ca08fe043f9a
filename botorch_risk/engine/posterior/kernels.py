r"""Stationary kernels as direct formulas: profiles, slopes, and hyperparameters as tensors.

A profile is a function of the squared scaled distance `r^2`, 1 at 0. Its slope

    slope(r) = -k'(r) / r = -2 dk / d(r^2)

is sufficient for gradients in inputs and lengthscales:

    d k(z, z') / d z = -slope (z - z')

`nu` is the smoothness of a Matern kernel, 0.5, 1.5 or 2.5, and infinity for the squared
exponential.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from torch import Tensor

from botorch_risk.matrices import squared_differences

SMOOTHNESS = (0.5, 1.5, 2.5, math.inf)


def correlation(squared_distance: Tensor, nu: float) -> Tensor:
    r"""The profile of a kernel at squared scaled distances.

    nu = inf:  exp(-r^2 / 2)
    nu = 0.5:  exp(-r)
    nu = 1.5:  (1 + s) exp(-s),            s = sqrt(3) r
    nu = 2.5:  (1 + s + s^2 / 3) exp(-s),  s = sqrt(5) r
    """
    if nu == math.inf:
        return squared_distance.mul(-0.5).exp_()
    # In place from here: these are the largest tensors of a prediction, and `s` is a copy.
    s = squared_distance.mul(2 * nu).sqrt_()
    decay = s.neg().exp_()
    if nu == 0.5:
        return decay
    if nu == 1.5:
        return torch.addcmul(decay, s, decay)
    times = s * decay
    return decay.add_(times).addcmul_(s, times, value=1 / 3)


def correlation_and_slope(squared_distance: Tensor, nu: float) -> tuple[Tensor, Tensor]:
    r"""The profile and its slope; for the squared exponential they are one tensor.

    The exponential kernel has a kink at zero distance and no derivative there: its slope is
    set to 0, the centre of the subgradients.
    """
    if nu == math.inf:
        profile = squared_distance.mul(-0.5).exp_()
        return profile, profile
    s = squared_distance.mul(2 * nu).sqrt_()
    decay = s.neg().exp_()
    if nu == 0.5:
        return decay, (decay / s).masked_fill_(s == 0, 0.0)
    times = s * decay
    if nu == 1.5:  # the profile first: the slope is written over what it is made of
        return times.add_(decay), decay.mul_(3)
    # For 2.5 the slope is 5 / 3 (1 + s) exp(-s): no division by r, so no 0 / 0 where points meet.
    linear = decay.add_(times)
    return torch.addcmul(linear, s, times, value=1 / 3), linear.mul_(5 / 3)


@dataclass(frozen=True)
class StationaryKernel:
    r"""A squared-exponential or Matern kernel, with its hyperparameters as tensors."""

    # The smoothness of a Matern kernel (0.5, 1.5 or 2.5), or infinity for the squared exponential.
    nu: float
    lengthscale: Tensor  # batch_shape x 1 x d or batch_shape x 1 x 1
    outputscale: Tensor  # batch_shape x 1 x 1 prior variance

    @classmethod
    def of(cls, kernel: Kernel) -> StationaryKernel | None:
        r"""Read a kernel of GPyTorch; `None` if these formulas do not cover it."""
        outputscale = None
        if type(kernel) is ScaleKernel and kernel.active_dims is None:
            outputscale = kernel.outputscale.detach().clone()[..., None, None]
            kernel = kernel.base_kernel
        if kernel.active_dims is not None:
            return None
        if type(kernel) is RBFKernel:
            nu = math.inf
        elif type(kernel) is MaternKernel and kernel.nu in SMOOTHNESS:
            nu = kernel.nu
        else:
            return None
        lengthscale = kernel.lengthscale.detach().clone()
        if outputscale is None:
            outputscale = torch.ones_like(lengthscale[..., :1])
        return cls(nu=nu, lengthscale=lengthscale, outputscale=outputscale)

    def squared_distance(
        self, first: Tensor, second: Tensor, norms: Tensor | None = None
    ) -> Tensor:
        r"""Squared distances of scaled points, as precise as the profile needs.

        `norms` are the squared norms of the second points, if they are known.
        """
        if self.nu != 0.5:
            return squared_distance(first, second, norms)
        # The exponential kernel falls linearly from zero distance, so rounding of 1e-16 in a
        # squared distance would be 1e-8 in a correlation.
        return squared_differences(first, second)

    def correlation(self, squared_distance: Tensor) -> Tensor:
        return correlation(squared_distance, self.nu)

    def correlation_and_slope(self, squared_distance: Tensor) -> tuple[Tensor, Tensor]:
        return correlation_and_slope(squared_distance, self.nu)


@dataclass(frozen=True)
class StackedKernel(StationaryKernel):
    r"""The kernels of several models as one, with the batch shape `models x batch_shape`.

    `nus` has the smoothness of each; `nu` is the least.
    """

    nus: tuple[float, ...]

    @classmethod
    def of_each(cls, kernels: Sequence[StationaryKernel]) -> StackedKernel:
        nus = tuple(kernel.nu for kernel in kernels)
        lengthscale, outputscale = (
            torch.stack(torch.broadcast_tensors(*(getattr(kernel, name) for kernel in kernels)))
            for name in ("lengthscale", "outputscale")
        )
        # The least: if one kernel needs exact distances, all get them.
        return cls(min(nus), lengthscale, outputscale, nus)

    def correlation(self, squared_distance: Tensor) -> Tensor:
        parts = zip(squared_distance.unbind(), self.nus, strict=True)
        return torch.stack([correlation(part, nu) for part, nu in parts])

    def correlation_and_slope(self, squared_distance: Tensor) -> tuple[Tensor, Tensor]:
        parts = zip(squared_distance.unbind(), self.nus, strict=True)
        profiles, slopes = zip(
            *(correlation_and_slope(part, nu) for part, nu in parts), strict=True
        )
        return torch.stack(profiles), torch.stack(slopes)


def squared_norms(points: Tensor) -> Tensor:
    r"""The squared norms of points `batch_shape x n x d`, as a row, `batch_shape x 1 x n`."""
    return points.square().sum(dim=-1).unsqueeze(-2)


def squared_distance(first: Tensor, second: Tensor, norms: Tensor | None = None) -> Tensor:
    r"""Squared distances of points, `batch_shape x m x n`, by one matrix product.

    The rounding grows with the distance from the origin, so centre the inputs first. `norms` are
    the `squared_norms` of the second points, if they are known.
    """
    # |z|^2 - 2 z'z' + |z'|^2 cancels where points are close, and may fall below 0.
    cross = first.mul(-2.0) @ second.mT
    cross += first.square().sum(dim=-1, keepdim=True)
    cross += squared_norms(second) if norms is None else norms
    return cross.clamp_min_(0.0)
