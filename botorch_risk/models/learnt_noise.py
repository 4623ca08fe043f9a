r"""Learn the noise variance as a Gaussian process on the sample variances of repeats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from botorch.exceptions.errors import InputDataError, UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import InputTransform
from botorch.posteriors import Posterior
from gpytorch.kernels import Kernel
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from botorch_risk.models import fixed_noise
from botorch_risk.models.noise_observations import NoiseObservations, SampleVariances, worthless
from botorch_risk.models.noise_process import NoiseLimits, NoiseProcess
from botorch_risk.models.repeats import RepeatedOutcomes
from botorch_risk.posterior.marginals import MarginalPredictor, root_of_beta

# How often both processes are fitted again where the residuals from the mean are evidence.
NUM_ALTERNATIONS = 1


class LearntNoise(NoiseProcess):
    r"""A Gaussian process on the sample variances of repeats (Eqs. 13-15, 32-33).

    If noise levels came with the readings, the process interpolates them with a noise of its own
    that is learnt.

    Attributes:
        sampling: How sample variances inform the process.
        beta: Squared width of the upper bound in the noise of later sample variances.
        counts: `batch_shape x n x 1` numbers of repeats of the rows.
        resolution: `batch_shape x 1 x 1`, the least sample variance that the data resolve.
        evidence: `"spread"` of the repeats, or all `"readings"`.
    """

    counts: Tensor
    resolution: Tensor

    def __init__(
        self,
        model: SingleTaskGP,
        sampling: SampleVariances,
        limits: NoiseLimits,
        beta: float,
        counts: Tensor,
        resolution: Tensor,
        evidence: str = "spread",
    ) -> None:
        super().__init__()
        self.model, self.marginals = model, MarginalPredictor(model)
        self.sampling, self.limits, self.beta = sampling, limits, beta
        self.evidence = evidence
        self.register_buffer("counts", counts, persistent=False)
        self.register_buffer("resolution", resolution, persistent=False)

    @classmethod
    def of(
        cls,
        train_X: Tensor,
        outcomes: RepeatedOutcomes,
        limits: NoiseLimits,
        link: str = "log",
        sample_noise: str | None = None,
        beta: float = 4.0,
        covar_module: Kernel | None = None,
        input_transform: InputTransform | None = None,
        evidence: str = "spread",
    ) -> LearntNoise:
        r"""Build the process on the rows that have repeats, from the arguments of `MeanVarianceGP`.

        In a batch a row is kept if any replicate has repeats there. If a replicate has
        none, its entry gets a noise that makes it worthless.
        """
        sampling = SampleVariances.choose(link, sample_noise, limits.ceiling)
        _check_evidence(evidence, link, outcomes)
        every_row = evidence == "readings"
        data = NoiseObservations.of(train_X, outcomes, limits.floor, every_row)
        if outcomes.known_variances:
            sampling = sampling.of_given_levels()
            noise, sets_scale = None, data.informs
            targets = sampling.link.apply(data.variances)
        else:
            noise = sampling.noise(data.typical.expand_as(data.counts), data.counts)
            targets, noise, sets_scale = data.on(sampling.link, noise)
        if noise is None and not bool(data.informs.all()):
            raise UnsupportedError(
                "Expected repeats in the same rows of every replicate if one noise level of "
                "the sample variances is inferred. Use the log link, or another noise."
            )
        transform = sampling.link.outcome_transform(sets_scale, noise, data.resolution)
        options: dict[str, Any] = {
            "covar_module": covar_module or fixed_noise.noise_kernel(data.X, input_transform),
            "outcome_transform": transform,
            "input_transform": input_transform,
        }
        if noise is None:
            model = SingleTaskGP(data.X, targets, **options)
        else:
            model = fixed_noise.fixed_noise_gp(data.X, targets, noise, **options)
        return cls(model, sampling, limits, beta, data.counts, data.resolution, evidence)

    @property
    def link(self) -> Any:
        return self.sampling.link

    def posterior(self, X: Tensor) -> Posterior:
        return self.link.posterior(self.model.posterior(X))

    def expected(self, X: Tensor) -> Tensor:
        return self.link.mean(*self.marginals(X))

    def on_outcome_scale(self, values: Tensor) -> Tensor:
        variance: Tensor = self.link.inverse(values)
        return variance

    def slope_on_outcome_scale(self, variances: Tensor) -> Tensor:
        slope: Tensor = self.link.inverse_slope(variances)
        return slope

    def bounds(self, X: Tensor, beta: float | Tensor) -> tuple[Tensor, Tensor]:
        return self._quantiles(*self.marginals(X), beta)

    def bounds_after_repeats(
        self, X: Tensor, beta: float | Tensor, counts: Tensor
    ) -> tuple[Tensor, Tensor]:
        mean, variance = self.marginals(X)
        noise = self._noise_of_repeats(X, counts)
        # Conditioning on one observation at the point itself: 1 / (1 / variance + 1 / noise).
        after = (variance * noise / (variance + noise)).where(counts > 1, variance)
        return self._quantiles(mean, after, beta)

    def bounds_in_sequence(
        self, X: Tensor, beta: float | Tensor | None, counts: Tensor
    ) -> tuple[Tensor, Tensor]:
        posterior = self.model.posterior(X)
        covariance = posterior.distribution.covariance_matrix
        mean, variance = posterior.mean.squeeze(-1), covariance.diagonal(dim1=-2, dim2=-1)
        if X.shape[-2] > 1:
            noise = self._noise_of_repeats(X, counts).expand_as(mean)
            after = variances_in_sequence(covariance, noise)
            variance = after.where(counts > 1, variance)
        if beta is None:
            expected = self.link.mean(mean, variance)
            return expected, expected
        return self._quantiles(mean, variance, beta)

    def fit(self, fit_model: Callable[[Any], bool]) -> bool:
        fitted = fit_model(self.model)
        if not self.sampling.is_pointwise:
            return fitted
        self.refresh_pointwise_noise()
        return fit_model(self.model)

    def refresh_pointwise_noise(self) -> None:
        r"""Set the noise of each sample variance from the newest upper bound at its point."""
        self.model.train()  # training inputs as they were given
        X = self.model.train_inputs[0]
        with torch.no_grad():
            upper = self.limits.apply(self.bounds(X, self.beta)[1].unsqueeze(-1))
            noise = self.sampling.noise(upper, self.counts)
        if noise is not None:
            fixed_noise.set_fixed_noise(self.model, noise)

    @property
    def num_alternations(self) -> int:
        return NUM_ALTERNATIONS if self.evidence == "readings" else 0

    def observe_readings(self, mean_model: Any, outcomes: RepeatedOutcomes) -> None:
        if self.evidence != "readings":
            return
        scale = self.model.outcome_transform
        centre, width = scale.means.squeeze(-1), scale.stdvs.squeeze(-1)
        evidence = ReadingEvidence.of(mean_model, outcomes, self.resolution)
        mean, covariance = prior_of(self.model)
        targets, noise = observations_at_mode(
            evidence, centre + width * mean, width.square().unsqueeze(-1) * covariance
        )
        self.model.set_train_data(targets=(targets - centre) / width, strict=False)
        fixed_noise.set_fixed_noise(self.model, noise.unsqueeze(-1))

    def conditioned(self, X: Tensor, counts: Tensor, variances: Tensor | None) -> LearntNoise:
        upper = self.limits.apply(self.bounds(X, self.beta)[1].unsqueeze(-1))
        noise = self.sampling.noise(upper, counts.expand_as(upper))
        targets = self.model.posterior(X).mean
        if variances is not None:
            targets, noise = self._observe(variances, counts.expand_as(variances), targets, noise)
        options = (
            {} if noise is None else {"noise": fixed_noise.transform_variance(self.model, noise)}
        )
        model = fixed_noise.condition(self.model, X, targets, **options)
        process = LearntNoise(
            model,
            self.sampling,
            self.limits,
            self.beta,
            self.counts,
            self.resolution,
            self.evidence,
        )
        process.training = self.training
        return process

    def load(self, state_dict: Mapping[str, Any], **options: Any) -> None:
        state = {key.removeprefix("model."): value for key, value in state_dict.items()}
        fixed_noise.load_process(self.model, state, **options)
        # Pointwise noise is of the hyperparameters before the last fit, so it is not derived again.
        if self.sampling.is_pointwise and not fixed_noise.load_noise(self.model, state):
            self.refresh_pointwise_noise()

    def _quantiles(
        self, mean: Tensor, variance: Tensor, beta: float | Tensor
    ) -> tuple[Tensor, Tensor]:
        width = variance.sqrt() * root_of_beta(beta, mean, self.model.batch_shape)
        return self.link.inverse(mean - width), self.link.inverse(mean + width)

    def _observe(
        self, variances: Tensor, counts: Tensor, expected: Tensor, noise: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        repeated = counts > 1
        self.sampling.require_observable(repeated, counts)
        if not bool((~repeated | (variances.isfinite() & (variances >= 0))).all()):
            raise InputDataError(
                f"Expected finite `variances` >= 0. Got {variances.flatten().tolist()}."
            )
        counts = counts.clamp_min(2)
        censored = repeated & (variances == 0) & self.sampling.censors
        usable = variances.where(repeated & ~censored, torch.ones_like(variances))
        targets = self.link.observations(usable, counts).where(repeated, expected)
        if noise is None or not bool(censored.any()):
            return targets, noise
        scale = self.model.outcome_transform
        sites, site_noise = self.link.censored_observations(
            self.resolution.expand_as(counts),
            counts,
            scale.means.expand_as(counts),
            scale.stdvs.square().expand_as(counts),
        )
        return targets.where(~censored, sites), noise.where(~censored, site_noise)

    def _noise_of_repeats(self, X: Tensor, counts: Tensor) -> Tensor:
        r"""The variance of a sample variance from repeats at X, on the link's scale."""
        upper = self.limits.apply(self.bounds(X, self.beta)[1])  # batch_shape x m
        noise = self.sampling.noise(upper, counts.expand_as(upper))
        if noise is not None:
            return noise
        level = self.model.likelihood.noise.unsqueeze(-1)
        return (level / fixed_noise.transform_variance(self.model, torch.ones_like(level))).squeeze(
            -1
        )


