r"""Further observations, pending points and fantasies of a mean-variance model."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import torch
from botorch.models.model import FantasizeMixin
from botorch.models.utils.assorted import fantasize
from botorch.sampling.base import MCSampler
from torch import Tensor

from botorch_risk.models.fixed_noise import condition, raised, transform_variance
from botorch_risk.models.noise_process import NoiseProcess
from botorch_risk.models.predictions import MeanVariancePredictions


class MeanVarianceConditioning(MeanVariancePredictions, FantasizeMixin):  # type: ignore[misc]
    r"""Conditions a mean-variance model without another fit."""

    @abstractmethod
    def _with_processes(self, mean_model: Any, noise: NoiseProcess) -> Self:
        r"""A model of the same training data with conditioned processes."""

    def condition_on_observations(
        self,
        X: Tensor,
        Y: Tensor,
        num_repeats: int | Tensor | None = None,
        variances: Tensor | None = None,
        noise: Tensor | None = None,
        **kwargs: Any,
    ) -> Self:
        r"""Adds means of repeats without another fit.

        The noise of the rows that are already there stays as it is (it can only be too
        cautious): Eq. (16) is evaluated again when the model is built from all data.

        Args:
            X: `batch_shape x n' x d` inputs.
            Y: `... x n' x 1` means of repeats.
            num_repeats: The number of repeats behind each mean, one for all or broadcastable to
                `... x n' x 1`; `self.num_repeats` if omitted.
            variances: `... x n' x 1` sample variances. If given, the noise process learns too,
                from the rows with at least two repeats.
            noise: `... x n' x 1` variances of the means in the units of the transformed outcome,
                as BoTorch passes them when it fantasizes; Eq. (16) if omitted.
            kwargs: Passed on to the mean process.
        """
        self._require_noise()
        counts = self._counts(num_repeats, X)
        if noise is None:
            noise = transform_variance(self.mean_model, self.noise_of_means(X, counts))
        noise = raised(noise)
        process = self.noise
        if variances is not None:
            process = self.noise.conditioned(X, counts.expand_as(variances), variances)
        mean_model = condition(self.mean_model, X, Y, noise=noise, **kwargs)
        return self._with_processes(mean_model, process)

    def condition_on_pending(self, X: Tensor, num_repeats: int | Tensor | None = None) -> Self:
        r"""Conditions both processes on their own means at points under evaluation.

        Means stay where they are and standard deviations shrink: the hallucinated
        observations of batch UCB.

        Args:
            X: `batch_shape x n' x d` pending points.
            num_repeats: Repeats at each of them; `self.num_repeats` if omitted.
        """
        counts = self._counts(num_repeats, X)
        with torch.no_grad():
            repeated = bool((counts > 1).any())
            process = self.noise.conditioned(X, counts, None) if repeated else self.noise
            conditioned = self.condition_on_observations(X, self.posterior(X).mean, counts)
        return conditioned._with_processes(conditioned.mean_model, process)

    def fantasize(
        self,
        X: Tensor,
        sampler: MCSampler,
        observation_noise: Tensor | None = None,
        num_repeats: int | Tensor | None = None,
        **kwargs: Any,
    ) -> Self:
        r"""Conditions the mean process on samples of means of repeats at X.

        Args:
            X: `batch_shape x n' x d` inputs.
            sampler: Draws the means from the posterior.
            observation_noise: `batch_shape x n' x 1` variances of the means in the units of the
                transformed outcome; the predicted noise at X over `num_repeats` if omitted.
            num_repeats: Repeats of each fantasy; `self.num_repeats` if omitted.
            kwargs: Passed on to `condition_on_observations`.
        """
        if observation_noise is None:
            if X.shape[-2] == 0:
                observation_noise = X.new_ones(*self.batch_shape, 1, 1)
            else:
                with fantasize():
                    noise = self.predicted_noise(X) / self._counts(num_repeats, X)
                observation_noise = transform_variance(self.mean_model, noise)
        return super().fantasize(X, sampler, observation_noise=observation_noise, **kwargs)

    def _counts(self, num_repeats: int | Tensor | None, X: Tensor) -> Tensor:
        r"""Numbers of repeats, `self.num_repeats` if omitted; refuses less than one."""
        counts = torch.as_tensor(self.num_repeats if num_repeats is None else num_repeats).to(X)
        if not bool((counts >= 1).all()):
            raise ValueError(f"Expected `num_repeats` >= 1. Got {num_repeats}.")
        return counts
