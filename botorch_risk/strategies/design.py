r"""The rows of an initial design that have not been proposed yet."""

import math

from torch import Tensor

from botorch_risk.strategies.finite_domain import FiniteDomain
from botorch_risk.strategies.history import History
from botorch_risk.strategies.running import are_rows, left_running, where_missing, without
from botorch_risk.strategies.space import Space


def rows_of_design(
    design: Tensor, history: History, space: Space, q: int | None, batch_size: int
) -> Tensor:
    r"""Rows of an initial design; once all of them run, further points of its sequence.

    Args:
        design: `R x n x d_asked`.
        history: The rows told so far, and those that are running.
        space: The space, which continues the sequence.
        q: As in `ask`.
        batch_size: The number of further points if `q` is None.
    """
    size = design.shape[1]
    told = where_missing(history.X, design)
    rows = _next_of_design(design, told, history.running, space, q)
    if rows.shape[1]:
        return rows
    q = q or batch_size
    number = size + history.running.shape[1] + q
    if isinstance(space, FiniteDomain):
        number = min(number, len(space.domain))
    more = space.initial(list(history.seeds), number)[:, size:]
    return _next_of_design(more, told[:, :0], history.running, space, q)


def _next_of_design(
    design: Tensor, told: Tensor, running: Tensor, space: Space, q: int | None
) -> Tensor:
    r"""The rows of an initial design that are not told, or q that do not run either.

    Args:
        design: `R x n x d_asked`.
        told: Rows of the history, `R x n' x d`, each of which stands for the nearest one.
        running: `R x p x d_asked`.
        q: The largest number of rows; None for those that run, too.
    """
    rest = left_running(design, told, space, near=math.inf) if told.shape[-2] else design
    if q is None:
        return rest
    free = without(rest, running)
    number = int(are_rows(free).sum(dim=-1).min())
    return free[:, : min(q, number)]
