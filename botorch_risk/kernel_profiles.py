r"""Radial profiles of the stationary kernels that BoTorch models use most, with their slopes.

A profile is a function of the squared scaled distance `r^2`, 1 at 0. Its slope

    slope(r) = -k'(r) / r = -2 dk / d(r^2)

is all that gradients in inputs and in lengthscales need:

    d k(z, z') / d z = -slope (z - z')

`nu` is the smoothness of a Matern kernel, 0.5, 1.5 or 2.5, and infinity for the squared
exponential.
"""

from __future__ import annotations

import math

from torch import Tensor

SMOOTHNESS = (0.5, 1.5, 2.5, math.inf)


def correlation(squared_distance: Tensor, nu: float) -> Tensor:
    r"""The profile.

        nu = inf:  exp(-r^2 / 2)
        nu = 0.5:  exp(-r)
        nu = 1.5:  (1 + s) exp(-s),            s = sqrt(3) r
        nu = 2.5:  (1 + s + s^2 / 3) exp(-s),  s = sqrt(5) r

    Args:
        squared_distance: Squared scaled distances, of any shape.
        nu: The smoothness.

    Example:
        >>> import torch
        >>> correlation(torch.tensor([0.0, 1.0]), nu=0.5)
        tensor([1.0000, 0.3679])
    """
    if nu == math.inf:
        return squared_distance.mul(-0.5).exp_()
    s = squared_distance.mul(2 * nu).sqrt_()
    decay = s.neg().exp_()
    if nu == 0.5:
        return decay
    if nu == 1.5:
        return decay.mul_(s + 1)
    return decay.mul_((s / 3 + 1).mul_(s).add_(1))


def correlation_and_slope(squared_distance: Tensor, nu: float) -> tuple[Tensor, Tensor]:
    r"""The profile and its slope; for the squared exponential they are one tensor.

    The exponential kernel has a kink at zero distance and no derivative there: its slope is
    taken as 0, the centre of the subgradients.

    Args:
        squared_distance: Squared scaled distances, of any shape.
        nu: The smoothness.

    Example:
        >>> import torch
        >>> correlation_and_slope(torch.zeros(1), nu=1.5)
        (tensor([1.]), tensor([3.]))
    """
    if nu == math.inf:
        profile = squared_distance.mul(-0.5).exp_()
        return profile, profile
    s = squared_distance.mul(2 * nu).sqrt_()
    decay = s.neg().exp_()
    if nu == 0.5:
        return decay, (decay / s).masked_fill_(s == 0, 0.0)
    if nu == 1.5:
        return (s + 1).mul_(decay), decay.mul(3)
    linear = (s + 1).mul_(decay)
    return s.square_().mul_(decay).div_(3).add_(linear), linear * (5 / 3)
