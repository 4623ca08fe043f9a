r"""Checks of training data that are made before anything is built from them."""

from __future__ import annotations

import warnings

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from botorch.exceptions.warnings import InputDataWarning
from torch import Tensor

from botorch_risk.models.repeats import RepeatedOutcomes


def validate_repeats(train_X: Tensor, outcomes: RepeatedOutcomes, needs_spread: bool) -> None:
    r"""Checks inputs and repeats of a model that learns from both.

    Args:
        train_X: `batch_shape x n x d` inputs.
        outcomes: `batch_shape x n x 1` statistics.
        needs_spread: Whether the noise is to be learnt, so that repeats are needed.

    Raises:
        BotorchTensorDimensionError: If the shapes do not match.
        InputDataError: If an input is not finite, dtypes differ, no row has two repeats where
            they are needed, or the means of a single model are constant.
    """
    if train_X.dim() < 2 or train_X.shape[:-1] != outcomes.means.shape[:-1]:
        raise BotorchTensorDimensionError(
            "Expected `train_X` of shape `batch_shape x n x d` with one row for each row of "
            f"repeats. Got {train_X.shape=}, {outcomes.means.shape[:-1]=}."
        )
    if train_X.dtype != outcomes.means.dtype:
        raise InputDataError(
            f"Expected one dtype. Got {train_X.dtype=} and {outcomes.means.dtype} for the repeats."
        )
    finite = train_X.isfinite().all(dim=-1)
    if not finite.all():
        *replicate, row = (~finite).nonzero()[0].tolist()
        where = f"row {row}" + (f" of replicate {tuple(replicate)}" if replicate else "")
        raise InputDataError(f"Expected finite `train_X`. Got {train_X[~finite][0]} in {where}.")
    observed = (outcomes.counts > 0).any(dim=-2)
    repeated = (outcomes.counts > 1).any(dim=-2) | ~observed
    if needs_spread and not repeated.all():
        raise InputDataError(
            "Expected at least one row with two repeats or more, to learn the noise from"
            + _naming(~repeated)
            + ". Got single repeats everywhere; repeat an experiment, or give `known_noise`."
        )
    _check_not_constant(outcomes.means)


def _check_not_constant(means: Tensor) -> None:
    spread = means.amax(dim=-2) - means.amin(dim=-2)
    constant = spread <= torch.finfo(means.dtype).eps * means.abs().amax(dim=-2)
    if means.shape[-2] < 2 or not constant.any():
        return
    if means.dim() == 2:
        raise InputDataError(
            f"Expected outcomes that differ between rows. Got the mean {means[0].item()} in all "
            f"{len(means)} rows."
        )
    warnings.warn(
        f"The outcomes are constant{_naming(constant)}; its model says nothing about the inputs.",
        InputDataWarning,
        stacklevel=4,
    )


def _naming(replicates: Tensor) -> str:
    r"""The marked replicates of a `batch_shape x 1` mask in words; nothing for a single model."""
    if replicates.dim() < 2:
        return ""
    names = [
        tuple(index[:-1]) if len(index) > 2 else index[0] for index in replicates.nonzero().tolist()
    ]
    return f" in replicate {', '.join(map(str, names))}"
