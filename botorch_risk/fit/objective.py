r"""The loss of a batched fit: GPyTorch's marginal likelihood over log-hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy import ndarray
from numpy.random import Generator
from torch import Tensor

from botorch_risk.fit.marginal_likelihood import Hyperparameters, log_marginal_likelihood
from botorch_risk.fit.parameters import ExactGPParts
from botorch_risk.fit.priors import draw, log_density

# From the start of the fit to the second one: a function that moves faster and is known better.
# Of the data that a loop collects this start often finds the better of two explanations.
ROUGHER = {"lengthscale": 0.3, "noise": 0.1}


# How many entries of covariance matrices to work on at a time. More than a CPU's cache holds makes
# a row up to three times slower; on a GPU only its memory is a limit.
CHUNK_ENTRIES = {"cpu": 2**15, "cuda": 2**26}


class _Data(NamedTuple):
    X: Tensor  # R x n x d
    Y: Tensor  # R x n
    fixed_noise: Tensor | None  # R x n
    observed: Tensor | None  # R x n

    def rows(self, index: Tensor) -> _Data:
        r"""The data of some replicates."""
        noise, observed = self.fixed_noise, self.observed
        return _Data(
            X=self.X[index],
            Y=self.Y[index],
            fixed_noise=None if noise is None else noise[index],
            observed=None if observed is None else observed[index],
        )


class MarginalLikelihoodObjective:
    r"""`-(log marginal likelihood + log priors) / n` and its gradient, for rows of parameters.

    A row holds the parameters of one start of one replicate, row `i` of replicate `i % R`:
    logarithms of those that are positive, in the order of `Hyperparameters`. Rows may be
    evaluated in any selection; the data of the last selection are kept.
    """

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
        self._lost = self._broken | self._empty
        X, Y = (torch.nan_to_num(tensor, 0.0, 0.0, 0.0) for tensor in (parts.X, parts.Y))
        noise = None if parts.fixed_noise is None else torch.nan_to_num(parts.fixed_noise, 1.0)
        self._data = _Data(X, Y, noise, observed)
        entries = CHUNK_ENTRIES.get(parts.Y.device.type, CHUNK_ENTRIES["cuda"])
        self._chunk = max(1, entries // parts.Y.shape[-1] ** 2)
        self._num_observed = counted.sum(-1).clamp_min(1).cpu().numpy()
        self._selected: tuple[ndarray, list[_Data]] | None = None
        self._slices, self._positive = _layout(parts)
        self._priors = [
            (slice_, log_density(prior, hyperparameter.raw.shape, parts.batch_shape))
            for hyperparameter, slice_ in zip(parts.hyperparameters, self._slices, strict=True)
            for prior in hyperparameter.priors
        ]

    def __call__(self, theta: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        r"""The loss and its gradient.

        Args:
            theta: Parameters, `rows x p`.
            rows: The row of each, in ascending order.

        Returns:
            Values `rows`, not finite where a row fails, and gradients `rows x p`.
        """
        replicates = rows % len(self._num_observed)
        natural = np.where(self._positive, np.exp(theta), theta)
        values = torch.as_tensor(natural).to(self._data.Y)
        chunks = zip(self._select(replicates), values.split(self._chunk), strict=True)
        joint = torch.cat([self._likelihood(*chunk) for chunk in chunks]).cpu().double().numpy()
        value, gradient = joint[:, 0].copy(), joint[:, 1:].copy()
        for slice_, density in self._priors:
            prior_value, prior_gradient = density(natural[:, slice_], rows)
            value += prior_value
            gradient[:, slice_] += prior_gradient
        gradient *= np.where(self._positive, natural, 1.0)  # d / d log x = x d / dx
        value[self._lost[replicates]] = np.nan
        scale = -1.0 / self._num_observed[replicates]
        return scale * value, scale[:, None] * gradient

    def _likelihood(self, data: _Data, values: Tensor) -> Tensor:
        r"""The log marginal likelihood and its derivatives in natural units, `rows x (1 + p)`."""
        hyperparameters = self._named(data, values)
        value, gradient = log_marginal_likelihood(
            data.X, data.Y, hyperparameters, self._parts.nu, data.observed
        )
        slopes = (getattr(gradient, one.name) for one in self._parts.hyperparameters)
        columns = [value, *slopes]
        return torch.cat([column.reshape(len(values), -1) for column in columns], dim=-1)

    def _named(self, data: _Data, values: Tensor) -> Hyperparameters:
        r"""The hyperparameters in rows, with what the model does not have at its fixed value."""
        one = values.new_ones(len(values))
        named = {"outputscale": one, "constant": torch.zeros_like(one)}
        if data.fixed_noise is not None:
            named["noise"] = data.fixed_noise
        for hyperparameter, slice_ in zip(self._parts.hyperparameters, self._slices, strict=True):
            block = values[:, slice_]
            scalar = hyperparameter.name in ("outputscale", "constant")
            named[hyperparameter.name] = block.squeeze(-1) if scalar else block
        return Hyperparameters(**named)

    def starts(
        self,
        rougher: Mapping[str, float] | None,
        num_restarts: int,
        generators: Sequence[Generator],
    ) -> ndarray:
        r"""Where to start from, `(number of starts) R x p`.

        Args:
            rougher: The factors from the first start to a second one, by the name of the
                hyperparameter; None for no second start.
            num_restarts: How many starts to draw.
            generators: One for each replicate to draw them from.

        Returns:
            The model's own values, then the rough start, then the draws.
        """
        hyperparameters = self._parts.hyperparameters
        natural = np.concatenate([h.rows(h.natural) for h in hyperparameters], axis=1)
        blocks = [self._transform(natural)]
        if rougher is not None:
            shift = [np.full(h.size, np.log(rougher.get(h.name, 1.0))) for h in hyperparameters]
            blocks.append(blocks[0] + np.concatenate(shift))
        draws = [
            np.stack([self._draw(blocks[0][r], r, generators[r]) for r in range(len(generators))])
            for _ in range(num_restarts)
        ]
        return np.concatenate(blocks + draws)

    def _draw(self, first: ndarray, replicate: int, generator: Generator) -> ndarray:
        r"""One replicate's parameters from the priors, or around its first start without them."""
        row = first + generator.standard_normal(first.shape)
        for h, slice_ in zip(self._parts.hyperparameters, self._slices, strict=True):
            for prior in h.priors:
                drawn = draw(prior, h.raw.shape, self._parts.batch_shape, generator, replicate)
                if drawn is not None:
                    row[slice_] = np.log(drawn) if h.is_positive else drawn
        return row

    def bounds(self, num_rows: int) -> tuple[ndarray, ndarray]:
        r"""Bounds that the constraints set, `num_rows x p` each."""
        pairs = [hyperparameter.bounds() for hyperparameter in self._parts.hyperparameters]
        repeats = num_rows // len(self._num_observed)
        lower, upper = (
            np.tile(self._transform(np.concatenate(side, axis=1)), (repeats, 1))
            for side in zip(*pairs, strict=True)
        )
        return lower, upper

    def write(self, theta: ndarray, keep: ndarray) -> None:
        r"""Sets the model's parameters to `R x p` values, except for the replicates in `keep`."""
        natural = np.where(self._positive, np.exp(theta), theta)
        for hyperparameter, slice_ in zip(self._parts.hyperparameters, self._slices, strict=True):
            hyperparameter.write(natural[:, slice_], keep)

    def broken_data(self) -> dict[int, str]:
        r"""The replicates that cannot be fitted, each with the reason."""
        broken, empty = (np.flatnonzero(mask).tolist() for mask in (self._broken, self._empty))
        return dict.fromkeys(broken, "the training data are not finite") | dict.fromkeys(
            empty, "no point is observed"
        )

    def _transform(self, natural: ndarray) -> ndarray:
        with np.errstate(all="ignore"):
            return np.where(self._positive, np.log(natural), natural)

    def _select(self, replicates: ndarray) -> list[_Data]:
        r"""The data of some replicates in chunks; copied only when the selection changes."""
        if self._selected is None or not np.array_equal(self._selected[0], replicates):
            index = torch.as_tensor(replicates, device=self._data.Y.device)
            self._selected = (replicates, [self._data.rows(i) for i in index.split(self._chunk)])
        return self._selected[1]


def _layout(parts: ExactGPParts) -> tuple[list[slice], ndarray]:
    r"""Where each hyperparameter stands in a row, and which entries are logarithms."""
    slices: list[slice] = []
    positive: list[bool] = []
    for hyperparameter in parts.hyperparameters:
        slices.append(slice(len(positive), len(positive) + hyperparameter.size))
        positive += [hyperparameter.is_positive] * hyperparameter.size
    return slices, np.array(positive)
