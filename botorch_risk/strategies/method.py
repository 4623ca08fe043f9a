r"""The method of a strategy: its belief, its proposals and its state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import torch
from botorch.exceptions.errors import UnsupportedError
from torch import Tensor

from botorch_risk.engine import FitResult, Optimum, fit_exact_gp
from botorch_risk.strategies.history import History, is_everyone, rows_where
from botorch_risk.strategies.prediction import Interval, Prediction
from botorch_risk.strategies.space import Space


@dataclass(frozen=True)
class Classification:
    r"""The classes of the points of a finite domain, one row per replicate.

    A `SingleExperiment` gives one row, `|D|`.

    The three sets partition the domain. If every point needs an answer, use `probability >= 0.5`:
    TRUVAR's paper scores its experiments by this classification, by the posterior mean.

    Attributes:
        high: `R x |D|`, the points that are confidently above the level.
        low: `R x |D|`, the points that are confidently below the level.
        unclassified: `R x |D|`, all others.
        probability: `R x |D|` posterior probabilities that `f` is at or above the level. A level
            that is a share of the unknown maximum is that share of the largest posterior mean.
    """

    high: Tensor
    low: Tensor
    unclassified: Tensor
    probability: Tensor

    @property
    def expected_wrong(self) -> Tensor:
        r"""The expected share of wrong points among the classified, `R`; NaN if none is."""
        wrong = torch.where(self.high, 1 - self.probability, self.probability)
        classified = self.high | self.low
        total = wrong.where(classified, 0.0).sum(dim=-1)
        return total / classified.sum(dim=-1)

    @classmethod
    def joined(
        cls, parts: Sequence[tuple[list[int], Classification]], num_replicates: int
    ) -> Classification:
        r"""Join the classifications of some replicates into one of all.

        Replicates without an outcome have no high or low points, and NaN as probabilities.
        """
        _, first = parts[0]
        shape = (num_replicates, *first.high.shape[1:])
        whole = cls(
            high=first.high.new_zeros(shape),
            low=first.low.new_zeros(shape),
            unclassified=first.unclassified.new_ones(shape),
            probability=first.probability.new_full(shape, torch.nan),
        )
        for replicates, part in parts:
            for each in fields(cls):
                getattr(whole, each.name)[replicates] = getattr(part, each.name)
        return whole


FIT = "fit "  # begins the names of fits in a state

State = Mapping[str, Tensor]
r"""What a method keeps beyond the data: tensors with one row a replicate."""


@dataclass(frozen=True)
class View:
    r"""What a method is given: replicates that it can treat as one batch.

    A view has no replicate without any outcome. Unless the method groups them differently
    (`Method.group_by`), all have the same number of rows with each outcome, and of running rows.

    Args:
        space: What a point is.
        history: All rows of these replicates, NaN where something is missing.
        state: The method's state for these replicates, tensors `R x ...`.
        batch_size: The number q of points to propose.
        method: The method, which computes `belief`.
        previous: The belief about the same replicates before the last rows, if known. `believe` may
            change it in place.
        fits: The hyperparameters at which the fits of `belief` ended, by name; `fit` adds them.
        prefix: The prefix of the names of these fits, for a method with several inner ones.
    """

    space: Any
    history: History
    state: State
    batch_size: int
    method: Method
    previous: Any = field(default=None, repr=False)
    fits: dict[str, Optimum] = field(default_factory=dict, repr=False)
    prefix: str = ""

    @property
    def seeds(self) -> list[int]:
        return list(self.history.seeds)

    @property
    def round(self) -> int:
        r"""The number of the next round, from 1 after the initial design."""
        return self.history.round

    @cached_property
    def complete(self) -> tuple[Tensor, Tensor]:
        r"""Rows with an outcome, `R x n x d`, and repeats of the first outcome, `R x n x k`."""
        return self.history.complete()

    @property
    def X(self) -> Tensor:
        r"""The rows with an outcome, `R x n x d`."""
        return self.complete[0]

    @property
    def Y(self) -> Tensor:
        r"""The mean of the first outcome in these rows, `R x n x 1`."""
        return self.complete[1].nanmean(dim=-1, keepdim=True)

    @property
    def decisions(self) -> Tensor:
        r"""The decisions of the rows with an outcome, `R x n x d_x`."""
        return self.X[..., : self.space.bounds.shape[-1]]

    @property
    def running(self) -> Tensor | None:
        r"""The rows that still run, `R x p x d_asked`; None if all are told."""
        running = self.history.running
        return running if running.shape[-2] else None

    @property
    def recorded(self) -> Tensor:
        r"""The record of these rows, `R x n`."""
        return rows_where(self.history.recorded, self.history.has_outcome)

    @cached_property
    def belief(self) -> Any:
        r"""The method's belief, computed when first needed."""
        return self.method.believe(self)

    @property
    def known_belief(self) -> Any:
        r"""The belief if it has been computed, else the belief before the last rows."""
        return vars(self).get("belief", self.previous)

    @cached_property
    def interval_belief(self) -> Any:
        r"""The belief that intervals come from, computed when first needed."""
        return self.method.believe_intervals(self)

    def fit(self, name: str, model: Any, fit: Callable[..., FitResult] | None = None) -> bool:
        r"""Fit a model to all data so far, starting where the previous belief's fit ended.

        A method that `keeps_fits` has that place in its state; other methods start from the
        defaults.

        Args:
            name: The name of the model among the method's models.
            fit: The function that fits, with an argument `previous`; `fit_exact_gp` by default.

        Returns:
            Whether no replicate failed.
        """
        name = self.prefix + name
        result = (fit or fit_exact_gp)(model, previous=Optimum.of_state(FIT + name, self.state))
        result.warn_of_failures(self.seeds)
        if result.optimum is not None:
            self.fits[name] = result.optimum
        return not result.has_failed

    def renewed(self, history: History, state: State) -> View:
        r"""The view with new records and a new state from the same data; the belief is kept."""
        view = replace(self, history=history, state=state)
        if "belief" in vars(self):
            vars(view)["belief"] = self.belief
        return view

    def of_batch_size(self, batch_size: int) -> View:
        r"""The view with the same belief and another number of points."""
        view = replace(self, batch_size=batch_size)
        vars(view)["belief"] = self.belief
        return view

    def of(
        self, replicates: Sequence[int], method: Method | None = None, state: State | None = None
    ) -> View:
        r"""The view of some of these replicates, optionally for another method.

        Args:
            replicates: Which of them.
            method: The other method.
            state: The state for all replicates. Default: the state with which the method starts.
        """
        index = list(replicates)
        if method is not None and state is None:
            part = dict(method.start(self.space, len(index)))
        else:
            whole = self.state if state is None else state
            part = {name: value[index] for name, value in whole.items()}
        history, space = self.history.of(index), self.space.of(index)
        return View(space, history, part, self.batch_size, method or self.method)

    def continued(
        self,
        replicates: Sequence[int],
        method: Method,
        state: State | None = None,
        previous: Any = None,
    ) -> View:
        r"""The view of some of these replicates for an inner method, with its belief.

        Its fits continue from where those in the state ended, and are stored as this view's own.

        Args:
            replicates: Which of them.
            method: The inner method.
            state: As in `of`.
            previous: A belief of the inner method, which the method may overwrite.
        """
        inner = self.of(replicates, method, state)
        old = {name: value for name, value in self.state.items() if name.startswith(FIT)}
        fits = {name: value[list(replicates)] for name, value in old.items()}
        inner = replace(inner, state={**inner.state, **fits}, fits={}, previous=previous)
        inner.belief  # noqa: B018
        for name, optimum in inner.fits.items():
            part = optimum.state(FIT + name)
            whole = with_rows(old, list(replicates), part, len(self.seeds))
            self.fits[name] = Optimum.of_state(FIT + name, whole)  # type: ignore[assignment]
        return inner


