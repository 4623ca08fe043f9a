r"""Which of the proposed settings are still running."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from torch import Tensor

from botorch_risk.acquisition.pointwise import PointwiseAcquisitionFunction
from botorch_risk.arguments import as_data
from botorch_risk.seeding import Draws
from botorch_risk.steady import sent
from botorch_risk.strategies.environment_space import EnvironmentSpace
from botorch_risk.strategies.method import View
from botorch_risk.strategies.space import Box, Space

# A told decision stands for one that runs up to this distance, in diagonals of the box: somebody
# may have rounded it.
NEAR = 0.05
_NUM_DRAWS = 64  # for rows that repeat others


def expect_running(acquisition: PointwiseAcquisitionFunction, X: Tensor) -> None:
    r"""Condition an acquisition function on running points, `R x p x d'`, and keep away from them.

    The distance is 0.05 of the diagonal of the unit cube, even where points of one batch may be
    closer to each other, as under a knowledge gradient.
    """
    acquisition.set_X_pending(X)
    acquisition.keep_apart(X, PointwiseAcquisitionFunction.min_distance)


def as_running(X: Tensor, running: Tensor, space: Space) -> Tensor:
    r"""A user's pending points as rows `R x p x d_asked`, in the form of running rows."""
    if isinstance(space, EnvironmentSpace) and space.perturbs:
        raise UnsupportedError(
            "Expected no pending points in a space that perturbs decisions: perturbed points do "
            "not show the decision. Got pending points."
        )
    num_replicates, _, width = running.shape
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


def left_running(running: Tensor, told: Tensor, space: Space, near: float = NEAR) -> Tensor:
    r"""The rows that are still running after others were told.

    A told row ends the running row that it equals, or else the nearest one within a distance; if w
    is chosen, w must be the same. A row of NaN ends nothing, nor does a second reading of a row,
    unless the distance is infinite, so that any row stands for any other.

    Args:
        running: `R x p x d_asked`, padded with NaN.
        told: Rows of the history, `R x q x d`.
        near: The largest distance at which a row stands for another, in diagonals of the box.

    Returns:
        `R x p' x d_asked`, in the order of `running`.
    """
    columns = min(running.shape[-1], told.shape[-1])
    rows, told = running[..., :columns], told[..., :columns]
    if rows.shape == told.shape and torch.equal(*(x.nan_to_num(torch.inf) for x in (rows, told))):
        return running[:, :0]
    left, pairs = are_rows(running), (rows.unsqueeze(-2), told.unsqueeze(-3))
    equal = (pairs[0] == pairs[1]).all(dim=-1)  # R x p x q
    spent = equal.any(dim=-2)
    for index, column in enumerate(equal.unbind(dim=-1)):
        ended = column & left
        left = left & ~(ended & (ended.cumsum(dim=-1) == 1))
        if near == math.inf:
            spent[:, index] = ended.any(dim=-1)
    lower, upper = space.bounds
    d_x, width = len(lower), (upper - lower).where(upper > lower, 1.0)
    away = ((pairs[0] - pairs[1])[..., :d_x] / width).square().sum(dim=-1).sqrt()
    may_stand = (away <= near * math.sqrt(d_x)) & ~spent.unsqueeze(-2)
    if near < math.inf and getattr(space, "w_is_chosen", False):
        may_stand &= (pairs[0] == pairs[1])[..., d_x:].all(dim=-1)
    for distance, stands in zip(away.unbind(dim=-1), may_stand.unbind(dim=-1), strict=True):
        distance = distance.masked_fill(~(stands & left), torch.inf)
        nearest = torch.zeros_like(left).scatter(-1, distance.argmin(dim=-1, keepdim=True), True)
        left = left & ~(nearest & distance.isfinite())
    return _chosen(running, left)


def joined(first: Tensor, second: Tensor) -> Tensor:
    r"""The rows of both, `R x p x d`, each once, padded with NaN."""
    rows = torch.cat([first, second], dim=-2)
    is_new = torch.cat([torch.ones_like(are_rows(first)), ~_is_among(second, first)], dim=-1)
    return _chosen(rows, are_rows(rows) & is_new)


def without(rows: Tensor, others: Tensor) -> Tensor:
    r"""The rows `R x p x d` that equal none of others `R x q x d`, padded with NaN."""
    return _chosen(rows, are_rows(rows) & ~_is_among(rows, others))


def cancelled(running: Tensor, X: Tensor, space: Space) -> Tensor:
    r"""The running rows without some points, which are `R x p x d` in the user's form.

    Raises:
        ValueError: If a point is not running.
    """
    X = as_data(X, "X").to(space.bounds)
    shown = space.shown(running)
    if X.dim() != 3 or X.shape[::2] != shown.shape[::2]:
        raise BotorchTensorDimensionError(
            f"Expected `X` of shape `{shown.shape[0]} x p x {shown.shape[2]}`. "
            f"Got {tuple(X.shape)}."
        )
    equal = (shown.unsqueeze(-2) == X.unsqueeze(-3)).all(dim=-1)  # R x p x len(X)
    unknown = X.isfinite().all(dim=-1) & ~equal.any(dim=-2)
    if unknown.any():
        raise ValueError(f"Expected points that are running. Got {X[unknown][0].tolist()}.")
    given_up = equal.any(dim=-1, keepdim=True)
    return joined(running[:, :0], running.masked_fill(given_up, torch.nan))


