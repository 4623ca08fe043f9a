r"""The loss of a batched fit: GPyTorch's marginal likelihood over log-hyperparameters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy import ndarray
from numpy.random import Generator
from torch import Tensor

from botorch_risk.fit.marginal_likelihood import Hyperparameters, log_marginal_likelihood
from botorch_risk.fit.parameters import ExactGPParts
from botorch_risk.fit.priors import log_density, sampler


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
        self._broken = ~(finite | ~counted).all(-1)  # R
        self._empty = ~counted.any(-1)
        self._data = [
            None if tensor is None else torch.nan_to_num(tensor, 0.0, 0.0, 0.0)
            for tensor in (parts.X, parts.Y, parts.fixed_noise)
        ] + [observed]
        self._num_observed = counted.sum(-1).clamp_min(1).cpu().numpy()
        self._selected: tuple[ndarray, list[Tensor | None]] | None = None
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
        parts, replicates = self._parts, rows % len(self._num_observed)
        natural = np.where(self._positive, np.exp(theta), theta)
        X, Y, fixed_noise, observed = self._select(replicates)
        values = torch.as_tensor(natural).to(parts.Y)
        named = {
            hyperparameter.name: values[:, slice_]
            for hyperparameter, slice_ in zip(parts.hyperparameters, self._slices, strict=True)
        }
        one = values.new_ones(len(rows), 1)
        likelihood = log_marginal_likelihood(
            X,
            Y,
            Hyperparameters(
                lengthscale=named["lengthscale"],
                noise=named.get("noise", fixed_noise),
                outputscale=named.get("outputscale", one).squeeze(-1),
                constant=named.get("constant", 0.0 * one).squeeze(-1),
            ),
            parts.profile,
            observed,
        )
        slopes = [
            getattr(likelihood.gradient, hyperparameter.name).reshape(len(rows), -1)
            for hyperparameter in parts.hyperparameters
        ]
        joint = torch.cat([likelihood.value.unsqueeze(-1), *slopes], dim=-1).cpu().double().numpy()
        value, gradient = joint[:, 0].copy(), joint[:, 1:].copy()
        for slice_, density in self._priors:
            prior_value, prior_gradient = density(natural[:, slice_], rows)
            value += prior_value
            gradient[:, slice_] += prior_gradient
        gradient *= np.where(self._positive, natural, 1.0)  # d / d log x = x d / dx
        scale = -1.0 / self._num_observed[replicates]
        return scale * value, scale[:, None] * gradient

    def starts(self, num_restarts: int, generators: Sequence[Generator]) -> ndarray:
        r"""The model's values and `num_restarts` draws per replicate, `(1 + restarts) R x p`."""
        parts = self._parts
        natural = [h.rows(h.natural) for h in parts.hyperparameters]
        blocks = [self._transform(np.concatenate(natural, axis=1))]
        draws = [
            next((d for d in (sampler(p, h.raw.shape, parts.batch_shape) for p in h.priors) if d), None)
            for h in parts.hyperparameters
        ]
        for _ in range(num_restarts):
            block = blocks[0].copy()
            for replicate, generator in enumerate(generators):
                for h, slice_, draw in zip(parts.hyperparameters, self._slices, draws, strict=True):
                    noise = generator.standard_normal(block[replicate, slice_].shape)
                    if draw is None:
                        block[replicate, slice_] += noise
                    else:
                        value = draw(generator, replicate)
                        block[replicate, slice_] = np.log(value) if h.is_positive else value
            blocks.append(block)
        return np.concatenate(blocks)

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
        reasons = {
            replicate: "the training data are not finite"
            for replicate in self._broken.nonzero().flatten().tolist()
        }
        for replicate in self._empty.nonzero().flatten().tolist():
            reasons[replicate] = "no point is observed"
        return reasons

    def _transform(self, natural: ndarray) -> ndarray:
        with np.errstate(all="ignore"):
            return np.where(self._positive, np.log(natural), natural)

    def _select(self, replicates: ndarray) -> list[Tensor | None]:
        r"""The data of some replicates; copied only when the selection changes."""
        if self._selected is None or not np.array_equal(self._selected[0], replicates):
            index = torch.as_tensor(replicates, device=self._parts.Y.device)
            chosen = [None if tensor is None else tensor[index] for tensor in self._data]
            self._selected = (replicates, chosen)
        return self._selected[1]


def _layout(parts: ExactGPParts) -> tuple[list[slice], ndarray]:
    r"""Where each hyperparameter stands in a row, and which entries are logarithms."""
    slices: list[slice] = []
    positive: list[bool] = []
    for hyperparameter in parts.hyperparameters:
        size = hyperparameter.raw.numel() // parts.batch_shape.numel()
        slices.append(slice(len(positive), len(positive) + size))
        positive += [hyperparameter.is_positive] * size
    return slices, np.array(positive)
