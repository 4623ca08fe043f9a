r"""Properties of every strategy."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from torch import Tensor

from botorch_risk.strategies import random_search
from tests.devices import home
from tests.strategies.cases import NUM_INITIAL, STRATEGIES, StrategyCase, every_strategy
from tests.strategies.loops import (
    SEEDS,
    are_among,
    decisions_of,
    evaluate,
    meet,
    play,
    recommended,
    undisturbed,
)

pytestmark = [
    pytest.mark.every_device,
    pytest.mark.filterwarnings(
        "ignore:Expected a threshold within:botorch.exceptions.warnings.InputDataWarning"
    ),
]


@every_strategy
def test_protocol_and_shapes(case: StrategyCase) -> None:
    strategy = case.build(SEEDS, batch_size=case.batch_size)
    first, second = play(strategy, 2, problem=case.problem)
    assert first.shape == (3, NUM_INITIAL, case.num_asked)
    assert second.shape == (3, case.batch_size, case.num_asked)
    d_x = case.num_decisions
    lower, upper = case.problem.bounds[:, :d_x].to(home())
    nothing = second.isnan().any(dim=-1)  # a batch may end short
    assert not (nothing[:, 0] if case.of_a_domain else nothing).any()
    for X in (first, second[~nothing]):
        assert ((X[..., :d_x] >= lower) & (X[..., :d_x] <= upper)).all()
    shape = strategy.recommend().shape
    assert (shape[0], shape[-1], len(shape)) == (3, d_x, 3 if case.of_sets else 2)
    for row, reported in enumerate(recommended(strategy)):
        assert len(reported) >= 1
        assert ((reported >= lower) & (reported <= upper)).all()
        if not case.of_a_domain:
            evaluated = torch.cat([first, second], dim=-2)[row, :, :d_x]
            assert are_among(reported, evaluated)


@every_strategy
def test_a_state_is_json_and_continues_bit_for_bit(case: StrategyCase) -> None:
    loop, resumed = undisturbed(case), case.build(SEEDS)
    state = json.loads(json.dumps(loop.states[1]))
    resumed.load_state_dict(state)
    assert torch.equal(resumed.ask(), resumed.ask())  # and asking twice changes nothing
    asked = [*play(resumed, 1, 2, case.problem), resumed.ask()]
    for left, right in zip(loop.asked[2:], asked, strict=True):
        assert torch.equal(left, right)
    assert torch.equal(loop.reported[2].nan_to_num(), resumed.recommend().nan_to_num())
    with pytest.raises(ValueError, match=r"Got seeds=\[0, 1\]"):
        case.build([0, 1]).load_state_dict(state)


@every_strategy
def test_a_replicate_does_not_depend_on_its_company(case: StrategyCase) -> None:
    alone = case.build(1)
    asked = [*play(alone, 3, problem=case.problem), alone.ask()]
    for many, one in zip(undisturbed(case).asked, asked, strict=True):
        torch.testing.assert_close(many[1:2], one, atol=1e-6, rtol=0)


@every_strategy
@pytest.mark.handful
def test_the_default_dtype_changes_nothing(
    case: StrategyCase, default_dtype: Callable[..., None]
) -> None:
    loop = undisturbed(case)  # in single precision
    default_dtype(torch.double)
    strategy = case.build(SEEDS)
    assert torch.equal(strategy.ask(), loop.asked[0])
    strategy.load_state_dict(loop.states[1])
    single = [loop.asked[2], *decisions_of(loop.reported[1])]
    for left, right in zip(single, [strategy.ask(), *recommended(strategy)], strict=True):
        # BoTorch keeps the parameters of its priors in the default dtype. A knowledge gradient is
        # flat at its maximum: on some processors decisions of equal gain differ by 3e-5.
        atol = 1e-4 if case.name.endswith("knowledge-gradient") else 1e-5
        torch.testing.assert_close(left, right, atol=atol, rtol=0, equal_nan=True)


@every_strategy
@pytest.mark.handful
def test_missing_outcomes_of_a_replicate_leave_the_others_untouched(case: StrategyCase) -> None:
    holed, whole = case.build(SEEDS), undisturbed(case).asked
    for index in range(3):
        asked = holed.ask()
        torch.testing.assert_close(asked[[0, 2]], whole[index][[0, 2]], atol=1e-6, rtol=0)
        rows = meet(holed, asked, index, case.problem)
        Z = evaluate(holed, rows, index, case.problem)
        Z[1, :3] = torch.nan  # replicate 1 fails, at first in part, then wholly
        holed.tell(rows, Z)
    torch.testing.assert_close(holed.ask()[[0, 2]], whole[3][[0, 2]], atol=1e-6, rtol=0)
    reported = recommended(holed)
    assert all(map(len, reported))
    if not case.of_a_domain:
        known = holed.history.has_outcome[1]
        decisions = holed.history.X[1][known][:, : case.num_decisions]
        assert are_among(reported[1], decisions)


@pytest.mark.parametrize("name", ["rahbo", "safe_rahbo", "sbo_kde", "risk_search"])
def test_the_search_has_as_many_raw_points_and_starts_as_the_method(name: str) -> None:
    (case,) = (each for each in STRATEGIES if each.name == name)
    strategy = case.build(SEEDS, num_restarts=3, raw_samples=2)
    with pytest.raises(ValueError, match="num_restarts=3, raw_samples=2"):
        play(strategy, 2, problem=case.problem)


@every_strategy
@pytest.mark.handful
def test_data_with_a_graph_and_integers_are_taken_as_numbers(case: StrategyCase) -> None:
    r"""And as a copy: what the caller does to a tensor afterwards is the caller's."""
    plain, strategy = case.build(SEEDS), case.build(SEEDS)
    for index, (rows, Y) in enumerate(undisturbed(case).told[:2]):
        whole = index == 1 and bool(Y.isfinite().all())
        scale = 1 if case.of_a_domain else 10
        Y = Y.mul(scale).round() + 0.0 if whole else Y  # integers have no minus zero
        plain.tell(rows, Y)
        told = rows.clone().requires_grad_(), Y.long() if whole else Y.clone().requires_grad_()
        strategy.tell(*told)
        with torch.no_grad():
            for each in told:
                each.zero_()
    assert json.dumps(strategy.state_dict()) == json.dumps(plain.state_dict())
    kept = (strategy.history.X, strategy.history.Y, *strategy.state.values(), strategy.ask())
    assert not any(each.requires_grad for each in kept)


