r"""The distance of BoTorch's acquisition functions from pending points."""

from typing import Any

import pytest
import torch
from botorch.acquisition.logei import qLogExpectedImprovement, qLogNoisyExpectedImprovement
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler

from botorch_risk.acquisition.spacing import KeptApart

UNIT = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
RADIUS = 0.1


def acquisitions(pending: Any) -> dict[str, Any]:
    X = torch.rand(9, 2, dtype=torch.double)
    model = SingleTaskGP(X, (3 * X).sin().sum(dim=-1, keepdim=True))
    known = {"model": model, "X_pending": pending}
    known["sampler"] = SobolQMCNormalSampler(torch.Size([16]), seed=0)
    noisy = qLogNoisyExpectedImprovement(X_baseline=X, **known)  # pending ones join its baseline
    return {"improvement": qLogExpectedImprovement(best_f=1.5, **known), "noisy": noisy}


@pytest.mark.parametrize("name", ["improvement", "noisy"])
def test_values_fall_near_pending_points_alone(name: str) -> None:
    pending = torch.tensor([[0.5, 0.5]], dtype=torch.double)
    inner = acquisitions(pending)[name]
    apart = KeptApart(inner, pending, lambda X: X, UNIT, RADIUS)
    at = torch.tensor([0.02, 0.05, 0.0999, 0.1001, 0.4], dtype=torch.double)
    X = (pending + torch.stack([at, 0 * at], dim=-1)).unsqueeze(-2)
    lost = inner(X) - apart(X)
    spread = inner(UNIT.unsqueeze(-2))
    height = 30 * (spread.amax() - spread.amin())
    share = torch.tensor([0.8, 0.5, 0.001, 0.0, 0.0], dtype=torch.double)
    torch.testing.assert_close(lost, height * share, rtol=1e-6, atol=1e-10)


@pytest.mark.filterwarnings("ignore:A not p.d.:linear_operator.utils.warnings.NumericalWarning")
@pytest.mark.parametrize("name", ["improvement", "noisy"])
def test_a_sequence_keeps_apart_from_itself_and_what_was_pending(name: str) -> None:
    pending = torch.tensor([[0.9, 0.8]], dtype=torch.double)
    inner = acquisitions(pending)[name]
    before = inner.X_pending
    apart = KeptApart(inner, pending, lambda X: X, torch.rand(64, 2).double(), RADIUS)
    options = {"num_restarts": 2, "raw_samples": 32, "options": {"seed": 0}}
    X, _ = optimize_acqf(apart, UNIT, q=4, sequential=True, **options)
    assert torch.pdist(torch.cat([pending, X])).amin() >= RADIUS * (1 - 1e-4)
    assert apart.X_pending is None
    assert (inner.X_pending is None) == (before is None)
