r"""Fixed noise of BoTorch's models: kept in the state, replaced, converted."""

from __future__ import annotations

from typing import Any

import torch
from botorch.exceptions.errors import UnsupportedError
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from gpytorch.settings import min_fixed_noise
from linear_operator.operators import LinearOperator
from torch import Tensor


class NoiseOfMeans(FixedNoiseGaussianLikelihood):
    r"""Fixed noise of the training rows, which says nothing about noise anywhere else.

    GPyTorch's own adds nothing at new points, or the noise of the training rows where there
    happen to be as many points as rows. This one refuses both.
    """

    def __init__(self, noise: Tensor) -> None:
        r"""Keeps the `batch_shape x n` variances, in the units of the transformed outcome."""
        super().__init__(noise=noise)
        register_buffer_of_noise(self)

    def _shaped_noise_covar(
        self, base_shape: torch.Size, *params: Any, **kwargs: Any
    ) -> Tensor | LinearOperator:
        # GPyTorch passes its training inputs in a list, where it conditions on them.
        is_of_training = self.training or (params and not isinstance(params[0], Tensor))
        if kwargs.get("noise") is None and not is_of_training:
            raise UnsupportedError(
                "Expected the noise at new points from `model.posterior(X, "
                "observation_noise=True)`, or as `likelihood(..., noise=...)`: the likelihood of a "
                f"MeanVarianceGP knows that of its training rows. Got points of {base_shape=}."
            )
        return super()._shaped_noise_covar(base_shape, *params, **kwargs)


def register_fixed_noise(model: Any) -> None:
    r"""Makes the fixed noise of a model a buffer, so that it is saved, loaded and moved."""
    register_buffer_of_noise(model.likelihood)


def register_buffer_of_noise(likelihood: Any) -> None:
    r"""Makes the fixed noise of a likelihood a buffer."""
    noise_covar: Any = likelihood.noise_covar
    noise = noise_covar.noise
    del noise_covar.noise
    noise_covar.register_buffer("noise", noise)


def set_fixed_noise(model: Any, noise: Tensor) -> None:
    r"""Replaces the fixed noise of a model and drops what was computed with the old one.

    Args:
        model: A single-output model with fixed noise.
        noise: `batch_shape x n x 1` variances in the units of the outcome. In the model's own
            units they are at least GPyTorch's `min_fixed_noise`.
    """
    noise = transform_variance(model, noise).squeeze(-1)
    model.likelihood.noise_covar.noise = noise.clamp_min(min_fixed_noise.value(noise.dtype))
    model.prediction_strategy = None


def transform_variance(model: Any, variance: Tensor) -> Tensor:
    r"""A variance `... x n x 1` of the outcome in the units that the model works in."""
    transform = model._modules.get("outcome_transform")
    if transform is None:
        return variance
    was_training = transform.training
    transform.eval()
    _, scaled = transform(torch.zeros_like(variance), variance)
    transform.train(was_training)
    return scaled


def load_process(model: Any, state_dict: dict[str, Any], **options: Any) -> None:
    r"""Loads a model's hyperparameters and leaves the fixed noise of its own data in place.

    A model may thus start from the state of another one with other data, as BoTorch's do.
    """
    key = "likelihood.noise_covar.noise"
    if key in state_dict:
        state_dict = {**state_dict, key: model.likelihood.noise_covar.noise}
    model.load_state_dict(state_dict, **options)
    model.prediction_strategy = None


def condition(model: Any, X: Tensor, Y: Tensor, **options: Any) -> Any:
    r"""Conditions a model on observations, whether or not it has predicted before."""
    if model.training or model.prediction_strategy is None:
        model.posterior(X[..., :1, :])  # GPyTorch conditions only a model that has predicted
    return model.condition_on_observations(X=X, Y=Y, **options)


def is_one_to_many(model: Any) -> bool:
    r"""Whether an input transform of a model makes several inputs of one."""
    transform = model._modules.get("input_transform")
    return transform is not None and bool(transform.is_one_to_many)
