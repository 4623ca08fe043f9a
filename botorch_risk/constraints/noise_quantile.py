r"""The value that a noisy outcome exceeds with a given probability, and the noise itself."""

from statistics import NormalDist
from typing import Any

from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model
from botorch.posteriors.gpytorch import GPyTorchPosterior
from gpytorch.distributions import MultivariateNormal
from torch import Tensor

from botorch_risk.acquisition.input_constructors import construct_from_own_arguments
from botorch_risk.acquisition.mean_variance import require_mean_variance_gp
from botorch_risk.acquisition.pointwise import (
    PointwiseAcquisitionFunction,
    per_point,
    register_weights,
)
from botorch_risk.arguments import check_flags, check_probability
from botorch_risk.engine import Belief
from botorch_risk.models.heteroscedastic import MeanVarianceGP
from botorch_risk.models.learnt_noise import LearntNoise
from botorch_risk.models.outcomes import spread_of
from botorch_risk.points import as_points


class NoiseQuantileModel(Model):
    r"""The lower quantile of the outcome of one evaluation, with the learnt noise.

        q(x) = f(x) - z sqrt(noise(x)),   z = the standard normal quantile of 1 - delta

    so that P(f(x) + noise >= q(x)) = 1 - delta for Gaussian noise; with `minimized`, the same for
    -f. The noise is fixed at its prediction and only f is uncertain: the posterior is Gaussian.

    Args:
        model: A `MeanVarianceGP`.
        delta: The probability that one evaluation is worse, in (0, 1).
        minimized: Whether a small outcome is good.

    Raises:
        UnsupportedError: If the model does not learn its noise.
    """

    def __init__(self, model: Model, delta: float, minimized: bool = False) -> None:
        super().__init__()
        if not isinstance(model, MeanVarianceGP):
            raise UnsupportedError(
                f"Expected a MeanVarianceGP, which knows its noise. Got {type(model).__name__}."
            )
        self.model: Any = model
        check_flags(minimized=minimized)
        self.z, self.minimized = normal_quantile(delta), minimized

    @property
    def num_outputs(self) -> int:
        return 1

    @property
    def batch_shape(self) -> Any:
        return self.model.batch_shape

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> GPyTorchPosterior:
        r"""The joint distribution of the quantiles at `batch_shape x q x d` points.

        Raises:
            UnsupportedError: If noise is requested, which the quantile already includes.
        """
        if observation_noise is not False:
            raise UnsupportedError(
                "Expected `observation_noise=False`: a quantile is not observed. "
                f"Got {observation_noise!r}."
            )
        X = as_points(X, self.model)
        of_f = self.model.posterior(X).distribution
        sign = -1.0 if self.minimized else 1.0
        deviation = self.model.predicted_noise(X).squeeze(-1).sqrt()
        mean = sign * of_f.mean - self.z * deviation
        posterior = GPyTorchPosterior(MultivariateNormal(mean, of_f.lazy_covariance_matrix))
        return posterior if posterior_transform is None else posterior_transform(posterior, X)


def normal_quantile(delta: float) -> float:
    r"""The quantile of 1 - delta; raises ValueError unless delta is in (0, 1)."""
    check_probability(delta=delta)
    return NormalDist().inv_cdf(1.0 - delta)


LEAST_NOISE = 1e-12  # of the squared spread of the outcome


class _NoiseBound(PointwiseAcquisitionFunction):
    r"""What the bounds of a `MeanVarianceGP` with its noise share."""

    beta: Tensor
    least_noise: Tensor

    def __init__(self, model: Model, X_pending: Tensor | None, **weights: Any) -> None:
        require_mean_variance_gp(model)
        super().__init__(model=model)
        register_weights(self, model, **weights)
        self.register_buffer("least_noise", LEAST_NOISE * spread_of(model, 0).square())
        self.set_X_pending(X_pending)

    def _condition(self, X_pending: Tensor | None) -> Any:
        model: Any = self.model
        return model if X_pending is None else model.condition_on_pending(X_pending)

    def score(self, X: Tensor) -> Tensor:
        return self.upper(X)

    def upper(self, X: Tensor) -> Tensor:
        return self._bound(X, side=1)

    def lower(self, X: Tensor) -> Tensor:
        return self._bound(X, side=-1)

    def mean(self, X: Tensor) -> Tensor:
        r"""What is predicted, with neither bound."""
        return self._bound(X, side=0)

    def _bound(self, X: Tensor, side: int) -> Tensor:
        raise NotImplementedError

    def _root(self, noise: Tensor) -> Tensor:
        r"""The standard deviation; the root of a bound at 0 has no gradient."""
        return noise.clamp_min(self.least_noise.to(noise).unsqueeze(-1)).sqrt()