def _check_evidence(evidence: str, link: str, outcomes: RepeatedOutcomes) -> None:
    if evidence not in ("spread", "readings"):
        raise ValueError(f"Expected `noise_evidence` 'spread' or 'readings'. Got {evidence!r}.")
    if evidence == "readings" and (link != "log" or outcomes.known_variances):
        raise UnsupportedError(
            "Expected the log link and noise that is to be learnt if `noise_evidence` is "
            f"'readings'. Got {link=}, {outcomes.known_variances=}."
        )


def variances_in_sequence(covariance: Tensor, noise: Tensor) -> Tensor:
    r"""The variance of each point once the points before it were observed, `batch_shape x q`.

    Args:
        covariance: `batch_shape x q x q` covariance of the points.
        noise: `batch_shape x q` variances of their observations, > 0.
    """
    noise = noise.expand(covariance.shape[:-1])
    # The squared pivot of a point is its variance given those before it, with its own noise.
    factor = psd_safe_cholesky(covariance + torch.diag_embed(noise))
    pivots = factor.diagonal(dim1=-2, dim2=-1).square()
    return (pivots - noise).clamp_min(torch.finfo(noise.dtype).tiny)


# What all readings say about the noise: the spread within rows, and the residuals of the rows.
#
# Given the noise variances `rho_i^2`, the likelihood of all readings separates into the likelihood
# of the means and of the spread around them,
#
#     log N(means | m, K + R) - sum_i (k_i - 1) / 2 (log rho_i^2 + s_i^2 / rho_i^2),
#     R = diag(rho_i^2 / k_i)
#
# (Woodbury over the unique inputs, [Binois2018hetgp]_). With the residuals `r = R (K + R)^-1 (means
# - m)` and the leverages `l_i = 1 - R_ii [(K + R)^-1]_ii` its slope in `h_i = log rho_i^2`, and the
# diagonal of its expected curvature, are
#
#     slope_i = ((k_i - 1) s_i^2 / rho_i^2 + r_i^2 / R_ii - (k_i - l_i)) / 2
#     weight_i = (k_i - 1 + (1 - l_i)^2) / 2
#
# so that a row counts as `k_i - l_i` degrees of freedom in the place of `k_i - 1`, and a single
# reading says something as well. The process of h sees the likelihood at its mode as Gaussian
# observations `h + slope / weight` of variance `1 / weight` (Laplace's approximation).


