r"""Baselines on the mean-variance model: what of the risk aversion they use, and where."""

from typing import Any

import torch
from botorch_risk_bench.baselines import heteroscedastic_gp_ucb, mean_variance_log_nei

from botorch_risk.papers import rahbo
from tests.strategies.cases import NUM_REPEATS, PROBLEM
from tests.strategies.loops import play

FAST = {"num_initial": 6, "num_restarts": 3, "raw_samples": 32}


def build(make: Any, risk_aversion: float) -> Any:
    options = {"num_repeats": NUM_REPEATS, "risk_aversion": risk_aversion, **FAST}
    return make(PROBLEM.bounds, [0, 1], **options)


def test_gp_ucb_explores_as_if_it_were_risk_neutral() -> None:
    neutral, averse = (play(build(heteroscedastic_gp_ucb, each), 3) for each in (0.0, 5.0))
    for one, two in zip(neutral, averse, strict=True):
        assert torch.equal(one, two)
    indifferent = play(build(rahbo, 0.0), 3)
    torch.testing.assert_close(torch.cat(neutral, dim=1), torch.cat(indifferent, dim=1))


def test_it_reports_by_its_risk_aversion() -> None:
    neutral, averse = (build(heteroscedastic_gp_ucb, each) for each in (0.0, 50.0))
    for strategy in (neutral, averse):
        play(strategy, 3)
    noise = [PROBLEM.noise_variance(each.recommend()) for each in (neutral, averse)]
    assert (noise[1] <= noise[0] + 1e-3).all()  # both may be at the quiet end


def test_log_nei_starts_with_the_same_design_and_stays_in_the_box() -> None:
    strategy = build(mean_variance_log_nei, 1.0)
    asked = play(strategy, 3)
    assert torch.equal(asked[0], build(rahbo, 1.0).ask())
    lower, upper = PROBLEM.bounds
    assert all(((lower <= X) & (upper >= X)).all() for X in asked)
    assert strategy.recommend().shape == (2, 1)
