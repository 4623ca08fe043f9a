r"""Fit a process of the mean and one of the log noise variance to all readings at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from botorch.models import SingleTaskGP
from gpytorch.means import ConstantMean
from gpytorch.priors import NormalPrior
from numpy import ndarray
from torch import Tensor

from botorch_risk.arguments import check_counts, check_nonnegative
from botorch_risk.chunks import ChunkSize
from botorch_risk.fit.exact_gp import maximize, minimize
from botorch_risk.fit.laplace_evidence import LogLikelihood, Readings, evidence_at, find_mode
from botorch_risk.fit.objective import MarginalLikelihoodObjective, lengthscale_gradient
from botorch_risk.fit.parameters import ExactGPParts, NotInClosedFormError, read_exact_gp
from botorch_risk.fit.priors import normal_precision
from botorch_risk.fit.results import FitResult, Optimum
from botorch_risk.fit.starts import ROUGHER, Starts
from botorch_risk.posterior.kernels import correlation_and_slope

# Prior variance of a constant mean without a prior, in units of the targets' variance.
VAGUE = 4.0
# The logarithm of a lengthscale of the noise over that of the mean: one shift, of prior mean
# SHARED_SHIFT and variance 1, that all inputs share, and the standard deviation of each input
# about it. Noise varies more slowly than the mean does, and along the same inputs.
SHARED_SHIFT, OWN_SHIFT = 0.7, 0.35
# Log noise variances, in units of the targets' variance, from which the two starts search if
# repeats do not tell: a smooth function below noise, and a rough one that is known well.
LOG_LEVELS = (float(np.log(0.5)), float(np.log(0.01)))
# Added to the noise variances of means, in units of the targets' variance: a covariance has a
# Cholesky factor then, even if the noise is far below what the data resolve.
FLOOR = 1e-8
# A start ends at a smaller gradient per point, from which a step promises less, per point. The
# evidence is an approximation, and no more than that is worth its price.
TOLERANCE, PROMISE = 5e-5, 5e-6
# The share of single readings, among repeats, above which a fit starts from the models' own values
# as well.
MANY_SINGLES = 0.1
# The fit with constant noise is a start and no more.
FIRST_STAGE = {"gradient_tolerance": 3e-3, "decrease_tolerance": 1e-4, "hope": 4.0}
# No step changes the logarithm of a hyperparameter by more.
MAX_LOG_STEP = 2.0
# A guess at the second derivatives of the loss in the hyperparameters of the noise.
CURVATURE = 0.05
# Entries of the n x n matrices of several rows.
_COVARIANCES = ChunkSize(cpu=2**16)


@dataclass(frozen=True)
class ReadingStatistics:
    r"""The readings behind the targets of a process of the mean, `batch_shape x n` each.

    Attributes:
        counts: Numbers of readings; 0 where a replicate has none.
        squares: Sums of squares about the means, in the units of the targets.
        level: The log noise variance, in the same units, at which the process of the noise is 0;
            `batch_shape`.
        is_known: Whether repeats tell this level, `batch_shape`.
    """

    counts: Tensor
    squares: Tensor
    level: Tensor
    is_known: Tensor

    def read(self, mean_model: SingleTaskGP) -> tuple[Readings, Tensor]:
        r"""The readings about the prior constant mean, and the prior variance of the constant.

        In double precision, `R x n` and `R`. A constant without a prior has a vague one. Any other
        mean is known.
        """
        Y = mean_model.train_targets.double()
        n = Y.shape[-1]
        observed = self.counts.reshape(-1, n) > 0
        number, none = observed.sum(-1).clamp_min(1), Y.new_zeros(observed.shape)
        Y = Y.reshape(-1, n)
        centre = Y.where(observed, none).sum(-1) / number
        about = (Y - centre.unsqueeze(-1)).where(observed, none)
        scale = about.square().sum(-1) / number
        scale = torch.where(scale > 0, scale, 1.0)
        mean, variance = mean_model.mean_module, torch.zeros_like(scale)
        if type(mean) is ConstantMean and mean.raw_constant.requires_grad:
            priors = [prior for _, _, prior, _, _ in mean.named_priors()]
            if not priors:
                location, variance = centre, VAGUE * scale
            elif all(type(prior) is NormalPrior for prior in priors):
                shape, batch_shape = mean.raw_constant.shape, mean_model.batch_shape
                location, precision = (
                    torch.as_tensor(part[:, 0]).to(Y)
                    for part in normal_precision(priors, shape, batch_shape)
                )
                variance = 1 / precision
            about = (Y - location.unsqueeze(-1)).where(observed, none)
        else:
            X = mean_model.transform_inputs(mean_model.train_inputs[0])
            known = mean(X).detach().double().expand(mean_model.train_targets.shape)
            about = (Y - known.reshape(-1, n)).where(observed, none)
        readings = Readings(
            means=about,
            counts=self.counts.double().reshape(-1, n),
            squares=self.squares.double().reshape(-1, n),
            level=self.level.double().reshape(-1),
            floor=FLOOR * scale,
            observed=None if bool(observed.all()) else observed,
        )
        return readings, variance


class TwoProcesses:
    r"""The hyperparameters of a process of the mean and of one of the noise, in rows.

    A row holds the parameters of the mean, those of the noise, and the level: the value of the
    process of the noise from which the search for its mode starts.
    """

    def __init__(self, mean: ExactGPParts, noise: ExactGPParts, observed: Tensor | None) -> None:
        self.parts = mean, noise
        of_mean, of_noise = (MarginalLikelihoodObjective(one, observed) for one in self.parts)
        self.mean, self.noise = of_mean, of_noise
        for side in (of_mean, of_noise):
            if any(one.name not in ("lengthscale", "outputscale") for one in side.moved):
                raise NotInClosedFormError("a constant mean with a prior that is not normal")
        split, end = of_mean.num_parameters, of_mean.num_parameters + of_noise.num_parameters
        self.of_mean, self.of_noise, self.num_parameters = slice(split), slice(split, end), end + 1
        self.num_observed, self.lost = of_mean.num_observed, of_mean.lost
        self.inputs = mean.X.double(), noise.X.double()
        self.units = of_mean.units

    @property
    def num_replicates(self) -> int:
        return len(self.num_observed)

    @property
    def lengthscales(self) -> tuple[slice, slice]:
        r"""Where those of the mean and of the noise are in a row."""
        of_mean, of_noise = (
            next(
                slice_
                for one, slice_ in zip(side.moved, side.slices, strict=True)
                if one.name == "lengthscale"
            )
            for side in (self.mean, self.noise)
        )
        start = self.of_noise.start
        return of_mean, slice(of_noise.start + start, of_noise.stop + start)

    @property
    def have_equal_inputs(self) -> bool:
        of_mean, of_noise = self.lengthscales
        return of_mean.stop - of_mean.start == of_noise.stop - of_noise.start

    def natural(self, theta: ndarray, replicates: ndarray) -> tuple[ndarray, ndarray]:
        r"""Hyperparameters in natural units and their derivatives, `rows x (p - 1)` each."""
        pairs = [
            self.mean.natural(theta[:, self.of_mean], replicates),
            self.noise.natural(theta[:, self.of_noise], replicates),
        ]
        values, slopes = (np.concatenate(part, axis=1) for part in zip(*pairs, strict=True))
        return values, slopes

    def bounds(self, rows: ndarray) -> tuple[ndarray, ndarray]:
        sides = zip(self.mean.bounds(rows), self.noise.bounds(rows), strict=True)
        end = np.full((len(rows), 1), np.inf)
        lower, upper = (np.concatenate(part, axis=1) for part in sides)
        return np.concatenate([lower, -end], axis=1), np.concatenate([upper, end], axis=1)

    def own(self) -> ndarray:
        r"""The models' own values and level 0, `R x p`; output scales follow raw targets."""
        blocks = [
            side.transform(np.concatenate([one.rows(one.natural) for one in side.moved], axis=1))
            for side in (self.mean, self.noise)
        ]
        far = ~self.units.is_standard
        for one, slice_ in zip(self.mean.moved, self.mean.slices, strict=True):
            if one.name == "outputscale":
                blocks[0][far, slice_] = 2 * np.log(self.units.scale)[far, None]
        return np.concatenate([*blocks, np.zeros((self.num_replicates, 1))], axis=1)

    def write(self, theta: ndarray, keep: ndarray) -> None:
        r"""Set the hyperparameters and the constant of the noise, not the constant of the mean."""
        values, _ = self.natural(theta, np.arange(len(theta)))
        for side, part in ((self.mean, self.of_mean), (self.noise, self.of_noise)):
            for one, slice_ in zip(side.moved, side.slices, strict=True):
                one.write(values[:, part][:, slice_], keep)
        for one in self.parts[1].hyperparameters:
            if one.name == "constant":
                one.write(theta[:, -1:], keep)


