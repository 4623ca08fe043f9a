r"""Checks of training data that are made before anything is built from them."""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from botorch.exceptions.warnings import InputDataWarning
from gpytorch.kernels import ScaleKernel
from gpytorch.priors import LogNormalPrior
from gpytorch.settings import min_variance
from torch import Tensor

from botorch_risk.models.fixed_noise import least_noise
from botorch_risk.models.repeats import RepeatedOutcomes, describe, describe_first


def validate_inputs(train_X: Tensor, outcomes: RepeatedOutcomes) -> None:
    r"""Checks that inputs fit their repeats.

    Args:
        train_X: `batch_shape x n x d` inputs.
        outcomes: `batch_shape x n x 1` statistics.

    Raises:
        BotorchTensorDimensionError: If the shapes do not match, or there is no row or no column.
        InputDataError: If an input is not finite, or dtypes differ.
    """
    if (
        train_X.dim() < 2
        or train_X.shape[:-1] != outcomes.means.shape[:-1]
        or 0 in train_X.shape[-2:]
    ):
        raise BotorchTensorDimensionError(
            "Expected `train_X` of shape `batch_shape x n x d` with one row for each row of "
            "repeats, and at least one row and column. "
            f"Got {train_X.shape=}, {outcomes.means.shape[:-1]=}."
        )
    if train_X.dtype != outcomes.means.dtype:
        raise InputDataError(
            f"Expected one dtype. Got {train_X.dtype=} and {outcomes.means.dtype} for the repeats."
        )
    finite = train_X.isfinite().all(dim=-1)
    if not finite.all():
        raise InputDataError(
            f"Expected finite `train_X`. Got {train_X[~finite][0]} in "
            f"{describe_first(~finite.unsqueeze(-1))}."
        )


def validate_outcomes(outcomes: RepeatedOutcomes, needs_spread: bool) -> None:
    r"""Checks that repeats have something to learn from, once equal rows are pooled.

    Args:
        outcomes: `batch_shape x n x 1` statistics.
        needs_spread: Whether the noise is to be learnt, so that repeats are needed.

    Raises:
        InputDataError: If no row has two repeats where they are needed, or the means of a single
            model are constant.
    """
    observed = (outcomes.counts > 0).any(dim=-2)
    informed = outcomes.informs_noise.any(dim=-2) | ~observed
    if needs_spread and not informed.all():
        raise InputDataError(
            "Expected at least one row with two repeats or more, to learn the noise from"
            + describe(~informed)
            + ". Got single repeats everywhere; repeat an experiment, or give `known_noise` or "
            "`train_Yvar`."
        )
    _check_not_constant(outcomes.means, (outcomes.counts > 0).sum(dim=-2))


def warn_if_unfitted(model: Any) -> None:
    r"""Warns of a model that nobody has fitted, and whose inputs are not in the unit cube.

    Lengthscales start at the mode of BoTorch's prior, or at GPyTorch's log(2), and no fit ends
    exactly there. Both are made for the unit cube: elsewhere such a model has learnt next to
    nothing from its data, or believes that it knows everything.

    Args:
        model: Any model; one without a lengthscale passes.
    """
    model = model._modules.get("mean_model", model)  # of a MeanVarianceGP
    kernel = model._modules.get("covar_module")
    kernel = kernel.base_kernel if isinstance(kernel, ScaleKernel) else kernel
    if kernel is None or not kernel.has_lengthscale:
        return
    untouched = kernel.raw_lengthscale == 0
    prior = kernel._modules.get("lengthscale_prior")
    if isinstance(prior, LogNormalPrior):  # which keeps its mode in single precision
        untouched = untouched | ((kernel.lengthscale - prior.mode).abs() <= 1e-6 * prior.mode)
    model.eval()  # GPyTorch then transforms the training inputs
    lower, upper = model.train_inputs[0].aminmax()
    if bool(untouched.all() & ((lower < -0.1) | (upper > 1.1))):
        warnings.warn(
            "Expected a fitted model, or inputs in the unit cube, for which initial lengthscales "
            f"are made. Got initial ones for inputs in [{lower.item():.4g}, {upper.item():.4g}]: "
            "give the model `input_transform=Normalize(d)` and call `fit_gpytorch_mll` first.",
            InputDataWarning,
            stacklevel=4,
        )


def warning_of_small_scale(model: Any) -> str | None:
    r"""The warning where GPyTorch's absolute floors are as large as an outcome's variances.

    `posterior(X).variance` is at least `gpytorch.settings.min_variance` (1e-10 in double
    precision) in the units of the outcome. Marginal predictions and bounds have no such floor.
    """
    transform = model._modules.get("outcome_transform")
    scale = getattr(transform, "stdvs", None)
    if scale is None:
        return None
    floor = min_variance.value(scale.dtype)
    small = scale.square().squeeze(-1) < 100 * floor
    if not small.any():
        return None
    return (
        f"Expected outcomes with a standard deviation above {math.sqrt(100 * floor):.0e}"
        f"{describe(small)}. Got {scale[small.unsqueeze(-1)].min().item():.1e}: "
        "`posterior(X).variance` is GPyTorch's floor. Rescale the outcomes, or use "
        "`mean_marginals` and `confidence_bounds`, which have none."
    )


def warning_of_raised_noise(model: Any, noise: Tensor, counts: Tensor) -> str | None:
    r"""The warning where a model uses more noise than was found.

    Args:
        model: The process of the mean.
        noise: `batch_shape x n x 1` variances of the means of the rows.
        counts: Numbers of readings, of the same shape; rows without any do not count.
    """
    least = least_noise(model)
    short = (noise < least) & (counts > 0)
    if not short.any():
        return None
    used = least.expand_as(noise)[short].max().item()
    return (
        f"The noise of {int(short.sum())} of {short.numel()} means of readings is raised from "
        f"{noise[short].min().item():.2g} to {used:.2g}{describe(short.flatten(-2).any(dim=-1))}, "
        "the least noise variance at which a covariance surely has a Cholesky factor. "
        "`noise_of_means` gives the noise that is used; set `min_noise_variance` to the least "
        "variance of a reading that you believe in."
    )


def _check_not_constant(means: Tensor, num_observed: Tensor) -> None:
    spread = means.amax(dim=-2) - means.amin(dim=-2)
    constant = spread <= torch.finfo(means.dtype).eps * means.abs().amax(dim=-2)
    constant = constant & (num_observed > 1)
    if not constant.any():
        return
    if means.dim() == 2:
        raise InputDataError(
            f"Expected outcomes that differ between rows. Got the mean {means[0].item()} in all "
            f"{len(means)} rows."
        )
    warnings.warn(
        f"The outcomes are constant{describe(constant)}; its model says nothing about the inputs.",
        InputDataWarning,
        stacklevel=5,
    )
