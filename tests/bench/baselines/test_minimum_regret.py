r"""What is left of a point's score when its outcome is known, and where there is no noise."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from botorch.models import SingleTaskGP
from botorch_risk_bench.baselines.domain_search import expected_regret_reduction
from scipy.integrate import quad
from scipy.stats import norm

from botorch_risk.posterior import DomainPosterior
from tests.acquisition.lake import NOISE, build_posterior, grid, refit, truth


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


def knowledge_gradient(rows: list[int], recommended: np.ndarray, x: int, noise: float) -> float:
    r"""How much the largest posterior mean rises by a sample at x, by quadrature."""
    domain = grid().numpy()
    X, y = domain[rows], truth(grid()[rows]).flatten().numpy()
    mean, covariance = refit(X, y, np.full(len(rows), NOISE), domain)
    slope = covariance[recommended, x] / np.sqrt(covariance[x, x] + noise)

    def largest(z: float) -> float:
        return float((mean[recommended] + slope * z).max() * norm.pdf(z))

    return quad(largest, -8, 8, limit=400)[0] - mean[recommended].max()


def test_equals_the_knowledge_gradient() -> None:
    rows, noise = [3, 13, 30], 0.05
    posterior = build_posterior(torch.tensor(rows))
    score = expected_regret_reduction(posterior, torch.full((1, 36), noise).double()).flatten()
    few = expected_regret_reduction(posterior, torch.full((1, 36), noise).double(), 4).flatten()
    bound = posterior.mean + 2 * posterior.variance.sqrt()
    top = bound.flatten().topk(4).indices.numpy()
    for x in (0, 7, 14, 29, 35):
        every = knowledge_gradient(rows, np.arange(36), x, noise)
        assert score[x].item() == pytest.approx(every, rel=0.02, abs=1e-4)
        assert few[x].item() == pytest.approx(
            knowledge_gradient(rows, top, x, noise), rel=0.02, abs=1e-4
        )


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
