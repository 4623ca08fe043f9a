r"""The joint Monte-Carlo form of the risk-averse upper confidence bound.

.. [Makarova2021rahbo]
    A. Makarova, I. Usmanova, I. Bogunovic, A. Krause. Risk-averse Heteroscedastic Bayesian
    Optimization. Advances in Neural Information Processing Systems 34, 2021.

.. [Wilson2017reparam]
    J. T. Wilson, R. Moriconi, F. Hutter, M. P. Deisenroth. The reparameterization trick for
    acquisition functions. NeurIPS Workshop on Bayesian Optimization, 2017.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from botorch.acquisition.input_constructors import acqf_input_constructor
from botorch.acquisition.monte_carlo import MCAcquisitionFunction
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model
from botorch.sampling.base import MCSampler
from botorch.sampling.normal import SobolQMCNormalSampler
from botorch.utils.transforms import concatenate_pending_points, t_batch_mode_transform
from torch import Tensor

from botorch_risk.acquisition.arguments import register_weights, require_mean_variance_gp
from botorch_risk.models.heteroscedastic import MeanVarianceGP
from botorch_risk.models.noise_process import LearntNoise


class qRiskAverseUpperConfidenceBound(MCAcquisitionFunction):
    r"""Joint batch of q points for a mean-variance objective.

        score(X) = E max_j [ mean_j + |f_j - mean_j| sqrt(beta pi / 2)
                             - risk_aversion (c_j - |z_j| sqrt(pi / 2) (c_j - lcb_var_j)) ]

    f and the standardised noise process z are sampled jointly over the batch and
    independently of each other; c is the centre of the noise variance (its process mean
    through the link) and lcb_var its lower bound at `noise_beta`. Since
    `E |z| = sqrt(2 / pi)`, q = 1 gives `RiskAverseUpperConfidenceBound` for either link, as
    BoTorch's `qUpperConfidenceBound` [Wilson2017reparam]_ gives `UpperConfidenceBound`, to
    which this reduces at `risk_aversion=0`. Two near points share their samples, so that the
    maximum rewards the batch for spreading out over unknown means and unknown noise alike.

    Pending points are added to the batch.

    Example:
        >>> from botorch_risk.models import MeanVarianceGP
        >>> train_X = torch.rand(10, 1, dtype=torch.double)
        >>> train_Y = (6 * train_X).sin() + train_X * torch.randn(10, 4, dtype=torch.double)
        >>> model = MeanVarianceGP(train_X, train_Y)
        >>> acqf = qRiskAverseUpperConfidenceBound(model, beta=4.0, risk_aversion=1.0)
        >>> acqf(torch.rand(5, 3, 1, dtype=torch.double)).shape  # five batches of q = 3
        torch.Size([5])
    """

    beta: Tensor
    noise_beta: Tensor
    risk_aversion: Tensor

    def __init__(
        self,
        model: MeanVarianceGP,
        beta: float = 4.0,
        noise_beta: float = 4.0,
        risk_aversion: float = 1.0,
        sampler: MCSampler | None = None,
        noise_sampler: MCSampler | None = None,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
        seed: int = 0,
    ) -> None:
        r"""Builds the acquisition function.

        Args:
            model: A fitted mean-variance model.
            beta: Squared width of the bound of f (the paper's beta_t, squared).
            noise_beta: Squared width of the bound of the noise (the paper's beta^var_t, squared).
            risk_aversion: Weight of the variance, >= 0 (the paper's alpha).
            sampler: Draws f; 512 scrambled Sobol points from `seed` if omitted.
            noise_sampler: Draws the noise process, with the same `sample_shape` and another
                seed; if omitted, as many Sobol points from `seed + 1`.
            posterior_transform: Applied to f alone (BoTorch's sign of minimisation).
            X_pending: `n' x d` points under evaluation.
            seed: Seed of the samplers that are not given.

        Raises:
            UnsupportedError: If the model is not a `MeanVarianceGP`, or the two samplers
                draw different numbers.
            ValueError: If a beta or `risk_aversion` is negative or not finite.
        """
        require_mean_variance_gp(model)
        sampler = sampler or SobolQMCNormalSampler(torch.Size([512]), seed=seed)
        noise_sampler = noise_sampler or SobolQMCNormalSampler(sampler.sample_shape, seed=seed + 1)
        if sampler.sample_shape != noise_sampler.sample_shape:
            raise UnsupportedError(
                "Expected samplers of one `sample_shape`. "
                f"Got {sampler.sample_shape} and {noise_sampler.sample_shape}."
            )
        super().__init__(
            model=model,
            sampler=sampler,
            posterior_transform=posterior_transform,
            X_pending=X_pending,
        )
        self.noise_sampler = noise_sampler
        register_weights(self, beta=beta, noise_beta=noise_beta, risk_aversion=risk_aversion)

    @concatenate_pending_points
    @t_batch_mode_transform()  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        r"""Values of joint batches.

        Args:
            X: `batch_shape x q x d` candidates.

        Returns:
            `batch_shape` values.
        """
        _, f = self._get_samples_and_objectives(X)  # samples x batch_shape x q
        mean = f.mean(dim=0)
        optimistic = mean + (self.beta.to(X) * math.pi / 2).sqrt() * (f - mean).abs()
        scores = optimistic - self.risk_aversion.to(X) * self._optimistic_noise(X)
        return scores.amax(dim=-1).mean(dim=0)

    def _optimistic_noise(self, X: Tensor) -> Tensor:
        r"""Noise variances `samples x batch_shape x q`, folded to their optimistic side."""
        model: Any = self.model
        noise = model.noise
        if not isinstance(noise, LearntNoise):
            return noise.expected(X)
        process = noise.model.posterior(X)
        deviation = self.noise_sampler(process) - process.mean
        z = (deviation / process.variance.sqrt()).squeeze(-1)
        centre = noise.link.inverse(process.mean).squeeze(-1)
        lower, _ = model.noise_confidence_bounds(X, self.noise_beta.to(X))
        return centre - math.sqrt(math.pi / 2) * z.abs() * (centre - lower)


@acqf_input_constructor(qRiskAverseUpperConfidenceBound)
def construct_inputs_batch_mean_variance(
    model: Model,
    posterior_transform: PosteriorTransform | None = None,
    X_pending: Tensor | None = None,
    sampler: MCSampler | None = None,
    noise_sampler: MCSampler | None = None,
    beta: float = 4.0,
    noise_beta: float = 4.0,
    risk_aversion: float = 1.0,
    seed: int = 0,
) -> dict[str, Any]:
    r"""Arguments of the joint bound, as `get_acqf_input_constructor` and Ax ask for them."""
    return {
        "model": model,
        "posterior_transform": posterior_transform,
        "X_pending": X_pending,
        "sampler": sampler,
        "noise_sampler": noise_sampler,
        "beta": beta,
        "noise_beta": noise_beta,
        "risk_aversion": risk_aversion,
        "seed": seed,
    }
