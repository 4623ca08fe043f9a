r"""The papers' names build what the papers' loops build."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from botorch.models import SingleTaskGP
from torch import Tensor

from botorch_risk.acquisition import (
    RiskUpperConfidenceBound,
    drbo_kde,
    drbo_mmd,
    sbo_kde,
    stable_opt,
    v_ucb,
)
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.risk import ValueAtRisk
from botorch_risk.strategies import DRBOKDE, DRBOMMD, SBOKDE, StableOpt
from tests import oracles

UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.double)
SEEDS = [3, 5]


def kernel(v: Tensor, w: Tensor) -> Tensor:
    squares = (v.unsqueeze(-2) - w.unsqueeze(-3)).square().sum(dim=-1)
    return torch.exp(-0.5 * squares / 0.2**2)


def data() -> tuple[Tensor, Tensor]:
    X = torch.rand(2, 6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    return X, (4 * X).sin().sum(dim=-1, keepdim=True)


CASES: list[tuple[str, Callable[..., Any], Callable[..., RiskUpperConfidenceBound]]] = [
    ("sbo_kde", SBOKDE, lambda model, W, t, seeds: sbo_kde(model, W, UNIT, seeds=seeds)),
    ("drbo_kde", DRBOKDE, lambda model, W, t, seeds: drbo_kde(model, W, UNIT, t, seeds=seeds)),
    ("stable_opt", StableOpt, lambda model, W, t, seeds: stable_opt(model, W, UNIT, seeds=seeds)),
    (
        "drbo_mmd",
        lambda *args, **kwargs: DRBOMMD(*args, kernel=kernel, radius_scale=0.1, **kwargs),
        lambda model, W, t, seeds: drbo_mmd(model, W, UNIT, t, kernel, radius_scale=0.1),
    ),
    (
        "drbo_mmd_minimax",
        lambda *args, **kwargs: DRBOMMD(
            *args, kernel=kernel, radius_scale=0.1, minimax=True, **kwargs
        ),
        lambda model, W, t, seeds: drbo_mmd(
            model, W, UNIT, t, kernel, radius_scale=0.1, minimax=True
        ),
    ),
]


@pytest.mark.parametrize(("name", "kind", "build"), CASES, ids=[case[0] for case in CASES])
def test_equals_the_acquisition_function_of_the_strategy(name, kind, build):
    X, Y = data()
    strategy = kind(UNIT, UNIT, SEEDS, num_initial=6)
    strategy.tell(X, Y)
    strategy.tell(X[:, :1] / 2, Y[:, :1] / 2)
    theirs = strategy.acquisition
    W = torch.cat([X, X[:, :1] / 2], dim=1)[..., 1:]
    ours = build(theirs.model, W, strategy._round, strategy._law_seeds())
    grid = torch.linspace(0, 1, 7, dtype=torch.double).reshape(1, 7, 1).expand(2, 7, 1)
    torch.testing.assert_close(ours.evaluate(grid), theirs.evaluate(grid))


@pytest.mark.parametrize("seed", range(8))
def test_minimax_maximises_the_worst_case_of_the_upper_bounds(seed: int) -> None:
    r"""As the exact ball does, min_Q E_Q[u]; not a bound of the approximation at f."""
    draw = {"generator": torch.Generator().manual_seed(seed), "dtype": torch.double}
    X = torch.rand(10, 2, **draw)
    model = SingleTaskGP(X, (9 * X[:, :1]).sin() + (7 * X.sum(-1, keepdim=True)).cos())
    options = {"t": 12, "kernel": lambda v, w: 0.01 * (-5 * (v - w.mT).abs()).exp()}
    W, grid = torch.rand(12, 1, **draw), torch.linspace(0, 1, 101, dtype=torch.double)[:, None]
    acqf = drbo_mmd(model, W, UNIT, minimax=True, **options)
    _, upper, weights = acqf.pointwise_bounds(grid)
    points, radius = acqf.environment.points.numpy(), acqf.risk_measure.radius
    gram = 0.01 * np.exp(-5 * np.abs(points - points.T))  # which can be inverted
    law = weights[0].numpy()
    expected = [
        oracles.minimax_approximation(u, law, gram, radius, "kernel") for u in upper.numpy()
    ]
    torch.testing.assert_close(acqf.evaluate(grid), torch.tensor(expected), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(acqf(grid.unsqueeze(-2)), acqf.evaluate(grid))
    assert (acqf.upper(grid) >= acqf.evaluate(grid) - 1e-9).all()
    exact = drbo_mmd(model, W, UNIT, **options)
    torch.testing.assert_close(exact.evaluate(grid), exact.upper(grid))


def test_minimax_is_what_its_strategy_asks_for() -> None:
    X, Y = data()
    strategy = DRBOMMD(UNIT, UNIT, SEEDS, num_initial=6, minimax=True, radius_scale=0.1)
    strategy.tell(X, Y)
    acqf, asked = strategy.acquisition, strategy.ask()
    grid = torch.linspace(0, 1, 501, dtype=torch.double).reshape(1, 501, 1).expand(2, 501, 1)
    _, upper, weights = acqf.pointwise_bounds(grid)
    best = acqf.risk_measure(upper, weights).amax(dim=-1)
    assert (acqf.evaluate(asked).squeeze(-1) >= best - 1e-3).all()


def test_v_ucb_is_the_value_at_risk_of_the_upper_bound():
    X, Y = data()
    model = SingleTaskGP(X[0], Y[0])
    w = torch.linspace(0, 1, 9, dtype=torch.double).unsqueeze(-1)
    acqf = v_ucb(model, DiscreteEnvironment(w), risk_level=0.3, beta=4.0)
    x = torch.tensor([[0.4]], dtype=torch.double)
    posterior = model.posterior(torch.cat([x.expand(9, 1), w], dim=-1))
    upper = (posterior.mean + 2 * posterior.variance.sqrt()).squeeze(-1).detach()
    assert math.isclose(acqf(x.unsqueeze(0)).item(), upper.sort().values[2].item(), rel_tol=1e-9)
    assert isinstance(acqf.risk_measure, ValueAtRisk)
