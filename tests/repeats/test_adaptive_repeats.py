r"""Strategies that choose how often to measure."""

from typing import Any

import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from torch import Tensor

from botorch_risk.frames import SingleExperiment
from botorch_risk.models import RepeatedOutcomes
from botorch_risk.papers import MeanVarianceSearch, rahbo
from botorch_risk.repeats import FixedRepeats, LogRiskAverseKnowledgeGradient, adaptive_repeats
from botorch_risk.repeats.adaptive_repeats import pooled
from botorch_risk.strategies import View
from tests.strategies.cases import MEASURED, PROBLEM
from tests.strategies.loops import play

OPTIONS: dict[str, Any] = {
    "risk_aversion": 1.0,
    "num_initial": 5,
    "num_restarts": 3,
    "raw_samples": 32,
}


class Scripted:
    r"""A rule that follows a list: rows of the pooled table, or new points, with their readings."""

    def __init__(self, *steps: tuple[list[float | int], list[int]]) -> None:
        self.steps = steps

    def __call__(self, view: View, reporting: MeanVarianceSearch, measured: Tensor) -> Any:
        where, counts = self.steps[view.round - 1]
        X = torch.stack(
            [
                measured[r, each] if isinstance(each, int) else measured.new_tensor([each])
                for r, each in enumerate(where)
            ]
        )
        return X, torch.tensor(counts)


def test_with_a_fixed_number_of_readings_it_is_rahbo() -> None:
    r"""As long as no point comes twice."""
    adaptive = adaptive_repeats(
        PROBLEM.bounds, [0, 1], rule=FixedRepeats(4), initial_repeats=4, **OPTIONS
    )
    fixed = rahbo(PROBLEM.bounds, [0, 1], num_repeats=4, **OPTIONS)
    ours, theirs = play(adaptive, 4, problem=MEASURED), play(fixed, 4)
    for left, right in zip(ours, theirs, strict=True):
        assert (left[..., -1] == 4).all()
        torch.testing.assert_close(left[..., :-1], right, atol=1e-6, rtol=0)
    torch.testing.assert_close(adaptive.recommend(), fixed.recommend(), atol=1e-6, rtol=0)


def test_readings_of_one_point_are_pooled_and_rows_are_padded() -> None:
    rule = Scripted(([1, 0.5], [1, 4]), ([1, 2], [2, 3]))
    strategy = adaptive_repeats(PROBLEM.bounds, [0, 1], rule=rule, initial_repeats=2, **OPTIONS)
    play(strategy, 3, problem=MEASURED)
    ((_, view),) = strategy.views
    X, outcomes = pooled(view)
    assert X.shape == (2, 6, 1)
    counts = outcomes.counts.squeeze(-1).tolist()
    assert counts == [[2, 5, 2, 2, 2, 0], [2, 2, 5, 2, 2, 4]]
    readings = view.history.Y[0, [1, 5, 6], :, 0]
    readings = readings[readings.isfinite()]
    assert len(readings) == 5
    torch.testing.assert_close(outcomes.means[0, 1, 0], readings.mean())
    torch.testing.assert_close(outcomes.variances[0, 1, 0], readings.var())
    assert torch.equal(X[0, 5], X[0, 0])  # a filler is a measured point
    alone = adaptive_repeats(PROBLEM.bounds, 0, rule=rule, initial_repeats=2, **OPTIONS)
    alone.tell(view.history.X[:1, :5], view.history.Y[:1, :5, :, 0])
    for row in (5, 6):
        alone.tell(view.history.X[:1, row : row + 1], view.history.Y[:1, row : row + 1, :, 0])
    points = torch.linspace(0, 1, 7, dtype=torch.double).unsqueeze(-1)
    together, single = view.belief, alone.belief
    for left, right in (
        (together.mean_marginals(points.expand(2, 7, 1)).mean[0], single.mean_marginals(points)[0]),
        (together.predicted_noise(points)[0], single.predicted_noise(points)[0]),
    ):
        # Fits that began elsewhere end within their tolerance of each other.
        torch.testing.assert_close(left.reshape(-1), right.reshape(-1), atol=1e-4, rtol=1e-4)


def test_a_missing_reading_is_no_reading() -> None:
    strategy = adaptive_repeats(PROBLEM.bounds, [0], initial_repeats=3, **OPTIONS)
    X = strategy.ask()
    Y = MEASURED.sample_repeats(X, 4, [torch.Generator().manual_seed(0)])
    Y[0, 0, 1], Y[0, 1] = torch.nan, torch.nan
    strategy.tell(X, Y)
    _, outcomes = pooled(strategy.views[0][1])
    assert outcomes.counts.flatten().tolist() == [2, 3, 3, 3]
    assert isinstance(outcomes, RepeatedOutcomes)


def test_the_budget_ends_each_replicate() -> None:
    rule = Scripted(*[([0, 0.3], [4, 1])] * 6)
    strategy = adaptive_repeats(
        PROBLEM.bounds, [0, 1], rule=rule, initial_repeats=2, budget=16, **OPTIONS
    )
    asked = play(strategy, 6, problem=MEASURED)
    counts = torch.stack([X[:, 0, -1] for X in asked[1:]])
    assert counts[:, 0].nan_to_num(nan=-1).tolist() == [4, 2, -1, -1, -1]
    assert counts[:, 1].tolist() == [1, 1, 1, 1, 1]
    assert asked[3][0].isnan().all()
    assert strategy.history.X[0, :, -1].nansum() == 16
    assert strategy.recommend().isfinite().all()


