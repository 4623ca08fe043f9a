from __future__ import annotations

import dataclasses

import pytest
from botorch_risk_bench.experiments import get_experiment
from botorch_risk_bench.experiments.registry import experiments

from tests.bench.experiments.noisy_quadratic import QUADRATIC


def test_finds_the_papers_experiments_and_a_users_own() -> None:
    assert get_experiment("quadratic", [QUADRATIC]) is QUADRATIC
    assert list(experiments([QUADRATIC])) == [*experiments(), "quadratic"]
    assert "sine" in experiments()
    assert "quadratic" not in experiments()  # nothing was registered for good
    assert experiments([QUADRATIC, QUADRATIC]).keys() == experiments([QUADRATIC]).keys()


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"an experiment \(.*quadratic.*\)\. Got name='q'"):
        get_experiment("q", [QUADRATIC])
    with pytest.raises(ValueError, match="a name that is not taken"):
        experiments([QUADRATIC, dataclasses.replace(QUADRATIC, num_rounds=7)])
