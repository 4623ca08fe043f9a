r"""Any acquisition function, over replicates at once or one after the other."""

from typing import Any

import pytest
import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.exceptions.errors import UnsupportedError
from botorch.optim import optimize_acqf

from botorch_risk.acquisition.risk_bound import gp_ucb
from botorch_risk.strategies import Acquire, Box, Strategy

BOUNDS = torch.tensor([[-1.0], [2.0]], dtype=torch.double)
FAST: dict[str, Any] = {"num_restarts": 4, "raw_samples": 64}


def upper_bound(model: Any, t: int) -> UpperConfidenceBound:
    return UpperConfidenceBound(model, beta=4.0)


def observed(method: Acquire, batch_size: int = 1) -> Strategy:
    strategy = Strategy(Box(BOUNDS), method, [0, 1], num_initial=6, batch_size=batch_size)
    X = strategy.ask()
    strategy.tell(X, (3 * X).sin())
    return strategy


def test_one_by_one_is_the_optimiser_of_botorch() -> None:
    strategy = observed(Acquire(upper_bound, **FAST))
    X = strategy.ask()
    unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    for row, model in enumerate(strategy.belief):
        _, value = optimize_acqf(upper_bound(model, 1), unit, q=1, num_restarts=8, raw_samples=128)
        with torch.no_grad():
            found = upper_bound(model, 1)((X[row : row + 1] + 1) / 3)
        assert found.item() == pytest.approx(value.item(), abs=1e-4)


def test_batched_replicates_have_one_model() -> None:
    strategy = observed(Acquire(lambda model, t: gp_ucb(model, t, beta=4.0), batched=True, **FAST))
    (model,) = strategy.belief
    assert model.batch_shape == (2,)
    alone = observed(Acquire(upper_bound, **FAST))
    torch.testing.assert_close(strategy.ask(), alone.ask(), atol=1e-3, rtol=0)


def test_the_round_reaches_the_acquisition_function() -> None:
    rounds = []

    def watched(model: Any, t: int) -> UpperConfidenceBound:
        rounds.append(t)
        return upper_bound(model, t)

    strategy = observed(Acquire(watched, **FAST))
    X = strategy.ask()
    strategy.tell(X, (3 * X).sin())
    strategy.ask()
    assert rounds == [1, 1, 2, 2]


def test_batches_need_an_acquisition_that_takes_pending_points() -> None:
    with pytest.raises(UnsupportedError, match="Got UpperConfidenceBound, q=2"):
        observed(Acquire(upper_bound, **FAST), batch_size=2).ask()
