r"""BoTorch's own risk measures in a strategy."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from botorch.acquisition.monte_carlo import qSimpleRegret
from botorch.acquisition.risk_measures import CVaR
from botorch.exceptions.errors import UnsupportedError
from botorch.sampling.normal import SobolQMCNormalSampler
from botorch_risk_bench.baselines import botorch_risk_measure
from botorch_risk_bench.baselines.appended_values import resampled
from botorch_risk_bench.baselines.botorch_risk_measure import AppendedValues

from botorch_risk.environments import DiscreteEnvironment, InputPerturbation
from botorch_risk.risk import ConditionalValueAtRisk
from botorch_risk.strategies import random_decision, risk_search
from botorch_risk.strategies.environment import Turn
from botorch_risk.strategies.monte_carlo import model_of_replicate
from tests.strategies.cases import PAIRS
from tests.strategies.loops import play

CVAR = ConditionalValueAtRisk(0.3)
KNOWN: dict[str, Any] = {"environment": PAIRS.environment, "risk_measure": CVAR, "num_initial": 5}


def test_values_come_in_proportion_to_their_weights() -> None:
    points = torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.double)
    environment = DiscreteEnvironment(points, torch.tensor([0.25, 0.0, 0.75], dtype=torch.double))
    values = resampled(environment, 8, torch.tensor([0.3], dtype=torch.double))
    assert values.shape == (8, 1)
    assert [int((values == point).sum()) for point in points] == [2, 0, 6]


def test_the_model_with_values_appended_is_the_model_at_pairs() -> None:
    strategy = risk_search(PAIRS.bounds, [0, 1], **KNOWN)
    play(strategy, 1, problem=PAIRS)
    method: Any = strategy.method
    model = model_of_replicate(Turn(method, strategy.views[0][1], 0, None), 1)
    appended, options = AppendedValues(partial(CVaR, alpha=0.7), 4)(model, PAIRS.environment, CVAR)
    assert options["objective"].n_w == 4
    X = torch.rand(3, 2, 1, dtype=torch.double)
    W = appended.input_transform["append"].feature_set  # 4 x 1
    pairs = torch.cat([X.repeat_interleave(4, dim=-2), W.repeat(2, 1).expand(3, -1, -1)], dim=-1)
    expected, found = model.posterior(pairs), appended.posterior(X)
    torch.testing.assert_close(found.mean, expected.mean)
    torch.testing.assert_close(found.variance, expected.variance)
    sampler = SobolQMCNormalSampler(torch.Size([64]), seed=0)
    acqf = qSimpleRegret(appended, sampler=sampler, **options)
    by_hand = sampler(expected).squeeze(-1).reshape(64, 3, 2, 4).sort(dim=-1).values
    lowest = by_hand[..., :2].mean(dim=-1)  # BoTorch's mean of the worst 4 (1 - 0.7), one more
    torch.testing.assert_close(acqf(X), lowest.amax(dim=-1).mean(dim=0))
    assert not model.posterior(pairs).mean.isnan().any()  # the model itself is as it was


def test_it_recommends_as_risk_search_does() -> None:
    options: dict[str, Any] = {"num_restarts": 1, "raw_samples": 4}
    strategy = botorch_risk_measure(
        PAIRS.bounds, [0, 1], objective=partial(CVaR, alpha=0.7), n_w=4, **KNOWN, **options
    )
    other = risk_search(PAIRS.bounds, [0, 1], **KNOWN, **options)
    for each in (strategy, other):
        play(each, 1, problem=PAIRS)
    assert torch.equal(strategy.recommend(), other.recommend())
    assert strategy.ask().shape == (2, 1, 1)


def test_random_decisions_are_within_the_box() -> None:
    strategy = risk_search(PAIRS.bounds, [0, 1], **KNOWN)
    play(strategy, 1, problem=PAIRS)
    method: Any = strategy.method
    turn = Turn(method, strategy.views[0][1], 0, None)
    X = random_decision(turn)
    assert X.shape == (2, 1, 1)
    assert ((PAIRS.bounds[0] <= X) & (PAIRS.bounds[1] >= X)).all()
    assert torch.equal(X, random_decision(turn))
    assert not torch.equal(X[0], X[1])


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="`n_w` to be at least 1"):
        botorch_risk_measure(PAIRS.bounds, 0, objective=partial(CVaR, alpha=0.7), n_w=0, **KNOWN)
    perturbed = {**KNOWN, "environment": InputPerturbation(torch.zeros(2, 1, dtype=torch.double))}
    with pytest.raises(UnsupportedError, match="Got InputPerturbation"):
        botorch_risk_measure(PAIRS.bounds, 0, objective=partial(CVaR, alpha=0.7), **perturbed)
