r"""Replicates are a batch dimension: they must not notice each other."""

import itertools
from typing import Any

import pytest
import torch

from botorch_risk.strategies.built_with import from_json, to_json
from botorch_risk.strategies.states import sealed
from tests.strategies.cases import STRATEGIES, StrategyCase
from tests.strategies.loops import play

BATCHED = [case for case in STRATEGIES if case.name in ("rahbo", "rahbo_us")]
# One for all with its model: `test_contract.py` asks every strategy whether company changes it.
batched = pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[pytest.mark.slow] if case.name != "rahbo" else [])
        for case in BATCHED
    ],
)
SEEDS = list(range(20))
TOLERANCE = 1e-6  # in units of the bounds, [0, 2]


def part(state: dict[str, Any], rows: list[int]) -> dict[str, Any]:
    r"""The state of some of the replicates."""
    seeds = [state["arguments"]["seeds"][row] for row in rows]
    tensors = {
        name: {key: to_json(from_json(value)[rows]) for key, value in state[name].items()}
        for name in ("history", "state")
    }
    return sealed({**state, **tensors, "arguments": {**state["arguments"], "seeds": seeds}})


@batched
@pytest.mark.slow
def test_one_step_agrees_for_any_composition_of_the_batch(case: StrategyCase) -> None:
    r"""100 states: 20 seeds in 5 rounds, alone, in pairs, in reverse and all together."""
    together = case.build(SEEDS)
    for index in range(6):
        if index:
            state, asked = together.state_dict(), together.ask()
            compositions = [[row] for row in SEEDS] if index % 2 else [SEEDS[::-1], SEEDS[5:7]]
            compositions += [[row, (row + 7) % 20] for row in SEEDS[::5]]
            for rows in compositions:
                some = case.build([SEEDS[row] for row in rows])
                some.load_state_dict(part(state, rows))
                torch.testing.assert_close(some.ask(), asked[rows], atol=TOLERANCE, rtol=0)
        play(together, 1, first=index, problem=case.problem)


@batched
@pytest.mark.slow
def test_trajectories_agree_for_ten_rounds(case: StrategyCase) -> None:
    r"""Rounding may part two trajectories at a tie between optima; that is counted."""
    together = torch.cat(play(case.build(SEEDS[:8]), 11, problem=case.problem), dim=-2)  # 8 x n x d
    branched = 0
    for row in range(8):
        alone = torch.cat(play(case.build(row), 11, problem=case.problem), dim=-2)[0]
        branched += bool((alone - together[row]).abs().max() > TOLERANCE)
    assert branched == 0


@pytest.mark.slow
def test_the_same_batch_is_bitwise_repeatable() -> None:
    case = BATCHED[0]
    first, second = (play(case.build(SEEDS[:5]), 5) for _ in range(2))
    assert all(itertools.starmap(torch.equal, zip(first, second, strict=True)))
