import itertools
import time
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch_risk_bench.campaigns import Journal, play_rounds
from botorch_risk_bench.campaigns.loop import FailedOutcomesWarning, evaluate
from torch import Generator, Tensor

from bench.tests.experiments.noisy_quadratic import NoisyQuadratic, UnknownOptimum
from botorch_risk.strategies import Box, History, RandomPoints, Strategy
from botorch_risk.strategies.built_with import from_json
from botorch_risk.strategies.method import View

SEEDS = [3, 1, 4]


def run(
    journal: Journal, num_rounds: int, method: type[RandomPoints] = RandomPoints, **kwargs: Any
) -> NoisyQuadratic:
    problem = kwargs.pop("problem", None) or NoisyQuadratic()
    strategy = Strategy(Box(problem.bounds), method(), SEEDS, num_initial=4)
    first = journal.last_round + 1
    played = list(play_rounds(strategy, problem, journal, num_rounds, num_repeats=3))
    assert played == list(range(first, num_rounds + 1))
    return problem


def same(one: Journal, other: Journal) -> bool:
    r"""Whether two journals have the same rounds, whatever they took."""
    pairs = zip(one.take(), other.take(), strict=True)
    return one.state == other.state and all(
        torch.equal(left.X, right.X)
        and torch.equal(left.Y, right.Y)
        and torch.equal(left.recommendation, right.recommendation)
        for left, right in pairs
    )


class Clumsy(RandomPoints):
    r"""Raises at the first tell of its third round."""

    armed: ClassVar[bool] = True

    def check(self, history: History) -> None:
        if history.round == 3 and type(self).armed:
            raise FloatingPointError("Cholesky")


class Erratic(Clumsy):
    r"""Asks for other points after a resumption."""

    def propose(self, view: View) -> Tensor:
        return super().propose(view) * (1.0 if type(self).armed else 0.5)


class WrongShape(NoisyQuadratic):
    def sample_repeats(self, X: Tensor, num_repeats: int, generators: list[Generator]) -> Tensor:
        return super().sample_repeats(X, num_repeats + 1, generators)


def test_records_every_round() -> None:
    journal = Journal()
    problem = run(journal, num_rounds=5)
    records = journal.take()
    assert [record.X.shape for record in records[:2]] == [(3, 4, 2), (3, 1, 2)]
    for record in records:
        assert torch.equal(record.objective, problem.objective(record.X))
        assert torch.equal(record.recommended_objective, problem.objective(record.recommendation))


def test_a_resumed_or_extended_run_equals_the_uninterrupted_one(tmp_path: Path) -> None:
    whole = Journal()
    run(whole, num_rounds=7)
    for num_rounds in (1, 2, 5, 7, 7):
        run(Journal(folder=tmp_path), num_rounds)
    assert same(Journal(folder=tmp_path), whole)


def test_a_replicate_does_not_depend_on_its_company() -> None:
    problem = NoisyQuadratic()
    X = torch.rand(3, 2, 2, dtype=torch.double)
    _, together = evaluate(problem, X, SEEDS, num_repeats=5, index=7)
    for row, seed in enumerate(SEEDS):
        _, alone = evaluate(problem, X[row : row + 1], [seed], num_repeats=5, index=7)
        assert torch.equal(together[row : row + 1], alone)


def test_a_round_whose_tell_raises_is_not_evaluated_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        with pytest.raises(FloatingPointError, match="Cholesky"):
            run(Journal(folder=tmp_path), num_rounds=4, method=Clumsy)
    monkeypatch.setattr(Clumsy, "armed", False)
    resumed, whole = Journal(folder=tmp_path), Journal()
    assert run(resumed, num_rounds=4, method=Clumsy).num_evaluations == 2
    assert run(whole, num_rounds=4, method=Clumsy).num_evaluations == 5
    assert same(resumed, whole)


def test_a_strategy_that_changes_its_mind_is_told_what_was_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FloatingPointError, match="Cholesky"):
        run(Journal(folder=tmp_path), num_rounds=2, method=Erratic)
    journal = Journal(folder=tmp_path)
    pending = journal.pending
    assert pending is not None and pending.index == 2
    monkeypatch.setattr(Erratic, "armed", False)
    with pytest.warns(RuntimeWarning, match="points of round 2 that have been evaluated"):
        run(journal, num_rounds=2, method=Erratic)
    assert journal.state is not None
    assert torch.equal(from_json(journal.state["history"]["X"])[:, -1:], pending.X)


def test_failed_replicates_are_kept_as_nan_and_named() -> None:
    journal = Journal()
    with pytest.warns(FailedOutcomesWarning, match=r"in round [012] of seeds=\[3\]"):
        run(journal, num_rounds=2, problem=NoisyQuadratic(num_failing=1))
    assert journal.state is not None
    Y = from_json(journal.state["history"]["Y"]).squeeze(-1)
    assert Y.shape == (3, 6, 3)
    assert Y[0].isnan().all(dim=-1).tolist() == [False, False, False, True, True, True]
    assert not Y[1:].isnan().any()
    last = journal.take()[-1].recommendation
    assert last is not None and last.isfinite().all()


