r"""Strategies whose fits start where the last ones ended decide as if they had started afresh."""

from collections.abc import Callable
from statistics import median
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor

from botorch_risk.engine import fit_exact_gp
from botorch_risk.papers import rahbo, sbo_kde, uhe_bo
from botorch_risk.seeding import generators
from botorch_risk.strategies import Strategy
from botorch_risk.strategies.states import sealed

UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.double)
SQUARE = UNIT.expand(2, 2)
SEEDS = [0, 1, 2]
FAST: dict[str, Any] = {"num_restarts": 4, "raw_samples": 64}
MAKERS: dict[str, Callable[[], Strategy]] = {
    "rahbo": lambda: rahbo(SQUARE, SEEDS, num_repeats=3, risk_aversion=1.0, **FAST),
    "rahbo, refit_every=3": lambda: rahbo(
        SQUARE, SEEDS, num_repeats=3, risk_aversion=1.0, refit_every=3, **FAST
    ),
    "sbo_kde": lambda: sbo_kde(SQUARE, SEEDS, context_bounds=UNIT, n_w=8, **FAST),
}
strategies = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def tell(strategy: Strategy, index: int) -> None:
    X = strategy.ask()
    if strategy.space.num_columns > X.shape[-1]:
        draws = generators(SEEDS, "contexts", index)
        W = [torch.rand(*X.shape[1:-1], 1, generator=g, dtype=torch.double) for g in draws]
        X = torch.cat([X, torch.stack(W)], dim=-1)
    noise = [
        torch.randn(*X.shape[1:-1], 3, generator=g, dtype=torch.double)
        for g in generators(SEEDS, "noise", index)
    ]
    Y: Tensor = (5 * X).sin().sum(dim=-1, keepdim=True) + 0.1 * torch.stack(noise)
    strategy.tell(X, Y)


def without_fits(strategy: Strategy, make: Callable[[], Strategy]) -> Strategy:
    r"""The same data and state, with no fit to start from."""
    state, afresh = strategy.state_dict(), make()
    kept = {name: value for name, value in state["state"].items() if not name.startswith("fit ")}
    afresh.load_state_dict(sealed({**state, "state": kept}))
    return afresh


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(make, marks=[pytest.mark.slow] * bool(i))
        for i, make in enumerate(MAKERS.values())
    ],
    ids=MAKERS,
)
@pytest.mark.slow
def test_the_same_decisions_in_few_evaluations(make: Callable[[], Strategy]) -> None:
    strategy, alike, evaluations = make(), [], []

    def counted(*arguments: Any, **options: Any) -> Any:
        result = fit_exact_gp(*arguments, **options)
        evaluations.append(result.num_evaluations)
        return result

    for index in range(24):
        with mock.patch("botorch_risk.strategies.method.fit_exact_gp", counted):
            tell(strategy, index)
            asked = strategy.ask()
        afresh = without_fits(strategy, make).ask()
        alike += ((asked - afresh).abs() < 1e-6).all(dim=-1).flatten().tolist()
    # Now and then another optimum of the likelihood is found from afresh.
    assert sum(alike) >= 0.9 * len(alike)
    if "refit" not in str(strategy.method):
        later = torch.stack(evaluations[len(evaluations) // 2 :])
        assert median(later.flatten().tolist()) <= 8


def uhe() -> Strategy:
    return uhe_bo(SQUARE, SEEDS, **FAST)


@pytest.mark.parametrize("make", [*MAKERS.values(), uhe], ids=[*MAKERS, "uhe_bo"])
def test_the_state_says_where_the_fits_ended(make: Callable[[], Strategy]) -> None:
    strategy = make()
    tell(strategy, 0)
    assert not any(name.startswith("fit ") for name in strategy.state)
    for index in (1, 2):  # one of two rounds of UHE-BO is without a model
        tell(strategy, index)
    names = {name for name in strategy.state if name.startswith("fit ")}
    assert {name.rpartition(".")[2] for name in names} == {"theta", "metric", "fresh_at"}
    assert all(len(strategy.state[name]) == len(SEEDS) for name in names)