Views = Sequence[tuple[list[int], View]]
r"""Groups of replicates, each with what the method sees of it."""


class Method(ABC):
    r"""A strategy's rule for choosing points.

    A method is an immutable record of its arguments. Everything computed from the data is its
    belief, a function of the view that is never saved; whatever it needs beyond the data is its
    state.

    Example:
        >>> from botorch_risk.strategies import Box, Strategy
        >>> class AroundTheBest(Method):
        ...     def believe(self, view):
        ...         return best_observed(view)  # R x d
        ...     def propose(self, view):
        ...         points = view.belief.unsqueeze(-2) + 0.1 * torch.randn(1, view.batch_size, 1)
        ...         return points.clamp(*view.space.bounds)
        ...     def recommend(self, view):
        ...         return view.belief
        >>> strategy = Strategy(Box(torch.tensor([[0.0], [1.0]])), AroundTheBest(), seeds=0)
        >>> strategy.tell(strategy.ask(), torch.arange(10.0).view(1, 10, 1))
        >>> torch.equal(strategy.recommend(), strategy.history.X[:, -1])
        True
    """

    @property
    def num_outcomes(self) -> int:
        r"""The number m of outcomes that are observed at each point; 1 for most methods."""
        return 1

    @property
    def keeps_fits(self) -> bool:
        r"""Whether the state keeps where a belief's fits ended, as starts of the next fits."""
        return False

    @property
    def repeats_settings(self) -> bool:
        r"""Whether a batch may repeat a setting on purpose, so that no warning is due."""
        return False

    def start(self, space: Space, num_replicates: int) -> State:
        r"""The state before any data; empty for most methods.

        Raises:
            UnsupportedError: If the method does not fit the space.
        """
        return {}

    def check(self, history: History) -> None:  # noqa: B027 most methods take any outcomes
        r"""Raise an error if the method cannot use the outcomes just observed."""

    def group_by(self, history: History) -> Tensor:
        r"""Numbers `R x j`; replicates with equal rows of numbers form one batch.

        By default, the numbers of rows with an outcome and of evaluated rows; with several
        outcomes, also of rows with each.
        """
        evaluated = history.X.isfinite().all(dim=-1)
        counts = [history.has_outcome.sum(dim=-1), evaluated.sum(dim=-1)]
        if history.num_outcomes > 1:
            counts += history.observed.sum(dim=-2).unbind(dim=-1)
        return torch.stack(counts, dim=-1)

    def believe(self, view: View) -> Any:
        r"""The belief from the data, such as a fitted model."""
        return None

    def believe_intervals(self, view: View) -> Any:
        r"""The belief that predictions and intervals come from; by default the view's belief."""
        return view.belief

    @abstractmethod
    def propose(self, view: View) -> Tensor:
        r"""The asked rows of the next round, `R x q x d_asked`."""

    def record(self, view: View, rows: Tensor) -> Tensor | None:
        r"""A record of new rows `R x q x d`, made with the view that chose them.

        Returns:
            `R x q`, or None; it stays in `History.recorded`.
        """
        return None

    def learn(self, view: View) -> State:
        r"""The state after the view's last rows, which may be without an outcome."""
        return view.state

    @abstractmethod
    def recommend(self, view: View) -> Tensor:
        r"""The decision to recommend if the experiment ended now, `R x d_x`.

        With several objectives it is a set of decisions, `R x p x d_x`, padded with NaN.
        """

    def classify(self, view: View) -> Classification:
        r"""The classes of the points of the domain, `R x |D|`.

        Raises:
            UnsupportedError: If the method does not look for a level set, which is the default.
        """
        raise UnsupportedError(
            f"Expected a strategy for a level set, such as `truvar(..., goal=LevelSet(0.5))`. Got "
            f"{self!r}."
        )

    def predict(self, view: View, X: Tensor) -> Prediction:
        r"""Predict the outcomes at rows.

        Args:
            X: Rows of the history, `R x n x d`: decisions with their contexts.

        Raises:
            UnsupportedError: If the method has no model.
        """
        raise UnsupportedError(f"Expected a method with a model that predicts. Got {self!r}.")

    def predict_risk(self, view: View, X: Tensor) -> Interval:
        r"""Predict the risk of each of p objectives, where larger is better, `R x n x p`.

        By default this is the first outcome itself.

        Args:
            X: Decisions, `R x n x d_x`.

        Raises:
            UnsupportedError: If the method has no model.
        """
        return Interval(*(each[..., :1] for each in self.predict(view, X).outcome))

    def predict_feasible(self, view: View, X: Tensor) -> Tensor | None:
        r"""Predict whether the constraints on each of m outcomes hold under their risks.

        Args:
            X: Decisions, `R x n x d_x`.

        Returns:
            Posterior probabilities, `R x n x m`, NaN for an outcome without a constraint; None
            unless the method has constraints under a risk over W.
        """
        return None


