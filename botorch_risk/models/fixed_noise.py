r"""Gaussian processes with a known noise variance in each row, and their default kernels."""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import InputTransform
from botorch.models.transforms.outcome import OutcomeTransform
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from botorch.settings import validate_input_scaling
from gpytorch.kernels import Kernel, ScaleKernel
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from gpytorch.likelihoods.noise_models import Noise
from gpytorch.means import ConstantMean, Mean
from gpytorch.priors import GammaPrior, LogNormalPrior
from gpytorch.settings import min_fixed_noise
from linear_operator.operators import DiagLinearOperator, LinearOperator
from torch import Tensor

from botorch_risk.models.renewed import renew

_NOISE_KEY = "likelihood.noise_covar.noise"

# GPyTorch's floor in float64 is 1e-6: a noise of a thousandth of the outcomes' spread, which many
# experiments have. A hundredth of it is what `psd_safe_cholesky` adds to a matrix without a factor,
# so that a factor exists, and variances near the data lose no more than two digits by it.
_FLOOR_OF_DOUBLE = 1e-8


class SavedNoise(Noise):
    r"""Noise variances in a buffer, since GPyTorch's fixed noise is not in a model's state."""

    noise: Tensor

    def __init__(self, noise: Tensor) -> None:
        super().__init__()
        self.register_buffer("noise", noise)

    def forward(
        self,
        *params: Any,
        shape: torch.Size | None = None,
        noise: Tensor | None = None,
        **kwargs: Any,
    ) -> DiagLinearOperator:
        return DiagLinearOperator(self.noise if noise is None else noise)


class NoiseOfRows(FixedNoiseGaussianLikelihood):
    r"""Fixed noise of the training rows, which is unknown at any other point.

    GPyTorch's own class adds nothing at new points, or the noise of the training rows if the number
    of points happens to match. This class refuses both.
    """

    def __init__(self, noise: Tensor) -> None:
        # Its own constructor looks for values below a floor that is not ours.
        super(FixedNoiseGaussianLikelihood, self).__init__(noise_covar=SavedNoise(noise))
        self.second_noise_covar = None

    def get_fantasy_likelihood(self, **kwargs: Any) -> FixedNoiseGaussianLikelihood:
        # GPyTorch builds a noise of its own class here, which would raise values to its own floor.
        with min_fixed_noise(double_value=_FLOOR_OF_DOUBLE):
            return super().get_fantasy_likelihood(**kwargs)

    def _shaped_noise_covar(
        self, base_shape: torch.Size, *params: Any, **kwargs: Any
    ) -> Tensor | LinearOperator:
        # GPyTorch passes its training inputs in a list, where it conditions on them.
        is_of_training = self.training or (params and not isinstance(params[0], Tensor))
        if kwargs.get("noise") is None and not is_of_training:
            raise UnsupportedError(
                "Expected the noise at new points from `model.posterior(X, "
                "observation_noise=True)`, or as `likelihood(..., noise=...)`: the likelihood of a "
                f"MeanVarianceGP knows the noise at training rows. Got points of {base_shape=}."
            )
        return super()._shaped_noise_covar(base_shape, *params, **kwargs)


def fixed_noise_gp(
    X: Tensor,
    Y: Tensor,
    noise: Tensor,
    outcome_transform: OutcomeTransform | None,
    covar_module: Kernel | None = None,
    mean_module: Mean | None = None,
    **options: Any,
) -> SingleTaskGP:
    r"""Build a `SingleTaskGP` whose noise can be replaced and is part of its state.

    `noise` holds `batch_shape x n x 1` variances in the units of the outcome, which are raised to
    `least_noise`. The outcome transform has to be linear.
    """
    # Linear, so that a variance transforms without its mean.
    if outcome_transform is not None:
        # The constructor learns the transform from the same outcomes, but too late for the noise.
        _, noise = outcome_transform.train()(Y, noise)
    batch_shape = X.shape[:-2]
    modules = {
        "covar_module": covar_module,
        "mean_module": mean_module or ConstantMean(batch_shape=batch_shape),
        "outcome_transform": outcome_transform,
    }
    for module in modules.values():
        if module is not None:  # the constructor would wait for each of its tensors
            module.to(X, non_blocking=True)
    # Of a batch it looks for nothing but missing numbers, of which there are none.
    with validate_input_scaling(not batch_shape):
        likelihood = NoiseOfRows(raised(noise.squeeze(-1)))
        return SingleTaskGP(X, Y, likelihood=likelihood, **modules, **options)


def renew_fixed_noise_gp(
    model: Any, X: Tensor, Y: Tensor, noise: Tensor, outcome_transform: OutcomeTransform
) -> None:
    r"""Give a model of `fixed_noise_gp` other data of the same kind, in place; see `renew`."""
    scaled: Any = renew(model, X, Y, outcome_transform, noise)
    model.likelihood.noise_covar.noise = raised(scaled.squeeze(-1))


def set_fixed_noise(model: Any, noise: Tensor) -> None:
    r"""Replace the fixed noise of a model, in the units of the outcome, and drop its caches."""
    model.likelihood.noise_covar.noise = raised(transform_variance(model, noise).squeeze(-1))
    # GPyTorch's cache holds a factor of the covariance with the earlier noise.
    model.prediction_strategy = None


