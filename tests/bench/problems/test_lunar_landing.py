from __future__ import annotations

import sys

import pytest
import torch
from botorch_risk_bench.problems import LunarLanding
from botorch_risk_bench.problems.lunar_landing import action

# What the simulator's own example controller uses: on the ground it does not turn.
GOOD = [0.5, 1.0, 0.4, 0.55, 0.5, 1.0, 0.5, 0.5, 0.0, 0.5, 0.05, 0.05]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ([0, 1, 0, 0, 0, 0, 0, 0], 0),  # high above the pad, at rest
        ([0, 1, 0, -3, 0, 0, 0, 0], 2),  # falling: main engine
        ([0, 1, 0, 0, -0.5, 0, 0, 0], 1),  # leaning over to one side and to the other
        ([0, 1, 0, 0, 0.5, 0, 0, 0], 3),
        ([0, 0, 0, 0, 0.5, 0, 1, 0], 0),  # a leg on the ground
    ],
)
def test_controller(state: list[float], expected: int) -> None:
    assert action(state, GOOD) == expected


def test_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "Box2D", None)  # as if it were not installed
    with pytest.raises(ImportError, match=r"botorch-risk-bench\[problems\]"):
        LunarLanding()(torch.full((1, 12), 0.5).double())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_good_controller_lands() -> None:
    pytest.importorskip("Box2D")
    problem = LunarLanding(num_terrains=3)
    X = torch.tensor([GOOD, [0.0] * 12]).double()
    good, bad = problem(X).tolist()
    assert good > 150 > 0 > bad
    assert problem(X[:1]).item() == good


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="at least one terrain"):
        LunarLanding(num_terrains=0)
