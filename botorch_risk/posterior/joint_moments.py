r"""The joint posterior of the points of a group, such as one decision under all values of W."""

from typing import Any, NamedTuple

import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from botorch_risk.posterior.marginals import MarginalPredictor, has_closed_form
from botorch_risk.posterior.process import ConditionedPoints, ConditionedProcess, PriorProcess


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
        model: With one outcome, `batch_shape` being its own.
        X: `batch_shape x m x p x d`.

    Raises:
        UnsupportedError: If the posterior is not Gaussian.
    """
    known = _of_exact_gp(model, X) if has_closed_form(model, None) else None
    return _of_posterior(model, X) if known is None else known


def conditioned_process(model: Model) -> ConditionedProcess:
    r"""An exact GP given its data; for a model with a closed form."""
    predictor = MarginalPredictor(model)
    return ConditionedProcess.of(PriorProcess(model, predictor, predictor.current_cache()))


def _of_exact_gp(model: Any, X: Tensor) -> JointMoments | None:
    r"""From the factors of the data; None if the noise of a reading is not one number."""
    if len(model.batch_shape) > 1:
        return None
    *batch, m, p, d = X.shape
    process = conditioned_process(model.eval())
    flat = X.reshape(-1, m * p, d)
    noise = noise_of_a_reading(process.process, flat)
    if noise is None:
        return None
    at = process.at(flat)
    covariance = covariance_within(process, at, m)
    return JointMoments(
        at.mean.reshape(*batch, m, p),
        covariance.reshape(*batch, m, p, p),
        noise.reshape(*batch, m, p),
    )


def covariance_within(
    process: ConditionedProcess, points: ConditionedPoints, num_groups: int
) -> Tensor:
    r"""Posterior covariances within groups of consecutive points, `B x m x p x p`."""
    prior, scale = points.prior, points.prior.scale
    inputs = prior.inputs.expand(*scale.shape, prior.inputs.shape[-1])
    inputs = inputs.unflatten(-2, (num_groups, -1))
    if process.process.cache.kernel is None:  # whose hyperparameters belong to replicates
        parts = [process.process.correlation(each, each) for each in inputs.unbind(-3)]
        correlation = torch.stack(parts, dim=-3)
    else:
        folded = inputs.flatten(0, 1)
        correlation = process.process.correlation(folded, folded).unflatten(0, inputs.shape[:2])
    scale = scale.unflatten(-1, (num_groups, -1))
    explained = points.whitened.unflatten(-1, (num_groups, -1)).movedim(-2, -3)  # B x m x t x p
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
    points = X.movedim(-3, 0)  # m x batch_shape x p x d, as a t-batch
    posterior: Any = model.posterior(points)
    normal: Any = getattr(posterior, "distribution", None)
    if not hasattr(normal, "covariance_matrix"):
        raise UnsupportedError(
            "Expected a model whose posterior is Gaussian, with a covariance. "
            f"Got a {type(posterior).__name__}."
        )
    read: Any = model.posterior(points, observation_noise=True)
    noise = (read.variance - posterior.variance).squeeze(-1).clamp_min(0.0)
    return JointMoments(
        posterior.mean.squeeze(-1).movedim(0, -2),
        normal.covariance_matrix.movedim(0, -3),
        noise.movedim(0, -2),
    )


def jitter_of(like: Tensor) -> float:
    r"""The relative variance below which a point is determined by others, to rounding."""
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
    identity = torch.eye(covariance.shape[-1]).to(covariance)
    root: Tensor = psd_safe_cholesky(covariance + (weak * jitter)[..., None, None] * identity)
    return root
