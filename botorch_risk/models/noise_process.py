r"""What is known about the noise variance: a function, or a Gaussian process on repeats."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from botorch.exceptions.errors import InputDataError, UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.deterministic import GenericDeterministicModel
from botorch.models.transforms.input import InputTransform
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from botorch.posteriors import Posterior
from gpytorch.kernels import Kernel
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor
from torch.nn import Module

from botorch_risk.models.fixed_noise import (
    condition,
    load_process,
    register_fixed_noise,
    set_fixed_noise,
    transform_variance,
)
from botorch_risk.models.noise_observations import NoiseObservations, worthless
from botorch_risk.models.repeats import RepeatedOutcomes
from botorch_risk.models.variance_links import LINKS, LogLink
from botorch_risk.posterior.marginals import MarginalPredictor, root_of_beta


@dataclass(frozen=True)
class NoiseLimits:
    r"""Bounds that the noise variance of one repeat is known to respect.

    Attributes:
        floor: Lower limit, > 0, or `None`.
        ceiling: Upper limit, > 0, or `None`.
    """

    floor: float | None = None
    ceiling: float | None = None

    def __post_init__(self) -> None:
        for name, limit in (("min", self.floor), ("max", self.ceiling)):
            if limit is not None and not 0 < limit < float("inf"):
                raise ValueError(f"Expected `{name}_noise_variance` > 0 and finite. Got {limit}.")
        if self.floor is not None and self.ceiling is not None and self.floor > self.ceiling:
            raise ValueError(
                "Expected `min_noise_variance` <= `max_noise_variance`. "
                f"Got {self.floor} > {self.ceiling}."
            )

    def apply(self, variance: Tensor) -> Tensor:
        r"""The variance brought within the limits."""
        if self.floor is None and self.ceiling is None:
            return variance
        return variance.clamp(min=self.floor, max=self.ceiling)


class NoiseProcess(Module, ABC):
    r"""The noise variance of one repeat as a function of the inputs, in squared outcome units.

    Attributes:
        model: The model behind it; on the scale of the link where the noise is learnt.
        limits: The limits of the variance.
        marginals: The marginal predictor of `model`.
    """

    model: Any
    limits: NoiseLimits
    marginals: MarginalPredictor

    @abstractmethod
    def posterior(self, X: Tensor) -> Posterior:
        r"""The posterior of the variance at `batch_shape x q x d` inputs."""

    @abstractmethod
    def expected(self, X: Tensor) -> Tensor:
        r"""The posterior mean of the variance, `batch_shape x m`, without limits."""

    @abstractmethod
    def bounds(self, X: Tensor, beta: float | Tensor) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bound of the variance, `batch_shape x m` each (Eqs. 14, 15)."""

    @abstractmethod
    def fit(self, fit_model: Callable[[Any], bool]) -> bool:
        r"""Fits what is to be fitted; whether that succeeded."""

    @abstractmethod
    def conditioned(self, X: Tensor, counts: Tensor, variances: Tensor | None) -> NoiseProcess:
        r"""Conditioned on sample variances, or on its own mean where none are given."""

    @abstractmethod
    def bounds_after_repeats(
        self, X: Tensor, beta: float | Tensor, counts: Tensor
    ) -> tuple[Tensor, Tensor]:
        r"""The bounds at each point, had it been repeated and come out as expected.

        Args:
            X: `batch_shape x m x d` points that do not interact.
            beta: Squared width of the bounds.
            counts: Numbers of repeats, broadcastable to `batch_shape x m`.
        """

    @abstractmethod
    def bounds_in_sequence(
        self, X: Tensor, beta: float | Tensor | None, counts: Tensor
    ) -> tuple[Tensor, Tensor]:
        r"""The bounds at each point, had those before it been repeated and come out as expected.

        Args:
            X: `batch_shape x q x d` points, in the order in which they are looked at.
            beta: Squared width of the bounds; `None` for the expected variance, twice.
            counts: Numbers of repeats, broadcastable to `batch_shape x q`.
        """

    def load(self, state_dict: Mapping[str, Any], **options: Any) -> None:
        r"""Loads the state of a process of the same structure."""
        self.load_state_dict(state_dict, strict=options["strict"], assign=options["assign"])


