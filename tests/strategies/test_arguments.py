r"""What a strategy was built with, and tensors, as JSON."""

import json
import math
from functools import partial
from typing import Any

import pytest
import torch

from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.risk import ValueAtRisk
from botorch_risk.strategies.arguments import describe, difference, from_json, public_name, to_json


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool])
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (4, 5)], ids=str)
def test_tensors_survive_to_the_last_bit(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    value = (100 * torch.rand(shape)).to(dtype)
    back = from_json(json.loads(json.dumps(to_json(value))))
    assert back.dtype == dtype
    assert torch.equal(back, value)


def test_numbers_without_a_decimal_form_survive() -> None:
    value = torch.tensor([math.nan, math.inf, -0.0, 5e-324, 0.1], dtype=torch.double)
    back = from_json(to_json(value))
    assert torch.equal(back.view(torch.int64), value.view(torch.int64))


def schedule(t: int) -> float:
    return 1.0 + t


def test_descriptions_are_json_and_tell_apart() -> None:
    base: dict[str, Any] = {
        "beta": schedule,
        "measure": ValueAtRisk(0.1),
        "recipe": partial(schedule, t=3),
        "environment": DiscreteEnvironment(torch.rand(3, 1)),
        "bounds": torch.tensor([[0.0], [1.0]]),
        "many": torch.rand(100),
        "choices": ("a", None, True),
    }
    same = json.loads(json.dumps(describe(base)))
    assert difference(describe(base), same) is None
    others: dict[str, Any] = {
        "beta": math.sqrt,
        "measure": ValueAtRisk(0.2),
        "recipe": partial(schedule, t=4),
        "environment": DiscreteEnvironment(torch.rand(3, 1)),
        "bounds": torch.tensor([[0.0], [2.0]]),
        "many": torch.rand(100),
        "choices": ("a", None, False),
    }
    for name, other in others.items():
        found = difference(describe(base), describe({**base, name: other}))
        assert found is not None and "Expected" in found and "Got" in found


def test_the_first_difference_is_named_with_both_values() -> None:
    one, two = {"a": 1, "b": {"c": [1, 2]}}, {"a": 1, "b": {"c": [1, 3]}, "d": 0}
    assert difference(one, two) == "Expected c=[1, 2]. Got c=[1, 3]."
    assert difference(one, {**one, "d": 0}) == "Expected d=None. Got d=0."


@pytest.mark.parametrize(
    ("module", "name", "stored"),
    [
        ("botorch_risk.risk.measures", "ValueAtRisk", "botorch_risk.ValueAtRisk"),
        ("botorch_risk.papers.kde", "_kde", "botorch_risk._kde"),
        ("botorch_risk.bandits.exp3", "Exp3.draw", "botorch_risk.Exp3.draw"),
        (
            "botorch_risk_bench.baselines.contexts",
            "of.<locals>.recipe",
            "botorch_risk.of.<locals>.recipe",
        ),
        ("botorch_risks.measures", "Mine", "botorch_risks.measures.Mine"),
        ("my.botorch_risk.measures", "Mine", "my.botorch_risk.measures.Mine"),
    ],
)
def test_a_part_of_ours_keeps_its_name_where_a_module_moves(
    module: str, name: str, stored: str
) -> None:
    part = type("Part", (), {"__module__": module, "__qualname__": name})
    assert public_name(part) == stored


def test_parts_of_others_have_their_full_name() -> None:
    assert public_name(schedule) == f"{__name__}.schedule"
