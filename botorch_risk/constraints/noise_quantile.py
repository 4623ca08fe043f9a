r"""A model of the value that a noisy outcome exceeds with a given probability."""

from statistics import NormalDist
from typing import Any

from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model
from botorch.posteriors.gpytorch import GPyTorchPosterior
from gpytorch.distributions import MultivariateNormal
from torch import Tensor

from botorch_risk.arguments import check_probability
from botorch_risk.models.heteroscedastic import MeanVarianceGP
from botorch_risk.posterior.t_batch import as_points


class NoiseQuantileModel(Model):
    r"""The lower quantile of the outcome of one evaluation, with the noise that was learnt.

        q(x) = f(x) - z sqrt(noise(x)),   z = the standard normal quantile of 1 - delta

    so that P(f(x) + noise >= q(x)) = 1 - delta for Gaussian noise; with `minimized`, the same of
    -f. The noise is the predicted one, f is uncertain: the posterior is Gaussian.

    Args:
        model: A `MeanVarianceGP`.
        delta: The probability that one evaluation is worse, in (0, 1).
        minimized: Whether a small outcome is good.

    Raises:
        UnsupportedError: If the model does not learn its noise.
        ValueError: If `delta` is out of its range.
    """

    def __init__(self, model: Model, delta: float, minimized: bool = False) -> None:
        super().__init__()
        if not isinstance(model, MeanVarianceGP):
            raise UnsupportedError(
                f"Expected a MeanVarianceGP, which knows its noise. Got {type(model).__name__}."
            )
        self.model: Any = model
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
            UnsupportedError: If noise is requested, which the quantile holds already.
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
