r"""UHE-BO and the methods of its comparison are the parts they are said to be."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from botorch_risk_bench import baselines
from botorch_risk_bench.baselines import hyperparameters
from botorch_risk_bench.baselines.hyperparameters import divide_lengthscales, expansion_factor
from torch import Tensor

from botorch_risk.acquisition.named import gp_ucb
from botorch_risk.fit import (
    MaximumAPosteriori,
    PseudoData,
    fit_exact_gp,
    fit_pseudo_data,
)
from botorch_risk.models.standardized_gp import standardized_gp
from botorch_risk.seeding import derive_seed
from botorch_risk.strategies import Acquire, Strategy, uhe_bo

BOUNDS = torch.tensor([[0.0], [2.0]], dtype=torch.double)
SMALL: dict[str, Any] = {"num_initial": 5, "num_restarts": 2, "raw_samples": 16}


def play(strategy: Any, rounds: int) -> list[Tensor]:
    asked = []
    for _ in range(rounds):
        asked.append(strategy.ask())
        strategy.tell(asked[-1], (3 * asked[-1]).sin())
    return asked


Parts = tuple[Any, type, Any, int]
PARTS: list[Parts] = [  # constructor, estimator, arms, steps
    (uhe_bo, PseudoData, "exp3", 2),
    (baselines.pseudo_data_gp_ucb, PseudoData, None, 0),
    (baselines.random_exp3, MaximumAPosteriori, "exp3", 2),
    (baselines.ra_bo, PseudoData, "alternate", 2),
    (baselines.portfolio_exp3, MaximumAPosteriori, "exp3", 1),
    (baselines.gp_ucb, MaximumAPosteriori, None, 0),
]


def fitted(strategy: Strategy) -> Any:
    r"""The model of all replicates, or of the first one that is modelled by itself."""
    method: Any = strategy.method
    method = getattr(method, "inner", method)
    ((_, view),) = strategy.views
    return method.believe(view)[0]


@pytest.mark.parametrize("parts", PARTS, ids=lambda parts: parts[0].__name__)
def test_every_method_is_its_parts(parts: Parts) -> None:
    make, estimator, arms, steps = parts
    method: Any = make(BOUNDS, [0, 1], **SMALL).method
    if arms is None:
        assert isinstance(method, Acquire)
    else:
        assert (method.arms, method.steps) == (arms, steps)
        method = method.inner
    assert type(method.estimator) is estimator
    assert method.acquisition.keywords["beta"] == pytest.approx(1.96**2)
    with pytest.raises(ValueError, match="`beta` to be finite and >= 0"):
        make(BOUNDS, 0, beta=-1.0, **SMALL)


def test_gp_ucb_is_the_bound() -> None:
    strategy = baselines.gp_ucb(BOUNDS, [0, 1], **SMALL)
    play(strategy, 1)
    model = fitted(strategy)
    X = torch.rand(2, 7, 1, dtype=torch.double)
    posterior = model.posterior(X)
    expected = (posterior.mean + 1.5 * posterior.variance.sqrt()).squeeze(-1)
    found = gp_ucb(model, 1, beta=2.25).evaluate(X)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


def test_pseudo_data_are_those_of_the_round() -> None:
    strategy = baselines.pseudo_data_gp_ucb(BOUNDS, [4, 7], **SMALL)
    play(strategy, 2)
    found = fitted(strategy).covar_module.lengthscale[1:]
    history = strategy.history.of([1])
    expected = standardized_gp(history.X / 2, history.mean.unsqueeze(-1))
    unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    fit_pseudo_data(expected, unit, seeds=[derive_seed(7, "estimate", 2)])
    torch.testing.assert_close(found, expected.covar_module.lengthscale, rtol=1e-6, atol=1e-6)


def test_a_gp_ucb_shrinks_lengthscales_and_may_widen_the_bound() -> None:
    strategy = baselines.a_gp_ucb(BOUNDS, [0, 1], **SMALL)
    play(strategy, 4)
    t, model = 4, fitted(strategy)
    expected = standardized_gp(strategy.history.X / 2, strategy.history.mean.unsqueeze(-1))
    fit_exact_gp(expected)
    factor = expansion_factor(t, 1)
    assert factor > 1
    torch.testing.assert_close(
        model.covar_module.lengthscale * factor, expected.covar_module.lengthscale
    )
    for widen, growth in ((False, 1.0), (True, factor)):
        method: Any = baselines.a_gp_ucb(BOUNDS, 0, widen=widen, **SMALL).method
        assert method.acquisition(model, t).beta == pytest.approx(1.96**2 * growth)
    with pytest.raises(ValueError, match="`regret_exponent` in"):
        baselines.a_gp_ucb(BOUNDS, 0, regret_exponent=1.0, **SMALL)


@pytest.mark.parametrize("seeds", [[0, 1], 0])
def test_wang_and_de_freitas_end_where_it_is_uncertain(
    seeds: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    halved: list[Any] = []

    def watched(model: Any, factor: Any) -> Any:
        halved.append(divide_lengthscales(model, factor))
        return halved[-1]

    strategy = baselines.wang_de_freitas_gp_ucb(BOUNDS, seeds, threshold=0.3, **SMALL)
    plain = baselines.gp_ucb(BOUNDS, seeds, **SMALL)
    idle = baselines.wang_de_freitas_gp_ucb(BOUNDS, seeds, threshold=0.0, **SMALL)
    for _ in range(3):
        X = strategy.ask()
        for each in (strategy, plain, idle):
            each.tell(X, (3 * X).sin())
    before = fitted(plain)(plain.ask() / 2).variance.sqrt()
    assert (before < 0.3).any()
    monkeypatch.setattr(hyperparameters, "divide_lengthscales", watched)
    X = strategy.ask()
    assert (halved[-1](X / 2 if halved[-1].batch_shape else X[0] / 2).variance.sqrt() >= 0.3).all()
    assert torch.equal(idle.ask(), plain.ask())
    with pytest.raises(ValueError, match="`threshold` >= 0"):
        baselines.wang_de_freitas_gp_ucb(BOUNDS, 0, threshold=-1.0, **SMALL)
