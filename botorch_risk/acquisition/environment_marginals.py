r"""Posterior mean and variance at the inputs to which an environment expands decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.environments import Environment
from botorch_risk.posterior.marginals import MarginalPredictor
from botorch_risk.posterior.product import ProductMarginals


class EnvironmentMarginals(Protocol):
    r"""From decisions to the moments of the outcome over an environment."""

    @property
    def predictor(self) -> MarginalPredictor:
        r"""Of the inputs that the environment makes, one by one."""
        ...

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r"""Mean and variance, `batch_shape x m x n_w` each, and the weights.

        Args:
            X: `batch_shape x m x d_x`.
        """
        ...


def marginals_of(
    model: Model, environment: Environment, posterior_transform: PosteriorTransform | None
) -> EnvironmentMarginals:
    r"""From decisions to the moments of the outcome over the environment.

    Args:
        model: A model with one output.
        environment: The distribution of w, or of a perturbation of the decision.
        posterior_transform: As in `MarginalPredictor`.

    Returns:
        A function of `batch_shape x m x d_x` decisions: mean and variance,
        `batch_shape x m x n_w` each, and the weights, which broadcast to them.
    """
    if environment.independent:
        points: Any = environment.points  # pairs (x, w_j) of all x: a product of few covariances
        return _IndependentMarginals(
            ProductMarginals(model, points, posterior_transform), environment
        )
    return _DependentMarginals(MarginalPredictor(model, posterior_transform), environment)


@dataclass(frozen=True)
class _IndependentMarginals:
    r"""At all pairs of a decision and a fixed point of the environment."""

    marginals: ProductMarginals
    environment: Environment

    @property
    def predictor(self) -> MarginalPredictor:
        return self.marginals.predictor

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        weights: Any = self.environment.weights
        return (*self.marginals(X), weights.to(X).unsqueeze(-2))


@dataclass(frozen=True)
class _DependentMarginals:
    r"""At the points that the environment makes of each decision."""

    marginals: MarginalPredictor
    environment: Environment

    @property
    def predictor(self) -> MarginalPredictor:
        return self.marginals

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        inputs, weights = self.environment.expand(X)  # batch_shape x m x n_w x d
        moments = self.marginals(inputs.flatten(-3, -2))
        mean, variance = (moment.unflatten(-1, inputs.shape[-3:-1]) for moment in moments)
        return mean, variance, weights