@dataclass(frozen=True)
class ReportedMethod(Method):
    r"""A method that takes everything but its choice of points from another method.

    A subclass defines `propose`.

    Args:
        report: The other method, which believes, records, learns and recommends.
    """

    report: Method

    @property
    def num_outcomes(self) -> int:
        return self.report.num_outcomes

    @property
    def repeats_settings(self) -> bool:
        return self.report.repeats_settings

    @property
    def keeps_fits(self) -> bool:
        return self.report.keeps_fits

    def start(self, space: Space, num_replicates: int) -> State:
        return self.report.start(space, num_replicates)

    def check(self, history: History) -> None:
        self.report.check(history)

    def group_by(self, history: History) -> Tensor:
        return self.report.group_by(history)

    def believe(self, view: View) -> Any:
        return self.report.believe(view)

    def believe_intervals(self, view: View) -> Any:
        return self.report.believe_intervals(view)

    def record(self, view: View, rows: Tensor) -> Tensor | None:
        return self.report.record(view, rows)

    def learn(self, view: View) -> State:
        return self.report.learn(view)

    def recommend(self, view: View) -> Tensor:
        return self.report.recommend(view)

    def classify(self, view: View) -> Classification:
        return self.report.classify(view)

    def predict(self, view: View, X: Tensor) -> Prediction:
        return self.report.predict(view, X)

    def predict_risk(self, view: View, X: Tensor) -> Interval:
        return self.report.predict_risk(view, X)

    def predict_feasible(self, view: View, X: Tensor) -> Tensor | None:
        return self.report.predict_feasible(view, X)


