r"""A mean-variance model with samples of its hyperparameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from botorch.exceptions.errors import UnsupportedError
from torch import Tensor

from botorch_risk.arguments import check_arguments, check_counts
from botorch_risk.engine import NotInClosedFormError, SampledHyperparameters, sample_exact_gp
from botorch_risk.models.heteroscedastic import MeanVarianceGP
from botorch_risk.models.repeats import RepeatedOutcomes
from botorch_risk.models.scaled_gp import kernel_and_mean
from botorch_risk.points import checked_points, root_of_beta


class MeanVarianceSamples:
    r"""What samples of both processes' hyperparameters say about f and about the noise.

    A fit to few readings takes noise for variation of f, or the reverse, and is sure of it. Here
    both explanations have their share. With constant noise, the upper bound of two standard
    deviations is above the truth in 97 to 100 % of cases in six settings with one, two or three
    readings at each point; the fitted one is below it in up to 41 %
    (`bench/studies/coverage`). The mean has the priors of `scaled_gp`. Acquisition functions expect
    one fitted `MeanVarianceGP`.

    Args:
        train_X: `n x d` inputs in the unit cube, or `R x n x d` of replicates.
        train_Y: Readings as for a `MeanVarianceGP`, such as `n x k`.
        train_Yvar: The noise variance of each reading, in the form of `train_Y`, if it is known.
        num_samples: The number `S` of samples, at least two.
        seeds: One seed per replicate.
        previous: `sampled` of the samples for almost the same data: a warm start.
        options: Further arguments of `MeanVarianceGP`, such as `known_noise`.

    Attributes:
        model: The samples as one `MeanVarianceGP`, of batch shape `[S]` or `[S, R]`.
        sampled: The effective draws behind them.

    Raises:
        UnsupportedError: If the noise is learnt from other evidence than all readings.

    Example:
        >>> X = torch.linspace(0, 1, 12, dtype=torch.double).unsqueeze(-1)
        >>> samples = MeanVarianceSamples(X, (6 * X).sin() + 0.1 * (40 * X).cos())
        >>> lower, upper = samples.noise_confidence_bounds(X, beta=4.0)
        >>> lower.shape, bool((lower < upper).all())
        (torch.Size([12]), True)
    """

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor | Sequence[Tensor] | RepeatedOutcomes,
        train_Yvar: Tensor | Sequence[Tensor] | None = None,
        *,
        num_samples: int = 16,
        seeds: int | Sequence[int] = 0,
        previous: SampledHyperparameters | None = None,
        **options: Any,
    ) -> None:
        check_arguments(MeanVarianceSamples.__init__, locals())
        check_counts(2, num_samples=num_samples)
        one = MeanVarianceGP(train_X, train_Y, train_Yvar, **options)
        X, outcomes = one.train_X, one._outcomes
        for name in ("keep_copies", "trim"):  # `one` has done so
            options.pop(name, None)
        X = X.clone().expand(num_samples, *X.shape)
        modules = kernel_and_mean(X, options.get("input_transform"))
        self.model = MeanVarianceGP(X, outcomes.expand(num_samples), **{**modules, **options})
        try:
            self.sampled = sample_exact_gp(self.model, seeds=seeds, previous=previous)
        except NotInClosedFormError as error:
            raise UnsupportedError(
                f"Expected processes whose hyperparameters can be sampled. Got {error}."
            ) from error

    @property
    def batch_shape(self) -> torch.Size:
        r"""`[R]`, or `[]` without replicates."""
        return self.model.batch_shape[1:]

    def mean_marginals(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Mean and variance of f at `batch_shape x m x d` points, `batch_shape x m` each."""
        mean, variance = self.model.mean_marginals(self._points(X)).mixed(0)
        return mean, variance

    def predicted_noise(self, X: Tensor) -> Tensor:
        r"""The mean of the noise variance of one reading, within its limits, `... x m x 1`."""
        return self.model.predicted_noise(self._points(X)).mean(dim=0)

    def confidence_bounds(self, X: Tensor, beta: float | Tensor) -> tuple[Tensor, Tensor]:
        r"""Bounds of f, `mean -+ sqrt(beta) * standard deviation` of the mixture.

        Arguments and shapes are as in `MeanVarianceGP.confidence_bounds`.
        """
        mean, variance = self.mean_marginals(X)
        width = variance.sqrt() * root_of_beta(beta, mean, self.batch_shape)
        return mean - width, mean + width

    def noise_confidence_bounds(self, X: Tensor, beta: float | Tensor) -> tuple[Tensor, Tensor]:
        r"""Bounds of the noise variance of one reading, from the mixture for its logarithm."""
        noise = self.model.noise
        mean, variance = noise.marginals(self._points(X)).mixed(0)
        width = variance.sqrt() * root_of_beta(beta, mean, self.batch_shape)
        return noise.on_outcome_scale(mean - width), noise.on_outcome_scale(mean + width)

    def _points(self, X: Tensor) -> Tensor:
        X = checked_points(X, self.model)
        return X.expand(len(self.model.train_X), *X.shape)
