r"""A bound of a few small models with its gradient, in NumPy.

At ten points the arithmetic takes a third of the time of the PyTorch calls. `stationary_moments`
has the same formulas for tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import ndarray

from botorch_risk.engine.posterior.kernels_on_host import profile_and_slope
from botorch_risk.engine.posterior.one_thread import product

# Up to so many entries of the correlations of points and data, of all models together, NumPy takes
# less time on one thread.
MOST_CORRELATIONS = 2**15


@dataclass(frozen=True, eq=False)
class BoundOnHost:
    r"""`mean + width * standard deviation` from the factors of a `PosteriorCache`."""

    train_inputs: ndarray  # batch_shape x n x d, centred and scaled
    norms: ndarray  # their squared norms, batch_shape x 1 x n
    factor: ndarray  # batch_shape x n x n
    weights: ndarray  # batch_shape x 1 x n
    lengthscale: ndarray  # batch_shape x 1 x d or batch_shape x 1 x 1
    nus: tuple[float, ...]  # the smoothness of the kernel; of each model if there are several
    scale: ndarray  # of the units of the outcome, batch_shape x 1
    offset: ndarray  # likewise
    prior: ndarray  # the prior variance in units of the outcome, likewise

    @classmethod
    def of(cls, cache: Any) -> BoundOnHost:
        kernel, units = cache.kernel, cache.units
        return cls(
            train_inputs=cache.train_inputs.detach().numpy(),
            norms=cache.norms.detach().numpy(),
            factor=cache.factor.detach().numpy(),
            weights=cache.weights.detach().numpy(),
            lengthscale=kernel.lengthscale.detach().numpy(),
            nus=getattr(kernel, "nus", (kernel.nu,)),
            scale=units.scale.detach().numpy(),
            offset=units.offset.detach().numpy(),
            prior=units.prior.detach().numpy(),
        )

    def __call__(
        self, Z: ndarray, width: ndarray, floor: float, grad: bool
    ) -> tuple[ndarray, ndarray | None]:
        r"""Values `batch_shape x m`, and gradients `batch_shape x m x d` if needed.

        `Z` are points as the training inputs; `width` is a number of standard deviations,
        broadcastable to `batch_shape x 1`; `floor` is the least variance.
        """
        distance = (-2.0 * Z) @ self.train_inputs.swapaxes(-1, -2)
        distance += np.square(Z).sum(axis=-1, keepdims=True)
        distance += self.norms
        np.maximum(distance, 0.0, out=distance)
        correlation, slope = self._profiles(distance, grad)
        whitened = product(correlation, self.factor.swapaxes(-1, -2))
        variance = self.prior - self.prior * np.square(whitened).sum(axis=-1)
        deviation = np.sqrt(np.maximum(variance, floor))
        spread = np.abs(self.scale) * width
        mean = (correlation @ self.weights.swapaxes(-1, -2))[..., 0]
        bound = self.offset + mean * self.scale + spread * deviation
        if slope is None:
            return bound, None
        # d deviation = -prior d explained / (2 deviation), and 0 of a clamped variance.
        share = np.where(variance < floor, 0.0, self.prior * spread / deviation)
        sensitivity = self.weights * self.scale[..., None]
        sensitivity = (sensitivity - share[..., None] * product(whitened, self.factor)) * slope
        # sum_j s_j (z_j - z), without an `m x n x d` array.
        gradient = sensitivity @ self.train_inputs
        gradient -= sensitivity.sum(axis=-1, keepdims=True) * Z
        return bound, gradient / self.lengthscale

    def at_inputs(
        self, centre: ndarray, units: ndarray, width: ndarray, floor: float
    ) -> Callable[[ndarray], tuple[ndarray, ndarray]]:
        r"""The bound with gradients as a function of inputs, `... x m x d`, in their own units.

        Args:
            centre: That of the training inputs, `batch_shape x 1 x d`, in units of the inputs.
            units: The size of a unit of the kernel's inputs in those units, likewise.
            width: As in `__call__`, as is `floor`.
        """
        scale = 1.0 / (units * self.lengthscale)
        shift, of_gradient = centre * scale, 1.0 / units

        def value_and_gradient(X: ndarray) -> tuple[ndarray, ndarray]:
            value, gradient = self(X * scale - shift, width, floor, grad=True)
            assert gradient is not None  # for the type checker
            return value, gradient * of_gradient

        return value_and_gradient

    def _profiles(self, distance: ndarray, grad: bool) -> tuple[ndarray, ndarray | None]:
        if len(set(self.nus)) == 1:
            return profile_and_slope(distance, self.nus[0], grad)
        pairs = zip(distance, self.nus, strict=True)
        each = [profile_and_slope(one, nu, grad) for one, nu in pairs]
        slopes = [slope for _, slope in each if slope is not None]
        return np.stack([profile for profile, _ in each]), np.stack(slopes) if grad else None
