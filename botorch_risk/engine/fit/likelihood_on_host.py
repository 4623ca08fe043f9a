r"""The log marginal likelihood of a few rows in NumPy.

The arithmetic of one row of forty points takes a tenth of the time of the PyTorch calls that it
would need. `marginal_likelihood` has the same formulas for tensors, with their sources.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy import ndarray

from botorch_risk.engine.fit.centred_data import CentredData
from botorch_risk.engine.posterior.kernels_on_host import profile_and_slope
from botorch_risk.engine.posterior.one_thread import inverse_factor, product

# Up to so many replicates of so many points, each row by itself takes less time than all of them
# together in PyTorch, on one thread: 82 and 378 us for one with 40 points, 296 and 429 us for four.
MOST_REPLICATES, MOST_POINTS = 4, 256


@dataclass(frozen=True, eq=False)
class LikelihoodOnHost:
    r"""Values and derivatives of the log marginal likelihood for rows of hyperparameters.

    Args:
        differences: Squared differences of the observed inputs in each column, `d x n^2` for each
            replicate.
        both: Ones and the observed targets, `n x 2` for each replicate.
        fixed_noise: Noise variances, `n` for each; None if they are a hyperparameter.
        best_constant: The bounds, the location and the precision of the best constant, `R x 4`;
            None if the constant is a hyperparameter, or 0.
        nu: The smoothness of the kernel.
        slices: The positions of the hyperparameters by name, in the order of their derivatives.
        known: The results so far, since a fit ends at a point already seen and needs its constant.
    """

    differences: list[ndarray]
    both: list[ndarray]
    fixed_noise: list[ndarray] | None
    best_constant: ndarray | None
    nu: float
    slices: dict[str, slice]
    known: dict[tuple[int, bytes], ndarray] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        X: ndarray,
        both: ndarray,
        observed: ndarray,
        fixed_noise: ndarray | None,
        best_constant: ndarray | None,
        nu: float,
        slices: dict[str, slice],
    ) -> LikelihoodOnHost:
        r"""Build from inputs `R x n x d`, ones and targets `R x n x 2`, and a mask `R x n`."""
        noise = None
        if fixed_noise is not None:
            noise = [row[counts] for row, counts in zip(fixed_noise, observed, strict=True)]
        kept = [row[counts] for row, counts in zip(both, observed, strict=True)]
        columns = [row[counts].T for row, counts in zip(X, observed, strict=True)]  # d x n
        squares = [np.square(each[:, :, None] - each[:, None, :]) for each in columns]
        differences = [each.reshape(len(each), -1) for each in squares]
        return cls(differences, kept, noise, best_constant, nu, slices)

    @classmethod
    def of_few(
        cls, data: CentredData, nu: float, slices: dict[str, slice]
    ) -> LikelihoodOnHost | None:
        r"""Build from few replicates of few points in double precision on a CPU; else None."""
        both, observed = data.targets.both, data.targets.observed
        num_replicates, n = both.shape[:2]
        if (
            both.device.type != "cpu"
            or both.dtype != torch.float64
            or num_replicates > MOST_REPLICATES
            or n > MOST_POINTS
        ):
            return None
        noise, best = data.fixed_noise, data.best_constant
        return cls.of(
            data.X.numpy(),
            both.numpy(),
            np.ones((num_replicates, n), bool) if observed is None else observed.numpy(),
            None if noise is None else noise.numpy(),
            None if best is None else torch.stack(best, dim=-1).numpy(),
            nu,
            slices,
        )

    def __call__(self, values: ndarray, replicates: ndarray) -> ndarray:
        r"""The value, the constant and the derivatives, `rows x (2 + p)`, in natural units.

        `values` are hyperparameters, `rows x p`, of the `replicates`, `rows`. A row is NaN if its
        covariance matrix is not positive definite to working precision.
        """
        found = np.empty((len(values), 2 + values.shape[1]))
        for out, row, replicate in zip(found, values, replicates, strict=True):
            key = replicate, row.tobytes()
            if key not in self.known:
                self.known[key] = self._of_row(row, replicate)
            out[:] = self.known[key]
        return found

    def _of_row(self, row: ndarray, replicate: int) -> ndarray:
        out = np.full(2 + len(row), np.nan)
        squares, both = self.differences[replicate], self.both[replicate]
        if not len(both):  # nothing was observed
            return out
        lengthscale = row[self.slices["lengthscale"]]
        scaled = np.broadcast_to(lengthscale**-2.0, (len(squares),)) @ squares
        n = len(both)
        profile, slope = profile_and_slope(scaled.reshape(n, n), self.nu)
        outputscale = row[self.slices["outputscale"]][0] if "outputscale" in self.slices else 1.0
        fixed = self.fixed_noise
        noise = row[self.slices["noise"]] if fixed is None else fixed[replicate]
        assert slope is not None  # for the type checker
        covariance = outputscale * profile  # a copy: the slope may be the profile
        covariance.flat[:: n + 1] += noise
        root = inverse_factor(covariance)
        if root is None:
            return out
        half_log_determinant = -np.log(root.diagonal()).sum()
        pull = root.T @ (root @ both)  # A^-1 1, A^-1 Y
        if self.best_constant is None:
            constant = row[self.slices["constant"]][0] if "constant" in self.slices else 0.0
        else:
            least, most, location, precision = self.best_constant[replicate]
            own, total = both.T @ pull[:, 0]
            constant = (total + precision * location) / (own + precision)
            constant = min(max(constant, least), most)
        weights = pull[:, 1] - constant * pull[:, 0]
        fit = (both[:, 1] - constant * both[:, 0]) @ weights
        out[0] = -half_log_determinant - 0.5 * fit - 0.5 * n * math.log(2 * math.pi)
        out[1] = constant
        inverse = product(root.T, root)
        inverse -= np.outer(weights, weights)  # minus the sensitivity of Eq. (5.9)
        diagonal = inverse.diagonal()
        slopes = {
            "noise": -0.5 * (diagonal.sum() if len(noise) == 1 else diagonal),
            "outputscale": 0.5 * (fit - n + (diagonal * noise).sum()) / outputscale,
            "constant": weights.sum(),
        }
        np.multiply(inverse, slope, out=slope)
        pulls = squares @ slope.ravel()
        pulls *= -0.5 * outputscale
        if len(lengthscale) == 1:
            pulls = pulls.sum(keepdims=True)
        slopes["lengthscale"] = pulls / lengthscale**3
        for name, places in self.slices.items():
            out[2:][places] = slopes[name]
        return out
