r"""Baselines in a box with whole numbers and categories."""

from typing import Any

import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch_risk_bench import baselines
from botorch_risk_bench.baselines import mean_variance_log_nei, value_at_risk_log_nei
from botorch_risk_bench.baselines.constrained_log_ei import log_ei

from botorch_risk.robust import MonteCarloDecision
from botorch_risk.strategies import Box
from tests.strategies.cases import OVEN, SEASONS
from tests.strategies.loops import play
from tests.strategies.test_risk_search import assert_whole_numbers_under_constraints

BOX = Box(OVEN.bounds, OVEN.integers, OVEN.categories)
FAST: dict[str, Any] = {"num_restarts": 2, "raw_samples": 16}


@pytest.mark.parametrize("make", [mean_variance_log_nei, value_at_risk_log_nei])
def test_what_cannot_search_whole_numbers_says_so(make: Any) -> None:
    options: dict[str, Any] = {"num_repeats": 4, "risk_aversion": 1.0}
    if make is value_at_risk_log_nei:
        options = {"environment": SEASONS.environment, "risk_level": 0.2}
    with pytest.raises(UnsupportedError, match=r"without integers and categories for .*=\(1,\)"):
        make(BOX, 0, **options)


def test_bandits_and_shorter_lengthscales_run_too() -> None:
    for make in (baselines.random_exp3, baselines.a_gp_ucb, baselines.wang_de_freitas_gp_ucb):
        for X in play(make(BOX, [0, 1], num_initial=6, **FAST), 2, problem=OVEN):
            assert torch.equal(X[..., 1:], X[..., 1:].round())


def test_constraints_in_a_box_of_whole_numbers() -> None:
    assert_whole_numbers_under_constraints(MonteCarloDecision(log_ei))
