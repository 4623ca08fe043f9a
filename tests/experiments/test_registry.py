from __future__ import annotations

import dataclasses

import pytest

from botorch_risk.experiments import get_experiment, register
from tests.experiments.noisy_quadratic import QUADRATIC


def test_finds_what_was_registered() -> None:
    assert get_experiment("quadratic") is QUADRATIC
    assert register(QUADRATIC) is QUADRATIC


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"registered experiment \(.*quadratic.*\)\. Got name='q'"):
        get_experiment("q")
    with pytest.raises(ValueError, match="a name that is not taken"):
        register(dataclasses.replace(QUADRATIC, num_rounds=7))
    for change in ({"num_rounds": 0}, {"strategies": {}}, {"num_repeats": 0}):
        with pytest.raises(ValueError, match="at least 1 initial point, round, repeat and strat"):
            dataclasses.replace(QUADRATIC, **change)
