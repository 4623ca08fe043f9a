r"""Rows of a batched objective that are evaluated again and again."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from botorch_risk.steady import sent


class SelectedRows:
    r"""Likelihoods of rows whose data are at hand.

    Args:
        rows: The rows, ascending.
        parts: The likelihoods of blocks of them, `block x p` to `block x (2 + p)`.
        size: The rows of a block.
        like: A tensor of the dtype and on the device of the data.
        is_kept: Whether the data of all rows stay when some have ended, which are then computed in
            vain: what a GPU records has one shape.
    """

    def __init__(
        self,
        rows: ndarray,
        parts: Sequence[Callable[[Tensor], Tensor]],
        size: int,
        like: Tensor,
        is_kept: bool,
    ) -> None:
        self._rows, self._parts, self._size, self._like = rows, parts, size, like
        self._is_kept, self._last = is_kept, np.empty(0)

    def has(self, rows: ndarray) -> bool:
        if self._is_kept and len(rows) <= len(self._rows):
            return bool(np.isin(rows, self._rows).all())
        return np.array_equal(rows, self._rows)

    def __call__(self, values: ndarray, rows: ndarray) -> ndarray:
        among: Any = slice(None)
        if len(rows) < len(self._rows):
            among = np.searchsorted(self._rows, rows)
            self._last[among] = values
        else:
            self._last = values.copy()
        blocks = sent(self._last, self._like.device).to(self._like).split(self._size)
        found = [part(block) for part, block in zip(self._parts, blocks, strict=True)]
        joined = found[0] if len(found) == 1 else torch.cat(found)
        results: ndarray = joined.cpu().double().numpy()
        return results[among]
