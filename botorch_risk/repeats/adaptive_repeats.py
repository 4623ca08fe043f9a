r"""Choose in every round where to measure next and how often."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from botorch.exceptions.errors import InputDataError, UnsupportedError
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from botorch_risk.arguments import (
    check_arguments,
    check_counts,
    check_fields,
    check_nonnegative,
    check_positive,
)
from botorch_risk.models.heteroscedastic import MeanVarianceGP
from botorch_risk.models.mean_variance_samples import MeanVarianceSamples
from botorch_risk.models.repeats import RepeatedOutcomes, pool_repeated_rows
from botorch_risk.papers.rahbo import MeanVarianceSearch, Weights
from botorch_risk.recommend import Rule
from botorch_risk.repeats.knowledge_gradient import LogRiskAverseKnowledgeGradient
from botorch_risk.strategies.history import History
from botorch_risk.strategies.method import Method, State, View, rows_at
from botorch_risk.strategies.prediction import Interval, Prediction
from botorch_risk.strategies.running import expect_running
from botorch_risk.strategies.space import Box, SpaceOfBox, check_columns, decision_box
from botorch_risk.strategies.strategy import Strategy


@dataclass(frozen=True)
class MeasuredBox(SpaceOfBox):
    r"""Decisions of a box, with the number of readings in one extra, last column.

    The number is the one asked for: a missing reading is NaN among the outcomes.

    Args:
        box: The decisions.
        initial_repeats: The number of readings at each point of the initial design.

    Example:
        >>> space = MeasuredBox(Box(torch.tensor([[0.0], [2.0]])), initial_repeats=3)
        >>> space.initial([0], 2)[..., -1]
        tensor([[3., 3.]])
    """

    initial_repeats: int

    def __post_init__(self) -> None:
        check_fields(self)
        check_counts(initial_repeats=self.initial_repeats)

    @property
    def num_columns(self) -> int:
        return self.box.num_columns + 1

    def initial(self, seeds: Sequence[int], num_points: int) -> Tensor:
        r"""Scrambled Sobol points, a function of each seed alone, with numbers of readings."""
        X = self.box.initial(seeds, num_points)
        return torch.cat([X, torch.full_like(X[..., :1], self.initial_repeats)], dim=-1)

    def rows(self, X: Tensor, asked: Callable[[], Tensor]) -> Tensor:
        r"""Decisions within the bounds up to rounding, with whole numbers of readings."""
        check_columns(X, self.num_columns)
        decisions, counts = self.box.checked(X[..., :-1]), X[..., -1:]
        wrong = ~counts.isnan() & ~((counts >= 1) & (counts == counts.round()))
        if wrong.any():
            raise InputDataError(
                "Expected whole numbers of readings, at least 1, in the last column of points. "
                f"Got {counts[wrong][0].item():g}."
            )
        return torch.cat([decisions, counts], dim=-1)


@runtime_checkable
class RepeatsRule(Protocol):
    r"""A rule that chooses a point and its number of readings."""

    def __call__(
        self, view: View, reporting: MeanVarianceSearch, measured: Tensor
    ) -> tuple[Tensor, Tensor]:
        r"""The next measurement.

        Args:
            view: The replicates, whose belief is a `MeanVarianceGP` on the unit cube.
            reporting: The weights of the objective, and the options of the acquisition optimiser.
            measured: `R x n x d` decisions, in the order of the rows of the model.

        Returns:
            Decisions `R x d`, equal to measured ones where more readings are taken there, and
            numbers of readings `R`, at least 1.
        """
        ...


@dataclass(frozen=True)
class FixedRepeats:
    r"""RAHBO's point, always with the same number of readings.

    Algorithm 1 of [Makarova2021rahbo]_.

    Example:
        >>> from botorch_risk.examples import unit
        >>> rule = FixedRepeats(num_repeats=5)
        >>> adaptive_repeats(unit, 0, risk_aversion=1.0, rule=rule).ask().shape
        torch.Size([1, 10, 2])
    """

    num_repeats: int

    def __post_init__(self) -> None:
        check_fields(self)
        check_counts(num_repeats=self.num_repeats)

    def __call__(
        self, view: View, reporting: MeanVarianceSearch, measured: Tensor
    ) -> tuple[Tensor, Tensor]:
        X = reporting.propose(view).squeeze(-2)
        return X, torch.full_like(X[..., 0], self.num_repeats)


@dataclass(frozen=True)
class WorthOfReadings:
    r"""The most valuable readings per cost, at a new point or a measured one.

    It maximises `LogRiskAverseKnowledgeGradient`, after [Frazier2009kgcb]_; the numbers and costs
    are the arguments of that.

    Example:
        >>> from botorch_risk.examples import unit
        >>> rule = WorthOfReadings(num_repeats=(2, 6), moving_cost=1e3)  # a reading costs 1
        >>> strategy = adaptive_repeats(unit, 0, risk_aversion=1.0, rule=rule, num_initial=5)
        >>> X = strategy.ask()  # decisions with their numbers of readings
        >>> strategy.tell(X, (3 * X[..., :1]).sin() + torch.tensor([-0.1, 0.0, 0.1]))
        >>> bool((strategy.ask()[..., 0] == X[..., 0]).any())  # a new point is too expensive
        True
    """

    num_repeats: Sequence[int] = (2, 3, 5, 8, 13)
    moving_cost: float = 0.0
    returning_cost: float = 0.0
    reading_cost: float = 1.0
    num_compared: int = 8

    def __post_init__(self) -> None:
        check_fields(self)
        counts = tuple(self.num_repeats)
        if not counts:
            raise ValueError(
                "Expected `num_repeats` to be a sequence of at least one integer. Got ()."
            )
        for count in counts:
            check_counts(num_repeats=count)
        object.__setattr__(self, "num_repeats", counts)
        check_counts(num_compared=self.num_compared)
        check_nonnegative(moving_cost=self.moving_cost, returning_cost=self.returning_cost)
        check_positive(reading_cost=self.reading_cost)

    def __call__(
        self, view: View, reporting: MeanVarianceSearch, measured: Tensor
    ) -> tuple[Tensor, Tensor]:
        acquisition = LogRiskAverseKnowledgeGradient(
            view.belief, risk_aversion=reporting.weights.risk_aversion, **vars(self)
        )
        if view.running is not None:
            expect_running(acquisition, view.space.unit(view.running[..., :-1]))
        streams = view.history.streams("acquisition")
        X = view.space.maximize(
            acquisition, streams, 1, reporting.num_restarts, reporting.raw_samples
        )
        readings = acquisition.choose(view.space.unit(X))
        again = rows_at(measured, readings.row.clamp_min(0))
        return again.where(readings.row.unsqueeze(-1) >= 0, X.squeeze(-2)), readings.num_repeats


@dataclass(frozen=True)
class AdaptiveRepeats(Method):
    r"""A method on a `MeanVarianceGP` that also chooses how often to measure each point.

    Readings of one decision are pooled over all rounds. The method recommends a decision by the
    rule of `reporting`. A replicate whose budget is spent asks for NaN.

    Args:
        rule: A rule that chooses a point and its number of readings.
        reporting: The model, the weights and the reporting rule.
        budget: The maximum number of readings of a replicate, the initial design included; None for
            no limit. Only told readings count, not missing ones or those merely asked for.

    Raises:
        UnsupportedError: If the reporting rule needs bounds that were recorded.
    """

    rule: RepeatsRule
    reporting: MeanVarianceSearch
    budget: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.budget is not None:
            check_counts(budget=self.budget)
        if self.reporting.rule == "recorded_lower_confidence_bound":
            raise UnsupportedError(
                "Expected a reporting rule without recorded bounds, as a point that is measured "
                "again has several. Got 'recorded_lower_confidence_bound'."
            )

    def group_by(self, history: History) -> Tensor:
        r"""All replicates form one batch; rows that are padding in a replicate have no weight."""
        return torch.zeros(len(history.seeds), 1)

    @property
    def keeps_fits(self) -> bool:
        return self.reporting.keeps_fits

    def believe(self, view: View) -> MeanVarianceGP:
        r"""The model of all readings so far, on the unit cube."""
        readings = view.history.num_readings.sum(dim=-1)
        before = view.previous
        if before is not None and torch.equal(before.train_counts.sum(dim=(1, 2)).long(), readings):
            return before  # there is nothing new: all budgets are spent
        return self.reporting.fitted(view, *pooled(view))

    def believe_intervals(self, view: View) -> MeanVarianceGP | MeanVarianceSamples:
        return self.reporting.sampled(view, *pooled(view))

    def propose(self, view: View) -> Tensor:
        r"""Decisions with their numbers of readings, NaN where the budget is spent."""
        if view.batch_size != 1:
            raise UnsupportedError(f"Expected a `batch_size` of 1. Got {view.batch_size}.")
        measured, _ = pooled(view)
        X, counts = self.rule(view, self.reporting, measured)
        counts = counts.to(X)
        if self.budget is not None:
            left = self.budget - view.history.num_readings.sum(dim=-1)
            counts = counts.minimum(left.clamp_min(1).to(counts))
            X = X.masked_fill(left.unsqueeze(-1) < 1, torch.nan)
            counts = counts.masked_fill(left < 1, torch.nan)
        return torch.cat([X, counts.unsqueeze(-1)], dim=-1).unsqueeze(-2)

    def learn(self, view: View) -> State:
        return self.reporting.learn(view)

    def recommend(self, view: View) -> Tensor:
        r"""The best decision by the reporting rule."""
        measured, _ = pooled(view)
        return self.reporting.best_of(view, measured)

    def predict(self, view: View, X: Tensor) -> Prediction:
        r"""The prediction of the model; it ignores the numbers of readings in the rows."""
        return self.reporting.predict(view, X[..., : view.space.bounds.shape[-1]])

    def predict_risk(self, view: View, X: Tensor) -> Interval:
        return self.reporting.predict_risk(view, X)


def pooled(view: View) -> tuple[Tensor, RepeatedOutcomes]:
    r"""The measured decisions of each replicate, with all their readings.

    Returns:
        Decisions `R x n x d`, padded with the replicate's first decision, and the statistics of
        their readings; the padding has none.
    """
    history, rows = view.history, []
    tables = zip(history.X[..., :-1], history.Y[..., 0], history.has_outcome, strict=True)
    for decisions, readings, known in tables:
        outcomes = RepeatedOutcomes.from_repeats(readings[known])
        rows.append(pool_repeated_rows(decisions[known], outcomes))
    X = _padded([X for X, _ in rows])
    parts = {
        name: _padded([getattr(outcomes, name) for _, outcomes in rows])
        for name in ("means", "variances", "counts")
    }
    lengths = torch.tensor([len(X) for X, _ in rows], device=X.device)
    present = (torch.arange(X.shape[-2], device=X.device) < lengths.unsqueeze(-1)).unsqueeze(-1)
    return X, RepeatedOutcomes(
        parts["means"], parts["variances"], parts["counts"].where(present, 0.0)
    )


def _padded(rows: list[Tensor]) -> Tensor:
    r"""Tables `n_r x c` as one of `R x n x c`, in which shorter ones repeat their first row."""
    padded = pad_sequence(rows, batch_first=True)
    lengths = torch.tensor([len(table) for table in rows], device=padded.device)
    present = torch.arange(padded.shape[-2], device=padded.device) < lengths.unsqueeze(-1)
    return padded.where(present.unsqueeze(-1), padded[:, :1])


def adaptive_repeats(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    risk_aversion: float,
    num_repeats: Sequence[int] = (2, 3, 5, 8, 13),
    moving_cost: float = 0.0,
    returning_cost: float = 0.0,
    reading_cost: float = 1.0,
    budget: int | None = None,
    rule: RepeatsRule | None = None,
    beta: float = 4.0,
    noise_beta: float = 4.0,
    report: Rule = "lower_confidence_bound",
    initial_repeats: int = 3,
    num_initial: int = 10,
    batch_size: int = 1,
    **options: Any,
) -> Strategy:
    r"""Maximise mean minus variance, and choose the number of readings at each point.

    Each round maximises `LogRiskAverseKnowledgeGradient` and takes the better of its maximiser and
    more readings at a measured point. `ask` returns rows `(x, k)`, `R x 1 x (d + 1)`: evaluate x k
    times, and tell the row with the readings, NaN where a replicate has fewer than another. Other
    arguments are as in `rahbo`.

    Args:
        num_repeats: The numbers of readings to choose from.
        moving_cost: The cost of starting at a new point, in units of `reading_cost`, >= 0.
        returning_cost: The cost of returning to a measured point, >= 0.
        reading_cost: The cost of a reading, > 0.
        budget: The maximum number of readings of a replicate, the initial design included; `ask`
            returns NaN once that many were told. None for no limit.
        rule: Another rule for the point and the number of readings; the numbers and costs above
            then do not apply.
        beta: Squared width of the bound of f, for the report.
        noise_beta: Squared width of the bound of the noise, for the report and in the noise of a
            mean, Eq. (16) of [Makarova2021rahbo]_.
        report: The reporting rule of `recommend`.
        initial_repeats: The number of readings at each point of the initial design, at least 2
            if the noise is learnt.
        batch_size: Only 1 is allowed, as points are chosen one by one.
        options: Further arguments of `MeanVarianceSearch`.

    Raises:
        UnsupportedError: If the batch size is not 1, or the reporting rule needs recorded bounds.

    Example:
        >>> bounds = torch.tensor([[0.0], [2.0]], dtype=torch.double)
        >>> strategy = adaptive_repeats(bounds, [0, 1], risk_aversion=1.0, num_initial=5)
        >>> X = strategy.ask()
        >>> noise = 0.1 * torch.randn(2, 5, 3, dtype=torch.double)
        >>> strategy.tell(X, (3 * X[..., :1]).sin() + noise)
        >>> strategy.ask().shape, strategy.recommend().shape
        (torch.Size([2, 1, 2]), torch.Size([2, 1]))
    """
    check_arguments(adaptive_repeats, locals())
    if batch_size != 1:
        raise UnsupportedError(f"Expected a `batch_size` of 1. Got {batch_size}.")
    # One reading shows no noise.
    check_counts(2 if options.get("known_noise") is None else 1, initial_repeats=initial_repeats)
    chosen = rule or WorthOfReadings(num_repeats, moving_cost, returning_cost, reading_cost)
    reporting = MeanVarianceSearch(Weights(risk_aversion, beta, noise_beta), rule=report, **options)
    strategy = Strategy(
        MeasuredBox(decision_box(bounds), initial_repeats),
        AdaptiveRepeats(chosen, reporting, budget),
        seeds,
        num_initial=num_initial,
    )
    if budget is not None and budget < num_initial * initial_repeats:
        raise ValueError(
            "Expected `budget` to cover the initial design, `num_initial` x `initial_repeats` = "
            f"{num_initial * initial_repeats} readings. Got {budget=}."
        )
    return strategy
