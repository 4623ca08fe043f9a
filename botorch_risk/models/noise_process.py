r"""The noise variance as a function of the inputs: its interface, and a known function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from botorch.models.deterministic import GenericDeterministicModel
from botorch.models.utils.assorted import fantasize
from botorch.posteriors import Posterior
from torch import Tensor
from torch.nn import Module

from botorch_risk.arguments import check_positive
from botorch_risk.engine import Belief, FitResult, NotInClosedFormError, SampledHyperparameters
from botorch_risk.models.fixed_noise import is_one_to_many
from botorch_risk.models.repeats import WORTHLESS, RepeatedOutcomes, describe_first


@dataclass(frozen=True)
class NoiseLimits:
    r"""Known bounds of the noise variance of one repeat, > 0, or `None`."""

    floor: float | None = None
    ceiling: float | None = None

    def __post_init__(self) -> None:
        for name, limit in (("min", self.floor), ("max", self.ceiling)):
            if limit is not None:
                check_positive(**{f"{name}_noise_variance": limit})
        if self.floor is not None and self.ceiling is not None and self.floor > self.ceiling:
            raise ValueError(
                "Expected `min_noise_variance` <= `max_noise_variance`. "
                f"Got {self.floor} > {self.ceiling}."
            )

    def apply(self, variance: Tensor) -> Tensor:
        if self.floor is None and self.ceiling is None:
            return variance
        return variance.clamp(min=self.floor, max=self.ceiling)


class NoiseProcess(Module, ABC):
    r"""The noise variance of one repeat as a function of the inputs, in squared outcome units.

    If the noise is learnt, `model` is on the scale of the link; `marginals` is its marginal
    predictor.
    """

    model: Any
    limits: NoiseLimits
    marginals: Belief

    @abstractmethod
    def posterior(self, X: Tensor) -> Posterior:
        r"""The posterior of the variance at `batch_shape x q x d` inputs."""

    @abstractmethod
    def expected(self, X: Tensor) -> Tensor:
        r"""The posterior mean of the variance, `batch_shape x m`, without limits."""

    @abstractmethod
    def on_outcome_scale(self, values: Tensor) -> Tensor:
        r"""Variances from values of `model`, which are on the scale of the link."""

    @abstractmethod
    def on_outcome_scale_with_slope(self, values: Any) -> tuple[Any, Any]:
        r"""`on_outcome_scale` and its derivative, of a tensor or an array."""

    @abstractmethod
    def bounds(self, X: Tensor, beta: float | Tensor) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bound of the variance, `batch_shape x m` each (Eqs. 14, 15)."""

    @abstractmethod
    def fit(self, fit_model: Callable[[Any], bool]) -> bool:
        r"""Fit the process if possible, and return whether that succeeded."""

    def renew(self, train_X: Tensor, outcomes: RepeatedOutcomes) -> bool:
        r"""Give the process other data and its first hyperparameters; return whether it worked."""
        return False

    @abstractmethod
    def conditioned(self, X: Tensor, counts: Tensor, variances: Tensor | None) -> NoiseProcess:
        r"""Condition on sample variances, or on the process's own mean if there are none."""

    @abstractmethod
    def bounds_after_repeats(
        self, X: Tensor, beta: float | Tensor, counts: Tensor
    ) -> tuple[Tensor, Tensor]:
        r"""The bounds at each point after `counts` further repeats with expected results.

        The points `batch_shape x m x d` do not interact. The counts broadcast to `batch_shape x m`.
        """

    @abstractmethod
    def bounds_in_sequence(
        self, X: Tensor, beta: float | Tensor | None, counts: Tensor
    ) -> tuple[Tensor, Tensor]:
        r"""The bounds at each of `batch_shape x q x d` points after repeats at those before it.

        The repeats are assumed to have expected results. `beta = None` returns the expected
        variance, twice.
        """

    @property
    def is_known(self) -> bool:
        r"""Whether nothing is learnt about the noise."""
        return False

    @property
    def fits_with_mean(self) -> bool:
        r"""Whether both processes are fitted at once."""
        return False

    def fit_with_mean(
        self, mean_model: Any, outcomes: RepeatedOutcomes, **options: Any
    ) -> FitResult:
        r"""Fit both processes at once; raises NotInClosedFormError if that cannot be done."""
        raise NotInClosedFormError("a noise process that is fitted by itself")

    def sample_with_mean(
        self, mean_model: Any, outcomes: RepeatedOutcomes, **options: Any
    ) -> SampledHyperparameters:
        r"""Sample the hyperparameters of both processes at once, from the same evidence."""
        raise NotInClosedFormError("noise that is learnt from the spread of repeats alone")

    @property
    def num_alternations(self) -> int:
        r"""The number of refits of both processes, since each is evidence for the other."""
        return 0

    def observe_readings(self, mean_model: Any, outcomes: RepeatedOutcomes) -> None:
        r"""Use the residuals from the mean as evidence, if the process learns from them."""
        return None

    @torch.no_grad()
    def of_rows(self, X: Tensor, outcomes: RepeatedOutcomes, beta: float) -> tuple[Tensor, Tensor]:
        r"""Eq. (16) at all training points, or the given noise if it is known.

        Returns `batch_shape x n x 1` variances of the means, huge for rows without an outcome, and
        whether the noise of one repeat is positive, in the same shape.
        """
        observed = outcomes.counts > 0
        upper = outcomes.variances if outcomes.known_variances else self.upper(X, beta)
        upper = upper.where(observed, torch.ones_like(upper))
        # Relative to the size of the outcomes: an absolute number has weight in large units.
        spread = outcomes.means.square().mean(dim=-2, keepdim=True)
        variances = (upper / outcomes.counts.clamp_min(1)).where(observed, WORTHLESS * (1 + spread))
        return variances, upper > 0

    def upper(self, X: Tensor, beta: float | Tensor) -> Tensor:
        r"""The upper bound within the limits, `batch_shape x m x 1` (Eq. 16, before `1 / k`)."""
        with fantasize():  # at X itself, where an input transform would make several inputs of it
            bound = self.bounds(X, beta)[1].unsqueeze(-1)
        return self.limits.apply(bound)

    def predicted(self, X: Tensor) -> Tensor:
        r"""The posterior mean within the limits and at least 0, `batch_shape x m x 1`.

        If an input transform expands an input to several, each of these has a value.
        """
        if is_one_to_many(self.model):
            posterior: Any = self.posterior(X)
            expected = posterior.mean
        else:
            expected = self.expected(X).unsqueeze(-1)
        # On the identity scale the process may predict a negative variance.
        return self.limits.apply(expected).clamp_min(0.0)

    def of_means(self, X: Tensor, counts: Tensor | int, beta: float) -> Tensor:
        r"""Eq. (16) at further points: the upper bound divided by the number of repeats.

        Raises:
            ValueError: If the upper bound is not positive and `min_noise_variance` is not set.
        """
        noise = self.upper(X, beta)
        if not (noise > 0).all():
            raise ValueError(
                "Expected a positive upper bound of the noise variance at every point. Got "
                f"{noise.min().item():.3g}; fit the model, set `min_noise_variance`, or use the "
                "log link."
            )
        return noise / counts

    def load(self, state_dict: Mapping[str, Any], **options: Any) -> None:
        self.load_state_dict(state_dict, strict=options["strict"], assign=options["assign"])


