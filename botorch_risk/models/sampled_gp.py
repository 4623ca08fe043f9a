r"""A Gaussian process with samples of its hyperparameters, for BoTorch's acquisition functions."""

from __future__ import annotations

from typing import Any

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import InputTransform
from botorch.posteriors.fully_bayesian import MCMC_DIM, GaussianMixturePosterior
from gpytorch.mlls import ExactMarginalLogLikelihood, MarginalLogLikelihood
from torch import Tensor

from botorch_risk.arguments import as_floating, as_tensor, check_arguments, check_counts
from botorch_risk.engine import SampledHyperparameters, sample_exact_gp
from botorch_risk.models.outcome_scales import StandardDeviationScale
from botorch_risk.models.scaled_gp import kernel_and_mean
from botorch_risk.seeding import as_seeds


class SampledGP(SingleTaskGP):
    r"""A `scaled_gp` with samples of its hyperparameters instead of a fit, for any BoTorch loop.

    Its posterior is the mixture of the samples' posteriors, BoTorch's `GaussianMixturePosterior`
    with the samples in dimension -3: intervals know that the hyperparameters were learnt
    (`docs/coverage.md`). `fit_gpytorch_mll(mll)` draws the samples; a second call
    begins where the first one ended. Until then all members have the starting values.

    BoTorch's acquisition functions average over the samples: its `UpperConfidenceBound` is the
    average of `mean + sqrt(beta) * deviation`. The acquisition functions of this package use the
    moments of the mixture: the bound is `mixture_mean + sqrt(beta) * mixture_deviation`, which is
    never smaller; an expected risk is the average of the samples' expected risks. Fantasies are not
    supported, nor what needs them (`qKnowledgeGradient`), nor entropy searches and BoTorch's
    analytic noisy expected improvement, which expect one Gaussian.

    Args:
        train_X: `n x d` inputs, in the unit cube after the transform.
        train_Y: `n x 1` outcomes in any unit.
        train_Yvar: `n x 1` variances of the noise; None to learn one level.
        input_transform: Maps the inputs to the unit cube.
        num_samples: The number of samples, at least two.
        seed: Seed of the samples.
        nu: The smoothness of the kernel, as in `scaled_gp`.

    Example:
        >>> from botorch.acquisition import LogExpectedImprovement
        >>> from botorch.fit import fit_gpytorch_mll
        >>> X = torch.linspace(0, 1, 9, dtype=torch.double).unsqueeze(-1)
        >>> model = SampledGP(X, (6 * X).sin())
        >>> mll = fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        >>> model.posterior(X).mixture_mean.shape
        torch.Size([9, 1])
        >>> LogExpectedImprovement(model, best_f=0.9)(X.unsqueeze(-2)).shape
        torch.Size([9])
    """

    _is_ensemble = True
    _supports_batched_models = False

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        train_Yvar: Tensor | None = None,
        input_transform: InputTransform | None = None,
        *,
        num_samples: int = 16,
        seed: int = 0,
        nu: float = 2.5,
    ) -> None:
        check_arguments(SampledGP.__init__, locals())
        check_counts(2, num_samples=num_samples)
        (own_seed,) = as_seeds(seed, 1)
        train_X, train_Y = as_floating(train_X, "train_X"), as_floating(train_Y, "train_Y")
        train_X, train_Y = train_X.detach().clone(), train_Y.detach().clone()
        train_Yvar = as_tensor("train_Yvar", train_Yvar)
        if train_X.dim() != 2 or train_Y.shape != (len(train_X), 1):
            raise BotorchTensorDimensionError(
                "Expected `train_X` of shape `n x d` and `train_Y` of shape `n x 1`: the samples "
                f"are the only batch dimension. Got {train_X.shape=}, {train_Y.shape=}."
            )
        X, Y = (each.expand(num_samples, *each.shape) for each in (train_X, train_Y))
        noise = None if train_Yvar is None else train_Yvar.expand(num_samples, *train_Yvar.shape)
        super().__init__(
            X,
            Y,
            noise,
            outcome_transform=StandardDeviationScale(torch.ones_like(Y, dtype=torch.bool)),
            input_transform=input_transform,
            **kernel_and_mean(X, input_transform, nu),
        )
        self.to(train_X)
        self.seed = own_seed
        self.sampled: SampledHyperparameters | None = None

    @property
    def members(self) -> SingleTaskGP:
        r"""The samples as one model of batch shape `[S]`, which shares parameters and data."""
        # This model under its parent's class, which predicts for each sample by itself.
        plain = SingleTaskGP.__new__(SingleTaskGP)
        object.__setattr__(plain, "__dict__", self.__dict__)
        return plain

    def custom_fit(self, mll: MarginalLogLikelihood, **options: Any) -> MarginalLogLikelihood:
        r"""Draw the samples; called by `fit_gpytorch_mll(mll)`.

        Raises:
            UnsupportedError: If another loss, or options of an optimiser, are given.
        """
        given = [name for name, value in options.items() if value is not None]
        if type(mll) is not ExactMarginalLogLikelihood or given:
            raise UnsupportedError(
                "Expected `ExactMarginalLogLikelihood` without options of an optimiser: "
                f"hyperparameters are sampled. Got {type(mll).__name__}, {given}."
            )
        self.sampled = sample_exact_gp(self.members, seeds=self.seed, previous=self.sampled)
        return mll.eval()

    def posterior(  # type: ignore[override]
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> GaussianMixturePosterior:
        r"""The mixture of the samples' posteriors at `batch_shape x q x d` points."""
        found: Any = super().posterior(
            X.unsqueeze(MCMC_DIM), output_indices, observation_noise, posterior_transform
        )
        return GaussianMixturePosterior(found.distribution)

    def condition_on_observations(  # type: ignore[override]
        self, X: Tensor, Y: Tensor, **options: Any
    ) -> Any:
        r"""Add data to the models of all samples; their hyperparameters do not change.

        Args:
            X: `n' x d` inputs.
            Y: The outcomes, `n' x 1`, or one set for each sample, `S x n' x 1`.
            options: `noise`, if the noise is fixed.
        """
        S = self.batch_shape
        if self.prediction_strategy is None:  # which GPyTorch extends
            self.posterior(X)
        return super().condition_on_observations(
            X.expand(*S, *X.shape[-2:]), Y.expand(*S, *Y.shape[-2:]), **options
        )

    def fantasize(self, *args: Any, **options: Any) -> Any:
        raise UnsupportedError(
            "Expected an acquisition function without fantasies: BoTorch does not fantasize from "
            "samples of hyperparameters. Got fantasies, which qKnowledgeGradient makes; sample "
            "`scaled_gp` by hand, or fit `scaled_gp`."
        )

    def subset_output(self, idcs: list[int]) -> Any:
        if list(idcs) not in ([0], [-1]):
            raise UnsupportedError(f"Expected the one outcome, [0]. Got {idcs}.")
        return self