def fits_of(views: Views, state: State, num_replicates: int) -> State:
    r"""The hyperparameters at which the belief's fits ended, as a part of the state.

    Args:
        views: The views, with their beliefs computed.
        state: The state so far, whose fits are kept for replicates without a view.
    """
    kept: State = {name: value for name, value in state.items() if name.startswith(FIT)}
    for replicates, view in views:
        if view.method.keeps_fits and view.belief is not None:
            fits = [fit.state(FIT + name) for name, fit in view.fits.items()]
            kept = with_rows(kept, replicates, dict(ChainMap(*fits)), num_replicates)
    return kept


def with_rows(state: State, replicates: list[int], part: State, num_replicates: int) -> State:
    r"""The state, updated for some replicates; other replicates without a state get 0."""
    if is_everyone(replicates, num_replicates):
        return {**state, **part}
    whole = dict(state)
    for name, value in part.items():
        old = state.get(name, value.new_zeros(num_replicates, *value.shape[1:]))
        whole[name] = old.clone()
        whole[name][replicates] = value
    return whole


def best_observed(view: View) -> Tensor:
    r"""The evaluated decision with the best observed mean, `R x d_x`."""
    return rows_at(view.decisions, view.Y.squeeze(-1).argmax(dim=-1))


def rows_at(rows: Tensor, index: Tensor) -> Tensor:
    r"""One row per replicate, `R x d`, of `R x n x d`."""
    return rows[torch.arange(len(index), device=rows.device), index]
