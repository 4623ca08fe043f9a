r"""Checks of what a strategy is told: outcomes, rows of its history, points that somebody runs."""

from collections.abc import Sequence
from typing import Any

from botorch.exceptions.errors import (
    BotorchError,
    BotorchTensorDimensionError,
    InputDataError,
    UnsupportedError,
)
from torch import Tensor

from botorch_risk.strategies.environment_space import EnvironmentSpace
from botorch_risk.strategies.history import History
from botorch_risk.strategies.method import Method
from botorch_risk.strategies.space import Space, as_data


def checked_outcomes(X: Tensor, Y: Tensor, history: History) -> tuple[Tensor, Tensor]:
    r"""Check that points and outcomes `R x q x k x m` match each other and the history."""
    num_replicates, m = len(history.seeds), history.num_outcomes
    X, Y = as_data(X, "X").to(history.X), as_data(Y, "Y").to(history.X)
    repeats = Y.unsqueeze(-1) if m == 1 and Y.ndim == 3 else Y  # R x q x k x m
    fits = X.ndim == 3 and repeats.ndim == 4 and len(X) == num_replicates and X.shape[1] > 0
    if not fits or repeats.shape[:2] != X.shape[:2] or not repeats.numel() or repeats.shape[3] != m:
        columns = "k" if m == 1 else f"k x {m}"
        raise BotorchTensorDimensionError(
            f"Expected `X` to have shape `{num_replicates} x q x d` and `Y` "
            f"`{num_replicates} x q x {columns}`, q >= 1. Got {X.shape=}, {Y.shape=}."
        )
    if X.isinf().any() or Y.isinf().any():
        raise InputDataError("Expected finite `X` and `Y`, NaN where missing. Got infinity.")
    if (X.isnan().any(dim=-1) & Y.isfinite().flatten(2).any(dim=-1)).any():
        raise InputDataError("Expected the point of every outcome. Got an outcome at NaN.")
    return X, repeats


def known_rows(rows: Sequence[int], history: History) -> list[int]:
    r"""Check that rows are some of a history, each once."""
    index = list(rows)
    if len(set(index)) < len(index) or not set(index) <= set(range(history.num_rows)):
        raise ValueError(f"Expected rows below {history.num_rows}, each once. Got {index}.")
    return index


def checked_pending(X: Tensor, history: History, space: Space) -> Tensor:
    r"""Rows `R x p x d_asked` of a user's pending points."""
    num_replicates, _, width = history.running.shape
    if isinstance(space, EnvironmentSpace) and space.perturbs:
        raise UnsupportedError(
            "Expected no pending points of a space that perturbs them: they do not show their "
            "decision. Got some."
        )
    X = as_data(X, "pending").to(space.bounds)
    if X.dim() != 3 or len(X) != num_replicates or X.shape[-1] != width:
        raise BotorchTensorDimensionError(
            f"Expected `pending` of shape `{num_replicates} x p x {width}`. Got {tuple(X.shape)}."
        )
    if not X.shape[1]:
        return X
    known: Any = space
    if width < space.num_columns:  # without contexts, which are noted later
        return known.box.checked(X)
    return known.rows(X, lambda: X)


def check_history(history: History, space: Space, method: Method) -> None:
    r"""Raise a `ValueError` unless `tell` could have been told the rows of a history."""
    X = told = history.X
    if isinstance(space, EnvironmentSpace) and space.perturbs:
        told = space.inputs(X)
    try:
        checked_outcomes(X, history.Y, history)
        space.rows(told, lambda: X)
        method.check(history)
    except BotorchError as error:
        raise ValueError(f"Expected rows that `tell` accepts. {error}") from error