class KnownNoise(NoiseProcess):
    r"""The noise variance is a known function (Eq. 9)."""

    def __init__(self, variance: Callable[[Tensor], Tensor], limits: NoiseLimits) -> None:
        r"""Wraps the function `... x d -> ... x 1`."""
        super().__init__()
        self.model = GenericDeterministicModel(variance)
        self.limits = limits
        self.marginals = MarginalPredictor(self.model)

    def posterior(self, X: Tensor) -> Posterior:  # noqa: D102
        return self.model.posterior(X)

    def expected(self, X: Tensor) -> Tensor:  # noqa: D102
        return self.marginals(X).mean

    def bounds(self, X: Tensor, beta: float | Tensor) -> tuple[Tensor, Tensor]:  # noqa: D102
        variance = self.expected(X)
        return variance, variance

    def bounds_after_repeats(  # noqa: D102
        self, X: Tensor, beta: float | Tensor, counts: Tensor
    ) -> tuple[Tensor, Tensor]:
        return self.bounds(X, beta)

    def bounds_in_sequence(  # noqa: D102
        self, X: Tensor, beta: float | Tensor | None, counts: Tensor
    ) -> tuple[Tensor, Tensor]:
        variance = self.expected(X)  # nothing is left to learn
        return variance, variance

    def fit(self, fit_model: Callable[[Any], bool]) -> bool:  # noqa: D102
        return True

    def conditioned(  # noqa: D102
        self, X: Tensor, counts: Tensor, variances: Tensor | None
    ) -> KnownNoise:
        return self


