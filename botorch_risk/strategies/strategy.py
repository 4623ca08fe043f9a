r"""A sequential strategy: the memory of a loop around one method."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, final

import torch
from botorch.exceptions.errors import (
    BotorchError,
    BotorchTensorDimensionError,
    InputDataError,
    UnsupportedError,
)
from torch import Tensor

from botorch_risk.arguments import check_arguments, check_counts
from botorch_risk.seeding import as_seeds
from botorch_risk.steady import one_look, sent
from botorch_risk.strategies.arguments import describe, to_json
from botorch_risk.strategies.environment_space import EnvironmentSpace
from botorch_risk.strategies.finite_domain import FiniteDomain
from botorch_risk.strategies.history import (
    History,
    is_everyone,
    warn_of_replicates_without_outcomes,
)
from botorch_risk.strategies.method import (
    Classification,
    Method,
    State,
    View,
    Views,
    fits_of,
    with_rows,
)
from botorch_risk.strategies.running import (
    NEAR,
    joined,
    left_running,
    next_of_design,
    warn_of_repeated_settings,
)
from botorch_risk.strategies.space import Space, as_data
from botorch_risk.strategies.states import opened, sealed, state_like, tensors_of

_TENSORS = ("X", "Y", "recorded", "running")  # of a history, in a state


@final
class Strategy:
    r"""Propose points and learn from the results, for `R` replicates at once.

    A strategy is a space, a method and a history of observations. All replicates, one per seed,
    advance together; a single experiment is `R = 1`. Every draw is a function of the seeds and the
    data, so `load_state_dict(state_dict())` on a strategy with the same arguments continues bit for
    bit.

    The initial design comes first, as one batch; `ask` repeats those of its rows that `tell` has
    not received. A replicate without any outcome, or without one of several outcomes, gets random
    points and recommends NaN. Replicates with different numbers of outcomes are separate batches.

    Args:
        space: The space of points, such as `Box(bounds)`.
        method: How points are chosen.
        seeds: One seed per replicate.
        num_initial: The number of points in the initial design, which depends on the seed alone:
            strategies with the same seeds are paired.
        batch_size: The number `q` of points in each later round.

    Example:
        >>> from botorch_risk.strategies import Box, RandomPoints
        >>> bounds = torch.tensor([[0.0], [2.0]], dtype=torch.double)
        >>> strategy = Strategy(Box(bounds), RandomPoints(), seeds=[0, 1], num_initial=3)
        >>> X = strategy.ask()
        >>> strategy.tell(X, (3 * X).sin())
        >>> strategy.ask().shape, strategy.recommend().shape
        (torch.Size([2, 1, 1]), torch.Size([2, 1]))
    """

    # Nothing else can be set: `strategy.rule = ...` is an error, not a rule that nobody reads.
    __slots__ = (
        "__weakref__",
        "_batch_size",
        "_design",
        "_history",
        "_method",
        "_proposal",
        "_space",
        "_state",
        "_views",
    )

    def __init__(
        self,
        space: Space,
        method: Method,
        seeds: int | Sequence[int],
        *,
        num_initial: int = 10,
        batch_size: int = 1,
    ) -> None:
        check_arguments(Strategy.__init__, locals())
        check_counts(num_initial=num_initial, batch_size=batch_size)
        self._space, self._method, self._batch_size = space, method, batch_size
        self._proposal: Tensor | None = None  # rows that were proposed since the last round
        self._views: Views | None = None
        state = method.start(space, len(as_seeds(seeds)))
        self._design = space.initial(as_seeds(seeds), num_initial)
        self._commit(self._nothing(as_seeds(seeds)), state)

    @property
    def space(self) -> Space:
        r"""What a point is."""
        return self._space

    @property
    def method(self) -> Method:
        r"""How points are chosen."""
        return self._method

    @property
    def batch_size(self) -> int:
        r"""The number `q` of points of each round after the initial design."""
        return self._batch_size

    @property
    def seeds(self) -> list[int]:
        r"""The seeds, one per replicate."""
        return list(self.history.seeds)

    @property
    def history(self) -> History:
        r"""All that was observed."""
        return self._history

    @property
    def state(self) -> State:
        r"""The method's state beyond the data."""
        return self._state

    def observed_views(self) -> Views:
        r"""As `views`, but with a `ValueError` if nothing was observed yet."""
        self._check_observed()
        return self.views

    @property
    def views(self) -> Views:
        r"""The replicates with an outcome, batch by batch, with the method's views."""
        if self._views is None:
            self._views = self._grouped(self._history, self._state)
        return self._views

    @property
    def belief(self) -> Any:
        r"""The method's belief about all replicates, such as a fitted model.

        The next round may write its data into the model: `copy.deepcopy` keeps a belief.

        Raises:
            ValueError: If nothing was observed yet, or if the replicates are not one batch: some
                have more outcomes than others. Then see `views`.
        """
        self._check_observed()
        if len(self.views) != 1 or len(self.views[0][0]) != len(self.seeds):
            groups = [replicates for replicates, _ in self.views]
            raise ValueError(
                f"Expected equally many outcomes in every replicate. Got the batches {groups}; "
                "see `views`."
            )
        return self.views[0][1].belief

    @property
    def running(self) -> Tensor:
        r"""The points that were proposed and are not told yet, `R x p x d`.

        In the form of `ask`, NaN after the last of a replicate. A point runs until `tell` has it,
        or one that is within 0.05 of the diagonal of the box, or `cancel`.
        """
        return self.space.shown(self._still_running()).clone()

    def ask(self, batch_size: int | None = None, pending: Tensor | None = None) -> Tensor:
        r"""The next points to evaluate, `R x q x d` in the units of the bounds.

        Asking twice without telling in between gives the same points. Points of earlier rounds that
        are not told yet still run: new ones are chosen as if they had come out as the model
        expects. Acquisition functions, BoTorch's included, keep their points at a distance from
        them, except one-shot ones; a random point differs from them. If a setting of whole
        numbers, labels or a list comes twice, a warning says so.

        Args:
            batch_size: The number q of points for this round. During the initial design, its points
                that do not run yet, and further ones once all of them run. Default: the number of
                the last `ask` in this round; then the rest of the initial design, those that run
                included, and later the strategy's batch size.
            pending: Points that somebody else has started, `R x p x d`, NaN for none. They run from
                now on.

        Warns:
            RepeatedSettingWarning: If a setting comes twice, or runs already.

        Raises:
            UnsupportedError: If there are pending points and the space perturbs them.
        """
        if batch_size is not None:
            check_counts(batch_size=batch_size)
        if pending is not None:
            rows = self._as_asked(pending)
            self._run(joined(self._history.running, rows))
        return self.space.shown(self._asked(batch_size)).clone()

    def cancel(self, X: Tensor) -> None:
        r"""Give up points that run, as if they had not been proposed; `ask` chooses again.

        Args:
            X: The points, `R x p x d` as in `running`; NaN for none.

        Raises:
            ValueError: If a point does not run.
        """
        X = as_data(X, "X").to(self.space.bounds)
        running = self._still_running()
        shown = self.space.shown(running)
        if X.dim() != 3 or X.shape[::2] != shown.shape[::2]:
            raise BotorchTensorDimensionError(
                f"Expected `X` of shape `{shown.shape[0]} x p x {shown.shape[2]}`. "
                f"Got {tuple(X.shape)}."
            )
        equal = (shown.unsqueeze(-2) == X.unsqueeze(-3)).all(dim=-1)  # R x p x len(X)
        unknown = X.isfinite().all(dim=-1) & ~equal.any(dim=-2)
        if unknown.any():
            raise ValueError(f"Expected points that run. Got {X[unknown][0].tolist()}.")
        cancelled = equal.any(dim=-1, keepdim=True)
        self._run(joined(running[:, :0], running.masked_fill(cancelled, torch.nan)))

    def tell(self, X: Tensor, Y: Tensor) -> None:
        r"""Record outcomes; if they are refused, nothing is changed.

        Args:
            X: The evaluated points, `R x q x d`; NaN in a replicate that took no part.
            Y: Their repeats, `R x q x k`, or `R x q x k x m` if the method takes m > 1 outcomes.
                NaN marks missing outcomes. The number of repeats may change.

        Raises:
            InputDataError: If a value is infinite, a point is outside the space, or an outcome
                comes without its point.
        """
        X, Y = self._checked(X, Y)
        rows = self.space.rows(X, self._asked_so_far)
        running = self._left_running(rows)
        self._append(rows, Y, running)

    def _append(self, rows: Tensor, Y: Tensor, running: Tensor) -> None:
        history = replace(self._history.append(rows, Y), running=running)
        self.method.check(history)
        try:
            history, state, views = self._after(history)
        except BaseException:
            self._views = None  # beliefs may have been used up
            raise
        self._commit(history, state, views)

    def correct(self, rows: Sequence[int], Y: Tensor) -> None:
        r"""Replace the readings of rows that `tell` has received.

        The state is as if these had been told: all rounds are learnt again.

        Args:
            rows: Rows of the history, each once.
            Y: All their readings, `R x len(rows) x k` or `R x len(rows) x k x m`; NaN where
                missing.
        """
        index = self._known_rows(rows)
        _, repeats = self._checked(self._history.X[:, index], Y)
        corrected = self._history.with_outcomes(index, repeats)
        self._learn_again(corrected.without_last_repeats(self._history))

    def withdraw(self, rows: Sequence[int]) -> None:
        r"""Remove rows that `tell` has received.

        The state is as if they had never been told: all rounds are learnt again.

        Args:
            rows: Rows of the history, each once.
        """
        gone = set(self._known_rows(rows))
        kept = [row for row in range(self._history.num_rows) if row not in gone]
        history = self._history.rows(kept).without_last_repeats(self._history)
        if history.num_initial < self._design.shape[1]:  # a table, which ended the design
            num_initial = max(1, int((history.rounds == 0).sum()))
            history = replace(history, num_initial=num_initial)
        self._learn_again(history)

    def end_initial_design(self) -> None:
        r"""Choose from now on, with the rows told so far as the initial design.

        For data from before the strategy; no effect once the design is complete.

        Raises:
            ValueError: If nothing was told yet.
        """
        if self._history.round:
            return
        if not self._history.num_rows:
            raise ValueError("Expected outcomes before the end of the initial design. Got none.")
        self._learn_again(replace(self._history, num_initial=self._history.num_rows))

    def _known_rows(self, rows: Sequence[int]) -> list[int]:
        index = list(rows)
        if len(set(index)) < len(index) or not set(index) <= set(range(self._history.num_rows)):
            raise ValueError(
                f"Expected rows below {self._history.num_rows}, each once. Got {index}."
            )
        return index

    def _learn_again(self, history: History) -> None:
        r"""Tell the rows of a history round by round, from the beginning."""
        before = self.history, self.state, self._views, self._proposal
        running, rounds = self._still_running(), history.rounds
        try:
            empty = replace(self._nothing(self.seeds), num_initial=history.num_initial)
            self._commit(empty, self.method.start(self.space, len(self.seeds)))
            for each in rounds.unique().tolist():
                told = rounds == each
                self._append(history.X[:, told], history.Y[:, told], running)
        except BaseException:
            history, state, views, proposal = before
            self._commit(history, state, views)
            self._proposal = proposal
            raise
        self._run(running)

    def add_readings(self, rows: Sequence[int], Y: Tensor) -> None:
        r"""Record further readings of rows that `tell` has received; no round passes.

        The data are as if the readings had come with the first ones. States and records of the
        rounds since then are kept. `ask` chooses again.

        Args:
            rows: Rows of the history, each once.
            Y: Their readings, `R x len(rows) x k` or `R x len(rows) x k x m`; NaN where missing.
        """
        index = self._known_rows(rows)
        _, repeats = self._checked(self._history.X[:, index], Y)
        history = self._history.with_readings(index, repeats)
        self.method.check(history)
        self._commit(replace(history, running=self._still_running()), self._state)

    def recommend(self) -> Tensor:
        r"""Recommend a decision for each replicate, as if the experiment ended now, `R x d_x`.

        NaN for a replicate without any outcome, which a warning names by its seed. Methods of
        several objectives recommend a set of decisions, `R x p x d_x`, NaN where a replicate has
        fewer than p.

        Raises:
            ValueError: If nothing was observed yet.
        """
        self._check_observed()
        warn_of_replicates_without_outcomes(self._history)
        found = [(replicates, self.method.recommend(view)) for replicates, view in self.views]
        bounds = self.space.bounds
        shape = _enclosing_shape([one.shape[1:] for _, one in found]) or bounds.shape[-1:]
        chosen = bounds.new_full((len(self.seeds), *shape), torch.nan)
        for replicates, one in found:
            index: tuple[Any, ...] = (replicates, *map(slice, one.shape[1:]))
            chosen[index] = one.to(chosen)
        return chosen

    def classify(self) -> Classification:
        r"""The classes of the points of a finite domain, with probabilities.

        Raises:
            UnsupportedError: If the method does not look for a level set.
            ValueError: If nothing was observed yet.
        """
        self._check_observed()
        parts = [(replicates, self.method.classify(view)) for replicates, view in self.views]
        return Classification.joined(parts, len(self.seeds))

    def state_dict(self) -> dict[str, Any]:
        r"""The state needed to continue, with the arguments of the strategy, as JSON."""
        history = self._history
        asked = history.running[:, :0] if self._proposal is None else self._proposal
        tensors = {**{name: getattr(history, name) for name in _TENSORS}, "asked": asked}
        return sealed(
            {
                "arguments": self._arguments(),
                "num_initial": history.num_initial,
                "rounds": history.rounds.tolist(),
                "history": {name: to_json(value) for name, value in tensors.items()},
                "state": {name: to_json(value) for name, value in self._state.items()},
            }
        )

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        r"""Continue from the `state_dict()` of a strategy with the same arguments.

        Warns:
            UserInputWarning: If an argument is a function of another name, perhaps a renamed one.

        Raises:
            ValueError: If it is not a state, was damaged, has other arguments, or has rows that
                `tell` would refuse; then nothing is changed.
        """
        names = "num_initial", "rounds", "history", "state"
        num_initial, rounds, told, learnt = opened(state, self._arguments(), *names)
        tensors = tensors_of(told, (*_TENSORS, "asked"))
        asked = tensors.pop("asked").to(self._design)
        history = replace(self._history, num_initial=_count(num_initial))
        history = history.restored(rounds, **tensors)
        if history.num_rows:
            self._check_rows(history)
        if asked.dim() != 3 or asked.shape[::2] != self._design.shape[::2]:
            raise ValueError(
                f"Expected 'asked' of shape `{len(self.seeds)} x q x {self._design.shape[-1]}`. "
                f"Got {tuple(asked.shape)}."
            )
        start = self.method.start(self.space, len(self.seeds))
        self._commit(history, state_like(learnt, start, len(self.seeds)))
        self._proposal = asked if asked.shape[1] else None

    def _check_rows(self, history: History) -> None:
        r"""Raise a `ValueError` unless `tell` could have been told the rows of a history."""
        X = told = history.X
        if isinstance(self.space, EnvironmentSpace) and self.space.perturbs:
            told = self.space.inputs(X)
        try:
            self._checked(X, history.Y)
            self.space.rows(told, lambda: X)
            self.method.check(history)
        except BotorchError as error:
            raise ValueError(f"Expected rows that `tell` accepts. {error}") from error

    def _arguments(self) -> dict[str, Any]:
        return {
            "seeds": self.seeds,
            "num_initial": self._design.shape[1],
            "batch_size": self.batch_size,
            "space": describe(self.space),
            "method": describe(self.method),
        }

    def _nothing(self, seeds: Sequence[int]) -> History:
        columns, num_initial = self.space.num_columns, self._design.shape[1]
        like, m = self.space.bounds, self.method.num_outcomes
        return History.empty(seeds, num_initial, columns, like, m, self._design.shape[-1])

    def _commit(self, history: History, state: State, views: Views | None = None) -> None:
        self._history, self._state, self._views = history, state, views
        self._proposal = None

    def _after(self, history: History) -> tuple[History, State, Views | None]:
        r"""The history with the method's records of its last rows, and the new state."""
        before, first = self._history, self._history.num_rows
        if not history.round:  # the initial design is not complete
            return history, self._state, None
        state = self._state
        if before.round:
            history = self._recorded(history, self.views, first)
            state = {**state, **fits_of(self.views, state, len(self.seeds))}
            views = self._grouped(history, state, self.views)
        else:  # the first model records the initial design
            views = self._grouped(history, state)
            history = self._recorded(history, views, 0)
            views = _renewed(views, history, state)
        try:
            state = self._learned(history, views, state)
        except Exception:  # the present belief's model may have other data already
            self._views = None
            raise
        return history, state, _renewed(views, history, state)

    def _asked(self, q: int | None = None) -> Tensor:
        r"""The next rows in the form of the space, before `shown`."""
        known = self._proposal
        if known is None or q not in (None, known.shape[1]):
            if self._history.round:
                known = self._proposed(self.batch_size if q is None else q)
                if not self.method.repeats_settings:
                    warn_of_repeated_settings(known, self._history.running, self.seeds)
            else:
                known = self._of_design(q)
            self._proposal = known
        return known

    def _of_design(self, q: int | None) -> Tensor:
        r"""Rows of the initial design; once all of them run, further points of its sequence."""
        history, size = self._history, self._design.shape[1]
        told = _where_missing(history.X, self._design)
        rows = next_of_design(self._design, told, history.running, self.space, q)
        if rows.shape[1]:
            return rows
        number = size + history.running.shape[1] + (q or self.batch_size)
        if isinstance(self.space, FiniteDomain):
            number = min(number, len(self.space.domain))
        more = self.space.initial(self.seeds, number)[:, size:]
        q = q or self.batch_size
        return next_of_design(more, told[:, :0], history.running, self.space, q)

    def _asked_so_far(self) -> Tensor:
        r"""The rows of this proposal, then those that ran before it."""
        return joined(self._asked(), self._history.running)

    def _still_running(self) -> Tensor:
        r"""All rows that run, of earlier proposals and of this one."""
        running = self._history.running
        return running if self._proposal is None else joined(running, self._proposal)

    def _left_running(self, rows: Tensor) -> Tensor:
        r"""The rows that run when some are told, `R x q x d`."""
        asked, running = self._proposal, self._still_running()
        if not running.shape[1]:
            return running
        if asked is not None and asked.shape[1] == rows.shape[1]:
            rows = _where_missing(rows, asked)
        near = NEAR if self._history.round else math.inf
        return left_running(running, rows, self.space, near)

    def _run(self, running: Tensor) -> None:
        r"""Let these rows run, with the beliefs as they are; `ask` chooses again."""
        counts = running.isfinite().all(dim=-1).sum(dim=-1)
        history, views = replace(self._history, running=running), self._views
        if views is not None and (counts == counts[0]).all():
            views = _renewed(views, history, self._state)
        else:  # other replicates may be one batch
            views = None
        self._commit(history, self._state, views)

    def _as_asked(self, X: Tensor) -> Tensor:
        r"""Rows `R x p x d_asked` of a user's pending points."""
        space, width = self.space, self._design.shape[-1]
        if isinstance(space, EnvironmentSpace) and space.perturbs:
            raise UnsupportedError(
                "Expected no pending points of a space that perturbs them: they do not show their "
                "decision. Got some."
            )
        X = as_data(X, "pending").to(space.bounds)
        if X.dim() != 3 or len(X) != len(self.seeds) or X.shape[-1] != width:
            raise BotorchTensorDimensionError(
                f"Expected `pending` of shape `{len(self.seeds)} x p x {width}`. "
                f"Got {tuple(X.shape)}."
            )
        if not X.shape[1]:
            return X
        known: Any = space
        if width < space.num_columns:  # without contexts, which are noted later
            return known.box.checked(X)
        return known.rows(X, lambda: X)

    def _proposed(self, q: int) -> Tensor:
        width = self._design.shape[-1]
        bounds = self.space.bounds
        asked = bounds.new_full((len(self.seeds), q, width), torch.nan)
        without = set(range(len(self.seeds)))
        for replicates, view in self.views:
            if q != view.batch_size:
                view = view.of_batch_size(q)
            rows = self._proposed_by(view)
            if rows.shape != (len(replicates), q, width):
                raise BotorchTensorDimensionError(
                    f"Expected `propose` of {type(self.method).__name__} to give rows of shape "
                    f"`{len(replicates)} x {q} x {width}`. Got {tuple(rows.shape)}."
                )
            asked[sent(torch.tensor(replicates), asked.device)] = rows
            without -= set(replicates)
        if without:  # there is nothing to choose by
            own, chosen = self._history.streams("without outcomes"), sorted(without)
            asked[chosen] = self.space.initial([own[replicate] for replicate in chosen], q)
        return asked

    def _proposed_by(self, view: View) -> Tensor:
        try:
            with one_look():
                return self.method.propose(view)
        except BaseException:
            self._views = None  # a belief of data that it refuses, or one that has been used up
            raise

    def _grouped(self, history: History, state: State, before: Views = ()) -> Views:
        r"""Replicates that form one batch, with their view; `before` has the beliefs so far."""
        known = {tuple(replicates): view for replicates, view in before}
        groups: dict[tuple[int, ...], list[int]] = {}
        is_known = history.is_known.tolist()
        keys = zip(
            self.method.group_by(history).tolist(), history.num_running.tolist(), strict=True
        )
        for replicate, (key, running) in enumerate(keys):
            if is_known[replicate]:
                groups.setdefault((*key, running), []).append(replicate)
        return [
            (replicates, self._view(replicates, history, state, known.get(tuple(replicates))))
            for replicates in groups.values()
        ]

    def _view(
        self, replicates: list[int], history: History, state: State, before: View | None = None
    ) -> View:
        return View(
            self.space.of(replicates),
            history.of(replicates),
            _part(state, replicates, len(self.seeds)),
            self.batch_size,
            self.method,
            None if before is None else before.known_belief,
        )

    def _recorded(self, history: History, views: Views, first: int) -> History:
        r"""The history with the views' records of its rows from `first` on."""
        recorded = history.recorded.clone()
        for replicates, view in views:
            found = self.method.record(view, history.X[replicates, first:])
            if found is not None:
                recorded[replicates, first:] = found
        return replace(history, recorded=recorded)

    def _learned(self, history: History, views: Views, before: State) -> State:
        nothing = [r for r, known in enumerate(history.is_known.tolist()) if not known]
        learnt = [(replicates, self.method.learn(view)) for replicates, view in views]
        if nothing:
            learnt.append((nothing, self.method.learn(self._view(nothing, history, before))))
        names, state = [*fits_of((), before, len(self.seeds))], before
        for replicates, part in learnt:
            names += part
            state = with_rows(state, replicates, part, len(self.seeds))
        return {name: state[name] for name in names}

    def _checked(self, X: Tensor, Y: Tensor) -> tuple[Tensor, Tensor]:
        r"""Check that the shapes of points and outcomes `R x q x k x m` match."""
        like, m = self.space.bounds, self.method.num_outcomes
        X, Y = as_data(X, "X").to(like), as_data(Y, "Y").to(like)
        repeats = Y.unsqueeze(-1) if m == 1 and Y.ndim == 3 else Y  # R x q x k x m
        fits = X.ndim == 3 and repeats.ndim == 4 and len(X) == len(self.seeds) and X.shape[1] > 0
        if (
            not fits
            or repeats.shape[:2] != X.shape[:2]
            or not repeats.numel()
            or repeats.shape[3] != m
        ):
            columns = "k" if m == 1 else f"k x {m}"
            raise BotorchTensorDimensionError(
                f"Expected `X` to have shape `{len(self.seeds)} x q x d` and `Y` "
                f"`{len(self.seeds)} x q x {columns}`, q >= 1. Got {X.shape=}, {Y.shape=}."
            )
        if X.isinf().any() or Y.isinf().any():
            raise InputDataError("Expected finite `X` and `Y`, NaN where missing. Got infinity.")
        if (X.isnan().any(dim=-1) & Y.isfinite().flatten(2).any(dim=-1)).any():
            raise InputDataError("Expected the point of every outcome. Got an outcome at NaN.")
        return X, repeats

    def _check_observed(self) -> None:
        if not self._history.round:
            raise ValueError(
                "Expected outcomes before a recommendation. "
                f"Got {self._history.num_rows} of {self._history.num_initial} initial ones."
            )


