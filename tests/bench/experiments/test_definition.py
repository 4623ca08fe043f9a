from __future__ import annotations

import dataclasses

import pytest
import torch

from botorch_risk.strategies import initial_design
from tests.bench.experiments.noisy_quadratic import QUADRATIC


def test_builds_a_fresh_strategy_by_its_label() -> None:
    bounds = QUADRATIC.problem().bounds
    strategy = QUADRATIC.build("averse", bounds, range(3))
    assert strategy.seeds == [0, 1, 2]
    assert strategy.method.risk_aversion == 1.0
    assert torch.equal(strategy.ask(), initial_design(bounds, range(3), QUADRATIC.num_initial))
    assert QUADRATIC.build("averse", bounds, range(3)) is not strategy


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_rounds": 0}, "`num_rounds` to be at least 1"),
        ({"strategies": {}}, "at least 1 strategy"),
        ({"num_repeats": 0}, "`num_repeats` to be at least 1"),
        ({"num_initial": 0}, "`num_initial` to be at least 1"),
    ],
)
def test_refuses_an_experiment_of_nothing(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(QUADRATIC, **change)
