r"""The joint posterior of the points of a group, such as one decision under all values of W."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.engine.posterior.moments import JointMoments
from botorch_risk.engine.posterior.process import Process

if TYPE_CHECKING:
    from botorch_risk.engine.posterior.belief import Belief


@dataclass(frozen=True)
class Joint:
    r"""The joint posterior within groups of points, from factors that are computed once.

    A posterior that is not Gaussian raises an UnsupportedError.

    Attributes:
        model: A model with one outcome.
        posterior_transform: Reduces the outcomes of the model to one, or flips its sign.
        process: An exact GP given its data; None for other models, whose `posterior` is used.
    """

    model: Any
    posterior_transform: PosteriorTransform | None
    process: Process | None

    @classmethod
    def of(cls, belief: Belief) -> Self:
        process = belief.process() if belief.closed_form else None
        return cls(belief.model, belief.posterior_transform, process)

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Mean `... x m x p` and covariance `... x m x p x p`, differentiable in the points.

        `X` is `... x m x p x d`, where `...` begins with the model's batch shape or contains none
        of it.
        """
        if self.process is None:
            posterior = gaussian_posterior(self.model, X, self.posterior_transform)
            covariance = posterior.distribution.covariance_matrix
            # The groups come first, as a t-batch.
            return posterior.mean.squeeze(-1).movedim(0, -2), covariance.movedim(0, -3)
        at = self.process.at(self.as_points(X))
        covariance = self.process.covariance_within(at, X.shape[-2])
        return at.mean.reshape(X.shape[:-1]), covariance.reshape(*X.shape[:-1], X.shape[-2])

    @torch.no_grad()
    def moments(self, X: Tensor) -> JointMoments:
        r"""The joint moments with the noise of a reading, without a graph."""
        if self.process is not None:
            noise = self.process.noise_of_a_reading(self.as_points(X))
            if noise is not None:
                return JointMoments(*self(X), noise.reshape(X.shape[:-1]))
        return _of_posterior(self.model, X, self.posterior_transform)

    def as_points(self, X: Tensor) -> Tensor:
        r"""Groups as single points of each replicate, `B x (m p) x d`."""
        process: Any = self.process
        replicates = process.num_replicates
        return X.reshape(replicates, X.shape[:-1].numel() // replicates, X.shape[-1])


def _of_posterior(
    model: Model, X: Tensor, posterior_transform: PosteriorTransform | None
) -> JointMoments:
    posterior = gaussian_posterior(model, X, posterior_transform)
    read: Any = model.posterior(
        X.movedim(-3, 0), observation_noise=True, posterior_transform=posterior_transform
    )
    # Any likelihood has this difference; rounding may leave it slightly below 0.
    noise = (read.variance - posterior.variance).squeeze(-1).clamp_min(0.0)
    return JointMoments(
        posterior.mean.squeeze(-1).movedim(0, -2),
        posterior.distribution.covariance_matrix.movedim(0, -3),
        noise.movedim(0, -2),
    )


def gaussian_posterior(
    model: Model, X: Tensor, posterior_transform: PosteriorTransform | None = None
) -> Any:
    r"""The posterior of groups of points `batch_shape x m x p x d`, `m x batch_shape x p`.

    The groups become a t-batch.
    """
    posterior: Any = model.posterior(X.movedim(-3, 0), posterior_transform=posterior_transform)
    if not hasattr(getattr(posterior, "distribution", None), "covariance_matrix"):
        raise UnsupportedError(
            "Expected a model whose posterior is Gaussian, with a covariance. "
            f"Got a {type(posterior).__name__}."
        )
    return posterior