def checked_noise(variance: Callable[[Tensor], Tensor], X: Tensor) -> Callable[[Tensor], Tensor]:
    r"""The values of a known noise at inputs `batch_shape x n x d`, checked: finite and >= 0."""
    found = variance(X)
    shape = found.shape if isinstance(found, Tensor) else None
    if shape != (*X.shape[:-1], 1):
        raise BotorchTensorDimensionError(
            f"Expected `known_noise` of shape {(*X.shape[:-1], 1)} at inputs {tuple(X.shape)}. "
            f"Got {type(found).__name__ if shape is None else tuple(shape)}."
        )
    wrong = ~(found.isfinite() & (found >= 0))
    if wrong.any():
        raise InputDataError(
            "Expected finite variances >= 0 of `known_noise`. "
            f"Got {found[wrong][0].item():g} in {describe_first(wrong)}."
        )
    return variance


class KnownNoise(NoiseProcess):
    r"""A noise variance that is a known function `... x d -> ... x 1` (Eq. 9)."""

    def __init__(self, variance: Callable[[Tensor], Tensor], limits: NoiseLimits) -> None:
        super().__init__()
        self.model = GenericDeterministicModel(variance)
        self.limits = limits
        self.marginals = Belief(self.model)

    @property
    def is_known(self) -> bool:
        return True

    def posterior(self, X: Tensor) -> Posterior:
        return self.model.posterior(X)

    def expected(self, X: Tensor) -> Tensor:
        return self.marginals(X).mean

    def on_outcome_scale(self, values: Tensor) -> Tensor:
        return values

    def on_outcome_scale_with_slope(self, values: Any) -> tuple[Any, Any]:
        return values, 0 * values + 1

    def bounds(self, X: Tensor, beta: float | Tensor) -> tuple[Tensor, Tensor]:
        variance = self.expected(X)
        return variance, variance

    def bounds_after_repeats(
        self, X: Tensor, beta: float | Tensor, counts: Tensor
    ) -> tuple[Tensor, Tensor]:
        return self.bounds(X, beta)

    def bounds_in_sequence(
        self, X: Tensor, beta: float | Tensor | None, counts: Tensor
    ) -> tuple[Tensor, Tensor]:
        variance = self.expected(X)  # nothing is left to learn
        return variance, variance

    def fit(self, fit_model: Callable[[Any], bool]) -> bool:
        return True

    def conditioned(self, X: Tensor, counts: Tensor, variances: Tensor | None) -> KnownNoise:
        return self
