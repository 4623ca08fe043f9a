r"""What still runs: told in parts, cancelled, corrected and withdrawn."""

from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from torch import Tensor

from botorch_risk.repeats import adaptive_repeats, risk_averse_kg
from botorch_risk.strategies import Box, Strategy, random_search
from botorch_risk.strategies.finite_domain import FiniteDomain
from botorch_risk.strategies.running import RepeatedSettingWarning, joined, left_running
from tests.strategies.cases import StrategyCase, every_strategy
from tests.strategies.loops import evaluate, meet, play
from tests.strategies.test_strategy import same

SEEDS = (0, 1)
BY_KNOWLEDGE_GRADIENT = (risk_averse_kg, adaptive_repeats)


def told(case: StrategyCase, strategy: Strategy, X: Tensor, index: int) -> tuple[Tensor, Tensor]:
    rows = meet(strategy, X, index, case.problem)
    return rows, evaluate(strategy, rows, index, case.problem)


def takes_a_batch(strategy: Strategy) -> bool:
    try:
        strategy.ask(3)
    except UnsupportedError:  # its method measures one point in a round
        return False
    return True


@every_strategy
def test_no_setting_is_next_to_one_that_runs(case: StrategyCase) -> None:
    strategy = case.build(SEEDS)
    play(strategy, 1, problem=case.problem)
    if not takes_a_batch(strategy):
        return
    asked = strategy.ask(3)
    strategy.tell(*told(case, strategy, asked[:, :1], 1))
    again = case.build(SEEDS)
    again.load_state_dict(strategy.state_dict())
    running = asked[:, 1:]
    assert same(again.running, running)
    try:
        new = strategy.ask(2)
    except UnsupportedError:  # that round was random, and this one's function has no pending points
        return
    if strategy.method.repeats_settings:  # and a gain may be 0 up to rounding
        return
    assert same(again.ask(2), new)
    both = torch.cat([running, new], dim=-2)
    assert not (both[:, :, None] == both[:, None]).all(dim=-1).tril(-1).any()
    box = getattr(strategy.space, "box", strategy.space)
    if isinstance(box, FiniteDomain) or box.discrete or case.name.startswith(("random", "uhe")):
        return
    lower, upper = strategy.space.bounds
    d_x = len(lower)
    away = torch.cdist(*[((both[..., :d_x] - lower) / (upper - lower))] * 2)
    away = away.masked_fill(torch.eye(4, dtype=torch.bool), torch.inf)[..., 2:]
    least = 0.05 * d_x**0.5 * (1 - 1e-4)
    assert away[:, :2].amin() >= least  # from those that run
    assert away.amin() >= (0.4 * least if case.make in BY_KNOWLEDGE_GRADIENT else least)


@every_strategy
def test_a_withdrawn_row_was_never_told_and_a_corrected_one_told_right(case: StrategyCase) -> None:
    expected, withdrawn = case.build(SEEDS), case.build(SEEDS)
    X, _ = expected.ask(), withdrawn.ask()
    rows, Y = told(case, expected, X, 0)
    wrong = Y.clone()
    wrong[:, 1] += 3.0
    expected.tell(rows, Y)
    withdrawn.tell(rows, wrong)
    withdrawn.correct([1], Y[:, 1:2])
    assert same(withdrawn.state_dict(), expected.state_dict())
    extra, of_extra = told(case, expected, X[:, :1], 5)
    withdrawn.tell(extra, of_extra)
    withdrawn.withdraw([len(rows[0])])
    assert same(withdrawn.state_dict(), expected.state_dict())
    assert same(withdrawn.ask(), expected.ask())


@every_strategy
def test_what_is_cancelled_was_never_proposed(case: StrategyCase) -> None:
    strategy = case.build(SEEDS)
    play(strategy, 1, problem=case.problem)
    before = strategy.state_dict()
    asked = strategy.ask()
    strategy.cancel(asked)
    assert same(strategy.state_dict(), before) and same(strategy.ask(), asked)


UNIT = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)


def kg(**options: Any) -> Strategy:
    known = {"num_repeats": 2, "risk_aversion": 0.5, "num_initial": 5}
    return risk_averse_kg(UNIT, [0, 1], **{**known, **options})


def read(X: Tensor) -> Tensor:
    return torch.stack([X.sum(dim=-1), X.sum(dim=-1) + 0.1], dim=-1)


