r"""The joint posterior of the points of a group, such as one decision under all values of W."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from botorch_risk.engine.posterior.marginals import MarginalPredictor, has_closed_form
from botorch_risk.engine.posterior.process import (
    ConditionedPoints,
    ConditionedProcess,
    PriorProcess,
)


class JointMoments(NamedTuple):
    r"""Moments of an outcome at groups of points, in its units.

    Attributes:
        mean: `batch_shape x m x p`.
        covariance: `batch_shape x m x p x p`.
        noise: `batch_shape x m x p`, the variance of the noise of one more reading.
    """

    mean: Tensor
    covariance: Tensor
    noise: Tensor


@torch.no_grad()
def joint_moments(model: Model, X: Tensor) -> JointMoments:
    r"""The joint posterior within each of `m` groups of `p` points.

    Args:
        model: The model has one outcome, and `batch_shape` is its own.
        X: `batch_shape x m x p x d`.

    Raises:
        UnsupportedError: If the posterior is not Gaussian.
    """
    joint = JointPredictor.of(MarginalPredictor(model))
    if joint.process is not None:
        prior = joint.process.process
        noise = noise_of_a_reading(prior, joint.as_points(X))
        if noise is not None:
            return JointMoments(*joint(X), noise.reshape(X.shape[:-1]))
    return _of_posterior(model, X)


@dataclass(frozen=True)
class JointPredictor:
    r"""The joint posterior within groups of points, from factors that are computed once.

    Attributes:
        model: With one outcome.
        posterior_transform: Reduces the outcomes of the model to one, or flips its sign.
        process: An exact GP with at most one batch dimension given its data; None for others, whose
            `posterior` is used.
    """

    model: Any
    posterior_transform: PosteriorTransform | None
    process: ConditionedProcess | None

    @classmethod
    def of(cls, predictor: MarginalPredictor) -> Self:
        r"""Uses the factors of the predictor of single points."""
        model: Any = predictor.model
        transform = predictor.posterior_transform
        known = has_closed_form(model, transform) and len(model.batch_shape) < 2
        return cls(model, transform, conditioned_process(predictor) if known else None)

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Mean `... x m x p` and covariance `... x m x p x p`, differentiable in the points.

        Args:
            X: `... x m x p x d`, where `...` begins with the model's batch shape or contains none
                of it.

        Raises:
            UnsupportedError: If the posterior is not Gaussian.
        """
        if self.process is None:
            posterior = gaussian_posterior(self.model, X, self.posterior_transform)
            covariance = posterior.distribution.covariance_matrix
            return posterior.mean.squeeze(-1).movedim(0, -2), covariance.movedim(0, -3)
        at = self.process.at(self.as_points(X))
        covariance = covariance_within(self.process, at, X.shape[-2])
        return at.mean.reshape(X.shape[:-1]), covariance.reshape(*X.shape[:-1], X.shape[-2])

    def as_points(self, X: Tensor) -> Tensor:
        r"""Groups as single points of each replicate, `B x (m p) x d`."""
        process: Any = self.process
        replicates = process.process.num_replicates
        return X.reshape(replicates, X.shape[:-1].numel() // replicates, X.shape[-1])


def conditioned_process(predictor: MarginalPredictor) -> ConditionedProcess:
    r"""An exact GP given its data; for a model with a closed form."""
    model: Any = predictor.model
    return ConditionedProcess.of(PriorProcess(model.eval(), predictor, predictor.current_cache()))


def covariance_within(process: ConditionedProcess, points: ConditionedPoints, size: int) -> Tensor:
    r"""Posterior covariances within groups of `p` consecutive points, `B x m x p x p`.

    Differentiable in the points.
    """
    prior, scale = points.prior, points.prior.scale
    inputs = prior.inputs.expand(*scale.shape, prior.inputs.shape[-1])
    inputs = inputs.unflatten(-2, (-1, size))
    if process.process.cache.kernel is None:  # whose hyperparameters belong to replicates
        parts = [process.process.correlation(each, each) for each in inputs.unbind(-3)]
        correlation = torch.stack(parts, dim=-3)
    else:
        folded = inputs.flatten(0, 1)
        correlation = process.process.correlation(folded, folded).unflatten(0, inputs.shape[:2])
        if correlation.requires_grad:  # in the first points alone, though the second are the same
            correlation = correlation + correlation.mT - correlation.detach()
    scale = scale.unflatten(-1, (-1, size))
    explained = points.whitened.unflatten(-1, (-1, size)).movedim(-2, -3)  # B x m x t x p
    return correlation * scale.unsqueeze(-1) * scale.unsqueeze(-2) - explained.mT @ explained


def noise_of_a_reading(process: PriorProcess, X: Tensor) -> Tensor | None:
    r"""The variance of one more reading at points `B x m x d`, `B x m`."""
    likelihood = process.model.likelihood
    if type(likelihood) is GaussianLikelihood:
        return process.inferred_noise(X)
    if type(likelihood) is FixedNoiseGaussianLikelihood:  # BoTorch's rule too: the average
        noise = likelihood.noise.mean(dim=-1, keepdim=True)
        return noise * process.outcome_factor(X).square()
    return None


def _of_posterior(model: Model, X: Tensor) -> JointMoments:
    posterior = gaussian_posterior(model, X)
    read: Any = model.posterior(X.movedim(-3, 0), observation_noise=True)
    noise = (read.variance - posterior.variance).squeeze(-1).clamp_min(0.0)
    return JointMoments(
        posterior.mean.squeeze(-1).movedim(0, -2),
        posterior.distribution.covariance_matrix.movedim(0, -3),
        noise.movedim(0, -2),
    )


def gaussian_posterior(
    model: Model, X: Tensor, posterior_transform: PosteriorTransform | None = None
) -> Any:
    r"""The posterior of groups of points, `m x batch_shape x p`.

    Args:
        model: With one outcome.
        X: `batch_shape x m x p x d`; the groups become a t-batch.

    Raises:
        UnsupportedError: If the posterior is not Gaussian.
    """
    posterior: Any = model.posterior(X.movedim(-3, 0), posterior_transform=posterior_transform)
    if not hasattr(getattr(posterior, "distribution", None), "covariance_matrix"):
        raise UnsupportedError(
            "Expected a model whose posterior is Gaussian, with a covariance. "
            f"Got a {type(posterior).__name__}."
        )
    return posterior


def jitter_of(like: Tensor) -> float:
    r"""The relative variance below which a point is determined by others, up to rounding."""
    return 1e-8 if like.dtype == torch.float64 else 1e-5


def safe_root(covariance: Tensor, scale: Tensor) -> Tensor:
    r"""Cholesky factors `batch_shape x Q x Q`; with a jitter only for entries that need it.

    The jitter is relative to `scale`, the prior variance.
    """
    jitter = jitter_of(covariance) * scale
    factor, info = torch.linalg.cholesky_ex(covariance)
    smallest = factor.detach().diagonal(dim1=-2, dim2=-1).square().amin(dim=-1)
    weak = (info > 0) | ~(smallest >= jitter)
    if not weak.any():
        return factor
    identity = torch.eye(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)
    root: Tensor = psd_safe_cholesky(covariance + (weak * jitter)[..., None, None] * identity)
    return root