def where_missing(rows: Tensor, asked: Tensor) -> Tensor:
    r"""Told rows, with the proposed ones where a replicate took no part."""
    columns = min(asked.shape[-1], rows.shape[-1])
    missing = rows.isnan().any(dim=-1, keepdim=True)
    known = asked[:, : rows.shape[-2], :columns]
    short = rows.shape[-2] - known.shape[-2]
    known = torch.cat([known, known.new_full((len(known), short, columns), torch.nan)], dim=-2)
    return torch.where(missing, known, rows[..., :columns])


def random_rows(view: View, num_points: int, purpose: str) -> Tensor:
    r"""Random rows `R x q x d_asked` of the round, all different and none that is running.

    Rows may repeat if the space has no others.
    """
    X: Tensor = view.space.random_points(view.seeds, num_points, purpose, view.round)
    running = view.history.running
    for attempt in range(_NUM_DRAWS):
        repeated = _is_repeated(X, running).unsqueeze(-1)
        if not repeated.any():
            break
        stream = purpose, view.round, "instead", attempt
        X = torch.where(repeated, view.space.random_points(view.seeds, num_points, *stream), X)
    else:
        settings = view.space.settings() if isinstance(view.space, Box) else None
        if settings is not None:
            draws = Draws(view.seeds, purpose, view.round, "left").uniforms(num_points)
            X = _unused_instead(X, running, settings, sent(draws, X.device))
    return X


def _unused_instead(X: Tensor, running: Tensor, settings: Tensor, uniforms: Tensor) -> Tensor:
    r"""Rows, each repeated one replaced by a random setting that neither came nor runs.

    Args:
        X: `R x q x d`.
        running: `R x p x d`.
        settings: All settings, `n x d`. If none is left, a row stays.
        uniforms: Numbers in [0, 1), `R x q`.
    """
    X = X.clone()
    for row in range(X.shape[1]):
        others = torch.cat([running, X[:, :row], X[:, row + 1 :]], dim=-2)
        left = ~_is_among(settings.expand(len(X), -1, -1), others)  # R x n
        number = (uniforms[:, row] * left.sum(dim=-1)).floor() + 1
        chosen = (left.cumsum(dim=-1) == number.unsqueeze(-1)).to(torch.uint8).argmax(dim=-1)
        repeated = _is_among(X[:, row : row + 1], others).squeeze(-1) & left.any(dim=-1)
        X[:, row] = torch.where(repeated.unsqueeze(-1), settings[chosen], X[:, row])
    return X


class RepeatedSettingWarning(RuntimeWarning):
    r"""A setting is proposed twice, or while it is still running, because no other was found."""


def warn_of_repeated_settings(asked: Tensor, running: Tensor, seeds: Sequence[int]) -> None:
    r"""Name the first replicate in which a proposed row is not new."""
    if asked.shape[1] < 2 and not running.shape[1]:
        return
    repeated = _is_repeated(asked, running).any(dim=-1)
    if repeated.any():
        replicate = int(repeated.to(torch.uint8).argmax())
        warnings.warn(
            "Expected proposed settings that differ from each other and from running settings. Got "
            f"a repeated setting for seed {seeds[replicate]}: the search found no other setting. "
            "For repeats, use `num_repeats`.",
            RepeatedSettingWarning,
            stacklevel=4,
        )


def _is_repeated(rows: Tensor, running: Tensor) -> Tensor:
    r"""Which rows equal an earlier one or one that runs, `R x q`."""
    every = torch.cat([running, rows], dim=-2)
    equal = (every.unsqueeze(-2) == every.unsqueeze(-3)).all(dim=-1)
    return equal.tril(-1).any(dim=-1)[:, running.shape[1] :]


def are_rows(rows: Tensor) -> Tensor:
    r"""Which are rows and not NaN, `R x p`."""
    return rows.isfinite().all(dim=-1)


def _is_among(rows: Tensor, others: Tensor) -> Tensor:
    r"""Which rows equal one of others, `R x p`."""
    return (rows.unsqueeze(-2) == others.unsqueeze(-3)).all(dim=-1).any(dim=-1)


def _chosen(rows: Tensor, chosen: Tensor) -> Tensor:
    r"""The chosen rows of each replicate in their order, NaN after the last."""
    if chosen.all():
        return rows
    most = int(chosen.sum(dim=-1).max())
    order = (~chosen).to(torch.uint8).argsort(dim=-1, stable=True)[:, :most]
    found = rows.gather(-2, order.unsqueeze(-1).expand(*order.shape, rows.shape[-1]))
    return found.masked_fill(~chosen.gather(-1, order).unsqueeze(-1), torch.nan)