class _Objective:
    r"""What both stages of the fit share; a `FitObjective`."""

    def __init__(self, processes: TwoProcesses, readings: Readings, variances: Tensor) -> None:
        self.processes, self._readings, self._variances = processes, readings, variances
        mean = processes.parts[0]
        self.like, self.batch_shape = mean.Y, mean.batch_shape
        self.num_observed, self.num_parameters = processes.num_observed, processes.num_parameters
        self.precision = float(np.finfo(np.float64).eps)
        self._chunk = _COVARIANCES.rows(mean.X.device, mean.X.shape[-2] ** 2)

    def bounds(self, rows: ndarray) -> tuple[ndarray, ndarray]:
        return self.processes.bounds(rows)

    def broken_data(self) -> dict[int, str]:
        return self.processes.mean.broken_data()

    def _scaled(self, value: ndarray, gradient: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        r"""The loss for each observed point."""
        replicates = rows % len(self.num_observed)
        value[self.processes.lost[replicates]] = np.nan
        scale = -1.0 / self.num_observed[replicates]
        return scale * value, scale[:, None] * gradient

    def _tensor(self, array: ndarray) -> Tensor:
        return torch.as_tensor(array, device=self._readings.means.device)


class ConstantNoiseObjective(_Objective):
    r"""The likelihood of all readings under constant noise, which the level is."""

    def __call__(self, theta: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        processes, replicates = self.processes, rows % len(self.num_observed)
        values, slopes = processes.mean.natural(theta[:, processes.of_mean], replicates)
        value, slope = processes.mean.log_priors(values, rows)
        index = self._tensor(replicates)
        parts = (self._tensor(values), self._tensor(theta[:, -1]), index)
        chunks = zip(*(part.split(self._chunk) for part in parts), strict=True)
        joint = torch.cat([self._likelihood(*chunk) for chunk in chunks]).cpu().numpy()
        level, variance = theta[:, -1], self._variances[1].cpu().numpy()[replicates]
        gradient = np.zeros_like(theta)
        gradient[:, processes.of_mean] = slopes * (slope + joint[:, 2:])
        gradient[:, -1] = joint[:, 1] - level / variance
        return self._scaled(value + joint[:, 0] - 0.5 * level**2 / variance, gradient, rows)

    def _likelihood(self, values: Tensor, level: Tensor, replicate: Tensor) -> Tensor:
        r"""The value, and the derivatives in the level and in the hyperparameters."""
        data = self._readings.rows(replicate)
        h = (data.level + level).unsqueeze(-1).expand_as(data.means)
        kernel = _Kernel.of(self.processes, 0, replicate, values, self._variances[0][replicate])
        part = LogLikelihood(data.masked(kernel.covariance), data)(h)
        weights = part.weights
        of_mean = 0.5 * (weights.unsqueeze(-1) * weights.unsqueeze(-2) - part.precision)
        slopes = kernel.gradient(data.masked(of_mean))
        return torch.cat([part.value[:, None], part.slope.sum(-1, keepdim=True), slopes], dim=-1)

    def write(self, theta: ndarray, keep: ndarray, rows: ndarray | None = None) -> ndarray:
        return theta


class EvidenceObjective(_Objective):
    r"""`-(evidence + log priors) / n` of all readings, for the hyperparameters of both processes.

    Both constants are integrated out; the level only says where the search for the first mode of a
    row starts. Later ones start from the mode of the best point so far.
    """

    def __init__(
        self, processes: TwoProcesses, readings: Readings, variances: Tensor, tied: bool
    ) -> None:
        super().__init__(processes, readings, variances)
        self._tied = tied and processes.have_equal_inputs
        # The pull at the best point of each row and the offset from the level: `rows x 2 x n`.
        self._mode, self._best = readings.means[:0].unsqueeze(1), np.zeros(0)

    def __call__(self, theta: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        processes, replicates = self.processes, rows % len(self.num_observed)
        values, slopes = processes.natural(theta, replicates)
        joint, mode = self._evidence(values, theta[:, -1], rows)
        value, gradient = joint[:, 0].copy(), np.zeros_like(theta)
        gradient[:, :-1] = joint[:, 1:]
        for side, part in (
            (processes.mean, processes.of_mean),
            (processes.noise, processes.of_noise),
        ):
            density, slope = side.log_priors(values[:, part], rows)
            value += density
            gradient[:, part] += slope
        gradient[:, :-1] *= slopes
        if self._tied:
            of_mean, of_noise = processes.lengthscales
            density, slope = log_density_of_shifts(theta[:, of_noise] - theta[:, of_mean])
            value += density
            gradient[:, of_noise] += slope
            gradient[:, of_mean] -= slope
        better = value >= self._best[rows]  # False for NaN
        self._best[rows[better]] = value[better]
        index, kept = self._tensor(rows), self._tensor(better)[:, None, None]
        self._mode[index] = torch.where(kept, mode, self._mode[index])
        return self._scaled(value, gradient, rows)

    def _evidence(self, values: ndarray, levels: ndarray, rows: ndarray) -> tuple[ndarray, Tensor]:
        r"""The evidence and its derivatives in natural units, `rows x p`, and its modes."""
        index, replicates = self._tensor(rows), self._tensor(rows % len(self.num_observed))
        start = self._starts_of_modes(self._tensor(levels), index, replicates, rows.max())
        parts = (self._tensor(values), start, replicates)
        chunks = zip(*(part.split(self._chunk) for part in parts), strict=True)
        results, pulls = zip(*(self._evidence_of(*chunk) for chunk in chunks), strict=True)
        return torch.cat(results).cpu().numpy(), torch.cat(pulls)

    def _starts_of_modes(
        self, level: Tensor, index: Tensor, replicates: Tensor, last: int
    ) -> Tensor:
        missing, n = last + 1 - len(self._mode), self._mode.shape[-1]
        if missing > 0:
            new = self._mode.new_full((missing, 2, n), torch.nan)
            self._mode = torch.cat([self._mode.expand(-1, 2, -1), new])
            self._best = np.concatenate([self._best, np.full(missing, -np.inf)])
        known = self._mode[index]
        # The same pull at each point moves the level by the sum of all, times its variance.
        even = level / (self._variances[1][replicates] * n)
        first = torch.stack([even, level], dim=-1).unsqueeze(-1)
        return torch.where(known.isnan(), first, known)

    def _evidence_of(
        self, values: Tensor, start: Tensor, replicate: Tensor
    ) -> tuple[Tensor, Tensor]:
        processes, data = self.processes, self._readings.rows(replicate)
        mean, noise = (
            _Kernel.of(processes, i, replicate, values[:, part], self._variances[i][replicate])
            for i, part in enumerate((processes.of_mean, processes.of_noise))
        )
        pull, offset = start.unbind(1)
        found = (noise.covariance @ pull.unsqueeze(-1)).squeeze(-1)
        # The multiple of the pull that leads back to where the mode was: output scales change.
        factor = (found * offset).sum(-1) / found.square().sum(-1).clamp_min(1e-12)
        pull = pull * factor.unsqueeze(-1)
        mode = find_mode(data.masked(mean.covariance), noise.covariance, data, pull)
        evidence = evidence_at(mode, noise.covariance, data)
        slopes = [mean.gradient(data.masked(evidence.of_mean)), noise.gradient(evidence.of_noise)]
        there = torch.stack([mode.pull, mode.h - data.level.unsqueeze(-1)], dim=1)
        return torch.cat([evidence.value.unsqueeze(-1), *slopes], dim=-1), there

    def write(self, theta: ndarray, keep: ndarray, rows: ndarray | None = None) -> ndarray:
        index = self._tensor(np.arange(len(theta)) if rows is None else rows)
        level = (self._variances[1] * self._mode[index, 0].sum(-1)).cpu().numpy()
        theta = np.concatenate([theta[:, :-1], level[:, None]], axis=1)
        self.processes.write(theta, keep)
        return theta


def log_density_of_shifts(shifts: ndarray) -> tuple[ndarray, ndarray]:
    r"""The log density of logarithms of ratios of lengthscales, `rows x d`, and its gradient."""
    shared = shifts.mean(axis=1, keepdims=True)
    own = (shifts - shared) / OWN_SHIFT
    value = -0.5 * (shared[:, 0] - SHARED_SHIFT) ** 2 - 0.5 * (own**2).sum(axis=1)
    return value, -(shared - SHARED_SHIFT) / shifts.shape[1] - own / OWN_SHIFT


@dataclass(frozen=True)
class _Kernel:
    r"""The covariance of a process at its training inputs, constant included."""

    Z: Tensor  # scaled inputs, rows x n x d
    lengthscale: Tensor
    outputscale: Tensor  # rows
    correlation: Tensor
    slope: Tensor
    covariance: Tensor
    has_outputscale: bool

    @classmethod
    def of(
        cls, processes: TwoProcesses, which: int, index: Tensor, values: Tensor, variance: Tensor
    ) -> _Kernel:
        parts, side = processes.parts[which], (processes.mean, processes.noise)[which]
        named = {
            one.name: values[:, slice_] for one, slice_ in zip(side.moved, side.slices, strict=True)
        }
        lengthscale = named["lengthscale"]
        outputscale = named.get("outputscale", torch.ones_like(values[:, :1])).squeeze(-1)
        Z = processes.inputs[which][index] / lengthscale.unsqueeze(-2)
        Z = Z - Z.mean(dim=-2, keepdim=True)  # gradients are differences of squares
        distance = torch.cdist(Z, Z, compute_mode="donot_use_mm_for_euclid_dist")
        correlation, slope = correlation_and_slope(distance.square_(), parts.nu)
        covariance = outputscale[:, None, None] * correlation
        covariance += variance[:, None, None]
        return cls(
            Z, lengthscale, outputscale, correlation, slope, covariance, "outputscale" in named
        )

    def gradient(self, sensitivity: Tensor) -> Tensor:
        r"""Derivatives in the hyperparameters from that in the covariance, `rows x p`."""
        weighted = 2 * sensitivity * self.slope
        found = [lengthscale_gradient(self.Z, weighted, self.outputscale, self.lengthscale)]
        if self.has_outputscale:
            found.append((sensitivity * self.correlation).sum((-2, -1)).unsqueeze(-1))
        return torch.cat(found, dim=-1)


def fit_mean_and_noise(
    mean_model: SingleTaskGP,
    noise_model: SingleTaskGP,
    given: ReadingStatistics,
    *,
    tied: bool,
    previous: Optimum | None = None,
    max_iterations: int = 200,
    tolerance: float = 1e-5,
) -> FitResult:
    r"""Maximise the evidence of all readings over the hyperparameters of both processes, in place.

    It starts from the best fit with constant noise, from a smooth and from a rough function; from
    both of these if repeats do not tell the level of the noise. The constant of the mean stays: it
    is the best one once the noise of the rows is known.

    Args:
        mean_model: The process of the mean.
        noise_model: The process of the log noise variance; its constant has a normal prior.
        given: The readings.
        tied: Whether the lengthscales of the noise have those of the mean as their prior.
        previous: As of `fit_exact_gp`, like the other arguments.

    Raises:
        NotInClosedFormError: If one of the models is not supported.
    """
    check_counts(0, max_iterations=max_iterations)
    check_nonnegative(tolerance=tolerance)
    mean, noise = (read_exact_gp(model.train()) for model in (mean_model, noise_model))
    readings, variance = given.read(mean_model)
    processes = TwoProcesses(mean, noise, readings.observed)
    variances = torch.stack([variance, _variance_of_constant(noise_model)])
    options = {"max_iterations": max_iterations, "gradient_tolerance": max(tolerance, TOLERANCE)}
    options |= {"decrease_tolerance": PROMISE, "max_step": MAX_LOG_STEP}

    def starts(chosen: ndarray) -> Starts:
        objective = ConstantNoiseObjective(processes, readings, variances)
        is_known, counts = given.is_known.reshape(-1).cpu().numpy(), readings.counts.cpu().numpy()
        singles = (counts == 1).sum(axis=1) / np.maximum((counts > 0).sum(axis=1), 1)
        return _starts(objective, is_known, singles, chosen, tied, options)

    objective = EvidenceObjective(processes, readings, variances, tied)
    return maximize(objective, starts, previous, options)


def _starts(
    objective: ConstantNoiseObjective,
    is_known: ndarray,
    singles: ndarray,
    chosen: ndarray,
    tied: bool,
    options: dict[str, Any],
) -> Starts:
    r"""The ends of fits with constant noise, and the models' own values besides."""
    processes, count = objective.processes, objective.processes.num_replicates
    of_mean, of_noise = processes.lengthscales
    blocks, zero = [], objective._readings.level.cpu().numpy()
    for level, factor in zip(LOG_LEVELS, (1.0, ROUGHER["lengthscale"]), strict=True):
        start = processes.own()
        start[:, of_mean] += np.log(factor)
        start[:, -1] = np.where(is_known, 0.0, level + 2 * np.log(processes.units.scale) - zero)
        blocks.append(start)
    begun = Starts(np.concatenate(blocks), np.arange(2 * count), count).of(chosen)
    minima = minimize(objective, begun, {**options, **FIRST_STAGE})
    size = processes.num_parameters
    theta, metric = np.full((2 * count, size), np.nan), np.full((2 * count, size, size), np.nan)
    value = np.full(2 * count, np.inf)
    theta[begun.rows], metric[begun.rows] = minima.x, minima.metric
    value[begun.rows] = np.where(np.isfinite(minima.value), minima.value, np.inf)
    best = value.reshape(2, count).argmin(axis=0)
    first, second = np.flatnonzero(chosen), np.flatnonzero(chosen & ~is_known)
    # Constant noise takes the noise of single readings for roughness if repeats are quiet. Without
    # repeats, which tell what noise there is, a function of peaks would be taken for noise instead.
    third = np.flatnonzero(chosen & is_known & (singles > MANY_SINGLES))
    kept = np.concatenate([best[first] * count + first, (1 - best[second]) * count + second])
    ends = np.concatenate([theta[kept], processes.own()[third]])
    if processes.have_equal_inputs:
        ends[:, of_noise] = ends[:, of_mean] + SHARED_SHIFT
    unknown = np.full((len(third), size, size), np.nan)
    rows = np.concatenate([first, count + second, 2 * count + third])
    known = np.concatenate([metric[kept], unknown])
    return Starts(ends, rows, count, _metric(processes, known, rows, tied))


def _metric(processes: TwoProcesses, metric: ndarray, rows: ndarray, tied: bool) -> ndarray:
    r"""An inverse Hessian to begin with, from that of the fit with constant noise.

    The hyperparameters of the noise have a little curvature for each point, and lengthscales that
    of their tie.
    """
    split, end = processes.of_mean.stop, processes.num_parameters
    known = np.isfinite(metric).all(axis=(1, 2))[:, None, None]
    mean = np.where(known, metric[:, :split, :split], np.eye(split))
    hessian = np.zeros_like(metric)
    hessian[:, :split, :split] = np.linalg.inv(mean)
    index = np.arange(split, end)
    hessian[:, index, index] = CURVATURE
    if tied and processes.have_equal_inputs:
        of_mean, of_noise = processes.lengthscales
        d = of_mean.stop - of_mean.start
        shared = np.full((d, d), 1 / d)
        block = (np.eye(d) - shared) / OWN_SHIFT**2 + shared / d
        block = block / processes.num_observed[rows % processes.num_replicates, None, None]
        for one, other, sign in (
            (of_mean, of_mean, 1),
            (of_noise, of_noise, 1),
            (of_mean, of_noise, -1),
            (of_noise, of_mean, -1),
        ):
            hessian[:, one, other] += sign * block
    return np.linalg.inv(hessian)


def _variance_of_constant(model: SingleTaskGP) -> Tensor:
    r"""The prior variance of the constant of a model, `R`."""
    mean = model.mean_module
    priors = [prior for _, _, prior, _, _ in mean.named_priors()]
    _, precision = normal_precision(priors, mean.raw_constant.shape, model.batch_shape)
    return torch.as_tensor(1 / precision[:, 0], device=model.train_targets.device)
