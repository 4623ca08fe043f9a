r"""GP-UCB over hyperparameters that are sampled now and then."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from botorch_risk_bench.baselines import fully_bayesian_gp_ucb
from torch import Tensor

from botorch_risk.fit import FullyBayesian, MaximumAPosteriori
from botorch_risk.strategies import Strategy

BOUNDS = torch.tensor([[0.0], [2.0]], dtype=torch.double)
SMALL: dict[str, Any] = {"num_initial": 5, "num_restarts": 2, "raw_samples": 16}


def play(strategy: Strategy, rounds: int) -> list[Tensor]:
    asked = []
    for _ in range(rounds):
        asked.append(strategy.ask())
        strategy.tell(asked[-1], (3 * asked[-1]).sin())
    return asked


def check_that_samples_stay_between_samplings(estimator: Any) -> None:
    def build() -> Strategy:
        return fully_bayesian_gp_ucb(BOUNDS, [3], estimator=estimator, sample_every=2, **SMALL)

    strategy = build()
    play(strategy, 1)
    (first,) = strategy.belief.models
    play(strategy, 1)
    (second,) = strategy.belief.models
    X = torch.rand(7, 1, dtype=torch.double)
    assert torch.equal(first.covar_module.lengthscale, second.covar_module.lengthscale)
    told, Y = strategy.history.X[0, -1:] / 2, strategy.history.mean[0, -1:].unsqueeze(-1)
    expected = first.condition_on_observations(told, Y).posterior(X)
    torch.testing.assert_close(second.posterior(X).mean, expected.mean)
    assert not torch.allclose(second.posterior(X).mean, first.posterior(X).mean)
    resumed = build()
    resumed.load_state_dict(strategy.state_dict())
    torch.testing.assert_close(resumed.ask(), strategy.ask())
    play(strategy, 1)
    (third,) = strategy.belief.models
    assert not torch.allclose(first.covar_module.lengthscale, third.covar_module.lengthscale)


def test_estimates_stay_between_estimations() -> None:
    check_that_samples_stay_between_samplings(MaximumAPosteriori())


def test_estimator_and_numbers() -> None:
    method: Any = fully_bayesian_gp_ucb(BOUNDS, 0, **SMALL).method
    assert isinstance(method.inner.estimator, FullyBayesian)
    assert method.inner.acquisition.beta == pytest.approx(1.96**2)
    with pytest.raises(ValueError, match="`sample_every` to be at least 1"):
        fully_bayesian_gp_ucb(BOUNDS, 0, sample_every=0, **SMALL)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_mcmc_proposes() -> None:
    pytest.importorskip("numpyro")
    estimator = FullyBayesian(warmup_steps=16, num_samples=4)
    strategy = fully_bayesian_gp_ucb(BOUNDS, [0, 1], estimator=estimator, **SMALL)
    _, X = play(strategy, 2)
    assert X.shape == (2, 1, 1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_mcmc_samples_now_and_then() -> None:
    pytest.importorskip("numpyro")
    check_that_samples_stay_between_samplings(FullyBayesian(warmup_steps=16, num_samples=4))
