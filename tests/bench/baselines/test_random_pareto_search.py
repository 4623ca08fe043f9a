r"""Random decisions, reported by the risks of several objectives."""

from __future__ import annotations

import torch
from botorch_risk_bench.baselines import random_pareto_search

from botorch_risk.risk import Expectation, WorstCase
from tests.strategies.cases import OBJECTIVES
from tests.strategies.loops import play


def test_decisions_are_random_whatever_was_observed() -> None:
    options = {"environment": OBJECTIVES.environment, "num_initial": 4}
    first, second = (
        random_pareto_search(OBJECTIVES.bounds, [0, 1], risk_measures=measures, **options)
        for measures in ([Expectation(), Expectation()], [WorstCase(), Expectation()])
    )
    asked = [torch.cat(play(each, 5, problem=OBJECTIVES), dim=-2) for each in (first, second)]
    assert torch.equal(*asked)
    later = asked[0][:, 4:]
    assert len(later.flatten().unique()) == later.numel()