@every_strategy
def test_bounds_with_a_graph_or_of_integers_are_taken_as_numbers(case: StrategyCase) -> None:
    def passed(change: Callable[[Tensor], Tensor]) -> Any:
        r"""The strategy with its boxes changed, and then overwritten."""
        boxes = {"context_bounds": case.options.get("context_bounds"), "box": case.box}
        changed = {name: change(box.to(home())) for name, box in boxes.items() if box is not None}
        options = {**case.options, **{n: b for n, b in changed.items() if n in case.options}}
        strategy = dataclasses.replace(case, box=changed["box"], options=options).build(SEEDS)
        with torch.no_grad():
            for each in changed.values():
                each.zero_()
        return strategy

    strategy, loop = passed(lambda box: box.clone().requires_grad_()), undisturbed(case)
    assert torch.equal(strategy.ask(), loop.asked[0])
    strategy.load_state_dict(loop.states[1])
    assert torch.equal(strategy.ask().nan_to_num(), loop.asked[2].nan_to_num())
    assert not strategy.ask().requires_grad
    whole = passed(lambda box: torch.arange(len(box)).reshape(-1, 1).repeat(1, box.shape[-1]))
    assert whole.ask().dtype == torch.double


@every_strategy
def test_points_outside_the_bounds_and_empty_rounds_are_refused(case: StrategyCase) -> None:
    strategy = case.build(SEEDS)
    asked = strategy.ask()
    X = meet(strategy, asked, 0, case.problem)
    Y = evaluate(strategy, X, 0, case.problem)
    far = X + 500 * torch.eye(X.shape[-1]).to(X)[0]
    for bad_X, bad_Y, error, message in (
        (far, Y, InputDataError, "within bounds"),
        (X[:, :0], Y[:, :0], BotorchTensorDimensionError, "q >= 1"),
        (X[0], Y[0], BotorchTensorDimensionError, "q >= 1"),
    ):
        with pytest.raises(error, match=message):
            strategy.tell(bad_X, bad_Y)
    assert torch.equal(strategy.ask(), asked)
    strategy.tell(X, Y)


SINGLY = [case for case in STRATEGIES if case.batch_size == 1]


@pytest.mark.parametrize("single", SINGLY, ids=lambda case: case.name)
def test_batches_are_refused_in_words_where_points_come_singly(single: StrategyCase) -> None:
    with pytest.raises(UnsupportedError, match=r"`batch_size` of 1|pending points"):
        strategy = single.build(SEEDS, batch_size=2)
        play(strategy, 3, problem=single.problem)


@every_strategy
def test_bad_input_changes_nothing(case: StrategyCase) -> None:
    strategy = case.build(SEEDS)
    asked = strategy.ask()
    X = meet(strategy, asked, 0, case.problem)
    Y = evaluate(strategy, X, 0, case.problem)
    for bad_X, bad_Y, error, message in (
        (X[:2], Y[:2], BotorchTensorDimensionError, "`3 x q x d`"),
        (torch.cat([X, X], dim=-1), Y, BotorchTensorDimensionError, "Expected `X` to have shape"),
        (X, Y[:, :1], BotorchTensorDimensionError, "`3 x q x k"),
        (X, Y.masked_fill(Y > 0, torch.inf), InputDataError, "Got infinity"),
        (X * torch.nan, Y, InputDataError, "Got a point of NaN"),
    ):
        with pytest.raises(error, match=message):
            strategy.tell(bad_X, bad_Y)
    assert torch.equal(strategy.ask(), asked)
    with pytest.raises(ValueError, match="Expected the outcomes of the initial design"):
        strategy.recommend()


def test_a_box_without_inputs_is_refused() -> None:
    with pytest.raises(BotorchTensorDimensionError, match="`2 x d`, d >= 1"):
        random_search(torch.empty(2, 0), seeds=0, num_initial=2)


def test_a_point_on_the_bounds_up_to_rounding_is_taken() -> None:
    strategy = random_search(torch.tensor([[0.0], [3.0]]).double(), seeds=0, num_initial=2)
    strategy.tell(torch.tensor([[[-1e-7], [3.0 + 1e-7]]]), torch.zeros(1, 2, 1))
    with pytest.raises(
        InputDataError, match=r"within bounds\. Got 3\.09\d* in column 0 .* outside \[0\.0, 3"
    ):
        strategy.tell(torch.tensor([[[1.0], [3.1]]]), torch.zeros(1, 2, 1))
