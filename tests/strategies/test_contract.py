r"""The laws of every strategy."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError

from botorch_risk.strategies import Strategy
from tests.contracts import STRATEGIES, StrategyCase
from tests.strategies.loops import evaluate, play

every = pytest.mark.parametrize("case", STRATEGIES, ids=lambda case: case.name)
SEEDS = (0, 1, 2)


@every
def test_protocol_and_shapes(case: StrategyCase) -> None:
    strategy = case.build(SEEDS, batch_size=2)
    assert isinstance(strategy, Strategy)
    first, second = play(strategy, 2, problem=case.problem)
    assert first.shape == (3, 6, case.num_inputs)
    assert second.shape == (3, 2, case.num_inputs)
    lower, upper = case.problem.bounds
    assert ((second[..., :1] >= lower) & (second[..., :1] <= upper)).all()
    reported = strategy.recommend()
    assert reported.shape == (3, 1)
    evaluated = torch.cat([first, second], dim=-2)[..., :1]
    assert (evaluated == reported.unsqueeze(-2)).all(dim=-1).any(dim=-1).all()


@every
def test_asking_twice_changes_nothing(case: StrategyCase) -> None:
    strategy = case.build(SEEDS)
    play(strategy, 1, problem=case.problem)
    assert torch.equal(strategy.ask(), strategy.ask())


@every
def test_state_continues_bit_for_bit(case: StrategyCase) -> None:
    strategy, resumed = case.build(SEEDS), case.build(SEEDS)
    play(strategy, 2, problem=case.problem)
    resumed.load_state_dict(strategy.state_dict())
    both = (play(each, 2, 2, problem=case.problem) for each in (strategy, resumed))
    for left, right in zip(*both, strict=True):
        assert torch.equal(left, right)
    assert torch.equal(strategy.recommend(), resumed.recommend())
    with pytest.raises(ValueError, match=r"state of seeds \[0, 1\]"):
        case.build([0, 1]).load_state_dict(strategy.state_dict())


@every
def test_a_replicate_does_not_depend_on_its_company(case: StrategyCase) -> None:
    together = play(case.build([4, 0, 7]), 4, problem=case.problem)
    alone = play(case.build(0), 4, problem=case.problem)
    for many, one in zip(together, alone, strict=True):
        torch.testing.assert_close(many[1:2], one, atol=1e-6, rtol=0)


@every
@pytest.mark.filterwarnings("ignore:Optimization failed:RuntimeWarning")  # BoTorch tries again
def test_the_default_dtype_changes_nothing(
    case: StrategyCase, default_dtype: Callable[..., None]
) -> None:
    loops = []
    for dtype in (torch.float, torch.double):
        default_dtype(dtype)
        strategy = case.build(SEEDS)
        loops.append([*play(strategy, 3, problem=case.problem), strategy.recommend()])
    single, double = loops
    assert torch.equal(single[0], double[0])
    for left, right in zip(single, double, strict=True):
        # BoTorch keeps the parameters of its priors in the default dtype.
        torch.testing.assert_close(left, right, atol=1e-6, rtol=0)


@every
def test_missing_outcomes_of_a_replicate_leave_the_others_untouched(case: StrategyCase) -> None:
    whole, holed = case.build(SEEDS), case.build(SEEDS)
    for index in range(4):
        X = whole.ask()
        Y = evaluate(whole, X, index, case.problem)
        whole.tell(X, Y)
        asked = holed.ask()
        torch.testing.assert_close(asked[[0, 2]], X[[0, 2]], atol=1e-6, rtol=0)
        Z = evaluate(holed, asked, index, case.problem)
        Z[1, :3] = torch.nan  # replicate 1 fails, at first in part, then wholly
        holed.tell(asked, Z)
    rows = holed._Y[1].isfinite().any(dim=-1)
    assert (holed._X[1][rows][:, :1] == holed.recommend()[1]).all(dim=-1).any()
    assert holed.recommend().isfinite().all()


@every
def test_bad_input_changes_nothing(case: StrategyCase) -> None:
    strategy = case.build(SEEDS)
    X = strategy.ask()
    Y = evaluate(strategy, X, 0, case.problem)
    for bad_X, bad_Y, error, message in (
        (X[:2], Y[:2], BotorchTensorDimensionError, f"`3 x q x {case.num_inputs}`"),
        (X, Y[..., :1, :], BotorchTensorDimensionError, "`3 x q x 4`"),
        (X, Y.masked_fill(Y > 0, torch.inf), InputDataError, "Got infinity"),
        (X * torch.nan, Y, InputDataError, "Got an outcome at NaN"),
    ):
        with pytest.raises(error, match=message):
            strategy.tell(bad_X, bad_Y)
    assert torch.equal(strategy.ask(), X)
    with pytest.raises(ValueError, match="Expected outcomes before a recommendation"):
        strategy.recommend()