MAX_STEP = 1.0  # of the logarithm of a noise variance in one iteration
_NUM_ITERATIONS = 50


@dataclass(frozen=True)
class ReadingEvidence:
    r"""The readings of all rows, and the process of their mean.

    Attributes:
        counts: `batch_shape x n` numbers of readings, at least 1.
        squares: `batch_shape x n` sums of squares within the rows, `(k - 1) s^2`.
        observed: `batch_shape x n`, False where a replicate has no reading.
        residual: `batch_shape x n` means less their prior mean, in the units of the process.
        covariance: `batch_shape x n x n` of the process of the mean.
        unit: The variance 1 of the outcome in the units of the process.
    """

    counts: Tensor
    squares: Tensor
    observed: Tensor
    residual: Tensor
    covariance: Tensor
    unit: Tensor

    @classmethod
    def of(cls, mean_model: Any, outcomes: RepeatedOutcomes, resolution: Tensor) -> ReadingEvidence:
        r"""Read the process of the mean as it is; `resolution` replaces a sample variance of 0."""
        counts = outcomes.counts.clamp_min(1)
        squares = (counts - 1) * torch.maximum(outcomes.variances.nan_to_num(nan=0.0), resolution)
        mean, covariance = prior_of(mean_model)
        return cls(
            counts=counts.squeeze(-1),
            squares=squares.squeeze(-1),
            observed=(outcomes.counts > 0).squeeze(-1),
            residual=mean_model.train_targets - mean,
            covariance=covariance,
            unit=fixed_noise.transform_variance(mean_model, torch.ones_like(resolution)).squeeze(
                -1
            ),
        )

    def observations(self, h: Tensor) -> tuple[Tensor, Tensor]:
        r"""Gaussian observations of the log noise variances `h` that replace the likelihood.

        Returns observations and their variances, `batch_shape x n` each.
        """
        noise = (self.unit * h.exp() / self.counts).where(
            self.observed, worthless(self.covariance.diagonal(dim1=-2, dim2=-1))
        )
        precision = torch.linalg.inv(self.covariance + torch.diag_embed(noise))
        free = noise * precision.diagonal(dim1=-2, dim2=-1)  # 1 - leverage
        weights = (precision @ self.residual.unsqueeze(-1)).squeeze(-1)
        within = self.squares * (-h).exp() - (self.counts - 1)
        slope = (within + noise * weights.square() - free) / 2
        weight = (self.counts - 1 + free.square()) / 2
        informs = self.observed & (weight > 0)
        weight = weight.where(informs, torch.ones_like(weight))
        targets = h + (slope / weight).where(informs, torch.zeros_like(slope))
        return targets, (1 / weight).where(informs, worthless(h))


