r"""Training data of a mean-variance model, from tables of repeats in any form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from botorch.utils.datasets import SupervisedDataset
from torch import Tensor

from botorch_risk.arguments import as_floating
from botorch_risk.models.repeats import RepeatedOutcomes, pool_repeated_rows
from botorch_risk.models.validation import validate_inputs, validate_outcomes


def read_training_data(
    train_X: Tensor,
    train_Y: Tensor | Sequence[Tensor] | RepeatedOutcomes,
    train_Yvar: Tensor | Sequence[Tensor] | None,
    needs_spread: bool,
) -> tuple[Tensor, RepeatedOutcomes]:
    r"""Checks training data and pools rows with equal inputs.

    Args:
        train_X: `batch_shape x n x d` inputs.
        train_Y: Repeats, as `MeanVarianceGP` takes them.
        train_Yvar: The noise variance of each reading, if it is known.
        needs_spread: Whether the noise is to be learnt, so that repeats are needed.

    Returns:
        `batch_shape x n' x d` inputs and the statistics of their repeats, without a history of
        gradients. Batches keep their rows.

    Raises:
        BotorchTensorDimensionError: If shapes do not match.
        InputDataError: If a value is not finite, dtypes differ, or there is nothing to learn from.
        ValueError: If there are noise variances beside `RepeatedOutcomes`.
    """
    train_X = as_floating(train_X, "train_X")
    outcomes = _as_outcomes(train_Y, train_Yvar)
    validate_inputs(train_X, outcomes)
    train_X, outcomes = train_X.detach(), outcomes.detach()
    if not train_X.shape[:-2]:
        train_X, outcomes = pool_repeated_rows(train_X, outcomes)
    validate_outcomes(outcomes, needs_spread)
    return train_X, outcomes


def inputs_of_dataset(data: SupervisedDataset, counts: Tensor | None) -> dict[str, Any]:
    r"""Arguments of `MeanVarianceGP` from a dataset of BoTorch or Ax.

    Args:
        data: Without `Yvar`, `Y` holds `n x k` repeats. With `Yvar` and `counts`, `Y` holds means
            and `Yvar` their squared standard errors, `n x 1` each. With `Yvar` alone, `Y` holds
            readings and `Yvar` the noise variance of each.
        counts: `n x 1` numbers of repeats behind each mean.
    """
    if data.Yvar is None:
        return {"train_X": data.X, "train_Y": data.Y}
    if counts is None:
        return {"train_X": data.X, "train_Y": data.Y, "train_Yvar": data.Yvar}
    variances = (data.Yvar * counts).masked_fill(counts == 1, 0.0)
    outcomes = RepeatedOutcomes.from_summary(data.Y, variances, counts)
    return {"train_X": data.X, "train_Y": outcomes}


def _as_outcomes(
    train_Y: Tensor | Sequence[Tensor] | RepeatedOutcomes,
    train_Yvar: Tensor | Sequence[Tensor] | None,
) -> RepeatedOutcomes:
    if not isinstance(train_Y, RepeatedOutcomes):
        return RepeatedOutcomes.from_repeats(train_Y, train_Yvar)
    if train_Yvar is not None:
        raise ValueError(
            "Expected `train_Yvar` beside readings, not beside `RepeatedOutcomes`, which hold the "
            "noise already. Got both."
        )
    return train_Y