def readings(X: Tensor, count: int) -> Tensor:
    return (3 * X[..., :1]).sin() + torch.linspace(-0.1, 0.1, count, dtype=torch.double)


def test_the_budget_counts_the_readings_that_were_told() -> None:
    strategy = adaptive_repeats(PROBLEM.bounds, 0, rule=FixedRepeats(4), budget=20, **OPTIONS)
    X = strategy.ask()  # 3 readings of each of 5 points
    Y = readings(X, 3)
    Y[:, :2, 0] = torch.nan  # 13 came back
    strategy.tell(X, Y)
    asked = strategy.ask()
    assert asked[0, 0, -1] <= 7
    strategy.tell(asked, readings(asked, 6))  # whatever was asked for
    asked = strategy.ask()
    assert asked[0, 0, -1] == 1
    strategy.tell(asked, readings(asked, 1))
    assert strategy.ask().isnan().all()
    assert strategy.history.num_readings.sum() == 20


def test_the_budget_counts_further_readings_of_an_experiment() -> None:
    rule = FixedRepeats(2)
    strategy = adaptive_repeats(PROBLEM.bounds, 0, rule=rule, budget=20, **OPTIONS)
    experiment = SingleExperiment(strategy)
    rows = experiment.ask().repeat_interleave(3, dim=0)
    experiment.tell(rows, (3 * rows[:, 0]).sin() + torch.arange(15) % 3 * 0.1)
    experiment.tell(rows[:5], (3 * rows[:5, 0]).sin())  # more than were asked for
    assert len(experiment.ask()) == 0


def test_a_budget_that_the_initial_design_exceeds_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`budget` to cover .* = 15 readings. Got budget=14"):
        adaptive_repeats(PROBLEM.bounds, 0, budget=14, **OPTIONS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_repeats": ()}, r"`num_repeats` to be a sequence of at least one integer. Got \(\)"),
        ({"initial_repeats": 1}, r"`initial_repeats` to be at least 2. Got 1"),
    ],
)
def test_what_could_not_be_learnt_from_is_refused_before_anything_is_measured(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        adaptive_repeats(PROBLEM.bounds, 0, **OPTIONS, **options)
    known = {"known_noise": lambda X: torch.ones_like(X[..., :1]), "rule": FixedRepeats(1)}
    assert adaptive_repeats(PROBLEM.bounds, 0, initial_repeats=1, **OPTIONS, **known).ask().ndim


def test_the_rule_takes_the_best_rate() -> None:
    strategy = adaptive_repeats(PROBLEM.bounds, [3, 4], num_repeats=(2, 4), **OPTIONS)
    play(strategy, 2, problem=MEASURED)
    asked = strategy.ask()
    ((_, view),) = strategy.views
    acqf = LogRiskAverseKnowledgeGradient(view.belief, num_repeats=(2, 4))
    measured = acqf.log_rates_of_measured().flatten(1).amax(dim=-1)
    unit = view.space.unit(asked[..., :-1])
    is_again = (unit == view.belief.train_X).all(dim=-1).any(dim=-1)
    own = acqf.log_rates(unit).gather(-1, (asked[..., -1:] == 4).long()).flatten()
    assert ((own >= measured - 1e-9) | is_again).all()


def test_costs_reach_the_acquisition() -> None:
    cheap, expensive = (
        adaptive_repeats(
            PROBLEM.bounds,
            range(4),
            num_repeats=(1, 2, 4),
            moving_cost=c,
            returning_cost=c,
            **OPTIONS,
        )
        for c in (0.0, 50.0)
    )
    few, many = (play(each, 2, problem=MEASURED)[1][..., -1] for each in (cheap, expensive))
    assert many.sum() > few.sum()
    assert (many == 4).all()


def test_a_round_asks_for_one_point() -> None:
    strategy = adaptive_repeats(PROBLEM.bounds, 0, rule=FixedRepeats(2), **OPTIONS)
    X = strategy.ask()
    strategy.tell(X, readings(X, 3))
    with pytest.raises(UnsupportedError, match=r"Expected a `batch_size` of 1\. Got 2"):
        strategy.ask(2)


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match=r"`budget` to be at least 1\. Got 0"):
        adaptive_repeats(PROBLEM.bounds, 0, budget=0, **OPTIONS)
    with pytest.raises(UnsupportedError, match="without recorded bounds"):
        adaptive_repeats(PROBLEM.bounds, 0, report="recorded_lower_confidence_bound", **OPTIONS)
    with pytest.raises(ValueError, match="Expected `initial_repeats`"):
        adaptive_repeats(PROBLEM.bounds, 0, initial_repeats=0, **OPTIONS)
    with pytest.raises(UnsupportedError, match=r"`batch_size` of 1. Got 2"):
        adaptive_repeats(PROBLEM.bounds, 0, batch_size=2, **OPTIONS)
    with pytest.raises(ValueError, match="Expected `reading_cost` to be finite and > 0"):
        adaptive_repeats(PROBLEM.bounds, [0], reading_cost=0.0, **OPTIONS)
