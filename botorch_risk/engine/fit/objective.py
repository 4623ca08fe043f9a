r"""The loss of a batched fit: GPyTorch's marginal likelihood over log-hyperparameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np
import torch
from botorch.models import SingleTaskGP
from numpy import ndarray
from torch import Tensor

from botorch_risk.chunks import ChunkSize
from botorch_risk.engine.fit.centred_data import CentredData
from botorch_risk.engine.fit.coordinates import Coordinates
from botorch_risk.engine.fit.covariance import TrainingCovariance
from botorch_risk.engine.fit.fit_objective import FitObjective
from botorch_risk.engine.fit.large_matrices import is_large, value_of_large
from botorch_risk.engine.fit.likelihood_form import LikelihoodForm, padded, tensors
from botorch_risk.engine.fit.likelihood_on_host import LikelihoodOnHost
from botorch_risk.engine.fit.marginal_likelihood import likelihood_of, marginal_over_constant
from botorch_risk.engine.fit.parameters import ExactGPParts, Hyperparameter, Units, units_of
from botorch_risk.engine.fit.priors import AnalyticDensity, log_density
from botorch_risk.engine.progress import advance
from botorch_risk.engine.recorded import Portable, Recorded, SelectedRows, are_recorded
from botorch_risk.seeding import Draws, as_seeds, even_normals
from botorch_risk.steady import fetched, sent, steady

# Entries of the n x n covariance matrices of several rows.
_COVARIANCES = ChunkSize(cpu=2**16)


class MarginalLikelihoodObjective(FitObjective):
    r"""`-(log marginal likelihood + log priors) / n` and its gradient, for rows of parameters.

    A row holds the parameters of one start of one replicate, row `i` of replicate `i % R`, in the
    order of `Hyperparameters`: logarithms of those that are positive, and the constant mean as its
    distance from the targets' centre, in their units. A constant without a prior, or with a normal
    one, is not a parameter: it is optimal given the others. Rows may be evaluated in any selection;
    the data of the last selection are kept. `units` replaces the units of the data.

    Attributes:
        moved: The hyperparameters among the parameters.
        coordinates: What the numbers in a row mean.
        slices: The position of each of them in a row.
        units: The natural scales of the data of each replicate.
        lost: The replicates that cannot be fitted, `R`; `broken_data` has the reasons.
        like: As in `FitObjective`, here the targets.
        batch_shape: As in `FitObjective`.
    """

    moved: tuple[Hyperparameter, ...]
    coordinates: Coordinates
    slices: list[slice]
    units: Units
    lost: ndarray
    like: Tensor
    batch_shape: torch.Size
    is_of_logarithms: ClassVar[bool] = False  # whose density it is; see `log_priors`

    def __init__(
        self, parts: ExactGPParts, observed: Tensor | None = None, units: Units | None = None
    ) -> None:
        self.parts = parts
        counted = torch.ones_like(parts.Y, dtype=torch.bool) if observed is None else observed
        finite = parts.X.isfinite().all(-1) & parts.Y.isfinite()
        if parts.fixed_noise is not None:
            finite &= parts.fixed_noise.isfinite()
        of_rows = torch.stack([(finite | ~counted).all(-1), counted.sum(-1)], dim=-1)
        self.moved = tuple(one for one in parts.hyperparameters if not one.is_profiled)
        # All that the host has to know, in one download: R x (4 + d), and the hyperparameters.
        known, *own = fetched(
            torch.cat([of_rows, units_of(parts, counted & finite)], dim=-1), *self._natural()
        )
        count = known[:, 1].astype(np.int64)
        self._broken, self._empty = known[:, 0] == 0, count == 0
        self.num_observed = np.maximum(count, 1)  # a divisor, of lost replicates too
        self.lost = self._broken | self._empty
        self.like, self.batch_shape = parts.Y, parts.batch_shape
        self.units = Units.of(known[:, 2:]) if units is None else units
        self._own = self._versions(), own
        self._constant = parts.profiled
        self.coordinates = Coordinates(self.moved, self.units)
        self.slices, self.num_parameters = self.coordinates.slices, len(self.coordinates.positive)
        self.precision = float(torch.finfo(parts.Y.dtype).eps)
        self._data = CentredData.of(parts, observed, self.units)
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

    @classmethod
    def of(cls, model: SingleTaskGP, observed: Tensor | None = None) -> Self:
        r"""The loss of a model in training mode; `observed` is a boolean mask of its data, `R x n`.

        Raises:
            NotInClosedFormError: If a part of the model is not supported; the message names it.
        """
        return cls(ExactGPParts.read(model), observed)

    @classmethod
    def of_first_sample(cls, model: SingleTaskGP, observed: Tensor | None = None) -> Self:
        r"""The loss of the first of the samples in a model's first batch dimension."""
        return cls(ExactGPParts.read(model).of_first_sample(), observed)

    def __call__(self, theta: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        replicates = rows % len(self.num_observed)
        values, slope = self.natural(theta, replicates)
        joint = self._likelihoods(values, rows)
        value, gradient = self._with_priors(values, rows, joint)
        gradient = (gradient + joint[:, 2:]) * slope
        scale = -1.0 / self.num_observed[replicates]
        return scale * value, scale[:, None] * gradient

    def values(self, theta: ndarray, rows: ndarray) -> ndarray:
        r"""The loss alone, which takes less than half of the time for many points on a CPU."""
        if self._data.targets.pairs is not None or not is_large(self._data.X):
            return self(theta, rows)[0]
        replicates = rows % len(self.num_observed)
        values, _ = self.natural(theta, replicates)
        index, moved = (sent(each, self.like.device) for each in (replicates, values))
        pairs: list[Tensor] = []
        # One row at a time, so that all of them use the same memory.
        for one, row in zip(index.split(1), moved.to(self.like).split(1), strict=True):
            data = self._data.rows(one)
            best = None if data.best_constant is None else data.best_constant.of
            named = self.form.named(row, data.fixed_noise)
            pairs += value_of_large(data.X, data.targets.both, *named, self.parts.nu, best)
            advance()
        joint = torch.cat(pairs).view(-1, 2).double().cpu().numpy()
        value, _ = self._with_priors(values, rows, joint)
        found: ndarray = -value / self.num_observed[replicates]
        return found

    def _with_priors(
        self, values: ndarray, rows: ndarray, joint: ndarray
    ) -> tuple[ndarray, ndarray]:
        r"""The log likelihoods in `joint` plus the log priors, and the gradient of the priors."""
        # The best constant maximises the sum, so its prior adds nothing to the gradient.
        replicates = rows % len(self.num_observed)
        value, gradient = self.log_priors(values, rows)
        value = value + joint[:, 0]
        for density in self._priors_of_constant:
            value += density(joint[:, 1:2] + self.units.centre[replicates, None], rows)[0]
        value[self.lost[replicates]] = np.nan  # finite so far: 0 took the place of broken data
        return value, gradient

    def log_priors(self, values: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        r"""The log density of parameters in natural units, `rows`, and its gradient."""
        natural = self.coordinates.absolute(values, rows % len(self.num_observed))
        value, gradient = np.zeros(len(values)), np.zeros_like(values)
        for slice_, density in self._priors:
            prior_value, prior_gradient = density(natural[:, slice_], rows)
            value += prior_value
            gradient[:, slice_] += prior_gradient
        return value, gradient

    def _likelihoods(self, values: ndarray, rows: ndarray) -> ndarray:
        r"""The log likelihood, the constant about the centre, and derivatives, `rows x (2 + p)`."""
        if self._on_host is not None:
            return self._on_host(values, rows % len(self.num_observed))
        if self._selected is None or not self._selected.has(rows):
            self._selected = self._of_rows(rows)
        return self._selected(values, rows)

    @cached_property
    def _on_host(self) -> LikelihoodOnHost | None:
        r"""The likelihoods in NumPy, for a few replicates of few points on a CPU."""
        slices = {one.name: each for one, each in zip(self.moved, self.slices, strict=True)}
        return LikelihoodOnHost.of_few(self._data, self.parts.nu, slices)

    @cached_property
    def form(self) -> LikelihoodForm:
        r"""The loss without its tensors."""
        places = {slice_.start: place for place, slice_ in enumerate(self.slices)}
        priors: list[tuple[Any, int | None]] = [
            (each, places[slice_.start]) for slice_, each in self._priors
        ]
        priors += [(each, None) for each in self._priors_of_constant]
        return LikelihoodForm(
            sizes=tuple((one.name, one.size) for one in self.moved),
            nu=self.parts.nu,
            has_fixed_noise=self._data.fixed_noise is not None,
            has_best_constant=self._data.best_constant is not None,
            priors=tuple(
                (each.kind, place) for each, place in priors if isinstance(each, AnalyticDensity)
            ),
            is_of_logarithms=self.is_of_logarithms,
        )

    def portable(self, rows: ndarray) -> Portable | None:
        n, device = padded(self.like.shape[-1]), self.like.device
        densities = [each for _, each in self._priors] + self._priors_of_constant
        known = [each.parameters for each in densities if isinstance(each, AnalyticDensity)]
        # Autograd of other priors runs on the host, where a recording cannot go.
        if len(known) < len(densities) or not are_recorded(device, len(rows) * n**2):
            return None
        replicates = rows % len(self.num_observed)
        # A factor of NaN makes the rows of lost replicates fail without a branch.
        share = np.where(self.lost, np.nan, -1.0 / self.num_observed)
        units = np.stack([self.units.scale, self.units.centre, share], axis=-1)
        data = self._data.rows(sent(replicates, device))
        given = tensors(
            data.X,
            data.targets,
            sent(units[replicates], device),
            data.fixed_noise,
            data.best_constant,
            [sent(each[:, replicates], device) for each in known],
        )
        return Portable(self.form, self.form, given)

    def _of_rows(self, rows: ndarray) -> SelectedRows:
        r"""The likelihoods of a selection of rows, with their data at hand."""
        replicates, device = rows % len(self.num_observed), self.like.device
        index = sent(replicates, device)
        data = [self._data.rows(part) for part in index.split(self._chunk)]
        parts: list[Callable[[Tensor], Tensor]] = [partial(self._likelihood, each) for each in data]
        is_kept = are_recorded(device, len(rows) * self.like.shape[-1] ** 2)
        if is_kept:
            parts = [Recorded(part) for part in parts]
        return SelectedRows(rows, parts, self._chunk, self._data.X, is_kept)

    def _likelihood(self, data: CentredData, values: Tensor) -> Tensor:
        named = self.form.named(values, data.fixed_noise)
        value, gradient, constant = likelihood_of(
            data.X, data.targets, named, self.parts.nu, data.best_constant
        )
        slopes = (getattr(gradient, one.name) for one in self.moved)
        columns = [value, constant, *slopes]
        return torch.cat([column.reshape(len(values), -1) for column in columns], dim=-1)

    def natural(self, theta: ndarray, replicates: ndarray) -> tuple[ndarray, ndarray]:
        r"""Natural values, the constant less the centre, and their derivatives, `rows x p`."""
        return self.coordinates.natural(theta, replicates)

    def covariance(self, replicates: Tensor, values: Tensor, shift: Tensor) -> TrainingCovariance:
        r"""The covariance of the training outcomes without noise, with its derivatives.

        `values` are lengthscales and an output scale in natural units, `rows x p`; `shift` is the
        prior variance of the constant, `rows`.
        """
        named = {
            one.name: values[:, slice_] for one, slice_ in zip(self.moved, self.slices, strict=True)
        }
        return TrainingCovariance.of(
            self._inputs[replicates],
            self.parts.nu,
            named["lengthscale"],
            named.get("outputscale"),
            shift,
        )

    @cached_property
    def _inputs(self) -> Tensor:
        return self.parts.X.double()

    def own(self) -> ndarray:
        r"""The model's present hyperparameters as parameters, `R x p`."""
        return self.coordinates.of_natural(self._own_natural())

    def _own_natural(self) -> ndarray:
        if self._own[0] != self._versions():  # written since
            self._own = self._versions(), fetched(*self._natural())
        count = self.batch_shape.numel()
        return np.concatenate([each.reshape(count, -1) for each in self._own[1]], axis=1)

    @torch.no_grad()
    def _natural(self) -> list[Tensor]:
        return [one.natural for one in self.moved]

    def _versions(self) -> list[int]:
        return [one.raw._version for one in self.moved]

    def bounds(self, rows: ndarray) -> tuple[ndarray, ndarray]:
        return self.coordinates.bounds(rows % len(self.num_observed))

    def write(self, theta: ndarray, keep: ndarray, rows: ndarray | None = None) -> ndarray:
        self._write_constant(self.write_moved(theta, keep), keep)
        return theta

    def write_moved(self, theta: ndarray, keep: ndarray) -> ndarray:
        r"""Set the parameters that are in `theta`, and return them in natural units."""
        replicates = np.arange(len(theta))
        values, _ = self.natural(theta, replicates)
        sent = self._sent(self.coordinates.absolute(values, replicates), keep)
        for hyperparameter, slice_ in zip(self.moved, self.slices, strict=True):
            hyperparameter.write(sent[:, slice_], sent[:, -1] > 0)
        return values

    def write_best_constant(self) -> None:
        r"""Set the constant to the best one for the model's other hyperparameters."""
        self._write_constant(self._own_natural(), keep=self.lost)

    def over_constant(self, values: ndarray, replicates: ndarray) -> ndarray:
        r"""Log likelihood, mean (less the centre) and precision of the constant, `rows x 3`.

        `values` are parameters in natural units, `rows x p`, of the `replicates`, `rows`.
        """
        index, moved = (sent(each, self.like.device) for each in (replicates, values))
        found = []
        parts = zip(index.split(self._chunk), moved.to(self.like).split(self._chunk), strict=True)
        for one, part in parts:
            data = self._data.rows(one)
            marginal = marginal_over_constant(
                data.X,
                data.targets,
                self.form.named(part, data.fixed_noise),
                self.parts.nu,
                data.best_constant,
            )
            found.append(torch.stack(marginal, dim=-1))
        return torch.cat(found).double().cpu().numpy()

    def draw_constants(self, num_samples: int, seeds: int | Sequence[int]) -> None:
        r"""Draw the constants given the model's other hyperparameters, of batch shape `[S, R]`."""
        if self._constant is None:
            return
        rows = np.arange(len(self.num_observed))
        with steady():
            _, mean, precision = self.over_constant(self._own_natural(), rows).T
        # Negated outcomes get the negated constants, from the same draws.
        sign = np.where(mean.reshape(num_samples, -1).sum(axis=0) < 0, -1.0, 1.0)
        draws = Draws(as_seeds(seeds), "constant of the mean")
        normal = (sign * even_normals(num_samples, draws)).flatten()
        constant = mean + normal / np.sqrt(precision) + self.units.centre
        self._constant.write(constant[:, None], self.lost)

    def _write_constant(self, values: ndarray, keep: ndarray) -> None:
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
        broken, empty = (np.flatnonzero(mask).tolist() for mask in (self._broken, self._empty))
        return dict.fromkeys(broken, "the training data are not finite") | dict.fromkeys(
            empty, "no point is observed"
        )
