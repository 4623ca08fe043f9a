r"""One laboratory experiment with readings in a DataFrame."""

import reprlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any

import torch
from botorch.exceptions.errors import InputDataError, UnsupportedError
from botorch.exceptions.warnings import InputDataWarning
from torch import Tensor

from botorch_risk.arguments import check_arguments, in_order
from botorch_risk.extras import require_extra
from botorch_risk.frames.frame_layout import Direction, FrameLayout
from botorch_risk.frames.named_columns import check_names, numbers_of, told_values
from botorch_risk.frames.single_experiment import SingleExperiment, pooled
from botorch_risk.models.far_readings import FAR, far_positions
from botorch_risk.strategies.built_with import describe, to_json
from botorch_risk.strategies.environment_space import EnvironmentSpace
from botorch_risk.strategies.limits import LinearLimit
from botorch_risk.strategies.method import View
from botorch_risk.strategies.prediction import Interval
from botorch_risk.strategies.states import opened, sealed
from botorch_risk.strategies.strategy import Strategy


class FrameExperiment:
    r"""Ask and tell one experiment in DataFrames, with named columns in your units.

    `ask` gives settings, to which you add your measurements; `tell` takes them back, one reading
    per row, in any order and with entries missing; `predict` and `recommend` give intervals. It is
    a `SingleExperiment` with names, and pools rows in the same way. It needs pandas (the extra
    `frames`).

    A minimised outcome keeps its sign everywhere: in `tell`, in predictions and risks, in the
    thresholds of `constraints` and in `reference_point`. Its bad tail is the large values.

    The whole DataFrame is checked before anything is computed. A row without a reading is a failed
    evaluation; a row without a setting or a context is not an evaluation. Both are kept in `data`,
    and `unused` lists them.

    Args:
        parameters: The settings, by name: `(low, high)`, `(low, high, step)` (integers if `low` and
            `step` are whole), `(low, high, "log")` for a number whose logarithm matters, such as a
            learning rate, or a list of labels, whose order has no meaning. For a strategy on a
            finite domain, a DataFrame of numbers with one setting per row, which its index names.
        outcomes: The outcomes, by name: `"maximize"` or `"minimize"`, or None for an outcome that
            is neither, such as one only in a constraint, or one whose level set is sought. The
            first is the objective.
        strategy: The strategy's constructor, such as `rahbo`, called as
            `strategy(box, seed, **options)`, or with the domain `|D| x d`.
        contexts: The contexts, which are observed with the outcome but not set, by name:
            `(low, high)`, or a list of labels in the order of their codes. Their distribution is
            learnt, with `LabelFrequencies` for labels, unless the options include an `environment`.
        units: Units of columns, by name, for messages.
        limits: Linear constraints on settings (`LinearLimit`), by their names and in their units,
            such as fractions that sum to 1. All settings that are proposed or recommended satisfy
            them. A told setting that misses one by at most 1e-6 of the sum's range counts as the
            nearest that satisfies it; others are refused.
        seed: Seed of every random draw.
        options: Further arguments of the strategy; with a list of settings, a Series is matched to
            them by its index, in any order.

    Raises:
        UnsupportedError: If the strategy does not take categories or contexts, its points have
            other columns, an option has a threshold whose sign would be wrong, or `limits` apply to
            labels or to a list of settings.
        ValueError: If at most one setting satisfies the `limits`.

    Example:
        >>> import pandas as pd
        >>> from botorch_risk.papers import rahbo
        >>> experiment = FrameExperiment(
        ...     {"heat": (20.0, 80.0, 5.0), "flour": ["rye", "wheat"]}, {"waste": "minimize"},
        ...     rahbo, num_repeats=2, risk_aversion=0.5, num_initial=4,
        ... )
        >>> settings = experiment.ask()
        >>> readings = pd.concat([settings, settings], ignore_index=True)
        >>> readings["waste"] = [3.0, 4.0, 2.5, 6.0, 3.2, 4.1, 2.0, None]
        >>> experiment.tell(readings)
        >>> experiment.ask(2).columns.tolist(), len(experiment.unused)
        (['heat', 'flour'], 1)
        >>> best = experiment.recommend()
        >>> best.columns.tolist()
        ['heat', 'flour', 'waste_risk', 'waste_risk_lower', 'waste_risk_upper']
    """

    def __init__(
        self,
        parameters: Any,
        outcomes: Mapping[str, Direction | None],
        strategy: Callable[..., Strategy],
        *,
        contexts: Mapping[str, Any] | None = None,
        units: Mapping[str, str] | None = None,
        limits: Sequence[LinearLimit] = (),
        seed: int = 0,
        **options: Any,
    ) -> None:
        self._pandas: Any = require_extra("pandas", "botorch_risk[frames]")
        check_arguments(FrameExperiment.__init__, locals())
        self._layout = FrameLayout.of(parameters, outcomes, contexts or {}, units or {}, limits)
        self._labels: Any = None if self._layout.domain is None else parameters.index
        if self._labels is not None:  # such as weights of the settings, by name
            options = {
                name: value if isinstance(value, Mapping) else in_order(name, value, self._labels)
                for name, value in options.items()
            }
        self._single = SingleExperiment(self._layout.strategy(strategy, seed, options))
        self._rows: dict[str, list[Any]] = {name: [] for name in self._layout.names}
        self._joined: list[int] = []  # the row of the history of each row; -1 for none
        self._far: set[tuple[str, int]] = set()  # outcomes and rows of which a warning told

    @property
    def strategy(self) -> Strategy:
        r"""The strategy, which uses its own numbers: codes for labels, and counts of steps."""
        return self._single.strategy

    @property
    def data(self) -> Any:
        r"""All told rows, unchanged and in order."""
        return self._pandas.DataFrame(self._rows)

    @property
    def unused(self) -> Any:
        r"""The rows of `data` that no model uses: a Series that names their missing entries."""
        missing, outcomes, lacks = self.data.isna(), set(self._layout.signs), {}
        for row, absent in missing[missing.any(axis=1)].iterrows():
            names = absent.index[absent].tolist()
            if set(names) - outcomes or outcomes <= set(names):
                lacks[row] = ", ".join(names)
        return self._pandas.Series(lacks, name="missing", dtype=object)

    @property
    def running(self) -> Any:
        r"""The settings that `ask` gave and that are not told yet, one per row.

        A setting runs until it, or a nearby one that somebody rounded, is told, or it is cancelled.
        """
        return self.named(self._single.running)

    def ask(self, batch_size: int | None = None, pending: Any = None) -> Any:
        r"""The next settings to measure, one per row; with the contexts, if these are chosen too.

        Asking again before the next `tell` gives the same settings. A setting of an earlier round
        that still runs (`running`) is not given again, nor is one close to it.

        Args:
            batch_size: The number of settings. During the initial design, at most its settings that
                are not running are given, or further ones once all of them run. Default: the rest
                of the initial design, and later the strategy's batch size.
            pending: A DataFrame of settings that somebody else has started, with the columns that
                `ask` gives. They count as running from now on.
        """
        started = None if pending is None else self._settings(pending)
        return self.named(self._single.ask(batch_size, started))

    def cancel(self, frame: Any) -> None:
        r"""Give up running settings, as if `ask` had not given them.

        Args:
            frame: Rows of `running`, or a DataFrame with the same columns.

        Raises:
            ValueError: If a setting does not run.
        """
        self._single.cancel(self._settings(frame))

    def correct(self, frame: Any) -> None:
        r"""Replace readings that were told, as if the new ones had been told in their place.

        Args:
            frame: A DataFrame of outcomes, whose index has the rows of `data`. Outcomes without a
                column are not changed; an empty entry removes a reading.
        """
        names = list(self._layout.signs)
        if unknown := [name for name in frame.columns if name not in names]:
            raise InputDataError(f"Expected columns among the outcomes {names}. Got {unknown}.")
        rows = {name: list(values) for name, values in self._rows.items()}
        positions = self._positions(frame.index)
        for name in frame.columns:
            for row, value in zip(positions, told_values(frame, name), strict=True):
                rows[name][row] = value
        self._tell_again(rows, self._joined)

    def withdraw(self, rows: Any) -> None:
        r"""Remove rows that were told.

        The experiment continues as if they had never been told; the other rows are renumbered.

        Args:
            rows: The numbers of rows of `data`.
        """
        gone = set(self._positions(rows))
        kept = [row for row in range(len(self._joined)) if row not in gone]
        table = {name: [values[row] for row in kept] for name, values in self._rows.items()}
        self._tell_again(table, [self._joined[row] for row in kept])

    def _positions(self, rows: Any) -> list[int]:
        index = [int(row) if isinstance(row, Integral) else row for row in rows]
        for row in index:
            if row not in range(len(self._joined)) or index.count(row) > 1:
                raise InputDataError(
                    f"Expected rows of `data`, below {len(self._joined)}, each once. Got {row!r}."
                )
        return index

    def _tell_again(self, rows: dict[str, list[Any]], joined: list[int]) -> None:
        r"""Replace all told rows, of which each joins a row of the history or none, -1."""
        left = sorted({row for row in joined if row >= 0})
        position = {row: index for index, row in enumerate(left)} | {-1: -1}
        renumbered = [position[row] for row in joined]
        _, Y = self._history_of(rows, renumbered)
        strategy = self.strategy
        gone = sorted(set(range(strategy.history.num_rows)) - set(left))
        before = strategy.state_dict()
        try:
            if left:
                self._single.correct(left, Y[0])
            if gone:
                self._single.withdraw(gone)
        except BaseException:
            strategy.load_state_dict(before)
            raise
        self._rows, self._joined = rows, renumbered
        self._far = self._far_rows()

    def _settings(self, frame: Any) -> Tensor:
        r"""Settings in the form of `ask`, as points."""
        layout = self._layout
        d = self._single.running.shape[-1]  # with the contexts, if they are chosen
        columns = layout.columns[:d]
        check_names(frame, [each.name for each in columns], layout.names)
        X = layout.points(frame, columns)
        if X.isnan().any():
            row = frame.index[int(X.isnan().any(dim=-1).to(torch.uint8).argmax())]
            raise InputDataError(f"Expected all settings in each row. Got none in row {row!r}.")
        return layout.within_limits(frame, X)

    def tell(self, frame: Any) -> None:
        r"""Record readings, one per row; if they are refused, nothing is changed.

        Args:
            frame: A DataFrame with the columns of all parameters, contexts and outcomes, in any
                order. Rows with equal settings are readings of one point. Leave missing entries
                empty.

        Warns:
            InputDataWarning: If a row lacks a setting or a context, or if an outcome is absurdly
                far from all others, such as -9999 for a failure.

        Raises:
            InputDataError: If a column is missing, unknown or duplicated, a label is unknown, a
                number is outside its range or off its step, settings violate the `limits`, or a
                reading is not a number; or if the method cannot use the readings.
        """
        layout = self._layout
        check_names(frame, layout.names)
        X, y = layout.points(frame, layout.columns), layout.outcomes(frame)
        layout.check_contexts(frame, X, self.strategy.space)
        X = layout.within_limits(frame, X)
        is_point = X.isfinite().all(dim=-1)
        if not is_point.all():
            rows = frame.index[~is_point.numpy()].tolist()
            warnings.warn(
                f"Expected all settings and contexts in each row. Got {len(rows)} incomplete rows, "
                f"such as {rows[0]!r}: `data` keeps these rows, and the model ignores them.",
                InputDataWarning,
                stacklevel=2,
            )
        joined = torch.full((len(X),), -1)
        if is_point.any():
            joined[is_point] = self._single.tell(X[is_point], y[is_point])
        self._joined += joined.tolist()
        for name, values in self._rows.items():
            values += told_values(frame, name)
        self._warn_of_far_rows()

    def predict(self, frame: Any) -> Any:
        r"""Predict the outcomes of settings, with nominal 95 % intervals.

        For an outcome `y` the columns are `y_mean`, `y_lower` and `y_upper`, for the mean of many
        readings, and `y_noise`, the standard deviation of one reading. If the noise varies between
        points, or is sampled, there are also `y_noise_lower` and `y_noise_upper`. If there are
        contexts and the frame has no context columns, the prediction is the risk over them:
        `y_risk`, `y_risk_lower` and `y_risk_upper`, and for an outcome `z` with constraints
        `z_feasible`, the probability that they hold.

        Args:
            frame: A DataFrame with the columns of all parameters, and either all contexts or none.
                Columns of outcomes are not read.

        Returns:
            A DataFrame with the same index.

        Raises:
            UnsupportedError: If the method has no model.
            ValueError: If the initial design is not complete.
        """
        check_names(frame, [], self._layout.names)
        of_risk = not {each.name for each in self._layout.contexts} & set(frame.columns)
        of_risk &= bool(self._layout.contexts)
        columns = self._layout.parameters if of_risk else self._layout.columns
        check_names(frame, [each.name for each in columns], self._layout.names)
        X = self._layout.points(frame, columns)
        if X.isnan().any():
            row = frame.index[int(X.isnan().any(dim=-1).to(torch.uint8).argmax())]
            raise InputDataError(f"Expected all settings in each row. Got none in row {row!r}.")
        if of_risk:
            return self._pandas.DataFrame(self._risks(X), index=frame.index)
        found = self.strategy.method.predict(self._view(), X.unsqueeze(0))
        table: dict[str, Any] = {}
        for outcome, name in enumerate(self._layout.signs):
            table |= self._interval(outcome, found.outcome, "", "_mean")
            noises = (found.noise, *(found.noise_interval or ()))
            for end, noise in zip(("", "_lower", "_upper"), noises, strict=False):
                table[f"{name}_noise{end}"] = noise[0, :, outcome].tolist()
        return self._pandas.DataFrame(table, index=frame.index)

    def recommend(self, among: Any = None) -> Any:
        r"""The setting to use, as if the experiment ended now, with an interval of its risk.

        It is one row; with several objectives, a set of compromises, one per row. For an objective
        `y` the columns are `y_risk`, the quantity that the strategy optimises, and the ends of its
        nominal 95 % interval, `y_risk_lower` and `y_risk_upper`; for an outcome `z` with
        constraints `z_feasible`, the probability that they hold. A strategy without a model has
        none of these columns.

        Args:
            among: A DataFrame of settings, of which the one with the best expected risk of the
                first objective is recommended; the strategy must predict its risk. Default: the
                strategy's own rule.

        Raises:
            ValueError: If the initial design is not complete.
        """
        self._view()
        if among is not None:
            return self._best_of(among)
        X = self._single.recommend().reshape(-1, len(self._layout.parameters))
        X = X[~X.isnan().any(dim=-1)]
        try:
            risks = self._risks(X)
        except UnsupportedError:
            risks = {}
        return self.named(X).assign(**risks)

    def _best_of(self, among: Any) -> Any:
        columns = self._layout.parameters
        check_names(among, [each.name for each in columns], self._layout.names)
        X = self._layout.points(among, columns)
        known = X.isfinite().all(dim=-1)
        if not known.any():
            raise InputDataError("Expected a row with all settings. Got none.")
        risks = self.strategy.method.predict_risk(self._view(), X[known].unsqueeze(0)).mean
        best = X[known][int(risks[0, :, 0].argmax())].unsqueeze(0)
        return self.named(best).assign(**self._risks(best))

    def named(self, X: Tensor) -> Any:
        r"""Points of the strategy as a DataFrame, in your names, units and labels.

        Args:
            X: `n x d`, or `n x d_x` without the contexts.

        Returns:
            A DataFrame; if all points are listed settings, it has their index.
        """
        frame, domain = self._pandas.DataFrame(self._layout.values(X)), self._layout.domain
        if domain is not None:
            same = (X[:, : domain.shape[-1]].unsqueeze(-2) == domain).all(dim=-1)
            if same.any(dim=-1).all():
                frame.index = self._labels[same.to(torch.uint8).argmax(dim=-1).tolist()]
        return frame

    def classify(self) -> Any:
        r"""Classify the listed settings as above or below the level.

        Returns:
            A DataFrame of the settings. For an outcome `y`, `y_class` is `"above"`, `"below"` or
            `"unknown"`, and `y_probability` is the probability that a setting is above. With
            several levels, the columns are `y_class_0` and so on.

        Raises:
            UnsupportedError: If the method does not look for a level set.
            ValueError: If the initial design is not complete.
        """
        self._view()
        found, space = self._single.classify(), self.strategy.space
        box: Any = space.box if isinstance(space, EnvironmentSpace) else space
        table, (name, *_) = self.named(box.domain), self._layout.signs
        if self._labels is not None:
            table.index = self._labels  # also where two settings are equal
        several = found.high.dim() > 1
        parts = [torch.atleast_2d(each) for each in (found.high, found.low, found.probability)]
        for level, (high, low, probability) in enumerate(zip(*parts, strict=True)):
            end = f"_{level}" if several else ""
            code = torch.where(high, 0, torch.where(low, 1, 2)).tolist()
            table[f"{name}_class{end}"] = [("above", "below", "unknown")[each] for each in code]
            table[f"{name}_probability{end}"] = probability.tolist()
        return table

    def state_dict(self) -> dict[str, Any]:
        r"""The state needed to continue, together with the arguments of the experiment, as JSON.

        Raises:
            UnsupportedError: If the strategy was told something directly, not through the
                experiment.
        """
        X, Y = self._history_of(self._rows, self._joined)
        history = self.strategy.history
        for found, expected in ((history.X, X), (history.Y, Y)):
            if not torch.equal(found.nan_to_num(torch.inf), expected.nan_to_num(torch.inf)):
                raise UnsupportedError(
                    "Expected an experiment that was told everything in DataFrames. Got a "
                    "`strategy` that was told directly: save the state of the strategy."
                )
        inner = self._single.state_dict()
        del inner["digest"], inner["history"]["X"], inner["history"]["Y"]  # the rows have both
        missing = self.data.isna()
        return sealed(
            {
                "arguments": self._arguments(),
                "rows": {
                    name: [
                        None if no else each for each, no in zip(values, missing[name], strict=True)
                    ]
                    for name, values in self._rows.items()
                },
                "joined": list(self._joined),
                "experiment": inner,
            }
        )

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        r"""Continue from the state of an experiment with the same arguments.

        Raises:
            ValueError: If it is not a state, was damaged, has other arguments, or has rows that
                `tell` would refuse. Nothing is then changed.
        """
        rows, joined, inner = opened(state, self._arguments(), "rows", "joined", "experiment")
        self._check_rows(rows, joined)
        try:
            X, Y = self._history_of(rows, joined)
        except InputDataError as error:
            raise ValueError(f"Expected rows that `tell` accepts. {error}") from error
        if not isinstance(inner, Mapping) or not isinstance(inner.get("history"), Mapping):
            got = reprlib.repr(inner)
            raise ValueError(f"Expected 'experiment' to be a strategy's. Got {got}.")
        history = {**inner["history"], "X": to_json(X), "Y": to_json(Y)}
        self._single.load_state_dict(sealed({**inner, "history": history}))
        self._rows = {name: list(rows[name]) for name in self._layout.names}
        self._joined = list(joined)
        self._far = self._far_rows()

    def _warn_of_far_rows(self) -> None:
        r"""Name each row once whose outcome is absurdly far from all others, such as -9999."""
        before, self._far = self._far, self._far_rows()
        for name in self._layout.signs:
            new = sorted(row for each, row in self._far - before if each == name)
            if new:
                warnings.warn(
                    f"Expected outcomes of {name!r} on one scale. Got {self._rows[name][new[0]]:g} "
                    f"in the rows {new} of `data`, more than {FAR:g} times as far from the median "
                    "as two thirds of the rows: leave the outcome of a failed evaluation empty.",
                    InputDataWarning,
                    stacklevel=3,
                )

    def _far_rows(self) -> set[tuple[str, int]]:
        data, found = self.data, set()
        for name in self._layout.signs:
            found |= {(name, row) for row in far_positions(numbers_of(data, name))}
        return found

    def _check_rows(self, rows: Any, joined: Any) -> None:
        names = self._layout.names
        if not isinstance(rows, Mapping) or set(rows) != set(names) or type(joined) is not list:
            raise ValueError(f"Expected 'rows' of the columns {names}. Got {reprlib.repr(rows)}.")
        for name, values in rows.items():
            if not isinstance(values, list) or len(values) != len(joined):
                got = reprlib.repr(values)
                raise ValueError(f"Expected {len(joined)} rows of {name!r}. Got {got}.")
        found = {each for each in joined if each != -1}
        if not all(type(each) is int for each in joined) or found != set(range(len(found))):
            raise ValueError(
                "Expected 'joined' to number the points of the rows without a gap, -1 for none. "
                f"Got {reprlib.repr(joined)}."
            )

    def _history_of(
        self, rows: Mapping[str, list[Any]], joined: list[int]
    ) -> tuple[Tensor, Tensor]:
        r"""The points and the readings of the strategy's history, which the rows determine."""
        frame, layout = self._pandas.DataFrame(rows, columns=self._layout.names), self._layout
        X, y = layout.points(frame, layout.columns), layout.outcomes(frame)
        X = layout.within_limits(frame, X)
        y = y.unsqueeze(-1) if y.dim() == 1 else y
        row = torch.tensor(joined, dtype=torch.long)
        is_point = row >= 0
        if (is_point != X.isfinite().all(dim=-1)).any():
            raise InputDataError("Expected exactly the complete rows to be points. Got others.")
        if not is_point.any():
            return X[None, :0], y[None, :0, None][:, :, :0]
        points, readings = pooled(X[is_point], y[is_point], row[is_point])
        return points.unsqueeze(0), readings.unsqueeze(0)

    def _arguments(self) -> dict[str, Any]:
        layout = self._layout
        return {
            "names": layout.names,
            "columns": {each.name: describe(each) for each in layout.columns},
            "minimized": [name for name, sign in layout.signs.items() if sign < 0],
        }

    def _view(self) -> View:
        r"""What the method sees.

        Raises:
            ValueError: If the initial design is not complete, or an outcome has no reading.
        """
        if self.strategy.history.round and not self.strategy.views:
            raise ValueError("Expected readings of each outcome. Got an outcome without readings.")
        self.strategy.belief  # noqa: B018 raises if the initial design is not complete
        return self.strategy.views[0][1]

    def _risks(self, X: Tensor) -> dict[str, list[float]]:
        r"""The risks of decisions `n x d_x`, by columns."""
        found = self.strategy.method.predict_risk(self._view(), X.unsqueeze(0))
        table: dict[str, list[float]] = {}
        for objective in range(found.mean.shape[-1]):
            table |= self._interval(objective, found, "_risk", "_risk")
        feasible = self.strategy.method.predict_feasible(self._view(), X.unsqueeze(0))
        if feasible is not None:
            shares = dict(zip(self._layout.signs, feasible[0].mT, strict=True))
            table |= {f"{z}_feasible": p.tolist() for z, p in shares.items() if not p.isnan().any()}
        return table

    def _interval(
        self, outcome: int, interval: Interval, prefix: str, middle: str
    ) -> dict[str, list[float]]:
        r"""An interval of an outcome in the user's sign, by columns."""
        name, sign = list(self._layout.signs.items())[outcome]
        mean, *ends = (sign * each[0, :, outcome] for each in interval)
        lower, upper = ends if sign > 0 else reversed(ends)
        named = {middle: mean, f"{prefix}_lower": lower, f"{prefix}_upper": upper}
        return {f"{name}{end}": values.tolist() for end, values in named.items()}
