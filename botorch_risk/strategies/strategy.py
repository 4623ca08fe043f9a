r"""A sequential strategy: the memory of a loop around one method."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, final

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from torch import Tensor

from botorch_risk.arguments import check_arguments, check_counts
from botorch_risk.seeding import as_seeds
from botorch_risk.steady import one_look, sent
from botorch_risk.strategies.batches import Batches, recorded, renewed
from botorch_risk.strategies.built_with import describe
from botorch_risk.strategies.design import rows_of_design
from botorch_risk.strategies.history import History, warn_of_replicates_without_outcomes
from botorch_risk.strategies.method import Classification, Method, State, View, Views, fits_of
from botorch_risk.strategies.running import (
    NEAR,
    as_running,
    cancelled,
    joined,
    left_running,
    warn_of_repeated_settings,
    where_missing,
)
from botorch_risk.strategies.saved import check_history, loaded, saved
from botorch_risk.strategies.space import Space


@final
class Strategy:
    r"""Propose points and learn from the results, for `R` replicates at once.

    A strategy is a space, a method and a history of observations. All replicates, one per seed,
    advance together; a single experiment is `R = 1`. Every draw is a function of the seeds and the
    data, so a strategy with the same arguments continues bit for bit after
    `load_state_dict(state_dict())`.

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
    __slots__ = ("__weakref__", "_batches", "_design", "_history", "_proposal", "_state", "_views")

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
        self._batches = Batches(space, method, batch_size)
        self._proposal: Tensor | None = None  # rows that were proposed since the last round
        self._views: Views | None = None
        state = method.start(space, len(as_seeds(seeds)))
        self._design = space.initial(as_seeds(seeds), num_initial)
        self._commit(self._nothing(as_seeds(seeds)), state)

    @property
    def space(self) -> Space:
        r"""The space of points."""
        return self._batches.space

    @property
    def method(self) -> Method:
        r"""How points are chosen."""
        return self._batches.method

    @property
    def batch_size(self) -> int:
        r"""The number `q` of points of each round after the initial design."""
        return self._batches.batch_size

    @property
    def seeds(self) -> list[int]:
        r"""The seeds, one per replicate."""
        return list(self.history.seeds)

    @property
    def history(self) -> History:
        r"""Everything that was observed."""
        return self._history

    @property
    def state(self) -> State:
        r"""The method's state beyond the data."""
        return self._state

    def observed_views(self) -> Views:
        r"""As `views`; raises a `ValueError` if nothing was observed yet."""
        self._check_observed()
        return self.views

    @property
    def views(self) -> Views:
        r"""The replicates with an outcome, batch by batch, with the method's views."""
        if self._views is None:
            self._views = self._batches.views(self._history, self._state)
        return self._views

    @property
    def belief(self) -> Any:
        r"""The method's belief about all replicates, such as a fitted model.

        The next round may write its data into the model: `copy.deepcopy` keeps a belief.

        Raises:
            ValueError: If nothing was observed yet, or if the replicates are not one batch: some
                have more outcomes than others. In that case, see `views`.
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

        In the form of `ask`, padded with NaN. A point runs until it is cancelled, or `tell`
        receives it or one within 0.05 of the diagonal of the box.
        """
        return self.space.shown(self._still_running()).clone()

    def ask(self, batch_size: int | None = None, pending: Tensor | None = None) -> Tensor:
        r"""The next points to evaluate, `R x q x d` in the units of the bounds.

        Asking twice without telling in between gives the same points. Points of earlier rounds that
        are not told yet still run: new ones are chosen as if the running ones had come out as the
        model expects. All acquisition functions but one-shot ones, BoTorch's included, keep new
        points at a distance from running ones; a random point differs from them. A warning is given
        if a setting of whole numbers, labels or a list is repeated.

        Args:
            batch_size: The number q of points for this round. During the initial design, they are
                its points that do not run yet, and further ones once all of them run. Default: the
                number of the last `ask` in this round; else the rest of the initial design, running
                points included, and later the strategy's batch size.
            pending: Points that somebody else has started, `R x p x d`, NaN for none. From now on
                they run.

        Warns:
            RepeatedSettingWarning: If a setting is repeated, or is already running.

        Raises:
            UnsupportedError: If there are pending points and the space perturbs them.
        """
        if batch_size is not None:
            check_counts(batch_size=batch_size)
        if pending is not None:
            running = self._history.running
            self._run(joined(running, as_running(pending, running, self.space)))
        return self.space.shown(self._asked(batch_size)).clone()

    def cancel(self, X: Tensor) -> None:
        r"""Give up running points, as if they had not been proposed; `ask` chooses again.

        Args:
            X: The points, `R x p x d` as in `running`; NaN for none.

        Raises:
            ValueError: If a point is not running.
        """
        self._run(cancelled(self._still_running(), X, self.space))

    def tell(self, X: Tensor, Y: Tensor) -> None:
        r"""Record outcomes; if they are refused, nothing is changed.

        Args:
            X: The evaluated points, `R x q x d`; NaN in a replicate that took no part.
            Y: The repeats, `R x q x k`. If the method takes m > 1 outcomes, `R x q x m`, or
                `R x q x k x m` with repeats. NaN marks missing outcomes. The number of repeats may
                change.

        Raises:
            InputDataError: If a value is infinite, a point is outside the space, or an outcome
                comes without its point.
        """
        X, Y = self._history.checked(X, Y)
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

        The state becomes as if the new ones had been told at once: all rounds are learnt again.

        Args:
            rows: Rows of the history, each once.
            Y: All their readings, shaped as for `tell`; NaN where missing.
        """
        index = self._history.index(rows)
        _, repeats = self._history.checked(self._history.X[:, index], Y)
        corrected = self._history.with_outcomes(index, repeats)
        self._learn_again(corrected.without_last_repeats(self._history))

    def withdraw(self, rows: Sequence[int]) -> None:
        r"""Remove rows that `tell` has received.

        The state becomes as if they had never been told: all rounds are learnt again.

        Args:
            rows: Rows of the history, each once.
        """
        gone = set(self._history.index(rows))
        kept = [row for row in range(self._history.num_rows) if row not in gone]
        history = self._history.rows(kept).without_last_repeats(self._history)
        if history.num_initial < self._design.shape[1]:  # a table, which ended the design
            num_initial = max(1, int((history.rounds == 0).sum()))
            history = replace(history, num_initial=num_initial)
        self._learn_again(history)

    def end_initial_design(self) -> None:
        r"""End the initial design: the rows told so far are all of it, and later ones are chosen.

        For data that are older than the strategy; no effect once the design is complete.

        Raises:
            ValueError: If nothing was told yet.
        """
        if self._history.round:
            return
        if not self._history.num_rows:
            raise ValueError("Expected outcomes before the end of the initial design. Got none.")
        self._learn_again(replace(self._history, num_initial=self._history.num_rows))

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
        r"""Record further readings of rows that `tell` has received; this starts no new round.

        The data are as if the readings had come with the first ones. States and records of the
        rounds since then are kept. `ask` chooses again.

        Args:
            rows: Rows of the history, each once.
            Y: The readings, shaped as for `tell`; NaN where missing.
        """
        index = self._history.index(rows)
        _, repeats = self._history.checked(self._history.X[:, index], Y)
        history = self._history.with_readings(index, repeats)
        self.method.check(history)
        self._commit(replace(history, running=self._still_running()), self._state)

    def recommend(self) -> Tensor:
        r"""Recommend a decision for each replicate, as if the experiment ended now, `R x d_x`.

        It is NaN for a replicate without any outcome, which a warning names by its seed. Methods of
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
        r"""The state needed to continue, together with the arguments of the strategy, as JSON."""
        return saved(self._arguments(), self._history, self._state, self._proposal)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        r"""Continue from the `state_dict()` of a strategy with the same arguments.

        `built_with.check_alike` compares the arguments, and names the first difference.

        Warns:
            UserInputWarning: If an argument is a function with another name, perhaps a renamed one.

        Raises:
            ValueError: If it is not a state, was damaged, has other arguments, or has rows that
                `tell` would refuse. Nothing is then changed.
        """
        start = self.method.start(self.space, len(self.seeds))
        history, learnt, asked = loaded(state, self._arguments(), self._history, start)
        if history.num_rows:
            check_history(history, self.space, self.method)
        self._commit(history, learnt)
        self._proposal = None if asked is None else asked.to(self._design)

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
            history = recorded(history, self.views, first)
            state = {**state, **fits_of(self.views, state, len(self.seeds))}
            views = self._batches.views(history, state, self.views)
        else:  # the first model records the initial design
            views = self._batches.views(history, state)
            history = recorded(history, views, 0)
            views = renewed(views, history, state)
        try:
            state = self._batches.learned(history, views, state)
        except Exception:  # the present belief's model may have other data already
            self._views = None
            raise
        return history, state, renewed(views, history, state)

    def _asked(self, q: int | None = None) -> Tensor:
        r"""The next rows in the form of the space, before `shown`."""
        known = self._proposal
        if known is None or q not in (None, known.shape[1]):
            if self._history.round:
                known = self._proposed(self.batch_size if q is None else q)
                if not self.method.repeats_settings:
                    warn_of_repeated_settings(known, self._history.running, self.seeds)
            else:
                known = rows_of_design(self._design, self._history, self.space, q, self.batch_size)
            self._proposal = known
        return known

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
            rows = where_missing(rows, asked)
        near = NEAR if self._history.round else math.inf
        return left_running(running, rows, self.space, near)

    def _run(self, running: Tensor) -> None:
        r"""Let these rows run, with the beliefs as they are; `ask` chooses again."""
        counts = running.isfinite().all(dim=-1).sum(dim=-1)
        history, views = replace(self._history, running=running), self._views
        if views is not None and (counts == counts[0]).all():
            views = renewed(views, history, self._state)
        else:  # other replicates may be one batch
            views = None
        self._commit(history, self._state, views)

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

    def _check_observed(self) -> None:
        if not self._history.round:
            raise ValueError(
                "Expected the outcomes of the initial design before a recommendation. "
                f"Got {self._history.num_rows} of {self._history.num_initial} outcomes."
            )


def _enclosing_shape(shapes: Sequence[torch.Size]) -> tuple[int, ...]:
    r"""The smallest shape that contains all given shapes of equal length."""
    return tuple(max(sizes) for sizes in zip(*shapes, strict=True))
