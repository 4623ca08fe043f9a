r"""Fit a process of the mean and one of the log noise variance to all readings at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.models import SingleTaskGP
from gpytorch.means import ConstantMean
from gpytorch.priors import NormalPrior, Prior
from numpy import ndarray
from torch import Tensor

from botorch_risk.arguments import check_counts, check_nonnegative
from botorch_risk.engine import FitResult, MarginalLikelihoodObjective, Optimum, Starts
from botorch_risk.models.evidence_objective import (
    OWN_SHIFT,
    SHARED_SHIFT,
    ConstantNoiseObjective,
    EvidenceObjective,
    TwoProcesses,
)
from botorch_risk.models.laplace_evidence import Readings

# Prior variance of a constant mean without a prior, in units of the targets' variance.
VAGUE = 4.0
# Log noise variances, in units of the targets' variance, from which the two starts search if
# repeats do not tell: a smooth function below noise, and a rough one that is known well.
LOG_LEVELS = (float(np.log(0.5)), float(np.log(0.01)))
# Added to the noise variances of means, in units of the targets' variance: a covariance has a
# Cholesky factor then, even if the noise is far below what the data resolve.
FLOOR = 1e-8
# A start ends at a smaller gradient per point, from which a step promises less, per point. The
# evidence is an approximation, and no more than that is worth its price.
TOLERANCE, PROMISE = 1e-3, 1e-8
# The share of single readings, among repeats, above which a fit starts from the models' own values
# as well.
MANY_SINGLES = 0.1
# The fit with constant noise is a start and no more.
FIRST_STAGE = {"gradient_tolerance": 3e-3, "decrease_tolerance": 1e-4, "hope": 4.0}
# No step changes the logarithm of a hyperparameter by more.
MAX_LOG_STEP = 2.0
# A guess at the second derivatives of the loss in the hyperparameters of the noise.
CURVATURE = 0.05


@dataclass(frozen=True)
class ReadingStatistics:
    r"""The readings behind the targets of a process of the mean, `batch_shape x n` each.

    Attributes:
        counts: Numbers of readings; 0 if a replicate has none.
        squares: Sums of squares about the means, in the units of the targets.
        level: The log noise variance, in the same units, at which the process of the noise is 0;
            `batch_shape`.
        is_known: Whether repeats determine this level, `batch_shape`.
    """

    counts: Tensor
    squares: Tensor
    level: Tensor
    is_known: Tensor

    @property
    def observed(self) -> Tensor | None:
        r"""Which targets have readings, `R x n`; None if all have."""
        observed = self.counts.reshape(-1, self.counts.shape[-1]) > 0
        return None if bool(observed.all()) else observed

    def of_first_sample(self) -> ReadingStatistics:
        r"""The statistics at the first index of the first batch dimension."""
        return ReadingStatistics(self.counts[0], self.squares[0], self.level[0], self.is_known[0])

    def read(self, mean_model: SingleTaskGP) -> tuple[Readings, Tensor]:
        r"""The readings less the constant's prior mean, and the prior variance of the constant.

        Both are in double precision, `R x n` and `R`. A constant without a prior gets a vague one.
        Any other mean function counts as known.
        """
        Y, n = mean_model.train_targets.double(), self.counts.shape[-1]
        Y, observed = Y.reshape(-1, n), self.counts.reshape(-1, n) > 0
        number, none = observed.sum(-1).clamp_min(1), Y.new_zeros(observed.shape)
        centre = Y.where(observed, none).sum(-1) / number
        about = (Y - centre.unsqueeze(-1)).where(observed, none)
        scale = about.square().sum(-1) / number
        scale = torch.where(scale > 0, scale, 1.0)
        mean, variance = mean_model.mean_module, torch.zeros_like(scale)
        if type(mean) is not ConstantMean or not mean.raw_constant.requires_grad:
            X = mean_model.transform_inputs(mean_model.train_inputs[0])
            known = mean(X).detach().double().expand(self.counts.shape)
            about = (Y - known.reshape(-1, n)).where(observed, none)
        elif next(mean.named_priors(), None) is None:
            variance = VAGUE * scale
        else:
            location, variance = normal_prior(mean)
            about = (Y - location.unsqueeze(-1)).where(observed, none)
        readings = Readings(
            means=about,
            counts=self.counts.double().reshape(-1, n),
            squares=self.squares.double().reshape(-1, n),
            level=self.level.double().reshape(-1),
            floor=FLOOR * scale,
            observed=self.observed,
        )
        return readings, variance


def check_prior_of_constant(mean: Any) -> None:
    r"""Refuse a constant mean with a prior that is not normal.

    The evidence of readings integrates the constant out, which needs a normal prior.
    """
    if type(mean) is ConstantMean and mean.raw_constant.requires_grad:
        priors = [prior for _, _, prior, _, _ in mean.named_priors()]
        other = [type(each).__name__ for each in priors if not _is_normal(each)]
        if other:
            raise UnsupportedError(
                "Expected normal priors on the constant of `mean_module`, which the evidence of "
                f"all readings integrates out, or `noise_evidence='spread'`. Got {other[0]}."
            )


def _is_normal(prior: Prior) -> bool:
    return type(prior) is NormalPrior and prior._transform is None


def normal_prior(mean: ConstantMean) -> tuple[Tensor, Tensor]:
    r"""The location and the variance of the product of normal priors on a constant, `R` each."""
    weighted, precision = torch.zeros(2, mean.raw_constant.numel()).to(mean.raw_constant).double()
    for _, _, prior, _, _ in mean.named_priors():
        location, variance = (
            each.detach().double().expand(mean.raw_constant.shape).reshape(-1)
            for each in (prior.loc, prior.scale.square())
        )
        # A product of normal densities adds their precisions.
        weighted, precision = weighted + location / variance, precision + 1 / variance
    return weighted / precision, 1 / precision


def fit_mean_and_noise(
    mean_model: SingleTaskGP,
    noise_model: SingleTaskGP,
    given: ReadingStatistics,
    *,
    tied: bool,
    previous: Optimum | None = None,
    max_iterations: int = 200,
    tolerance: float = 1e-7,
) -> FitResult:
    r"""Maximise the evidence of all readings over the hyperparameters of both processes, in place.

    It starts from the better of two fits with constant noise, of a smooth and a rough function;
    from both if repeats do not determine the level of the noise. If they do, more starts ended at
    the same optimum in all of 120 tables (bench/studies/learnt_noise). The constant of the mean is
    not changed: it follows once the noise of the rows is known.

    The constant of `noise_model` has a normal prior. `tied` says whether the prior of the noise's
    lengthscales follows the mean's. The other options are described in `fit_exact_gp`.
    """
    check_counts(0, max_iterations=max_iterations)
    check_nonnegative(tolerance=tolerance)
    processes = TwoProcesses(
        *(
            MarginalLikelihoodObjective.of(model.train(), given.observed)
            for model in (mean_model, noise_model)
        )
    )
    readings, variance = given.read(mean_model)
    variances = torch.stack([variance, normal_prior(noise_model.mean_module)[1]])
    options = {"max_iterations": max_iterations, "gradient_tolerance": max(tolerance, TOLERANCE)}
    options |= {"decrease_tolerance": PROMISE, "max_step": MAX_LOG_STEP}
    is_known = given.is_known.reshape(-1).cpu().numpy()
    objective = EvidenceObjective(processes, readings, variances, tied)
    return objective.maximize(
        lambda chosen: starts_of_evidence(objective, is_known, chosen, options),
        previous,
        options,
        compete=~is_known,
    )


def starts_of_evidence(
    evidence: EvidenceObjective, is_known: ndarray, chosen: ndarray, options: dict[str, Any]
) -> Starts:
    r"""Starts: the optima of fits with constant noise, and the models' own values besides.

    `is_known` and `chosen`, `R` each, say whether repeats determine the level of the noise, and
    which replicates need starts. The options go to `minimize_rows`.
    """
    readings, tied = evidence.readings, evidence.is_tied
    objective = ConstantNoiseObjective(evidence.processes, readings, evidence.variances)
    counts = readings.counts.cpu().numpy()
    singles = (counts == 1).sum(axis=1) / np.maximum((counts > 0).sum(axis=1), 1)
    processes, count = objective.processes, objective.processes.num_replicates
    of_mean, of_noise = processes.lengthscales
    blocks, zero = [], readings.level.cpu().numpy()
    for level, factor in zip(LOG_LEVELS, (1.0, objective.rougher["lengthscale"]), strict=True):
        start = processes.own()
        start[:, of_mean] += np.log(factor)
        start[:, -1] = np.where(is_known, 0.0, level + 2 * np.log(processes.units.scale) - zero)
        blocks.append(start)
    begun = Starts(np.concatenate(blocks), np.arange(2 * count), count).of(chosen)
    minima = objective.minimize(begun, {**options, **FIRST_STAGE})
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
    r"""An inverse Hessian to begin with, from the fit with constant noise.

    The hyperparameters of the noise get a little curvature per point, and lengthscales the
    curvature of their tie.
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
        # The second derivative of `log_density_of_shifts`, negated, for each observed point.
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