def transform_variance(model: Any, variance: Tensor) -> Tensor:
    r"""A variance `... x n x 1` of the outcome in the units of the model's targets."""
    transform = getattr(model, "outcome_transform", None)
    if transform is None:
        return variance
    was_training = transform.training
    # In training mode it would learn its statistics from these zeros.
    transform.eval()
    _, scaled = transform(torch.zeros_like(variance), variance)
    transform.train(was_training)
    return scaled


def least_noise(model: Any) -> Tensor:
    r"""The smallest noise variance that a model uses for a row, `batch_shape x 1 x 1`.

    It is in the units of the outcome. In the model's own units it is 1e-8 in double precision and
    GPyTorch's `min_fixed_noise` otherwise.
    """
    one = torch.ones_like(model.likelihood.noise_covar.noise[..., :1].unsqueeze(-1))
    return raised(torch.zeros_like(one)) / transform_variance(model, one)


def raised(noise: Tensor) -> Tensor:
    r"""Noise variances in units of a model, raised to what a Cholesky factorisation needs."""
    is_double = noise.dtype == torch.float64
    return noise.clamp_min(_FLOOR_OF_DOUBLE if is_double else min_fixed_noise.value(noise.dtype))


def split_state(
    state_dict: Mapping[str, Any], parts: tuple[str, ...], strict: bool
) -> dict[str, dict[str, Any]]:
    r"""Split a state into the states of some parts of a model."""
    split: dict[str, dict[str, Any]] = {part: {} for part in parts}
    for key, value in state_dict.items():
        name, _, rest = key.partition(".")
        if name in split:
            split[name][rest] = value
        elif strict:
            raise RuntimeError(f"Expected keys of the parts {sorted(parts)}. Got {key!r}.")
    return split


def load_process(model: Any, state_dict: Mapping[str, Any], **options: Any) -> None:
    r"""Load a model's hyperparameters without changing the fixed noise of its data.

    A model can thus start from the state of a model of other data, as in BoTorch.
    """
    if _NOISE_KEY in state_dict:
        state_dict = {**state_dict, _NOISE_KEY: model.likelihood.noise_covar.noise}
    model.load_state_dict(state_dict, **options)
    model.prediction_strategy = None


def load_noise(model: Any, state_dict: Mapping[str, Any]) -> bool:
    r"""Load the fixed noise of a state if the number of rows matches; returns whether it did."""
    saved = state_dict[_NOISE_KEY]
    fits = saved.shape == model.likelihood.noise_covar.noise.shape
    if fits:
        model.likelihood.noise_covar.noise = saved.clone()
    return bool(fits)


def is_one_to_many(model: Any) -> bool:
    r"""Whether an input transform of a model expands one input to several."""
    transform = getattr(model, "input_transform", None)
    return transform is not None and bool(transform.is_one_to_many)


def mean_kernel(train_X: Tensor, input_transform: InputTransform | None = None) -> ScaleKernel:
    r"""A Matern 5/2 kernel with an output scale, and BoTorch's priors on both.

    BoTorch's default, a squared-exponential kernel without an output scale, is too confident if a
    function is not smooth, and less accurate if the function varies more or less than the sample
    means (`bench/studies/learnt_noise`). The kernel is radial. In that study, a product of
    one-dimensional kernels improves the density by 0.02 if there are repeats, but it has no closed
    form here. The kernel has a lengthscale for each column that `input_transform` returns.
    """
    batch_shape = train_X.shape[:-2]
    matern = get_covar_module_with_dim_scaled_prior(
        ard_num_dims=_num_columns(train_X, input_transform),
        batch_shape=batch_shape,
        use_rbf_kernel=False,
    )
    prior = GammaPrior(2.0, 0.15)
    kernel = ScaleKernel(matern, batch_shape=batch_shape, outputscale_prior=prior)
    kernel.outputscale = torch.ones(batch_shape)
    return kernel


def noise_kernel(train_X: Tensor, input_transform: InputTransform | None = None) -> ScaleKernel:
    r"""A Matern 5/2 kernel with an output scale, for log noise variances.

    An output scale without a prior collapses to constant noise. Lengthscales start at twice the
    mean's.
    """
    batch_shape = train_X.shape[:-2]
    matern = get_covar_module_with_dim_scaled_prior(
        ard_num_dims=_num_columns(train_X, input_transform),
        batch_shape=batch_shape,
        use_rbf_kernel=False,
    )
    matern.lengthscale = 2 * matern.lengthscale.detach()
    # Its logarithm is normal with mean 0 and variance 1: the density of the output scale itself has
    # the factor 1 / outputscale, which moves the location to 1.
    prior = LogNormalPrior(1.0, 1.0)
    kernel = ScaleKernel(matern, batch_shape=batch_shape, outputscale_prior=prior)
    kernel.outputscale = torch.ones(batch_shape)
    return kernel


def spread_kernel(train_X: Tensor, input_transform: InputTransform | None = None) -> Kernel:
    r"""BoTorch's default kernel, for a noise process that learns from sample variances alone."""
    return get_covar_module_with_dim_scaled_prior(
        ard_num_dims=_num_columns(train_X, input_transform), batch_shape=train_X.shape[:-2]
    )


@torch.no_grad()
def _num_columns(train_X: Tensor, input_transform: InputTransform | None) -> int:
    if input_transform is None:
        return train_X.shape[-1]
    # A copy: a call in training mode may change the user's transform.
    return copy.deepcopy(input_transform).to(train_X)(train_X).shape[-1]
