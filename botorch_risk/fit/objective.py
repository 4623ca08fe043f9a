r"""The loss of a batched fit: GPyTorch's marginal likelihood over log-hyperparameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from botorch_risk.chunks import ChunkSize
from botorch_risk.fit.marginal_likelihood import (
    BestConstant,
    Hyperparameters,
    log_marginal_likelihood,
)
from botorch_risk.fit.parameters import ExactGPParts, Hyperparameter
from botorch_risk.fit.priors import log_density, normal_precision
from botorch_risk.fit.units import Units, units_of

# Entries of the n x n covariance matrices of several rows.
_COVARIANCES = ChunkSize(cpu=2**15)


class _Data(NamedTuple):
    X: Tensor  # R x n x d
    Y: Tensor  # R x n, about its centre
    fixed_noise: Tensor | None  # R x n
    observed: Tensor | None  # R x n
    best_constant: Tensor | None  # R x 4, the columns of `BestConstant` about the centre

    def rows(self, index: Tensor) -> _Data:
        r"""The data of some replicates."""
        noise, observed, constant = (
            None if tensor is None else tensor[index] for tensor in self[2:]
        )
        return _Data(self.X[index], self.Y[index], noise, observed, constant)


class MarginalLikelihoodObjective:
    r"""`-(log marginal likelihood + log priors) / n` and its gradient, for rows of parameters.

    A row holds the parameters of one start of one replicate, row `i` of replicate `i % R`, in the
    order of `Hyperparameters`: logarithms of those that are positive, and the constant mean in
    units of the targets about their centre. A constant without a prior, or with normal ones, is no
    parameter: it is the best one given the others. Rows may be evaluated in any selection; the
    data of the last selection are kept.

    Args:
        moved: The hyperparameters that are parameters.
        slices: Where each of them stands in a row.
        units: What is of order 1 in the data of each replicate.
        lost: The replicates that cannot be fitted, `R`; `broken_data` tells why.
    """

    moved: tuple[Hyperparameter, ...]
    slices: list[slice]
    units: Units
    lost: ndarray

    def __init__(self, parts: ExactGPParts, observed: Tensor | None = None) -> None:
        r"""Checks the data once.

        Args:
            parts: The parts of the model.
            observed: An optional boolean mask, `R x n`.
        """
        self._parts = parts
        counted = torch.ones_like(parts.Y, dtype=torch.bool) if observed is None else observed
        finite = parts.X.isfinite().all(-1) & parts.Y.isfinite()
        if parts.fixed_noise is not None:
            finite &= parts.fixed_noise.isfinite()
        self._broken = ~(finite | ~counted).all(-1).cpu().numpy()  # R
        self._empty = ~counted.any(-1).cpu().numpy()
        self.lost = self._broken | self._empty
        self._num_observed = counted.sum(-1).clamp_min(1).cpu().numpy()
        self.units = units_of(parts, counted & finite)
        self.moved = tuple(one for one in parts.hyperparameters if not one.is_profiled)
        self._constant = next((one for one in parts.hyperparameters if one.is_profiled), None)
        self.slices, self._positive = _layout(self.moved)
        self._data = self._read(observed)
        self._chunk = _COVARIANCES.rows(parts.Y.device, parts.Y.shape[-1] ** 2)
        self._selected: tuple[ndarray, list[_Data]] | None = None
        self._priors = [
            (slice_, log_density(prior, hyperparameter.raw.shape, parts.batch_shape))
            for hyperparameter, slice_ in zip(self.moved, self.slices, strict=True)
            for prior in hyperparameter.priors
        ]
        self._priors_of_constant = [
            log_density(prior, one.raw.shape, parts.batch_shape)
            for one in parts.hyperparameters
            for prior in (one.priors if one.is_profiled else ())
        ]

    @property
    def precision(self) -> float:
        r"""The relative rounding error of a value."""
        return float(torch.finfo(self._parts.Y.dtype).eps)

    @property
    def num_observed(self) -> ndarray:
        r"""The number of observed points of each replicate, `R`."""
        return self._num_observed

    def _read(self, observed: Tensor | None) -> _Data:
        r"""Reads the data, with targets about their centre and 0 for values that are not finite."""
        parts, sought = self._parts, None
        centre = torch.as_tensor(self.units.centre).to(parts.Y).unsqueeze(-1)
        if self._constant is not None:
            ends = self._constant.bounds(self.units.of("constant", 1))
            shape, priors = self._constant.raw.shape, self._constant.priors
            location, precision = normal_precision(priors, shape, parts.batch_shape)
            about = [end - self.units.centre[:, None] for end in (*ends, location)]
            sought = torch.as_tensor(np.concatenate([*about, precision], axis=1)).to(parts.Y)
        X, Y = (torch.nan_to_num(x, 0.0, 0.0, 0.0) for x in (parts.X, parts.Y - centre))
        noise = None if parts.fixed_noise is None else torch.nan_to_num(parts.fixed_noise, 1.0)
        return _Data(X, Y, noise, observed, sought)

    def __call__(self, theta: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        r"""The loss and its gradient.

        Args:
            theta: Parameters, `rows x p`.
            rows: The row of each, in ascending order.

        Returns:
            Values `rows`, not finite where a row fails, and gradients `rows x p`.
        """
        replicates = rows % len(self._num_observed)
        values, slope = self._natural(theta, replicates)
        joint, natural = self._likelihoods(values, replicates), self._absolute(values, replicates)
        value, gradient = joint[:, 0].copy(), joint[:, 2:].copy()
        for slice_, density in self._priors:
            prior_value, prior_gradient = density(natural[:, slice_], rows)
            value += prior_value
            gradient[:, slice_] += prior_gradient
        for density in self._priors_of_constant:
            value += density(joint[:, 1:2] + self.units.centre[replicates, None], rows)[0]
        gradient *= slope
        value[self.lost[replicates]] = np.nan
        scale = -1.0 / self._num_observed[replicates]
        return scale * value, scale[:, None] * gradient

    def _likelihoods(self, values: ndarray, replicates: ndarray) -> ndarray:
        r"""The log marginal likelihood, the constant and the derivatives, `rows x (2 + p)`.

        Natural units; constants are about the centre of the targets.
        """
        parts = torch.as_tensor(values).to(self._data.Y).split(self._chunk)
        chunks = zip(self._select(replicates), parts, strict=True)
        return torch.cat([self._likelihood(*chunk) for chunk in chunks]).cpu().double().numpy()

    def _likelihood(self, data: _Data, values: Tensor) -> Tensor:
        r"""The log marginal likelihood, the constant and the derivatives of one chunk."""
        sought = data.best_constant
        value, gradient, constant = log_marginal_likelihood(
            data.X,
            data.Y,
            self._named(data, values),
            self._parts.nu,
            data.observed,
            None if sought is None else BestConstant(*sought.unbind(-1)),
        )
        slopes = (getattr(gradient, one.name) for one in self.moved)
        columns = [value, constant, *slopes]
        return torch.cat([column.reshape(len(values), -1) for column in columns], dim=-1)

    def _named(self, data: _Data, values: Tensor) -> Hyperparameters:
        r"""The hyperparameters in rows, with a fixed value for those that the model lacks."""
        one = values.new_ones(len(values))
        named = {"outputscale": one, "constant": torch.zeros_like(one)}
        if data.fixed_noise is not None:
            named["noise"] = data.fixed_noise
        for hyperparameter, slice_ in zip(self.moved, self.slices, strict=True):
            block = values[:, slice_]
            scalar = hyperparameter.name in ("outputscale", "constant")
            named[hyperparameter.name] = block.squeeze(-1) if scalar else block
        return Hyperparameters(**named)

    def _natural(self, theta: ndarray, replicates: ndarray) -> tuple[ndarray, ndarray]:
        r"""Parameters in natural units about the centre, and their derivatives, `rows x p`."""
        scale = self.units.scale[replicates, None]
        with np.errstate(all="ignore"):
            natural = np.where(self._positive, np.exp(theta), scale * theta)
        return natural, np.where(self._positive, natural, scale)

    def _absolute(self, natural: ndarray, replicates: ndarray) -> ndarray:
        r"""Adds the centre back to the constants."""
        return natural + np.where(self._positive, 0.0, self.units.centre[replicates, None])

    def transform(self, natural: ndarray) -> ndarray:
        r"""From natural values to parameters, for all replicates."""
        scale, centre = self.units.scale[:, None], self.units.centre[:, None]
        with np.errstate(all="ignore"):
            return np.where(self._positive, np.log(natural), (natural - centre) / scale)

    def bounds(self, rows: ndarray) -> tuple[ndarray, ndarray]:
        r"""Bounds that the constraints set, `rows x p` each."""
        pairs = [one.bounds(self.units.of(one.name, one.size)) for one in self.moved]
        replicates = rows % len(self._num_observed)
        lower, upper = (
            self.transform(np.concatenate(side, axis=1))[replicates]
            for side in zip(*pairs, strict=True)
        )
        return lower, upper

    def write(self, theta: ndarray, keep: ndarray) -> None:
        r"""Sets the model's parameters to `R x p` values, except for the replicates in `keep`."""
        replicates = np.arange(len(theta))
        values, _ = self._natural(theta, replicates)
        natural = self._absolute(values, replicates)
        for hyperparameter, slice_ in zip(self.moved, self.slices, strict=True):
            hyperparameter.write(natural[:, slice_], keep)
        if self._constant is not None:
            constant = self._likelihoods(values, replicates)[:, 1] + self.units.centre
            self._constant.write(constant[:, None], keep)

    def broken_data(self) -> dict[int, str]:
        r"""The replicates that cannot be fitted, each with the reason."""
        broken, empty = (np.flatnonzero(mask).tolist() for mask in (self._broken, self._empty))
        return dict.fromkeys(broken, "the training data are not finite") | dict.fromkeys(
            empty, "no point is observed"
        )

    def _select(self, replicates: ndarray) -> list[_Data]:
        r"""The data of some replicates in chunks; copied only when the selection changes."""
        if self._selected is None or not np.array_equal(self._selected[0], replicates):
            index = torch.as_tensor(replicates, device=self._data.Y.device)
            self._selected = (replicates, [self._data.rows(i) for i in index.split(self._chunk)])
        return self._selected[1]


def _layout(hyperparameters: Sequence[Hyperparameter]) -> tuple[list[slice], ndarray]:
    r"""The slice of each hyperparameter in a row, and which entries are logarithms."""
    slices: list[slice] = []
    positive: list[bool] = []
    for hyperparameter in hyperparameters:
        slices.append(slice(len(positive), len(positive) + hyperparameter.size))
        positive += [hyperparameter.is_positive] * hyperparameter.size
    return slices, np.array(positive, dtype=bool)
