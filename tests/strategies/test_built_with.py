r"""What a strategy was built with, and tensors, as JSON."""

import json
import math
from functools import partial
from types import FunctionType
from typing import Any

import pytest
import torch
from botorch.exceptions.warnings import UserInputWarning

from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.risk import Expectation, ValueAtRisk
from botorch_risk.strategies.built_with import check_alike, describe, from_json, to_json


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
    stored = json.loads(json.dumps(describe(base)))
    check_alike(stored, describe(base))
    others: dict[str, Any] = {
        "beta": 1.0,
        "measure": ValueAtRisk(0.2),
        "recipe": partial(schedule, t=4),
        "environment": DiscreteEnvironment(torch.rand(3, 1)),
        "bounds": torch.tensor([[0.0], [2.0]]),
        "many": torch.rand(100),
        "choices": ("a", None, False),
    }
    for name, other in others.items():
        with pytest.raises(ValueError, match=name):
            check_alike(stored, describe({**base, name: other}))


@pytest.mark.parametrize(
    ("stored", "present", "message"),
    [
        ({"beta": 4.0}, {"beta": 9.0}, "Expected beta=4.0, as .* with. Got beta=9.0."),
        ({"a": {"c": [1, 2]}}, {"a": {"c": [1, 3]}}, r"c\[1\]=2, .* Got c\[1\]=3 in a."),
        ({"a": [1, 2]}, {"a": [1, 2, 3]}, r"a=\[1, 2\], .* Got a=\[1, 2, 3\]."),
        ({}, {"d": "x"}, "d=None, .* Got d='x'."),
        ({"beta": 4.0}, {"beta": schedule}, "beta=4.0, .* Got beta=schedule."),
        ({"risk": ValueAtRisk(0.1)}, {"risk": Expectation()}, "risk=ValueAtRisk, .*=Expectation."),
    ],
)
def test_the_first_difference_is_named_with_both_values(
    stored: Any, present: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=f"^Expected {message.removeprefix('Expected ')}$"):
        check_alike(describe(stored), describe(present))


def test_rounding_of_another_processor_is_no_difference() -> None:
    check_alike({"beta": [4.0, math.inf]}, {"beta": [4.0 + 1e-9, math.inf]})


def test_a_part_that_moves_to_another_module_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [ValueAtRisk(0.1), partial(schedule, t=3), ValueAtRisk]
    before = describe(parts)
    for part in (ValueAtRisk, schedule):
        monkeypatch.setattr(part, "__module__", "elsewhere")
    assert describe(parts) == before


def test_a_renamed_function_is_warned_of_and_its_arguments_still_count() -> None:
    stored = describe({"rule": partial(schedule, t=3)})
    renamed = FunctionType(schedule.__code__, globals(), "plan")
    with pytest.warns(UserInputWarning, match="function='schedule', .* Got .*'plan' in rule"):
        check_alike(stored, describe({"rule": partial(renamed, t=3)}))
    with (
        pytest.warns(UserInputWarning, match="'plan' in rule"),
        pytest.raises(ValueError, match=r"Expected t=3, .* Got t=4 in rule"),
    ):
        check_alike(stored, describe({"rule": partial(renamed, t=4)}))


def test_arguments_that_are_no_record_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Expected arguments=\[1\], as the state was built with"):
        check_alike([1], {"beta": 4.0})
