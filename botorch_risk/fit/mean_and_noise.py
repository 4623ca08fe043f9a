r"""Fit a process of the mean and one of the log noise variance to all readings at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from botorch.models import SingleTaskGP
from gpytorch.means import ConstantMean
from gpytorch.priors import NormalPrior
from numpy import ndarray
from torch import Tensor

from botorch_risk.arguments import check_counts, check_nonnegative
from botorch_risk.chunks import ChunkSize
from botorch_risk.fit.exact_gp import maximize
from botorch_risk.fit.laplace_evidence import FLOOR, Readings, evidence_at, find_mode
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
# Newton steps before a search reports, and how often it goes on.
_NUM_STEPS, _NUM_PASSES = 8, 8
# Entries of the n x n matrices of several rows.
_COVARIANCES = ChunkSize(cpu=2**14)


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
        )
        return readings, variance


def search_mode(
    covariance: Tensor, noise_covariance: Tensor, data: Readings, start: Tensor
) -> Tensor:
    r"""Newton's method to its end; returns `v` of `laplace_evidence`."""
    mode = find_mode(covariance, noise_covariance, data, start, _NUM_STEPS)
    for _ in range(_NUM_PASSES):
        if bool(mode.found.all()):
            break
        mode = find_mode(covariance, noise_covariance, data, mode.pull, _NUM_STEPS)
    return mode.pull


