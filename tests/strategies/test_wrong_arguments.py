r"""Whatever a strategy cannot use is refused when it is built, before anything is measured."""

from __future__ import annotations

import warnings

import pytest

from botorch_risk.strategies import risk_search
from tests.public_objects import public_objects
from tests.wrong_arguments import first_call, refusals, wrong_values

# What a strategy makes, for a method or as an answer: nobody checks what it has checked.
MADE_BY_STRATEGIES = {
    "strategies.Classification",
    "strategies.History",
    "strategies.View",
    "strategies.largest_bound",
    "strategies.random_decision",
}
BUILT = {
    name: value
    for name, value in public_objects().items()
    if name.partition(".")[0] in ("strategies", "baselines")
    if name not in MADE_BY_STRATEGIES and first_call(value)
}


@pytest.mark.parametrize("name", BUILT)
def test_every_argument_of_a_wrong_kind_is_refused_by_its_name(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [
            f"{argument}={wrong!r}: {said}"
            for argument, wrong, said in refusals(BUILT[name])
            if said
        ]
    assert not found


def test_most_strategies_and_their_parts_are_built() -> None:
    assert public_objects().keys() >= MADE_BY_STRATEGIES
    assert len(BUILT) > 60


def test_wrong_values_are_of_no_type_that_is_asked_for() -> None:
    assert first_call(risk_search) is not None
    assert wrong_values(int | None)[1:] == ["foo"]
    assert wrong_values(bool)[1:] == ["foo"]
