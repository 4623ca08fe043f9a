r"""Which of the settings that were proposed still run."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from botorch_risk.strategies.method import View
from botorch_risk.strategies.space import Space

# A told decision stands for one that runs up to this distance, in diagonals of the box: somebody
# may have rounded it.
NEAR = 0.05
_NUM_DRAWS = 64  # for rows that repeat others


def left_running(running: Tensor, told: Tensor, space: Space, near: float = NEAR) -> Tensor:
    r"""The rows that still run after others were told.

    A told row ends the running row that it equals, or else the nearest one within a distance; with
    the same w if w is chosen. A row of NaN ends nothing.

    Args:
        running: `R x p x d_asked`, NaN after the last of a replicate.
        told: Rows of the history, `R x q x d`.
        space: What a row is.
        near: The largest distance at which a row stands for another, in diagonals of the box.

    Returns:
        `R x p' x d_asked`, in the order of `running`.
    """
    columns = min(running.shape[-1], told.shape[-1])
    told = told[..., :columns]
    if running.shape[1] == told.shape[1] and torch.equal(running[..., :columns], told):
        return running[:, :0]
    return _padded(
        [
            rows[_not_ended(rows[:, :columns], others, space, near)]
            for rows, others in zip(_finite(running), _finite(told), strict=True)
        ]
    )


def _not_ended(rows: Tensor, told: Tensor, space: Space, near: float) -> Tensor:
    r"""Which of `p x d` rows none of `q x d` told rows ends."""
    left = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
    lower, upper = space.bounds
    d_x, width = len(lower), (upper - lower).where(upper > lower, torch.ones_like(lower))
    away = torch.cdist(rows[:, :d_x] / width, told[:, :d_x] / width)
    far = away > near * math.sqrt(d_x)
    if near < math.inf and getattr(space, "w_is_chosen", False):
        far |= (rows[:, None, d_x:] != told[:, d_x:]).any(dim=-1)
    is_equal = (rows.unsqueeze(-2) == told).all(dim=-1)
    away = away.masked_fill(far, torch.inf).masked_fill(is_equal, -1.0)
    if not away.numel():
        return left
    for column in away.amin(dim=0).argsort(stable=True).tolist():  # equal ones first
        distance = away[:, column].masked_fill(~left, torch.inf)
        if distance.amin() < torch.inf:
            left[distance.argmin()] = False
    return left


def random_rows(view: View, num_points: int, purpose: str) -> Tensor:
    r"""Random rows `R x q x d_asked` of the round, none twice and none that runs.

    Where the space has no others, one may repeat.

    Args:
        view: The space, the seeds and what runs.
        num_points: How many for each replicate.
        purpose: Names the draw.
    """
    X: Tensor = view.space.random_points(view.seeds, num_points, purpose, view.round)
    running = view.history.running
    for attempt in range(_NUM_DRAWS):
        every = torch.cat([running, X], dim=-2)
        equal = (every.unsqueeze(-2) == every.unsqueeze(-3)).all(dim=-1).tril(-1).any(dim=-1)
        repeated = equal[:, running.shape[-2] :].unsqueeze(-1)
        if not repeated.any():
            break
        stream = purpose, view.round, "instead", attempt
        X = torch.where(repeated, view.space.random_points(view.seeds, num_points, *stream), X)
    return X


def joined(first: Tensor, second: Tensor) -> Tensor:
    r"""The rows of both, `R x p x d`, each once, NaN after the last of a replicate."""
    pairs = zip(_finite(first), _finite(second), strict=True)
    return _padded([torch.cat([rows, without(more, rows)]) for rows, more in pairs])


def without(rows: Tensor, others: Tensor) -> Tensor:
    r"""The rows `p x d` that equal none of others `q x d`."""
    return rows[~(rows.unsqueeze(-2) == others).all(dim=-1).any(dim=-1)]


def _finite(rows: Tensor) -> list[Tensor]:
    return [each[each.isfinite().all(dim=-1)] for each in rows]


def _padded(rows: list[Tensor]) -> Tensor:
    return pad_sequence(rows, batch_first=True, padding_value=torch.nan)


class RepeatedSettingWarning(RuntimeWarning):
    r"""A setting is proposed twice, or while it runs: no other is left."""


def warn_of_repeated_settings(asked: Tensor, running: Tensor, seeds: Sequence[int]) -> None:
    r"""Name the first replicate in which a proposed row is not new.

    Args:
        asked: `R x q x d_asked`, NaN for none.
        running: `R x p x d_asked`.
        seeds: One for each replicate.
    """
    if asked.shape[1] < 2 and not running.shape[1]:
        return
    every = torch.cat([running, asked], dim=-2)
    equal = (every.unsqueeze(-2) == every.unsqueeze(-3)).all(dim=-1)
    repeated = equal.tril(-1).any(dim=-1)[:, running.shape[1] :].any(dim=-1)
    if repeated.any():
        replicate = int(repeated.to(torch.uint8).argmax())
        warnings.warn(
            "Expected settings that differ from each other and from those that run. Got one "
            f"twice for seed {seeds[replicate]}: no other is left. `num_repeats` is for repeats.",
            RepeatedSettingWarning,
            stacklevel=4,
        )