def test_pending_points_of_somebody_else_run_until_they_are_told() -> None:
    strategy, other = kg(), kg()
    for each in (strategy, other):
        X = each.ask()
        each.tell(X, read(X))
    best = other.ask()
    pending = torch.cat([best, best.flip(-1)], dim=-2)
    new = strategy.ask(pending=pending)
    assert torch.cdist(new, pending).amin() > 0.05 * 2**0.5 * (1 - 1e-4)
    assert same(strategy.running, torch.cat([pending, new], dim=-2))
    strategy.tell(pending, read(pending))
    assert same(strategy.running, new)
    for wrong in (best[..., :1], best[:1]):
        with pytest.raises(BotorchTensorDimensionError, match="`pending` of shape"):
            strategy.ask(pending=wrong)
    with pytest.raises(InputDataError, match="within bounds"):
        strategy.ask(pending=best + 2.0)
    with pytest.raises(ValueError, match="points that are running"):
        strategy.cancel(torch.full((2, 1, 2), 0.123, dtype=torch.double))


def test_a_rounded_row_ends_the_nearest_and_a_failed_one_its_own() -> None:
    strategy = kg()
    X = strategy.ask()
    strategy.tell(X, read(X))
    asked = strategy.ask(3)
    rounded = (asked * 100).round() / 100
    strategy.tell(rounded[:, :1], read(rounded[:, :1]))
    assert same(strategy.running, asked[:, 1:])
    strategy.tell(asked[:, 2:], torch.full((2, 1, 2), torch.nan))
    assert same(strategy.running, asked[:, 1:2])


def test_a_second_reading_stands_for_another_row_of_the_design_alone() -> None:
    running = torch.tensor([[[0.1], [0.15], [0.2]]], dtype=torch.double)
    told = torch.tensor([[[0.15], [0.15]]], dtype=torch.double)
    box = Box(torch.tensor([[0.0], [1.0]], dtype=torch.double))
    assert same(left_running(running, told, box), running[:, [0, 2]])
    assert left_running(running, told, box, near=torch.inf).shape == (1, 1, 1)


def test_the_design_gives_what_neither_is_told_nor_runs() -> None:
    strategy = random_search(UNIT, [0, 1], num_initial=6)
    design = strategy.ask()
    first = strategy.ask(3)
    strategy.tell(first[:, 1:2], torch.ones(2, 1, 1))
    assert same(strategy.ask(2), design[:, 3:5])
    strategy.tell(design[:, 3:4], torch.ones(2, 1, 1))
    assert same(strategy.ask(9), design[:, 5:])
    strategy.tell(design[:, :1], torch.ones(2, 1, 1))
    new = strategy.ask(2)  # all of the design run or are told
    assert new.shape == (2, 2, 2) and torch.cdist(new, design).amin() > 0
    assert same(strategy.ask(), new)


@pytest.mark.parametrize("build", [random_search, risk_averse_kg])
def test_few_settings_come_once_and_then_with_a_warning(build: Any) -> None:
    box = Box(torch.tensor([[0.0, 0.0], [2.0, 1.0]]).double(), integers=[0], categories=[1])
    options = {} if build is random_search else {"num_repeats": 2, "risk_aversion": 0.5}
    strategy = build(box, 0, num_initial=3, **options)
    X = strategy.ask()
    strategy.tell(X, read(X))
    six = strategy.ask(6)
    assert len(six[0].unique(dim=0)) == 6
    with pytest.warns(
        RepeatedSettingWarning, match="repeated setting for seed 0: the search found no"
    ):
        strategy.ask(7)


def test_rows_are_told_and_joined_by_hand() -> None:
    nan, double = torch.nan, torch.double
    running = torch.tensor([[[0.1], [0.5], [0.9]], [[0.2], [nan], [nan]]], dtype=double)
    some = torch.tensor([[[0.52], [nan]], [[0.9], [0.2]]], dtype=double)
    left = left_running(running, some, Box(UNIT[:, :1]))
    assert left[0].flatten().tolist() == [0.1, 0.9] and left[1].isnan().all()
    both = joined(left, torch.tensor([[[0.9], [0.3]], [[0.4], [nan]]], dtype=double))
    assert both[0].flatten().tolist() == [0.1, 0.9, 0.3]
    assert both[1].flatten()[:1].tolist() == [0.4] and both[1, 1:].isnan().all()
