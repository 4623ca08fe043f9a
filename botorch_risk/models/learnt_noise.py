r"""Learn the noise variance as a Gaussian process on sample variances, or on all readings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from botorch.exceptions.errors import InputDataError
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import InputTransform
from botorch.posteriors import Posterior
from gpytorch.kernels import Kernel
from gpytorch.means import ConstantMean
from gpytorch.priors import NormalPrior
from torch import Tensor

from botorch_risk.arguments import first_wrong
from botorch_risk.engine import Belief, FitResult, SampledHyperparameters
from botorch_risk.gradients import condition
from botorch_risk.matrices import variances_in_sequence
from botorch_risk.models import fixed_noise
from botorch_risk.models.laplace_evidence import Mode, Readings
from botorch_risk.models.mean_and_noise import ReadingStatistics, fit_mean_and_noise
from botorch_risk.models.mean_and_noise_samples import sample_mean_and_noise
from botorch_risk.models.noise_at_mode import mode_of_readings, observations_at_mode
from botorch_risk.models.noise_evidence import check_evidence, observations_of
from botorch_risk.models.noise_observations import NoiseObservations, SampleVariances
from botorch_risk.models.noise_process import NoiseLimits, NoiseProcess
from botorch_risk.models.renewed import has_room, remember_beginning
from botorch_risk.models.repeats import RepeatedOutcomes
from botorch_risk.points import root_of_beta

# How often both processes are fitted again, one after the other, if not both at once.
NUM_ALTERNATIONS = 1
# The prior standard deviation of the level of the log noise variance.
LEVEL_DEVIATION = 2.0


class LearntNoise(NoiseProcess):
    r"""A Gaussian process on sample variances (Eqs. 13-15, 32-33), or on all readings.

    All readings act like Gaussian observations at its mode: see `models/laplace_evidence.py`. If
    noise levels came with the readings, the process interpolates them with a learnt noise of its
    own.

    Attributes:
        sampling: The observation model of sample variances.
        beta: Squared width of the upper bound of the noise that later sample variances get.
        counts: `batch_shape x n x 1` numbers of repeats of the rows.
        resolution: `batch_shape x 1 x 1`, the smallest sample variance that the data resolve.
        evidence: `"spread"` for the spread of repeats, or `"readings"` for all readings.
        is_tied: Whether the prior of the noise's lengthscales follows the mean's.
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
        is_tied: bool = False,
    ) -> None:
        super().__init__()
        self.model, self.marginals = model, Belief(model)
        self.sampling, self.limits, self.beta = sampling, limits, beta
        self.evidence, self.is_tied = evidence, is_tied
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

        In a batch a row is kept if any replicate has repeats there. If a replicate has none there,
        its entry gets so much noise that it has no weight.
        """
        sampling = SampleVariances.choose(link, sample_noise, limits.ceiling)
        check_evidence(evidence, link, outcomes)
        if outcomes.known_variances:
            sampling = sampling.of_given_levels()
        data = NoiseObservations.of(train_X, outcomes, limits.floor, evidence == "readings")
        targets, noise, scale = observations_of(sampling, data, outcomes, evidence)
        options: dict[str, Any] = {"input_transform": input_transform, "outcome_transform": scale}
        default_kernel = fixed_noise.spread_kernel
        if evidence == "readings":
            options["mean_module"] = ConstantMean(
                constant_prior=NormalPrior(0.0, LEVEL_DEVIATION), batch_shape=data.X.shape[:-2]
            )
            default_kernel = fixed_noise.noise_kernel
        options["covar_module"] = covar_module or default_kernel(data.X, input_transform)
        if noise is None:
            model = SingleTaskGP(data.X, targets, **options)
        else:
            model = fixed_noise.fixed_noise_gp(data.X, targets, noise, **options)
            remember_beginning(model)
        tied = covar_module is None
        return cls(model, sampling, limits, beta, data.counts, data.resolution, evidence, tied)

    def renew(self, train_X: Tensor, outcomes: RepeatedOutcomes) -> bool:
        r"""Give the process other data of the same kind, in place; return whether it was possible.

        The hyperparameters are those that it was built with.
        """
        is_given = self.sampling.noise_kind == "given"
        # Their noise is a learnt parameter, for which `renew_fixed_noise_gp` has no place.
        if is_given or outcomes.known_variances or self.sampling.noise_kind == "inferred":
            return False
        every_row = self.evidence == "readings"
        data = NoiseObservations.of(train_X, outcomes, self.limits.floor, every_row)
        if not has_room(self.model, data.X):
            return False
        targets, noise, scale = observations_of(self.sampling, data, outcomes, self.evidence)
        fixed_noise.renew_fixed_noise_gp(self.model, data.X, targets, noise, scale)
        self.counts, self.resolution = data.counts, data.resolution
        return True

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

    def on_outcome_scale_with_slope(self, values: Any) -> tuple[Any, Any]:
        found: tuple[Any, Any] = self.link.inverse_and_slope(values)
        return found

    def bounds(self, X: Tensor, beta: float | Tensor) -> tuple[Tensor, Tensor]:
        return self._quantiles(*self.marginals(X), beta)

    def bounds_after_repeats(
        self, X: Tensor, beta: float | Tensor, counts: Tensor
    ) -> tuple[Tensor, Tensor]:
        mean, variance = self.marginals(X)
        # Expected results do not move the mean of the process, so only its variance shrinks.
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
            # One reading has no sample variance, from which later points could learn.
            variance = after.where(counts > 1, variance)
        if beta is None:
            expected = self.link.mean(mean, variance)
            return expected, expected
        return self._quantiles(mean, variance, beta)

    def fit(self, fit_model: Callable[[Any], bool]) -> bool:
        fitted = fit_model(self.model)
        if not self.sampling.is_pointwise:
            return fitted
        # The noise of a sample variance follows the bound, which needs a fit: hence two fits.
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
    def fits_with_mean(self) -> bool:
        return self.evidence == "readings"

    @property
    def num_alternations(self) -> int:
        return NUM_ALTERNATIONS if self.evidence == "readings" else 0

    def fit_with_mean(
        self, mean_model: Any, outcomes: RepeatedOutcomes, **options: Any
    ) -> FitResult:
        if not self.fits_with_mean:
            return super().fit_with_mean(mean_model, outcomes, **options)
        given = self._statistics(mean_model, outcomes)
        return fit_mean_and_noise(mean_model, self.model, given, tied=self.is_tied, **options)

    def sample_with_mean(
        self, mean_model: Any, outcomes: RepeatedOutcomes, **options: Any
    ) -> SampledHyperparameters:
        if not self.fits_with_mean:
            return super().sample_with_mean(mean_model, outcomes, **options)
        given = self._statistics(mean_model, outcomes)
        return sample_mean_and_noise(mean_model, self.model, given, tied=self.is_tied, **options)

    def _statistics(self, mean_model: Any, outcomes: RepeatedOutcomes) -> ReadingStatistics:
        unit = self.unit_of(mean_model)
        # Repeats that are equal as rounded only show that their variance is below the resolution.
        within = torch.maximum(outcomes.variances.nan_to_num(nan=0.0), self.resolution)
        scale = self.model.outcome_transform
        return ReadingStatistics(
            counts=outcomes.counts.squeeze(-1),
            squares=((outcomes.counts - 1).clamp_min(0) * within * unit).squeeze(-1),
            level=(scale.means + unit.log()).flatten(-2).squeeze(-1),
            is_known=scale.is_known.flatten(-2).squeeze(-1),
        )

    def unit_of(self, mean_model: Any) -> Tensor:
        r"""An outcome variance of 1 in the units of the mean's targets, `... x 1 x 1`."""
        return fixed_noise.transform_variance(mean_model, torch.ones_like(self.resolution))

    @torch.no_grad()
    def at_mode(self, mean_model: Any, outcomes: RepeatedOutcomes) -> tuple[Mode, Tensor, Readings]:
        r"""The mode of the log noise variances given all readings; see `mode_of_readings`."""
        return mode_of_readings(self.model, mean_model, self._statistics(mean_model, outcomes))

    @torch.no_grad()
    def observe_readings(self, mean_model: Any, outcomes: RepeatedOutcomes) -> None:
        r"""Give the noise process observations equivalent to all readings at its mode."""
        if self.evidence != "readings":
            return
        given = self._statistics(mean_model, outcomes)
        targets, noise = observations_at_mode(self.model, mean_model, given)
        self.model.set_train_data(targets=targets.to(self.model.train_targets), strict=False)
        fixed_noise.set_fixed_noise(self.model, noise.unsqueeze(-1).to(self.model.train_targets))

    def conditioned(self, X: Tensor, counts: Tensor, variances: Tensor | None) -> LearntNoise:
        upper = self.limits.apply(self.bounds(X, self.beta)[1].unsqueeze(-1))
        noise = self.sampling.noise(upper, counts.expand_as(upper))
        targets = self.model.posterior(X).mean
        if variances is not None:
            targets, noise = self._observe(variances, counts.expand_as(variances), targets, noise)
        options = (
            {} if noise is None else {"noise": fixed_noise.transform_variance(self.model, noise)}
        )
        model = condition(self.model, X, targets, **options)
        process = LearntNoise(
            model,
            self.sampling,
            self.limits,
            self.beta,
            self.counts,
            self.resolution,
            self.evidence,
            self.is_tied,
        )
        process.training = self.training
        return process

    def load(self, state_dict: Mapping[str, Any], **options: Any) -> None:
        state = {key.removeprefix("model."): value for key, value in state_dict.items()}
        fixed_noise.load_process(self.model, state, **options)
        # Pointwise noise belongs to the hyperparameters before the last fit. Deriving it again from
        # the fitted ones would give another posterior.
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
        fits = ~repeated | (variances.isfinite() & (variances >= 0))
        if not bool(fits.all()):
            wrong = first_wrong(variances, fits)
            raise InputDataError(f"Expected finite `variances` >= 0. Got {wrong}.")
        # (k - 1) / 2 is 0 for a single reading, where digamma is infinite; its target is replaced.
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