def _enclosing_shape(shapes: Sequence[torch.Size]) -> tuple[int, ...]:
    r"""The smallest shape that contains all given shapes of equal length."""
    return tuple(max(sizes) for sizes in zip(*shapes, strict=True))


def _renewed(views: Views, history: History, state: State) -> Views:
    r"""The views with new records and states; beliefs are kept, as the data are the same."""
    return [
        (
            replicates,
            view.renewed(history.of(replicates), _part(state, replicates, len(history.seeds))),
        )
        for replicates, view in views
    ]


def _part(state: State, replicates: list[int], num_replicates: int) -> State:
    if is_everyone(replicates, num_replicates):
        return dict(state)
    return {name: value[replicates] for name, value in state.items()}


def _where_missing(rows: Tensor, asked: Tensor) -> Tensor:
    r"""Told rows, and what was proposed in their places where a replicate took no part."""
    columns = min(asked.shape[-1], rows.shape[-1])
    missing = rows.isnan().any(dim=-1, keepdim=True)
    known = asked[:, : rows.shape[-2], :columns]
    short = rows.shape[-2] - known.shape[-2]
    known = torch.cat([known, known.new_full((len(known), short, columns), torch.nan)], dim=-2)
    return torch.where(missing, known, rows[..., :columns])


def _count(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"Expected 'num_initial' of at least 1. Got {value!r}.")
    return value
