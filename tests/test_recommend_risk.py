r"""Reporting rules for a risk of the environment."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.models import SingleTaskGP
from torch import Tensor

from botorch_risk.acquisition import RiskUpperConfidenceBound
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.recommend_risk import maximize_risk_of_mean, recommend_risk
from botorch_risk.risk import ValueAtRisk
from tests import oracles

POINTS = torch.linspace(0, 1, 10, dtype=torch.float64).unsqueeze(-1)


def build(batch: tuple[int, ...] = ()) -> RiskUpperConfidenceBound:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(*batch, 9, 2, generator=generator, dtype=torch.float64)
    model = SingleTaskGP(X, (5 * X).sin().sum(dim=-1, keepdim=True))
    return RiskUpperConfidenceBound(model, DiscreteEnvironment(POINTS), ValueAtRisk(0.2), beta=4.0)


def brute_force(acqf: RiskUpperConfidenceBound, x: Tensor, width: float) -> float:
    r"""The risk of the mean plus some standard deviations at one decision."""
    posterior = acqf.model.posterior(torch.cat([x.expand(10, 1), POINTS], dim=-1))
    values = posterior.mean + width * posterior.variance.sqrt()
    return oracles.value_at_risk(
        oracles.to_numpy(values)[:, 0], torch.full((10,), 0.1).numpy(), 0.2
    )


@pytest.mark.parametrize(
    ("rule", "width"), [("posterior_mean", 0.0), ("lower_confidence_bound", -2.0)]
)
def test_rules_equal_brute_force(rule: Any, width: float) -> None:
    acqf, X = build(), torch.rand(12, 1, dtype=torch.float64)
    scores = [brute_force(acqf, x, width) for x in X]
    chosen = recommend_risk(acqf, X, rule)
    assert chosen.value.item() == pytest.approx(max(scores))
    assert chosen.row.item() == scores.index(max(scores))
    assert torch.equal(chosen.point, X[chosen.row])


def test_recorded_bounds_need_only_themselves() -> None:
    X, recorded = torch.rand(2, 5, 1).double(), torch.rand(2, 5).double()
    chosen = recommend_risk(build((2,)), X, "recorded_lower_confidence_bound", recorded)
    assert torch.equal(chosen.row, recorded.argmax(dim=-1))
    assert torch.equal(chosen.point, X[torch.arange(2), chosen.row])


def test_decisions_without_a_recorded_bound_are_not_offered() -> None:
    X = torch.rand(3, 1).double()
    recorded = torch.tensor([torch.nan, -2.0, torch.nan]).double()
    chosen = recommend_risk(build(), X, "recorded_lower_confidence_bound", recorded)
    assert (chosen.row.item(), chosen.value.item()) == (1, -2.0)


def test_best_decision_anywhere() -> None:
    acqf, bounds = build((3,)), torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    X, value = maximize_risk_of_mean(acqf, bounds, seeds=[0, 1, 2])
    grid = torch.linspace(0, 1, 1001, dtype=torch.float64)[:, None].expand(3, 1001, 1)
    assert X.shape == (3, 1)
    torch.testing.assert_close(value, acqf.mean(X.unsqueeze(-2))[:, 0].detach())
    assert (value >= acqf.mean(grid).amax(dim=-1) - 1e-4).all()


def test_bad_input() -> None:
    acqf, X = build(), torch.rand(4, 1, dtype=torch.float64)
    with pytest.raises(BotorchTensorDimensionError, match="`batch_shape x n x d_x`"):
        recommend_risk(acqf, X[0])
    with pytest.raises(ValueError, match=r"Expected `rule` in .* Got 'best'"):
        recommend_risk(acqf, X, "best")  # type: ignore[arg-type]
    for recorded in (None, torch.zeros(3)):
        with pytest.raises(ValueError, match="Expected `recorded` lower bounds"):
            recommend_risk(acqf, X, "recorded_lower_confidence_bound", recorded)
