r"""The loss of a batched fit: GPyTorch's marginal likelihood over log-hyperparameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from botorch_risk.arguments import as_floating
from botorch_risk.chunks import ChunkSize
from botorch_risk.fit.large_matrices import is_large, likelihood_of_large
from botorch_risk.fit.parameters import ExactGPParts, Hyperparameter, Units, units_of
from botorch_risk.fit.priors import log_density, normal_precision
from botorch_risk.matrices import inverse_of_factored, squared_differences
from botorch_risk.posterior.kernels import correlation_and_slope
from botorch_risk.recorded import Recorded, SelectedRows, are_recorded
from botorch_risk.steady import may_look, sent, steady

# Entries of the n x n covariance matrices of several rows.
_COVARIANCES = ChunkSize(cpu=2**16)


class _Data(NamedTuple):
    X: Tensor  # R x n x d
    targets: Targets  # about their centre
    fixed_noise: Tensor | None  # R x n
    best_constant: BestConstant | None  # about the centre
    zero: Tensor  # R, a constant that is not sought

    def rows(self, index: Tensor) -> _Data:
        noise, constant = self.fixed_noise, self.best_constant
        return _Data(
            self.X[index],
            self.targets.rows(index),
            None if noise is None else noise[index],
            None if constant is None else BestConstant(*torch.stack(constant)[:, index]),
            self.zero[index],
        )


class MarginalLikelihoodObjective:
    r"""`-(log marginal likelihood + log priors) / n` and its gradient, for rows of parameters.

    A row holds the parameters of one start of one replicate, row `i` of replicate `i % R`, in the
    order of `Hyperparameters`: logarithms of those that are positive, and the constant mean in
    units of the targets about their centre. A constant without a prior, or with normal ones, is not
    a parameter: it is the best one given the others. Rows may be evaluated in any selection; the
    data of the last selection are kept. `units` replace those of the data.

    Attributes:
        moved: The hyperparameters that are parameters.
        slices: Where each of them is in a row.
        units: What is of order 1 in the data of each replicate.
        lost: The replicates that cannot be fitted, `R`; `broken_data` has the reasons.
        like: The targets, of the dtype and on the device of the model.
        batch_shape: The batch shape of the model.
    """

    moved: tuple[Hyperparameter, ...]
    slices: list[slice]
    units: Units
    lost: ndarray
    like: Tensor
    batch_shape: torch.Size

    def __init__(
        self, parts: ExactGPParts, observed: Tensor | None = None, units: Units | None = None
    ) -> None:
        self._parts = parts
        counted = torch.ones_like(parts.Y, dtype=torch.bool) if observed is None else observed
        finite = parts.X.isfinite().all(-1) & parts.Y.isfinite()
        if parts.fixed_noise is not None:
            finite &= parts.fixed_noise.isfinite()
        of_rows = torch.stack([(finite | ~counted).all(-1), counted.sum(-1)], dim=-1)
        # R x (4 + d), in one download
        known = torch.cat([of_rows, units_of(parts, counted & finite)], dim=-1).cpu().numpy()
        count = known[:, 1].astype(np.int64)
        self._broken, self._empty = known[:, 0] == 0, count == 0
        self._num_observed = np.maximum(count, 1)
        self.lost = self._broken | self._empty
        self.like, self.batch_shape = parts.Y, parts.batch_shape
        self.units = Units.of(known[:, 2:]) if units is None else units
        self.moved = tuple(one for one in parts.hyperparameters if not one.is_profiled)
        self._constant = next((one for one in parts.hyperparameters if one.is_profiled), None)
        self.slices, self._positive = _layout(self.moved)
        self._data = self._read(observed)
        self._chunk = _COVARIANCES.rows(parts.Y.device, parts.Y.shape[-1] ** 2)
        self._selected: SelectedRows | None = None
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
        return float(torch.finfo(self._parts.Y.dtype).eps)

    @property
    def num_observed(self) -> ndarray:
        return self._num_observed

    @property
    def num_parameters(self) -> int:
        return len(self._positive)

    def _read(self, observed: Tensor | None) -> _Data:
        r"""Read the data, with targets about their centre and 0 for values that are not finite."""
        parts, sought = self._parts, None
        centre = sent(self.units.centre, parts.Y.device).to(parts.Y).unsqueeze(-1)
        if self._constant is not None:
            ends = self._constant.bounds(self.units.unit_of("constant", 1))
            shape, priors = self._constant.raw.shape, self._constant.priors
            location, precision = normal_precision(priors, shape, parts.batch_shape)
            about = [end - self.units.centre[:, None] for end in (*ends, location)]
            known = np.concatenate([*about, precision], axis=1)
            sought = BestConstant(*sent(known.T, parts.Y.device).to(parts.Y))
        X, Y = (torch.nan_to_num(x, 0.0, 0.0, 0.0) for x in (parts.X, parts.Y - centre))
        X = X - X.mean(dim=-2, keepdim=True)
        noise = None if parts.fixed_noise is None else torch.nan_to_num(parts.fixed_noise, 1.0)
        return _Data(X, Targets.of(Y, observed), noise, sought, Y.new_zeros(len(Y)))

    def __call__(self, theta: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        r"""The loss and its gradient.

        Args:
            theta: Parameters, `rows x p`.
            rows: The row of each, in ascending order.

        Returns:
            Values `rows`, not finite where a row fails, and gradients `rows x p`.
        """
        replicates = rows % len(self._num_observed)
        values, slope = self.natural(theta, replicates)
        joint = self._likelihoods(values, rows)
        value, gradient = self.log_priors(values, rows)
        value, gradient = value + joint[:, 0], gradient + joint[:, 2:]
        for density in self._priors_of_constant:
            value += density(joint[:, 1:2] + self.units.centre[replicates, None], rows)[0]
        gradient *= slope
        value[self.lost[replicates]] = np.nan
        scale = -1.0 / self._num_observed[replicates]
        return scale * value, scale[:, None] * gradient

    def log_priors(self, values: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        r"""The log density of parameters in natural units, `rows`, and its gradient."""
        natural = self._absolute(values, rows % len(self._num_observed))
        value, gradient = np.zeros(len(values)), np.zeros_like(values)
        for slice_, density in self._priors:
            prior_value, prior_gradient = density(natural[:, slice_], rows)
            value += prior_value
            gradient[:, slice_] += prior_gradient
        return value, gradient

    def _likelihoods(self, values: ndarray, rows: ndarray) -> ndarray:
        r"""The log marginal likelihood, the constant and the derivatives, `rows x (2 + p)`.

        Natural units; constants are about the centre of the targets.
        """
        if self._selected is None or not self._selected.has(rows):
            self._selected = self._of_rows(rows)
        return self._selected(values, rows)

    def _of_rows(self, rows: ndarray) -> SelectedRows:
        r"""The likelihoods of a selection of rows, with their data at hand."""
        replicates, device = rows % len(self._num_observed), self.like.device
        index = sent(replicates, device)
        data = [self._data.rows(part) for part in index.split(self._chunk)]
        parts: list[Callable[[Tensor], Tensor]] = [partial(self._likelihood, each) for each in data]
        is_kept = are_recorded(device, len(rows) * self.like.shape[-1] ** 2)
        if is_kept:
            parts = [Recorded(part) for part in parts]
        return SelectedRows(rows, parts, self._chunk, self._data.X, is_kept)

    def _likelihood(self, data: _Data, values: Tensor) -> Tensor:
        named = self._named(data, values)
        value, gradient, constant = likelihood_of(
            data.X, data.targets, named, self._parts.nu, data.best_constant
        )
        slopes = (getattr(gradient, one.name) for one in self.moved)
        columns = [value, constant, *slopes]
        return torch.cat([column.reshape(len(values), -1) for column in columns], dim=-1)

    def _named(self, data: _Data, values: Tensor) -> Hyperparameters:
        r"""The hyperparameters in rows, with a fixed value for those that the model lacks."""
        named: dict[str, Tensor | None] = {"outputscale": None}
        if not any(
            one.name == "constant" for one in self.moved
        ):  # it is 0, or replaced by the best one
            named["constant"] = data.zero
        if data.fixed_noise is not None:
            named["noise"] = data.fixed_noise
        for hyperparameter, slice_ in zip(self.moved, self.slices, strict=True):
            block = values[:, slice_]
            scalar = hyperparameter.name in ("outputscale", "constant")
            named[hyperparameter.name] = block.squeeze(-1) if scalar else block
        return Hyperparameters(**named)  # type: ignore[arg-type]

    def natural(self, theta: ndarray, replicates: ndarray) -> tuple[ndarray, ndarray]:
        r"""Parameters in natural units about the centre, and their derivatives, `rows x p`."""
        scale = self.units.scale[replicates, None]
        with np.errstate(all="ignore"):
            natural = np.where(self._positive, np.exp(theta), scale * theta)
        return natural, np.where(self._positive, natural, scale)

    def _absolute(self, natural: ndarray, replicates: ndarray) -> ndarray:
        return natural + np.where(self._positive, 0.0, self.units.centre[replicates, None])

    def transform(self, natural: ndarray) -> ndarray:
        scale, centre = self.units.scale[:, None], self.units.centre[:, None]
        with np.errstate(all="ignore"):
            return np.where(self._positive, np.log(natural), (natural - centre) / scale)

    def bounds(self, rows: ndarray) -> tuple[ndarray, ndarray]:
        r"""Bounds that the constraints set, `rows x p` each."""
        pairs = [one.bounds(self.units.unit_of(one.name, one.size)) for one in self.moved]
        replicates = rows % len(self._num_observed)
        lower, upper = (
            self.transform(np.concatenate(side, axis=1))[replicates]
            for side in zip(*pairs, strict=True)
        )
        return lower, upper

    def write(self, theta: ndarray, keep: ndarray, rows: ndarray | None = None) -> ndarray:
        r"""Set the model's parameters to `R x p` values, except for the replicates in `keep`.

        Returns the values again; `rows` has the row of each.
        """
        replicates = np.arange(len(theta))
        values, _ = self.natural(theta, replicates)
        natural = self._absolute(values, replicates)
        sent = self._sent(natural, keep)
        for hyperparameter, slice_ in zip(self.moved, self.slices, strict=True):
            hyperparameter.write(sent[:, slice_], sent[:, -1] > 0)
        self.write_constant(values, keep)
        return theta

    def write_constant(self, values: ndarray, keep: ndarray) -> None:
        r"""Set the constant to the best one for parameters `R x p` in natural units."""
        if self._constant is not None:
            with steady():
                likelihoods = self._likelihoods(values, np.arange(len(values)))
            constant = likelihoods[:, 1] + self.units.centre
            sent = self._sent(constant, keep)
            self._constant.write(sent[:, :1], sent[:, 1] > 0)

    def _sent(self, *columns: ndarray) -> Tensor:
        r"""Columns on the device of the model, in one upload."""
        return sent(np.column_stack(columns), self.like.device)

    def broken_data(self) -> dict[int, str]:
        r"""The replicates that cannot be fitted, each with the reason."""
        broken, empty = (np.flatnonzero(mask).tolist() for mask in (self._broken, self._empty))
        return dict.fromkeys(broken, "the training data are not finite") | dict.fromkeys(
            empty, "no point is observed"
        )


def _layout(hyperparameters: Sequence[Hyperparameter]) -> tuple[list[slice], ndarray]:
    r"""The slice of each hyperparameter in a row, and which entries are logarithms."""
    slices: list[slice] = []
    positive: list[bool] = []
    for hyperparameter in hyperparameters:
        slices.append(slice(len(positive), len(positive) + hyperparameter.size))
        positive += [hyperparameter.is_positive] * hyperparameter.size
    return slices, np.array(positive, dtype=bool)


# The log marginal likelihood of exact Gaussian processes in closed form, batched over rows.
#
# Value and gradient together, by the equations of [Rasmussen2006gp]_, Chapter 5, rather than by
# autograd through lazy tensors: a row is one data set with its own hyperparameters, and rows do not
# interact. Anything that fits a Gaussian process to a loss of this kind can build on it.


class Hyperparameters(NamedTuple):
    r"""Hyperparameters of a row, or the derivatives in them, in natural units.

    Args:
        lengthscale: `rows x d`, or `rows x 1` for one that all inputs share.
        noise: Noise variances, `rows x n`, or `rows x 1` for one that all points share.
        outputscale: Signal variances, `rows`; None if they are 1.
        constant: Prior means, `rows`.
    """

    lengthscale: Tensor
    noise: Tensor
    outputscale: Tensor | None
    constant: Tensor


class BestConstant(NamedTuple):
    r"""Bounds and density of the best prior mean, which maximises likelihood times density.

    Args:
        lower: Its lower bounds, `rows`.
        upper: Its upper bounds, `rows`.
        location: The mean of a normal density of it, `rows`.
        precision: The inverse of its variance, `rows`; 0 for none.
    """

    lower: Tensor
    upper: Tensor
    location: Tensor
    precision: Tensor

    def of(self, products: Tensor) -> Tensor:
        r"""The constant, `rows`, from `1' A^-1 1` and `1' A^-1 Y`, `rows x 2`."""
        own, pull = products.unbind(-1)
        pull = torch.addcmul(pull, self.precision, self.location)
        return (pull / (own + self.precision)).clamp(self.lower, self.upper)


class Targets(NamedTuple):
    r"""Targets as the likelihood reads them, again and again.

    Args:
        both: Ones and the targets, `rows x n x 2`; 0 where they are not observed.
        observed: Which are, `rows x n`; None for all.
        pairs: Which pairs are, `rows x n x n`; None for all.
        number: How many are, `rows`, or one number.
    """

    both: Tensor
    observed: Tensor | None
    pairs: Tensor | None
    number: Tensor | int

    @classmethod
    def of(cls, Y: Tensor, observed: Tensor | None) -> Targets:
        if observed is None:
            return cls(torch.stack([torch.ones_like(Y), Y], dim=-1), None, None, Y.shape[-1])
        both = torch.stack([observed.to(Y), Y * observed], dim=-1)
        pairs = observed.unsqueeze(-1) & observed.unsqueeze(-2)
        return cls(both, observed, pairs, both[..., 0].sum(-1))

    def rows(self, index: Tensor) -> Targets:
        parts = (part[index] if isinstance(part, Tensor) else part for part in self)
        return Targets(*parts)  # type: ignore[arg-type]


class LogMarginalLikelihood(NamedTuple):
    r"""The log marginal likelihood and its derivatives.

    Args:
        value: `rows`, not divided by the number of points. NaN where the covariance matrix of
            the row is not positive definite to working precision.
        gradient: The derivatives, in the shapes of the hyperparameters.
        constant: The prior means, `rows`: those that were given or the best ones.
    """

    value: Tensor
    gradient: Hyperparameters
    constant: Tensor


def log_marginal_likelihood(
    X: Tensor,
    Y: Tensor,
    hyperparameters: Hyperparameters,
    nu: float = math.inf,
    observed: Tensor | None = None,
    best_constant: BestConstant | None = None,
) -> LogMarginalLikelihood:
    r"""Value and gradient of `log N(Y | constant, outputscale * K + diag(noise))`.

    With `best_constant` the constant is the best one, by generalised least squares:

        constant = (1' A^-1 Y + precision * location) / (1' A^-1 1 + precision)
        A = outputscale * K + diag(noise)

    moved to the nearer of its bounds if it lies outside. The value is the likelihood at this
    constant, without the density; the derivatives in the other hyperparameters are also the
    derivatives of likelihood times density at its maximum over the constant (the envelope theorem).

    Source: [Rasmussen2006gp]_, Eqs. (5.8) and (5.9).

    Args:
        X: Inputs, `rows x n x d`, distinct points or not. Centre them: derivatives in lengthscales
            are differences of squares, and lose digits with the distance from 0.
        Y: Targets, `rows x n`.
        hyperparameters: Those of every row.
        nu: The smoothness of the Matern kernel, 0.5, 1.5 or 2.5; infinite for the squared
            exponential.
        observed: An optional boolean mask, `rows x n`. The result is that without the points that
            it leaves out, but `X` and `Y` must be finite there too.
        best_constant: The bounds and the density of the constant, which replaces the one of
            `hyperparameters`.

    Returns:
        The values and the derivatives. A row that fails leaves the others untouched.

    Raises:
        ValueError: If `nu` is another number.
    """
    if nu not in (0.5, 1.5, 2.5, math.inf):
        raise ValueError(f"Expected `nu` of 0.5, 1.5, 2.5 or infinity. Got {nu}.")
    like = hyperparameters.lengthscale
    X, Y = as_floating(X, "X").to(like), as_floating(Y, "Y").to(like)
    return likelihood_of(X, Targets.of(Y, observed), hyperparameters, nu, best_constant)


def likelihood_of(
    X: Tensor,
    targets: Targets,
    hyperparameters: Hyperparameters,
    nu: float,
    best_constant: BestConstant | None,
) -> LogMarginalLikelihood:
    r"""`log_marginal_likelihood` of targets that are ready to be read."""
    if targets.pairs is None and is_large(X):
        of = None if best_constant is None else best_constant.of
        value, slopes, constant = likelihood_of_large(X, targets.both, *hyperparameters, nu, of)
        return LogMarginalLikelihood(value, Hyperparameters(*slopes), constant)
    lengthscale, noise, outputscale, constant = hyperparameters
    both, observed, pairs, count = targets
    ones, Y = both.unbind(-1)
    Z = X / lengthscale.unsqueeze(-2)
    correlation, slope = correlation_and_slope(squared_differences(Z, Z), nu)  # rows x n x n
    # A copy in any case: the profile of a squared exponential is its slope, which is used below.
    covariance = correlation * (1.0 if outputscale is None else outputscale[:, None, None])
    if observed is not None and pairs is not None:
        # Independent standard normals in place of unobserved rows, whose targets are 0.
        covariance, noise = covariance * pairs, torch.where(observed, noise, 1.0)
    covariance.diagonal(dim1=-2, dim2=-1).add_(noise)
    factor, info = torch.linalg.cholesky_ex(covariance)
    failed = info > 0
    may_fail = not may_look(failed) or bool(failed.any())
    if may_fail:
        # What is left of a matrix without a factor may be singular: no inverse, and no value.
        factor.diagonal(dim1=-2, dim2=-1).masked_fill_(failed.unsqueeze(-1), torch.nan)
    # The gradient reads every entry of the inverse: solves would save nothing.
    inverse = inverse_of_factored(factor)
    pull, weights = (inverse @ both).unbind(-1)  # A^-1 1, A^-1 Y
    if best_constant is not None:
        constant = best_constant.of((both.mT @ pull.unsqueeze(-1)).squeeze(-1))
    shift = constant.unsqueeze(-1)
    residual = torch.addcmul(Y, ones, shift, value=-1)
    weights = torch.addcmul(weights, pull, shift, value=-1).unsqueeze(-1)  # rows x n x 1
    half_log_determinant = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    fit = (residual.unsqueeze(-2) @ weights).flatten()
    lost = torch.add(half_log_determinant, fit, alpha=0.5)
    value = torch.rsub(lost, count * (-0.5 * math.log(2 * math.pi)))
    # Eq. (5.9): d value / d theta = tr(S dA / d theta) / 2 with S = w w' - A^-1; here is -S
    sensitivity = torch.addcmul(inverse, weights, weights.mT, value=-1)
    if pairs is not None:
        sensitivity *= pairs
    diagonal = sensitivity.diagonal(dim1=-2, dim2=-1)
    of_outputscale = None
    if outputscale is not None:
        # tr(S A) = y' A^-1 y - n, and of A all but the noise is proportional to the outputscale.
        of_outputscale = 0.5 * (fit - count + (diagonal * noise).sum(-1)) / outputscale
    gradient = Hyperparameters(
        lengthscale=lengthscale_gradient(Z, sensitivity * slope, outputscale, lengthscale),
        noise=_noise_gradient(diagonal, hyperparameters.noise),
        outputscale=of_outputscale,
        constant=weights.sum((-2, -1)),
    )
    return LogMarginalLikelihood(value, gradient, constant)


def lengthscale_gradient(
    Z: Tensor, weighted: Tensor, outputscale: Tensor | None, lengthscale: Tensor
) -> Tensor:
    r"""`-sum_ij W_ij (z_i - z_j)^2 / (2 l)` for each input without an `n x n x d` tensor."""
    # W is symmetric: half the sum is `sum_i z_i (z_i sum_j W_ij - (W z)_i)`. The two terms grow
    # with the distance of the inputs from 0 and cancel, for which the caller centres Z.
    offset = torch.addcmul(weighted @ Z, Z, weighted.sum(-1, keepdim=True), value=-1)
    gradient = offset.mul_(Z).sum(-2)
    if outputscale is not None:
        gradient *= outputscale.unsqueeze(-1)
    if lengthscale.shape[-1] == 1:
        gradient = gradient.sum(-1, keepdim=True)
    return gradient / lengthscale


def _noise_gradient(diagonal: Tensor, noise: Tensor) -> Tensor:
    return -0.5 * (diagonal.sum(-1, keepdim=True) if noise.shape[-1] == 1 else diagonal)