@construct_from_own_arguments
class NoiseQuantileBound(_NoiseBound):
    r"""Bounds of the lower quantile of one evaluation, with the learnt noise.

        upper(x) = mean(x) + sqrt(beta) sigma(x) - z sqrt(lower bound of the noise)
        lower(x) = mean(x) - sqrt(beta) sigma(x) - z sqrt(upper bound of the noise)

    with z as in `NoiseQuantileModel`. For one outcome and q = 1; batches need `sequential=True`.

    Args:
        model: A fitted mean-variance model.
        delta: The probability that one evaluation is worse, in (0, 1).
        beta: Squared width of the bound of f, a number or `batch_shape`.
        noise_beta: Squared width of the bound of the noise, a number or `batch_shape`; `None`
            for the predicted noise.
        minimized: Whether small outcomes are good: the quantile is then that of the negative.
        X_pending: `batch_shape x n' x d` points under evaluation.

    Raises:
        UnsupportedError: If the model is not a `MeanVarianceGP`.

    Example:
        >>> from botorch_risk.examples import noisy_model, settings
        >>> bound = NoiseQuantileBound(noisy_model, delta=0.05, beta=4.0)
        >>> bool((bound.lower(settings) < bound.upper(settings)).all())
        True
    """

    noise_beta: Tensor | None

    def __init__(
        self,
        model: Model,
        delta: float,
        beta: float | Tensor = 4.0,
        noise_beta: float | Tensor | None = None,
        minimized: bool = False,
        X_pending: Tensor | None = None,
    ) -> None:
        super().__init__(model, X_pending, beta=beta, noise_beta=noise_beta)
        check_flags(minimized=minimized)
        self.z = normal_quantile(delta)
        self.minimized = minimized

    @property
    def process(self) -> Belief:
        r"""The process of f, whose readings say most about the quantile."""
        predictor: Belief = self._conditioned.mean_marginals
        return predictor

    def _bound(self, X: Tensor, side: int) -> Tensor:
        X = as_points(X, self.model)
        model = self._conditioned
        mean, variance = model.mean_marginals(X)
        sign = -1.0 if self.minimized else 1.0
        f = sign * mean + side * per_point(self.beta, X).sqrt() * variance.sqrt()
        if self.noise_beta is None or side == 0:
            noise = model.predicted_noise(X).squeeze(-1)
        else:
            bounds = model.noise_confidence_bounds(X, per_point(self.noise_beta, X))
            noise = bounds[0] if side * self.z > 0 else bounds[1]  # more noise helps if z < 0
        return f - self.z * self._root(noise)


@construct_from_own_arguments
class NoiseDeviationBound(_NoiseBound):
    r"""Bounds of the standard deviation of the noise, negative so that larger is better.

        upper(x) = -sqrt(lower bound of the noise),   lower(x) = -sqrt(upper bound of the noise)

    For one outcome and q = 1; batches need `sequential=True`.

    Args:
        model: A fitted mean-variance model.
        beta: Squared width of the bound of the noise, a number or `batch_shape`.
        X_pending: `batch_shape x n' x d` points under evaluation.

    Raises:
        UnsupportedError: If the model is not a `MeanVarianceGP`.
    """

    def __init__(
        self, model: Model, beta: float | Tensor = 4.0, X_pending: Tensor | None = None
    ) -> None:
        super().__init__(model, X_pending, beta=beta)

    @property
    def process(self) -> Belief | None:
        r"""The process of the noise; None if the noise is known."""
        noise = self._conditioned.noise
        return noise.marginals if isinstance(noise, LearntNoise) else None

    def _bound(self, X: Tensor, side: int) -> Tensor:
        X, model = as_points(X, self.model), self._conditioned
        if side == 0:
            noise = model.predicted_noise(X).squeeze(-1)
        else:
            bounds = model.noise_confidence_bounds(X, per_point(self.beta, X))
            noise = bounds[0] if side > 0 else bounds[1]
        return -self._root(noise)
