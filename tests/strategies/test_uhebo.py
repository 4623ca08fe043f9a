r"""UHE-BO and the methods of its comparison are the parts they are said to be."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from botorch_risk.fit import (
    FullyBayesian,
    MaximumAPosteriori,
    PseudoData,
    fit_exact_gp,
    fit_pseudo_data,
)
from botorch_risk.fit.shrinkage import expansion_factor
from botorch_risk.seeding import derive_seed
from botorch_risk.strategies import (
    AGPUCB,
    GPUCB,
    RABO,
    UHEBO,
    FullyBayesianGPUCB,
    PortfolioEXP3,
    PseudoDataGPUCB,
    RandomEXP3,
    WangDeFreitasGPUCB,
)
from botorch_risk.strategies.uhebo import gp_ucb

BOUNDS = torch.tensor([[0.0], [2.0]], dtype=torch.double)
SMALL: dict[str, Any] = {"num_initial": 5, "num_restarts": 2, "raw_samples": 16}


def play(strategy: Any, rounds: int) -> list[Tensor]:
    asked = []
    for _ in range(rounds):
        asked.append(strategy.ask())
        strategy.tell(asked[-1], (3 * asked[-1]).sin())
    return asked


@pytest.mark.parametrize(
    ("kind", "estimator", "arms", "steps"),
    [
        (UHEBO, PseudoData, "exp3", 2),
        (PseudoDataGPUCB, PseudoData, "acquisition", 2),
        (RandomEXP3, MaximumAPosteriori, "exp3", 2),
        (RABO, PseudoData, "random", 2),
        (PortfolioEXP3, MaximumAPosteriori, "exp3", 1),
        (GPUCB, MaximumAPosteriori, "acquisition", 2),
        (AGPUCB, MaximumAPosteriori, "acquisition", 2),
        (WangDeFreitasGPUCB, MaximumAPosteriori, "acquisition", 2),
        (FullyBayesianGPUCB, FullyBayesian, "acquisition", 2),
    ],
)
def test_every_method_is_its_parts(kind: Any, estimator: Any, arms: str, steps: int) -> None:
    strategy = kind(BOUNDS, [0, 1], **SMALL)
    assert type(strategy.estimator) is estimator
    assert (strategy.arms, strategy.steps) == (arms, steps)
    assert strategy.beta == pytest.approx(1.96**2)
    assert kind(BOUNDS, 0, beta=1.96, **SMALL).beta == 1.96
    with pytest.raises(ValueError, match="`beta` to be finite and >= 0"):
        kind(BOUNDS, 0, beta=-1.0, **SMALL)


def test_gp_ucb_is_the_bound() -> None:
    strategy = GPUCB(BOUNDS, [0, 1], **SMALL)
    play(strategy, 1)
    model = strategy._fit([0, 1])
    X = torch.rand(2, 7, 1, dtype=torch.double)
    posterior = model.posterior(X)
    expected = (posterior.mean + 1.5 * posterior.variance.sqrt()).squeeze(-1)
    torch.testing.assert_close(gp_ucb(model, 2.25).evaluate(X), expected, rtol=1e-6, atol=1e-6)


def test_pseudo_data_are_those_of_the_round() -> None:
    strategy = PseudoDataGPUCB(BOUNDS, [4, 7], **SMALL)
    play(strategy, 2)
    fitted = strategy._fit([1]).covar_module.lengthscale
    X, Y = strategy._X[[1]] / 2, strategy._Y[[1]]
    expected = strategy.model(X, Y)
    unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    fit_pseudo_data(expected, unit, seeds=[derive_seed(7, "estimate", 2)])
    assert torch.equal(fitted, expected.covar_module.lengthscale)


def test_a_gp_ucb_shrinks_lengthscales_and_may_widen_the_bound() -> None:
    strategy = AGPUCB(BOUNDS, [0, 1], **SMALL)
    play(strategy, 4)
    t, model = 4, strategy._fit([0, 1])
    expected = strategy.model(strategy._X / 2, strategy._Y)
    fit_exact_gp(expected)
    factor = expansion_factor(t, 1)
    assert factor > 1
    torch.testing.assert_close(
        model.covar_module.lengthscale * factor, expected.covar_module.lengthscale
    )
    assert strategy._acquisition(model).beta.item() == pytest.approx(1.96**2)
    strategy.widen = True
    assert strategy._acquisition(model).beta.item() == pytest.approx(1.96**2 * factor)
    with pytest.raises(ValueError, match="`regret_exponent` in"):
        AGPUCB(BOUNDS, 0, regret_exponent=1.0, **SMALL)


@pytest.mark.parametrize("seeds", [[0, 1], 0])
def test_wang_and_de_freitas_end_where_it_is_uncertain(seeds: Any) -> None:
    strategy = WangDeFreitasGPUCB(BOUNDS, seeds, threshold=0.3, **SMALL)
    plain = GPUCB(BOUNDS, seeds, **SMALL)
    play(strategy, 3)
    plain.load_state_dict(strategy.state_dict())
    models = []
    fit = strategy._fit
    strategy._fit = lambda replicates: models.append(fit(replicates)) or models[-1]  # type: ignore
    X = strategy.ask()
    deviation = models[0](X / 2).variance.sqrt()
    before = plain._fit(list(range(len(X))))(plain.ask() / 2).variance.sqrt()
    assert (before < 0.3).any()
    assert (deviation >= 0.3).all()
    idle = WangDeFreitasGPUCB(BOUNDS, seeds, threshold=0.0, **SMALL)
    idle.load_state_dict(strategy.state_dict())
    assert torch.equal(idle.ask(), plain.ask())
    with pytest.raises(ValueError, match="`threshold` and `max_halvings` >= 0"):
        WangDeFreitasGPUCB(BOUNDS, 0, threshold=-1.0, **SMALL)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_mcmc_proposes() -> None:
    pytest.importorskip("numpyro")
    estimator = FullyBayesian(warmup_steps=16, num_samples=4)
    strategy = FullyBayesianGPUCB(BOUNDS, [0, 1], estimator=estimator, **SMALL)
    _, X = play(strategy, 2)
    assert X.shape == (2, 1, 1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_mcmc_samples_now_and_then() -> None:
    r"""In between, the samples stay, with the data since; a resumed run does the same."""
    pytest.importorskip("numpyro")

    def build() -> FullyBayesianGPUCB:
        estimator = FullyBayesian(warmup_steps=16, num_samples=4)
        return FullyBayesianGPUCB(BOUNDS, [3], estimator=estimator, sample_every=2, **SMALL)

    strategy = build()
    play(strategy, 1)
    first = strategy._fit([0])
    play(strategy, 1)
    second = strategy._fit([0])
    X = torch.rand(7, 1, dtype=torch.double)
    assert torch.equal(first.covar_module.lengthscale, second.covar_module.lengthscale)
    told, Y = strategy._X[0, -1:] / 2, strategy._Y[0, -1:]
    expected = first.condition_on_observations(told, Y).posterior(X)
    torch.testing.assert_close(second.posterior(X).mean, expected.mean)
    assert not torch.allclose(second.posterior(X).mean, first.posterior(X).mean)
    resumed = build()
    resumed.load_state_dict(strategy.state_dict())
    torch.testing.assert_close(resumed.ask(), strategy.ask())
    play(strategy, 1)
    third = strategy._fit([0])
    assert not torch.allclose(first.covar_module.lengthscale, third.covar_module.lengthscale)
    with pytest.raises(ValueError, match="`sample_every` to be at least 1"):
        FullyBayesianGPUCB(BOUNDS, 0, sample_every=0, **SMALL)