def test_a_problem_may_not_know_its_objective() -> None:
    journal = Journal()
    run(journal, num_rounds=1, problem=UnknownOptimum())
    records = journal.take()
    assert all(record.objective is None for record in records)
    assert all(record.recommended_objective is None for record in records)


def test_a_clock_that_goes_back_stores_no_negative_time(monkeypatch: pytest.MonkeyPatch) -> None:
    journal, clock = Journal(), itertools.count(1e9, -100.0)
    for name in ("time", "perf_counter", "monotonic"):
        monkeypatch.setattr(time, name, lambda: next(clock))
    run(journal, num_rounds=1)
    assert [record.seconds for record in journal.take()] == [(0.0, 0.0, 0.0)] * 2


def test_errors() -> None:
    with pytest.raises(ValueError, match="`num_rounds` to be at least 1"):
        run(Journal(), num_rounds=0)
    with pytest.raises(BotorchTensorDimensionError, match="outcomes to have shape `3 x 4 x 3`"):
        run(Journal(), num_rounds=1, problem=WrongShape())
    with pytest.raises(BotorchTensorDimensionError, match="`X` to have shape `1 x q x 2`"):
        evaluate(NoisyQuadratic(), torch.zeros(2, 1, 2), [0], num_repeats=2, index=0)


class Indoor(NoisyQuadratic):
    r"""The sum of a decision's distance and of a context, which is drawn unless it is chosen."""

    def __init__(self) -> None:
        super().__init__()
        self.decision_bounds = self.bounds
        contexts = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        self.bounds = torch.cat([self.decision_bounds, contexts], dim=-1)

    def draw_contexts(self, X: Tensor, generators: list[Generator]) -> Tensor:
        return torch.full_like(X[..., :1], 0.25)

    def sample_repeats(self, X: Tensor, num_repeats: int, generators: list[Generator]) -> Tensor:
        d_x = self.decision_bounds.shape[-1]
        outcomes = super().sample_repeats(X[..., :d_x], num_repeats, generators)
        return outcomes + X[..., d_x:]


def test_contexts_are_drawn_unless_they_are_chosen() -> None:
    problem = Indoor()
    decisions = torch.rand(3, 2, problem.decision_bounds.shape[-1], dtype=torch.double)
    met, _ = evaluate(problem, decisions, SEEDS, num_repeats=2, index=1)
    assert torch.equal(met[..., -1], torch.full((3, 2), 0.25, dtype=torch.double))
    chosen = torch.cat([decisions, torch.ones(3, 2, 1, dtype=torch.double)], dim=-1)
    told, outcomes = evaluate(problem, chosen, SEEDS, num_repeats=2, index=1)
    assert torch.equal(told, chosen)
    assert torch.allclose(outcomes, evaluate(problem, decisions, SEEDS, 2, 1)[1] + 0.75)


def test_refuses_other_columns_than_decisions_or_pairs() -> None:
    problem = Indoor()
    d = problem.decision_bounds.shape[-1]
    with pytest.raises(BotorchTensorDimensionError, match=f"`3 x q x {d} or {d + 1}`"):
        evaluate(problem, torch.rand(3, 2, d + 2), SEEDS, num_repeats=2, index=0)


class SeveralOutcomes(NoisyQuadratic):
    r"""Both outcomes of one draw, of which the second is the negative of the first."""

    def sample_outcomes(self, X: Tensor, num_repeats: int, generators: list[Generator]) -> Tensor:
        Y = self.sample_repeats(X, num_repeats, generators)
        return torch.stack([Y, -Y], dim=-1)


def test_as_many_outcomes_are_drawn_as_the_strategy_takes() -> None:
    problem, X = SeveralOutcomes(), torch.rand(3, 2, 2, dtype=torch.double)
    _, single = evaluate(problem, X, SEEDS, num_repeats=2, index=0)
    _, both = evaluate(problem, X, SEEDS, num_repeats=2, index=0, num_outcomes=2)
    assert torch.equal(both, torch.stack([single, -single], dim=-1))
    with pytest.raises(BotorchTensorDimensionError, match="to have shape `3 x 2 x 2 x 3`"):
        evaluate(problem, X, SEEDS, num_repeats=2, index=0, num_outcomes=3)


def test_a_point_has_failed_where_all_outcomes_are_missing() -> None:
    problem, X = SeveralOutcomes(num_failing=1), torch.rand(3, 2, 2, dtype=torch.double)
    with pytest.warns(FailedOutcomesWarning, match=r"seeds=\[3\]"):
        evaluate(problem, X, SEEDS, num_repeats=2, index=0, num_outcomes=2)
