r"""What is left of a point's score when its outcome is known, and where there is no noise."""

from __future__ import annotations

import pytest
import torch
from botorch.models import SingleTaskGP

from botorch_risk.acquisition.minimum_regret import expected_regret_reduction
from botorch_risk.posterior import DomainPosterior
from tests.acquisition.lake import build_posterior, grid, truth


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "on demand"])
def test_without_noise_a_known_point_tells_nothing(dense: bool) -> None:
    r"""Its slope is 0 / 0; NaN would be the largest score."""
    posterior = build_posterior(torch.tensor([[3, 13], [0, 8]]), dense=dense)
    known = torch.tensor([7, 30])
    for row in (known, known.flip(0)):
        posterior.observe(row, truth(grid()[row]).squeeze(-1), 0.0)
    score = expected_regret_reduction(posterior, torch.zeros(2, 36).double())
    assert (score >= 0).all()
    assert (score[:, known] == 0).all()
    assert (score.amax(dim=-1) > 0).all()
    noisy = expected_regret_reduction(posterior, torch.full((2, 36), 1e-12).double())
    torch.testing.assert_close(score, noisy, rtol=1e-4, atol=1e-6)


def test_with_one_point_to_recommend_no_outcome_changes_the_recommendation() -> None:
    posterior, noise = build_posterior(torch.tensor([3, 13])), torch.full((1, 36), 1e-3).double()
    assert expected_regret_reduction(posterior, noise, 1).abs().max() < 1e-12
    assert expected_regret_reduction(posterior, noise, 2).max() > 1e-3


def test_nothing_to_learn_anywhere() -> None:
    domain = torch.linspace(0, 1, 5, dtype=torch.double).unsqueeze(-1)
    model = SingleTaskGP(domain[:1], domain[:1].sin(), torch.full((1, 1), 1e-4).double())
    posterior = DomainPosterior(model, domain)
    for row in range(5):
        posterior.observe(row, float(row), 0.0)
    score = expected_regret_reduction(posterior, torch.zeros(1, 5).double())
    assert score.tolist() == [0.0] * 5