class EvidenceObjective:
    r"""`-(evidence + log priors) / n` and its gradient, for rows of parameters of both processes.

    A row holds the parameters of the mean, those of the noise, and the value of the process of the
    noise from which the search for its mode starts, which does not move. Both constants are
    integrated out. The search starts from the mode of the best point so far of its row.

    A `FitObjective`.
    """

    def __init__(
        self,
        mean: ExactGPParts,
        noise: ExactGPParts,
        given: ReadingStatistics,
        readings: Readings,
        variances: tuple[Tensor, Tensor],
        tied: bool,
    ) -> None:
        observed = readings.counts > 0
        self._parts = mean, noise
        self._sides = tuple(
            MarginalLikelihoodObjective(parts, None if bool(observed.all()) else observed)
            for parts in self._parts
        )
        for side in self._sides:
            if any(one.name not in ("lengthscale", "outputscale") for one in side.moved):
                raise NotInClosedFormError("a constant mean with a prior that is not normal")
        self._split = self._sides[0].num_parameters
        self._readings, self._variances = readings, variances
        self._is_known = given.is_known.reshape(-1).cpu().numpy()
        self._inputs = tuple(parts.X.double() for parts in self._parts)
        self._tie = self._tied_lengthscales() if tied else None
        self._chunk = _COVARIANCES.rows(mean.X.device, mean.X.shape[-2] ** 2)
        self._pull, self._best = readings.means[:0], readings.level[:0]
        self.like, self.batch_shape = mean.Y, mean.batch_shape

    @property
    def precision(self) -> float:
        return float(np.finfo(np.float64).eps)

    @property
    def num_observed(self) -> ndarray:
        return self._sides[0].num_observed

    @property
    def num_parameters(self) -> int:
        return self._split + self._sides[1].num_parameters + 1

    def _tied_lengthscales(self) -> tuple[slice, slice] | None:
        r"""Where the lengthscales of both are in a row, if there are as many."""
        found = [
            slice_
            for side in self._sides
            for one, slice_ in zip(side.moved, side.slices, strict=True)
            if one.name == "lengthscale"
        ]
        of_mean, of_noise = found
        if of_mean.stop - of_mean.start != of_noise.stop - of_noise.start:
            return None
        return of_mean, slice(of_noise.start + self._split, of_noise.stop + self._split)

    def starts(self, rougher: bool) -> Starts:
        r"""The models' own values, and a rougher start."""
        units = self._sides[0].units
        blocks = []
        for side in self._sides:
            natural = [one.rows(one.natural) for one in side.moved]
            blocks.append(side.transform(np.concatenate(natural, axis=1)))
        for one, slice_ in zip(self._sides[0].moved, self._sides[0].slices, strict=True):
            if one.name == "outputscale":  # the start is meant for standardised targets
                blocks[0][~units.is_standard, slice_] = (
                    2 * np.log(units.scale)[~units.is_standard, None]
                )
        zero = self._readings.level.cpu().numpy()
        starts = []
        for level, factor in zip(LOG_LEVELS, (1.0, ROUGHER["lengthscale"]), strict=True):
            shifts = [
                [np.full(one.size, np.log(factor) * (one.name == "lengthscale"))]
                for side in self._sides
                for one in side.moved
            ]
            shift = np.concatenate([part for (part,) in shifts])
            hint = np.where(self._is_known, 0.0, level + 2 * np.log(units.scale) - zero)
            starts.append(np.concatenate([*blocks, hint[:, None]], axis=1))
            starts[-1][:, :-1] += shift
        theta = np.concatenate(starts if rougher else starts[:1])
        return Starts(theta, np.arange(len(theta)), len(zero))

    def bounds(self, rows: ndarray) -> tuple[ndarray, ndarray]:
        pairs = [side.bounds(rows) for side in self._sides]
        free = np.full((len(rows), 1), np.inf)
        lower, upper = (np.concatenate(part, axis=1) for part in zip(*pairs, strict=True))
        return np.concatenate([lower, -free], axis=1), np.concatenate([upper, free], axis=1)

    def broken_data(self) -> dict[int, str]:
        return self._sides[0].broken_data()

    def __call__(self, theta: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        r"""The loss and its gradient; the arguments are as of `MarginalLikelihoodObjective`."""
        replicates = rows % len(self.num_observed)
        values, slopes = self._natural(theta, replicates)
        joint = self._evidence(values, theta[:, -1], rows, replicates)
        value, gradient = joint[:, 0].copy(), np.zeros_like(theta)
        gradient[:, :-1] = joint[:, 1:]
        for side, part in zip(self._sides, self._both, strict=True):
            density, slope = side.log_priors(values[:, part], rows)
            value += density
            gradient[:, part] += slope
        gradient[:, :-1] *= slopes
        if self._tie is not None:
            of_mean, of_noise = self._tie
            density, slope = log_density_of_shifts(theta[:, of_noise] - theta[:, of_mean])
            value += density
            gradient[:, of_noise] += slope
            gradient[:, of_mean] -= slope
        value[self._sides[0].lost[replicates]] = np.nan
        scale = -1.0 / self.num_observed[replicates]
        return scale * value, scale[:, None] * gradient

    @property
    def _both(self) -> tuple[slice, slice]:
        return slice(0, self._split), slice(self._split, self.num_parameters - 1)

    def _natural(self, theta: ndarray, replicates: ndarray) -> tuple[ndarray, ndarray]:
        pairs = [
            side.natural(theta[:, part], replicates)
            for side, part in zip(self._sides, self._both, strict=True)
        ]
        values, slopes = (np.concatenate(part, axis=1) for part in zip(*pairs, strict=True))
        return values, slopes

    def _evidence(
        self, values: ndarray, hints: ndarray, rows: ndarray, replicates: ndarray
    ) -> ndarray:
        r"""The evidence and its derivatives in the parameters, `rows x p`."""
        like = self._readings.means
        values_, index = torch.as_tensor(values).to(like), torch.as_tensor(rows, device=like.device)
        starts = self._starts_of_modes(torch.as_tensor(hints).to(like), index)
        found, pulls = [], []
        mine = torch.as_tensor(replicates, device=like.device)
        for part, start, replicate in zip(
            *(x.split(self._chunk) for x in (values_, starts, mine)), strict=True
        ):
            one, pull = self._evidence_of(part, start, replicate)
            found.append(one)
            pulls.append(pull)
        result = torch.cat(found)
        pull, value = torch.cat(pulls), result[:, 0]
        better = value >= self._best[index]  # False for NaN
        self._pull[index] = torch.where(better.unsqueeze(-1), pull, self._pull[index])
        self._best[index] = torch.where(better, value, self._best[index])
        return result.cpu().numpy()

    def _starts_of_modes(self, hints: Tensor, index: Tensor) -> Tensor:
        missing = int(index.max()) + 1 - len(self._pull)
        if missing > 0:
            self._pull = torch.cat(
                [self._pull, self._pull.new_full((missing, self._pull.shape[1]), torch.nan)]
            )
            self._best = torch.cat([self._best, self._best.new_full((missing,), -torch.inf)])
        known = self._pull[index]
        # The same pull everywhere moves the level: by its variance for each point.
        level = hints / (self._variances[1][index % len(self._readings.level)] * known.shape[-1])
        return torch.where(known.isnan(), level.unsqueeze(-1), known)

    def _evidence_of(
        self, values: Tensor, start: Tensor, replicate: Tensor
    ) -> tuple[Tensor, Tensor]:
        data = self._readings.rows(replicate)
        mean, noise = (
            _Kernel.of(parts, side, X[replicate], values[:, part], variance[replicate])
            for parts, side, X, part, variance in zip(
                self._parts, self._sides, self._inputs, self._both, self._variances, strict=True
            )
        )
        covariance = data.masked(mean.covariance)
        pull = search_mode(covariance, noise.covariance, data, start)
        evidence = evidence_at(covariance, noise.covariance, data, pull)
        slopes = [mean.gradient(data.masked(evidence.of_mean)), noise.gradient(evidence.of_noise)]
        return torch.cat([evidence.value.unsqueeze(-1), *slopes], dim=-1), pull

    def write(self, theta: ndarray, keep: ndarray, rows: ndarray | None = None) -> ndarray:
        r"""Set the hyperparameters of both; the constant of the mean waits for the noise."""
        replicates = np.arange(len(theta))
        values, _ = self._natural(theta, replicates)
        for side, part in zip(self._sides, self._both, strict=True):
            for one, slice_ in zip(side.moved, side.slices, strict=True):
                one.write(values[:, part][:, slice_], keep)
        index = torch.as_tensor(replicates if rows is None else rows, device=self._pull.device)
        level = (self._variances[1] * self._pull[index].sum(-1)).cpu().numpy()
        for one in self._parts[1].hyperparameters:
            if one.name == "constant":
                one.write(level[:, None], keep)
        return np.concatenate([theta[:, :-1], level[:, None]], axis=1)


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
        cls,
        parts: ExactGPParts,
        side: MarginalLikelihoodObjective,
        X: Tensor,
        values: Tensor,
        variance: Tensor,
    ) -> _Kernel:
        named = {
            one.name: values[:, slice_] for one, slice_ in zip(side.moved, side.slices, strict=True)
        }
        lengthscale = named["lengthscale"]
        outputscale = named.get("outputscale", torch.ones_like(values[:, :1])).squeeze(-1)
        Z = X / lengthscale.unsqueeze(-2)
        Z = Z - Z.mean(dim=-2, keepdim=True)  # gradients are differences of squares
        distance = torch.cdist(Z, Z, compute_mode="donot_use_mm_for_euclid_dist")
        correlation, slope = correlation_and_slope(distance.square_(), parts.nu)
        covariance = outputscale[:, None, None] * correlation + variance[:, None, None]
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
    rough_start: bool = True,
    previous: Optimum | None = None,
    max_iterations: int = 200,
    tolerance: float = 1e-6,
) -> FitResult:
    r"""Maximise the evidence of all readings over the hyperparameters of both processes, in place.

    The constant of the mean stays: it is the best one once the noise of the rows is known.

    Args:
        mean_model: The process of the mean.
        noise_model: The process of the log noise variance; its constant has a normal prior.
        given: The readings.
        tied: Whether the lengthscales of the noise have those of the mean as their prior.
        rough_start: As of `fit_exact_gp`, like the other arguments.

    Raises:
        NotInClosedFormError: If one of the models is not supported.
    """
    check_counts(0, max_iterations=max_iterations)
    check_nonnegative(tolerance=tolerance)
    mean, noise = (read_exact_gp(model.train()) for model in (mean_model, noise_model))
    readings, variance = given.read(mean_model)
    constants = given_noise_constant(noise_model)
    objective = EvidenceObjective(mean, noise, given, readings, (variance, constants), tied)
    options = {"max_iterations": max_iterations, "gradient_tolerance": tolerance}
    return maximize(objective, objective.starts(rough_start), previous, options)


def given_noise_constant(noise_model: SingleTaskGP) -> Tensor:
    r"""The prior variance of the constant of the noise, `R`, about 0."""
    mean = noise_model.mean_module
    priors = [prior for _, _, prior, _, _ in mean.named_priors()]
    _, precision = normal_precision(priors, mean.raw_constant.shape, noise_model.batch_shape)
    like = noise_model.train_targets
    return torch.as_tensor(1 / precision[:, 0], device=like.device)
