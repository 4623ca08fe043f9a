r"""One laboratory experiment with readings in a plain table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from botorch_risk.arguments import as_data, check_fields
from botorch_risk.models.repeats import group_equal_rows
from botorch_risk.strategies.environment_space import EnvironmentSpace
from botorch_risk.strategies.method import Classification
from botorch_risk.strategies.strategy import Strategy


@dataclass(frozen=True)
class SingleExperiment:
    r"""Ask and tell one experiment, with one reading per row.

    It wraps a strategy of one seed and uses plain tables; `FrameExperiment` does the same with
    DataFrames, names and labels. `ask` returns `q x d`, and `tell` takes the readings in long form,
    in any order. Equal rows in one call of `tell` are readings of one point. A row is

    1. a row of this round, if its decision runs: `ask` has proposed it, and it is not told yet;
    2. else a further reading, if it equals an earlier row: it joins the readings of that row, as if
       they had come together, and does not start a new round;
    3. else a new point of this round, such as one that was measured before the first `ask`.

    Rows are equal if all their digits are; if the instrument rounds a setting, always tell the same
    form of it. Contexts are part of a row: the same setting with a different context is a different
    row. A row whose readings are all missing is a failed evaluation; its context still counts.

    The initial design ends with `num_initial` points, suggested or not: each new point replaces the
    nearest remaining point of the design. A table that is told before any `ask` ends the design at
    once if it has more points with readings than columns. If the noise is learnt, as in `rahbo`, a
    point with one reading informs only the mean, and at least one point needs two.

    Args:
        strategy: A strategy of one seed. It remains usable, and its `belief` is the fitted model.

    Raises:
        UnsupportedError: If the space perturbs decisions: these must be told in the order of
            asking.
        ValueError: If the strategy has several seeds.

    Example:
        >>> from botorch_risk.papers import rahbo
        >>> bounds = torch.tensor([[0.0], [2.0]], dtype=torch.double)
        >>> strategy = rahbo(bounds, 0, num_repeats=2, risk_aversion=1.0, num_initial=4)
        >>> experiment = SingleExperiment(strategy)
        >>> X = experiment.ask().repeat(2, 1)  # two readings of each of four points
        >>> _ = experiment.tell(X, (3 * X.squeeze(-1)).sin() + 0.1 * torch.randn(8).double())
        >>> _ = experiment.tell(X[:1], torch.tensor([0.3]))  # a third reading of the first one
        >>> experiment.ask().shape, experiment.recommend().shape
        (torch.Size([1, 1]), torch.Size([1]))
    """

    strategy: Strategy

    def __post_init__(self) -> None:
        check_fields(self)
        if len(self.strategy.seeds) != 1:
            raise ValueError(
                f"Expected a strategy of one seed. Got {len(self.strategy.seeds)} seeds."
            )
        space = self.strategy.space
        if isinstance(space, EnvironmentSpace) and space.perturbs:
            raise UnsupportedError(
                "Expected a space whose rows show their decision. Got perturbed "
                "decisions, which must be told in the order of asking: use the strategy."
            )

    def ask(self, batch_size: int | None = None, pending: Tensor | None = None) -> Tensor:
        r"""The next points to measure, `q x d` in the units of the bounds.

        There are fewer rows if the method asks for fewer, and none once it has finished.

        Args:
            batch_size: The maximum number for this round; see `Strategy.ask`.
            pending: Points that somebody else has started, `p x d`.
        """
        if pending is not None:
            pending = as_data(pending, "pending").unsqueeze(0)
        asked = self.strategy.ask(batch_size, pending)[0]
        return asked[~asked.isnan().any(dim=-1)]

    @property
    def running(self) -> Tensor:
        r"""The points that were proposed and are not told yet, `p x d`; see `Strategy.running`."""
        return self.strategy.running[0]

    def cancel(self, X: Tensor) -> None:
        r"""Give up running points, `p x d`; see `Strategy.cancel`."""
        self.strategy.cancel(as_data(X, "X").unsqueeze(0))

    def tell(self, X: Tensor, y: Tensor) -> Tensor:
        r"""Record readings; if they are refused, nothing is changed.

        Args:
            X: The point of each reading, `n x d`, with observed contexts in the last columns.
            y: The readings, `n`, or `n x m` of m outcomes; NaN where one is missing.

        Returns:
            The row of the history that each reading joined, `n`.

        Raises:
            InputDataError: If a point is not finite or outside the space, a reading is infinite, or
                the method cannot use the readings.
        """
        X, y = self._checked(X, y)
        _, group = group_equal_rows(X)
        table, readings = pooled(X, y, group)
        row = self._row_of_further_readings(table)
        new, first = row < 0, self.strategy.history.num_rows
        before = self.strategy.state_dict()
        try:
            if not new.all():
                self.strategy.add_readings(row[~new].tolist(), readings[~new].unsqueeze(0))
            if new.any():
                is_table = not len(self.running)
                self.strategy.tell(table[new].unsqueeze(0), readings[new].unsqueeze(0))
                if is_table:
                    self._end_design_of_a_table()
        except BaseException:
            self.strategy.load_state_dict(before)
            raise
        row[new] = torch.arange(first, first + int(new.sum()))
        return row[group]

    def correct(self, rows: Sequence[int], Y: Tensor) -> None:
        r"""Replace all readings of rows of the history, `len(rows) x k`; see `Strategy.correct`."""
        self.strategy.correct(rows, as_data(Y, "Y").unsqueeze(0))

    def withdraw(self, rows: Sequence[int]) -> None:
        r"""Remove rows of the history; see `Strategy.withdraw`."""
        self.strategy.withdraw(rows)
        if not len(self.running) and self.strategy.history.num_rows:
            self._end_design_of_a_table()

    def recommend(self) -> Tensor:
        r"""Recommend a decision, as if the experiment ended now, `d_x`.

        Methods of several objectives recommend a set of decisions, `p x d_x`.

        Raises:
            ValueError: If the initial design is not complete.
        """
        return self.strategy.recommend()[0]

    def classify(self) -> Classification:
        r"""The classes of the points of a finite domain, `|D|` each.

        Raises:
            UnsupportedError: If the method does not look for a level set.
            ValueError: If the initial design is not complete.
        """
        found = self.strategy.classify()
        return Classification(*(getattr(found, each.name)[0] for each in fields(found)))

    def state_dict(self) -> dict[str, Any]:
        return self.strategy.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        r"""Continue from the state of a strategy with the same arguments.

        Raises:
            ValueError: If the arguments differ; then nothing is changed.
        """
        self.strategy.load_state_dict(state)

    def _checked(self, X: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        r"""The points as rows of the history, `n x d`, and the readings `n x m`."""
        space, m = self.strategy.space, self.strategy.method.num_outcomes
        X, y = as_data(X, "X").to(space.bounds), as_data(y, "y").to(space.bounds)
        readings = y.unsqueeze(-1) if y.ndim == 1 else y
        fits = X.ndim == readings.ndim == 2 and 0 < len(X) == len(readings)
        if not fits or X.shape[1] != space.num_columns or readings.shape[1] != m:
            raise BotorchTensorDimensionError(
                f"Expected `X` of shape `n x {space.num_columns}` and `y` of shape "
                f"`n{'' if m == 1 else f' x {m}'}`, n >= 1. Got {X.shape=}, {y.shape=}."
            )
        if not X.isfinite().all():
            row = X[~X.isfinite().all(dim=-1)][0].tolist()
            raise InputDataError(f"Expected a finite point for each reading. Got {row}.")
        return space.rows(X.unsqueeze(0), self.ask)[0], readings

    def _end_design_of_a_table(self) -> None:
        r"""End the initial design if more rows than columns have a reading, and each outcome."""
        history = self.strategy.history
        num_rows = int(history.has_outcome.sum())
        if num_rows > history.X.shape[-1] and bool(history.is_known.all()):
            self.strategy.end_initial_design()

    def _row_of_further_readings(self, table: Tensor) -> Tensor:
        r"""The history row that each row of readings joins, `n`; -1 for none."""
        known = self.strategy.history.X[0]
        if not len(known):
            return torch.full((len(table),), -1)
        equal = _equal(table, known)
        joins = equal.any(dim=-1)
        running = self.running
        joins &= ~_equal(table[:, : running.shape[-1]], running).any(dim=-1)
        return equal.to(torch.uint8).argmax(dim=-1).where(joins, -1)


def pooled(X: Tensor, readings: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
    r"""Rows `n' x d` of a history, and their readings `n' x k x m` filled with NaN.

    Args:
        X: The point of each reading, `n x d`.
        readings: `n x m`, NaN where one is missing.
        row: The row that each reading joins, `n`; every number from 0 to the largest occurs.
    """
    of_each = [row == each for each in range(int(row.amax()) + 1)]
    taken = [_taken(readings[joins]) for joins in of_each]
    first = torch.stack([X[joins][0] for joins in of_each])
    return first, pad_sequence(taken, batch_first=True, padding_value=torch.nan)


def _taken(readings: Tensor) -> Tensor:
    r"""The readings `k x m` without missing ones, or a single missing one."""
    is_taken = ~readings.isnan().all(dim=-1)
    return readings[is_taken] if is_taken.any() else readings[:1]


def _equal(rows: Tensor, others: Tensor) -> Tensor:
    r"""Whether each of `n x d` rows equals each of `m x d` others, `n x m`."""
    return (rows.unsqueeze(-2) == others).all(dim=-1)
