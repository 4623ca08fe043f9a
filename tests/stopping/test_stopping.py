r"""When an experiment can end."""

from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from torch import Tensor

from botorch_risk.acquisition import LogRiskKnowledgeGradient
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.risk import ConditionalValueAtRisk, Expectation
from botorch_risk.seeding import generators
from botorch_risk.stopping import regret_gap, regret_samples, strategy_gap
from botorch_risk.strategies import Strategy, random_search, risk_search
from tests.level_sets.test_expected_classification import COMPARED, W, model

WEATHER = DiscreteEnvironment(torch.linspace(0, 1, 5, dtype=torch.double).unsqueeze(-1))
UNIT = torch.tensor([[0.0], [1.0]]).double()


@pytest.mark.parametrize("batch_shape", [(), (2,)])
def test_regrets_have_the_moments_of_the_joint_posterior(batch_shape: tuple[int, ...]) -> None:
    known = model(batch_shape)
    x = COMPARED[1].expand(*batch_shape, 1)
    X = COMPARED.expand(*batch_shape, 4, 1)
    found = regret_samples(known, W, Expectation(), x, X, 2**15)
    assert found.shape == (*batch_shape, 2**15) and (found >= 0).all()
    pairs, weights = W.expand(COMPARED)
    posterior = known.posterior(pairs.flatten(0, 1))
    with torch.no_grad():
        values = posterior.rsample(torch.Size([40_000])).squeeze(-1).unflatten(-1, (4, 3))
    risks = values @ weights[0]
    oracle = risks.amax(dim=-1) - risks[..., 1]
    torch.testing.assert_close(found.mean(dim=-1), oracle.mean(dim=0), rtol=0, atol=6e-3)
    for level in (0.05, 0.2):
        share = (oracle <= level).double().mean(dim=0)
        torch.testing.assert_close((found <= level).double().mean(dim=-1), share, rtol=0, atol=0.02)


@pytest.mark.parametrize("noise", [2e-2, 1e-6])
def test_a_reading_gains_no_more_in_expectation_than_knowing_all(noise: float) -> None:
    known = model()
    known.likelihood.noise = noise
    X = torch.linspace(0, 1, 21).double().unsqueeze(-1)
    pairs, weights = W.expand(X)
    risks = known.posterior(pairs).mean.squeeze(-1) @ weights[0]
    regret = regret_samples(known, W, Expectation(), X[risks.argmax()], X, 2**14)
    most = regret_gap(regret.unsqueeze(0), epsilon=0.1).expected_gain
    gain = LogRiskKnowledgeGradient(known, W, Expectation(), X, w_is_chosen=True)
    gains = gain.evaluate(X).exp()
    assert 0.01 * most < gains.max() <= most


def test_the_best_of_those_that_are_known_has_no_regret() -> None:
    known = model()
    known.likelihood.noise = 1e-4
    alone = COMPARED[:1].expand(3, 1)
    assert (regret_samples(known, W, Expectation(), COMPARED[0], alone, 64) < 1e-3).all()


def test_the_gap_is_a_quantile_of_the_samples() -> None:
    regret = torch.linspace(0, 1, 10_001).double().unsqueeze(0)
    found = regret_gap(regret, epsilon=0.9, delta=0.1)
    assert found.gap.item() == pytest.approx(0.9, abs=2e-4)
    assert found.probability.item() == pytest.approx(0.9, abs=2e-4)
    assert found.expected_gain.item() == pytest.approx(0.5)
    assert regret_gap(regret[:, ::1000], 0.1, delta=1e-3).gap == 1.0  # the largest of few samples


def outcome(X: Tensor) -> Tensor:
    return (5 * X[..., :1]).sin() - X[..., 1:] * X[..., :1]


def build(**options: Any) -> Strategy:
    known = {"environment": WEATHER, "risk_measure": ConditionalValueAtRisk(0.4), "num_initial": 6}
    return risk_search(UNIT, [0, 1], w_is_chosen=True, **{**known, **options})


@pytest.mark.slow
def test_the_gap_of_a_strategy_closes_and_holds_the_regret() -> None:
    strategy = build()
    gaps = []
    for t in range(40):
        X = strategy.ask()
        noise = torch.stack(
            [torch.randn(X.shape[1:-1], generator=g) for g in generators([0, 1], t)]
        )
        strategy.tell(X, outcome(X) + 0.05 * noise.to(X).unsqueeze(-1))
        if t in (0, 39):
            gaps.append(strategy_gap(strategy, epsilon=0.01).gap)
    assert (gaps[-1] < 0.5).all() and (gaps[0] > 1.5 * gaps[-1]).all()
    grid = torch.linspace(0, 1, 1001).double().unsqueeze(-1)
    inputs, weights = WEATHER.expand(grid)
    measure = ConditionalValueAtRisk(0.4)
    best = measure(outcome(inputs).squeeze(-1), weights).max()
    inputs, weights = WEATHER.expand(strategy.recommend())
    regret = best - measure(outcome(inputs).squeeze(-1), weights)
    assert (regret <= gaps[-1] + 1e-6).all()
    again = build()
    again.load_state_dict(strategy.state_dict())
    torch.testing.assert_close(strategy_gap(again, 0.01).gap, gaps[-1])


def test_what_has_no_risk_is_refused() -> None:
    plain = random_search(UNIT, 0, num_initial=2)
    plain.tell(plain.ask(), torch.zeros(1, 2, 1))
    with pytest.raises(UnsupportedError, match="seeks a risk"):
        strategy_gap(plain, 0.1)
    with pytest.raises(ValueError, match="before a recommendation"):
        strategy_gap(build(), 0.1)
    regret = torch.zeros(1, 4)
    for wrong in ({"epsilon": -1.0}, {"delta": 1.5}):
        arguments: Any = {"epsilon": 0.1, **wrong}
        with pytest.raises(ValueError, match=next(iter(wrong))):
            regret_gap(regret, **arguments)
    for empty in (torch.zeros(2, 0), torch.tensor(0.1)):
        with pytest.raises(BotorchTensorDimensionError, match="`regret` to have shape `R x S`"):
            regret_gap(empty, 0.1)
    with pytest.raises(ValueError, match=r"Expected `regret` of at least 0. Got -0.25"):
        regret_gap(torch.tensor([[0.0, -0.25]]), 0.1)
    with pytest.raises(BotorchTensorDimensionError, match=r"Got the number 0\.3"):
        regret_samples(model(), W, Expectation(), 0.3, COMPARED)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="num_samples"):
        regret_samples(model(), W, Expectation(), COMPARED[0], COMPARED, 0)
    with pytest.raises(BotorchTensorDimensionError, match="as many columns and the batch shape"):
        regret_samples(model((3,)), W, Expectation(), COMPARED[0].expand(2, -1), COMPARED)
    with pytest.raises(InputDataError, match="Expected finite `x`"):
        regret_samples(model(), W, Expectation(), COMPARED[0] * torch.nan, COMPARED)


def test_decisions_may_be_shared_by_replicates() -> None:
    together = regret_samples(model((3,)), W, Expectation(), COMPARED[0], COMPARED.float())
    assert together.shape == (3, 4096)
    each = regret_samples(
        model((3,)), W, Expectation(), COMPARED[0].expand(3, -1), COMPARED.float().expand(3, -1, -1)
    )
    torch.testing.assert_close(together, each)
    row = regret_samples(model(), W, Expectation(), COMPARED[:1], COMPARED)
    alone = regret_samples(model(), W, Expectation(), COMPARED[0], COMPARED)
    torch.testing.assert_close(row, alone.unsqueeze(0))