@torch.no_grad()
def observations_at_mode(
    evidence: ReadingEvidence, mean: Tensor, covariance: Tensor
) -> tuple[Tensor, Tensor]:
    r"""The observations at the mode of the log noise variances, by Fisher scoring.

    `mean` and `covariance` are the prior of the log noise variances. The scoring starts at the
    prior mean, so that the result is a function of the data and of the hyperparameters of both
    processes.
    """
    h, tolerance = mean, torch.finfo(mean.dtype).eps ** 0.5
    for _ in range(_NUM_ITERATIONS):
        targets, noise = evidence.observations(h)
        gain = torch.linalg.solve(
            covariance + torch.diag_embed(noise), (targets - mean).unsqueeze(-1)
        )
        step = (mean + (covariance @ gain).squeeze(-1) - h).clamp(-MAX_STEP, MAX_STEP)
        h = h + step
        if bool((step.abs() < tolerance).all()):
            break
    return evidence.observations(h)


@torch.no_grad()
def prior_of(model: Any) -> tuple[Tensor, Tensor]:
    r"""Prior mean and covariance of a process at its training inputs, in its own units."""
    model.train()  # training inputs as they were given
    X = model.transform_inputs(model.train_inputs[0])
    return model.mean_module(X), model.covar_module(X).to_dense()