class LearntNoise(NoiseProcess):
    r"""A Gaussian process on the sample variances of repeats (Eqs. 13-15, 32-33).

    Where noise levels came with the readings the process interpolates them, with a noise of its
    own that is learnt.
    """

    counts: Tensor
    resolution: Tensor

    def __init__(
        self,
        train_X: Tensor,
        outcomes: RepeatedOutcomes,
        limits: NoiseLimits,
        link: str = "log",
        sample_noise: str | None = None,
        beta: float = 4.0,
        covar_module: Kernel | None = None,
        input_transform: InputTransform | None = None,
    ) -> None:
        r"""Builds the process on the rows that have repeats.

        In a batch a row is kept if any replicate has repeats there; where a replicate has
        none, its entry gets a noise that makes it worthless. The arguments are those of
        `MeanVarianceGP`.
        """
        super().__init__()
        self.limits, self.beta = limits, beta
        self.link, self.sample_noise = _choose(link, sample_noise, limits)
        data = NoiseObservations.of(train_X, outcomes, limits.floor)
        self.register_buffer("counts", data.counts, persistent=False)
        self.register_buffer("resolution", data.resolution, persistent=False)
        if outcomes.known_variances:
            self.sample_noise = "given"
            targets, noise, sets_scale = self.link.apply(data.variances), None, data.informs
        else:
            noise = self._observation_noise(data.typical.expand_as(data.counts), data.counts)
            targets, noise, sets_scale = data.on(self.link, noise)
        if noise is None and not bool(data.informs.all()):
            raise UnsupportedError(
                "Expected repeats in the same rows of every replicate where one noise level of "
                "the sample variances is inferred. Use the log link, or another noise."
            )
        self.model = SingleTaskGP(
            data.X,
            targets,
            train_Yvar=None if noise is None else 1 + targets.square(),  # set below
            covar_module=covar_module
            or get_covar_module_with_dim_scaled_prior(
                ard_num_dims=train_X.shape[-1], batch_shape=train_X.shape[:-2]
            ),
            outcome_transform=self.link.outcome_transform(sets_scale, noise, data.resolution),
            input_transform=input_transform,
        )
        if noise is not None:
            register_fixed_noise(self.model)
            set_fixed_noise(self.model, noise)
        self.marginals = MarginalPredictor(self.model)

    def posterior(self, X: Tensor) -> Posterior:  # noqa: D102
        return self.link.posterior(self.model.posterior(X))

    def expected(self, X: Tensor) -> Tensor:  # noqa: D102
        return self.link.mean(*self.marginals(X))

    def bounds(self, X: Tensor, beta: float | Tensor) -> tuple[Tensor, Tensor]:  # noqa: D102
        return self._quantiles(*self.marginals(X), beta)

    def bounds_after_repeats(  # noqa: D102
        self, X: Tensor, beta: float | Tensor, counts: Tensor
    ) -> tuple[Tensor, Tensor]:
        mean, variance = self.marginals(X)
        noise = self._noise_of_repeats(X, counts)
        # Conditioning on one observation at the point itself: 1 / (1 / variance + 1 / noise).
        after = (variance * noise / (variance + noise)).where(counts > 1, variance)
        return self._quantiles(mean, after, beta)

    def bounds_in_sequence(  # noqa: D102
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

    def fit(self, fit_model: Callable[[Any], bool]) -> bool:  # noqa: D102
        fitted = fit_model(self.model)
        if self.sample_noise != "pointwise":
            return fitted
        self.refresh_pointwise_noise()
        return fit_model(self.model)

    def refresh_pointwise_noise(self) -> None:
        r"""The noise of each sample variance from the newest upper bound at its point."""
        self.model.train()  # training inputs as they were given
        X = self.model.train_inputs[0]
        with torch.no_grad():
            upper = self.limits.apply(self.bounds(X, self.beta)[1].unsqueeze(-1))
            noise = self._observation_noise(upper, self.counts)
        if noise is not None:
            set_fixed_noise(self.model, noise)

    def conditioned(  # noqa: D102
        self, X: Tensor, counts: Tensor, variances: Tensor | None
    ) -> LearntNoise:
        upper = self.limits.apply(self.bounds(X, self.beta)[1].unsqueeze(-1))
        noise = self._observation_noise(upper, counts.expand_as(upper))
        targets = self.model.posterior(X).mean
        if variances is not None:
            targets, noise = self._observe(variances, counts.expand_as(variances), targets, noise)
        options = {} if noise is None else {"noise": transform_variance(self.model, noise)}
        process = copy.copy(self)
        process._buffers = dict(self._buffers)
        process._modules = {"model": condition(self.model, X, targets, **options)}
        process.marginals = MarginalPredictor(process.model)
        return process

    def load(self, state_dict: Mapping[str, Any], **options: Any) -> None:  # noqa: D102
        state = {key.removeprefix("model."): value for key, value in state_dict.items()}
        load_process(self.model, state, **options)
        if self.sample_noise == "pointwise":
            saved = state["likelihood.noise_covar.noise"]
            if saved.shape == self.model.likelihood.noise_covar.noise.shape:
                self.model.likelihood.noise_covar.noise = saved.clone()
            else:
                self.refresh_pointwise_noise()

    def _quantiles(
        self, mean: Tensor, variance: Tensor, beta: float | Tensor
    ) -> tuple[Tensor, Tensor]:
        width = variance.sqrt() * root_of_beta(beta, mean, self.model.batch_shape)
        return self.link.inverse(mean - width), self.link.inverse(mean + width)

    def _observe(
        self, variances: Tensor, counts: Tensor, expected: Tensor, noise: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        r"""Observations from sample variances; what is expected where there is but one repeat."""
        repeated = counts > 1
        if self.sample_noise == "given":
            raise UnsupportedError(
                "Expected no `variances` where noise levels came with the readings: build the "
                "model again from all readings. Got variances."
            )
        if noise is None and not bool(repeated.all()):
            raise UnsupportedError(
                "Expected at least two repeats in every row where one noise level of the sample "
                f"variances is inferred. Got {counts.min().item():.0f}."
            )
        if not bool((~repeated | (variances.isfinite() & (variances >= 0))).all()):
            raise InputDataError(
                f"Expected finite `variances` >= 0. Got {variances.flatten().tolist()}."
            )
        counts = counts.clamp_min(2)
        censored = repeated & (variances == 0) & isinstance(self.link, LogLink)
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
        r"""The variance of what repeats at X would tell about the noise, `batch_shape x m`."""
        upper = self.limits.apply(self.bounds(X, self.beta)[1])
        noise = self._observation_noise(upper, counts.expand_as(upper))
        if noise is not None:
            return noise
        level = self.model.likelihood.noise.unsqueeze(-1)
        return (level / transform_variance(self.model, torch.ones_like(level))).squeeze(-1)

    def _observation_noise(self, variances: Tensor, counts: Tensor) -> Tensor | None:
        r"""Known noise of the linked sample variances; `None` where it is inferred."""
        if self.sample_noise in ("inferred", "given"):
            return None
        if self.sample_noise == "bound":
            variances = torch.full_like(variances, float(self.limits.ceiling or 0.0))
        # At least two repeats here, lest the entries that are not used have no gradient.
        noise = self.link.observation_noise(variances, counts.clamp_min(2))
        return noise.where(counts > 1, worthless(variances))


def variances_in_sequence(covariance: Tensor, noise: Tensor) -> Tensor:
    r"""The variance of each point once those before it were observed.

    Args:
        covariance: `batch_shape x q x q` covariance of the points.
        noise: `batch_shape x q` variances of their observations, > 0.

    Returns:
        `batch_shape x q` variances.
    """
    noise = noise.expand(covariance.shape[:-1])
    # The squared pivot of a point is its variance given those before it, with its own noise.
    factor = psd_safe_cholesky(covariance + torch.diag_embed(noise))
    pivots = factor.diagonal(dim1=-2, dim2=-1).square()
    return (pivots - noise).clamp_min(torch.finfo(noise.dtype).tiny)


def _choose(link: str, sample_noise: str | None, limits: NoiseLimits) -> tuple[Any, str | None]:
    r"""The link and the noise of the sample variances, checked."""
    if link not in LINKS:
        raise ValueError(f"Expected `variance_link` in {sorted(LINKS)}. Got {link!r}.")
    if link == "log":
        if sample_noise is not None:
            raise ValueError(
                "Expected no `sample_variance_noise` with the log link, where it is known. "
                f"Got {sample_noise!r}."
            )
        return LINKS[link], None
    choices = ("inferred", "bound", "pointwise")
    sample_noise = sample_noise or "inferred"
    if sample_noise not in choices:
        raise ValueError(f"Expected `sample_variance_noise` in {choices}. Got {sample_noise!r}.")
    if sample_noise == "bound" and limits.ceiling is None:
        raise ValueError(
            "Expected `max_noise_variance` where `sample_variance_noise='bound'`. Got None."
        )
    return LINKS[link], sample_noise
