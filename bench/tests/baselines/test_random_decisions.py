r"""Random decisions, recommended by a risk."""

import torch
from botorch_risk_bench.baselines import random_decisions, random_pareto_search
from scipy.stats import kstest

from botorch_risk.risk import ConditionalValueAtRisk, Expectation, WorstCase
from botorch_risk.strategies import risk_search
from tests.strategies.cases import OBJECTIVES, PAIRS
from tests.strategies.loops import evaluate, meet, play


def test_decisions_are_uniform_and_recommendations_are_those_of_the_risk() -> None:
    known = {"environment": PAIRS.environment, "risk_measure": ConditionalValueAtRisk(0.3)}
    strategy = random_decisions(PAIRS.bounds, [0, 1], num_initial=4, batch_size=30, **known)
    play(strategy, 3, problem=PAIRS)
    X = strategy.history.X[:, 4:, 0].flatten()
    assert len(X) == len(X.unique()) == 120
    lower, upper = PAIRS.bounds.flatten().tolist()
    assert kstest(((X - lower) / (upper - lower)).numpy(), "uniform").pvalue > 1e-3
    search = risk_search(PAIRS.bounds, [0, 1], num_initial=4, **known)
    first = meet(strategy, search.ask(), 0, PAIRS)
    for each in (search, random_decisions(PAIRS.bounds, [0, 1], num_initial=4, **known)):
        assert torch.equal(each.ask(), first[..., :1])
        each.tell(first, evaluate(each, first, 0, PAIRS))
        chosen = each.recommend()
        assert torch.equal(chosen, search.recommend())


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
