r"""The papers' names build what the papers' loops build."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from botorch.models import SingleTaskGP
from torch import Tensor

from botorch_risk.acquisition import (
    drbo_kde,
    drbo_mmd,
    drbo_mmd_minimax,
    sbo_kde,
    stable_opt,
)
from botorch_risk.seeding import derive_seed
from botorch_risk.strategies import DRBOKDE, DRBOMMD, SBOKDE, StableOpt
from tests import oracles

UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.double)
SEEDS = [3, 5]
GRID = torch.linspace(0, 1, 7, dtype=torch.double).reshape(1, 7, 1).expand(2, 7, 1)


def kernel(v: Tensor, w: Tensor) -> Tensor:
    squares = (v.unsqueeze(-2) - w.unsqueeze(-3)).square().sum(dim=-1)
    return torch.exp(-0.5 * squares / 0.2**2)


def data() -> tuple[Tensor, Tensor]:
    X = torch.rand(2, 6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    return X, (4 * X).sin().sum(dim=-1, keepdim=True)


PARTS = {"kernel": kernel, "radius_scale": 0.1}
# strategy with its options, recipe with the same ones
CASES: dict[str, tuple[Callable[..., Any], dict[str, Any], Callable[..., Any], dict[str, Any]]] = {
    "sbo_kde": (SBOKDE, {}, sbo_kde, {}),
    "sbo_kde_reflected": (
        SBOKDE,
        {"density_options": {"at_bounds": "reflect"}, "n_w": 32},
        sbo_kde,
        {"density_options": {"at_bounds": "reflect"}, "n_w": 32},
    ),
    "drbo_kde": (DRBOKDE, {"radius_scale": 0.5}, drbo_kde, {"radius_scale": 0.5}),
    "drbo_kde_capped": (DRBOKDE, {"radius_scale": 9.0}, drbo_kde, {"radius_scale": 9.0}),
    "drbo_mmd": (DRBOMMD, PARTS, drbo_mmd, PARTS),
    "drbo_mmd_default_kernel": (DRBOMMD, {"num_points": 7}, drbo_mmd, {"num_points": 7}),
    "drbo_mmd_minimax": (DRBOMMD, {**PARTS, "minimax": True}, drbo_mmd_minimax, PARTS),
    "stable_opt": (StableOpt, {}, stable_opt, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_the_acquisition_function_of_the_strategy(name: str) -> None:
    X, Y = data()
    kind, chosen, recipe, options = CASES[name]
    strategy = kind(UNIT, UNIT, SEEDS, num_initial=6, beta=lambda t: 1.0 + t, **chosen)
    strategy.tell(X, Y)
    strategy.tell(X[:, :1] / 2, Y[:, :1] / 2)
    theirs = strategy.acquisition
    W = torch.cat([X, X[:, :1] / 2], dim=1)[..., 1:]
    streams = [derive_seed(seed, "environment", 2) for seed in SEEDS]
    ours = recipe(theirs.model, W, UNIT, 2, seeds=streams, beta=lambda t: 1.0 + t, **options)
    assert torch.equal(ours.evaluate(GRID), theirs.evaluate(GRID))


def test_minimax_uses_the_factors_of_an_earlier_round_again() -> None:
    X, Y = data()
    model, W = SingleTaskGP(X, Y), X[..., 1:]
    calls: list[int] = []

    def counted(v: Tensor, w: Tensor) -> Tensor:
        calls.append(1)
        return kernel(v, w)

    options: dict[str, Any] = {"kernel": counted, "radius_scale": 0.1, "num_points": 20}
    first = drbo_mmd_minimax(model, W[:, :4], UNIT, 1, **options)
    count = len(calls)
    again = drbo_mmd_minimax(model, W, UNIT, 5, previous=first, **options)
    assert len(calls) == count
    anew = drbo_mmd_minimax(model, W, UNIT, 5, **options)
    assert again.risk_measure.radius == anew.risk_measure.radius
    assert torch.equal(again.evaluate(GRID), anew.evaluate(GRID))


def test_default_kernel_is_in_units_of_the_range_of_the_contexts() -> None:
    X, Y = data()
    box = torch.tensor([[10.0], [30.0]], dtype=torch.double)
    wide = drbo_mmd(SingleTaskGP(X, Y), 10 + 20 * X[..., 1:], box, 3).risk_measure
    unit = drbo_mmd(SingleTaskGP(X, Y), X[..., 1:], UNIT, 3).risk_measure
    points = torch.linspace(0, 1, 9, dtype=torch.double).unsqueeze(-1)
    torch.testing.assert_close(
        wide.kernel(10 + 20 * points, 10 + 20 * points), unit.kernel(points, points)
    )
    torch.testing.assert_close(unit.kernel(points, points), kernel(points, points))
    pickle.loads(pickle.dumps(unit.kernel))


@pytest.mark.parametrize("seed", range(8))
def test_minimax_maximises_the_worst_case_of_the_upper_bounds(seed: int) -> None:
    r"""As the exact ball does, min_Q E_Q[u]; not a bound of the approximation at f."""
    draw = {"generator": torch.Generator().manual_seed(seed), "dtype": torch.double}
    X = torch.rand(10, 2, **draw)
    model = SingleTaskGP(X, (9 * X[:, :1]).sin() + (7 * X.sum(-1, keepdim=True)).cos())
    options = {"t": 12, "kernel": lambda v, w: 0.01 * (-5 * (v - w.mT).abs()).exp()}
    W, grid = torch.rand(12, 1, **draw), torch.linspace(0, 1, 101, dtype=torch.double)[:, None]
    acqf = drbo_mmd_minimax(model, W, UNIT, **options)
    _, upper, weights = acqf.pointwise_bounds(grid)
    points, radius = acqf.environment.points.numpy(), acqf.risk_measure.radius
    gram = 0.01 * np.exp(-5 * np.abs(points - points.T))  # which can be inverted
    distribution = weights[0].numpy()
    expected = [
        oracles.minimax_approximation(u, distribution, gram, radius, "kernel")
        for u in upper.numpy()
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
