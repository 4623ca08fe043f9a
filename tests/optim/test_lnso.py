r"""Local neural surrogate optimisation on functions whose best quantile is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from scipy.stats import norm
from torch import Generator, Tensor

from botorch_risk.optim import maximize_value_at_risk

SMALL: dict[str, Any] = {"num_starts": 2, "num_steps": 30, "num_training_steps": 60}
BOX = torch.tensor([[0.0, 0.0], [1.0, 2.0]], dtype=torch.float64)


def normal(n: int, generators: Sequence[Generator]) -> Tensor:
    return torch.stack([torch.randn(n, 1, generator=g, dtype=torch.float64) for g in generators])


def bump(queries: Tensor) -> Tensor:
    r"""`VaR = -4 (x - 0.3)^2 - (y - 1.4)^2 - 0.3 (0.5 + x) z`, z the normal quantile."""
    x, y, w = queries.unbind(dim=-1)
    return -4 * (x - 0.3) ** 2 - (y - 1.4) ** 2 + 0.3 * (0.5 + x) * w


@pytest.mark.parametrize("level", [0.1, 0.5, 0.8])
def test_finds_the_best_quantile(level: float) -> None:
    X, value = maximize_value_at_risk(bump, normal, BOX, level, seeds=[0, 1], **SMALL)
    z = norm.ppf(level)
    best = 0.3 + 0.3 * z / 8
    optimum = -4 * (best - 0.3) ** 2 + 0.3 * (0.5 + best) * z
    assert X.shape == (2, 2)
    assert value.shape == (2,)
    assert X[:, 0].tolist() == pytest.approx([best] * 2, abs=0.05)
    assert X[:, 1].tolist() == pytest.approx([1.4] * 2, abs=0.1)
    assert value.tolist() == pytest.approx([optimum] * 2, abs=0.05)


def test_stays_within_the_bounds() -> None:
    def slope(queries: Tensor) -> Tensor:
        return queries[..., 0] - queries[..., 1] + 0.1 * queries[..., 2]

    X, _ = maximize_value_at_risk(slope, normal, BOX, 0.1, seeds=0, **SMALL)
    torch.testing.assert_close(X, torch.tensor([[1.0, 0.0]]).double(), atol=1e-3, rtol=0)


def test_batch_equals_loop() -> None:
    quick = {**SMALL, "num_steps": 3, "num_training_steps": 5}
    together = maximize_value_at_risk(bump, normal, BOX, 0.1, seeds=[5, 6], **quick)
    alone = maximize_value_at_risk(bump, normal, BOX, 0.1, seeds=6, **quick)
    for many, one in zip(together, alone, strict=True):
        torch.testing.assert_close(many[1:], one, atol=1e-9, rtol=0)


def test_bad_input() -> None:
    def call(**changes: Any) -> None:
        arguments: dict[str, Any] = {
            "function": bump,
            "sampler": normal,
            "bounds": BOX,
            "risk_level": 0.1,
            "seeds": 0,
        }
        maximize_value_at_risk(**{**arguments, **SMALL, **changes})

    with pytest.raises(ValueError, match=r"`risk_level` in \(0, 1\)"):
        call(risk_level=1.0)
    with pytest.raises(BotorchTensorDimensionError, match="`bounds` to have shape"):
        call(bounds=BOX[0])
    with pytest.raises(ValueError, match="finite lower bounds below the upper"):
        call(bounds=BOX * torch.inf)
    with pytest.raises(ValueError, match=r"as many raw points as starts\. Got num_starts=9"):
        call(num_starts=9, raw_samples=8)
    with pytest.raises(ValueError, match=r"a positive radius\. Got radius=0"):
        call(radius=0.0)
    with pytest.raises(BotorchTensorDimensionError, match="Expected `sampler` to draw `1 x 1024 x"):
        call(sampler=lambda n, generators: torch.zeros(n, 1))
    with pytest.raises(BotorchTensorDimensionError, match="shape `R x m` from `function`"):
        call(function=lambda queries: queries)
    with pytest.raises(InputDataError, match="finite values of `function`"):
        call(function=lambda queries: queries[..., 0] * torch.nan)
