r"""What random check points say about the share of better decisions."""

import re
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from scipy.stats import beta, binom
from torch import Tensor

from botorch_risk.stopping import num_check_points, share_better

RUNS = 20_000


def draws(m: int, seed: int = 0) -> Tensor:
    r"""Risks that are uniform: the share above t is 1 - t."""
    return torch.rand(RUNS, m, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


@pytest.mark.parametrize("m, k", [(29, 0), (29, 3), (5, 5)])
def test_the_limit_is_that_of_clopper_and_pearson(m: int, k: int) -> None:
    risks = torch.zeros(1, m).double()
    risks[0, :k] = 1.0
    found = share_better(risks, torch.tensor([0.5]).double())
    expected = beta.ppf(0.95, k + 1, m - k) if k < m else 1.0
    assert found.num_better == k and found.share.item() == pytest.approx(expected)
    if k < m:  # seeing so few has a probability of 5 %
        assert binom.cdf(k, m, found.share.item()) == pytest.approx(0.05)


@pytest.mark.parametrize("epsilon, truth", [(0.0, 0.1), (0.15, 0.1), (0.0, 0.3)])
def test_the_share_exceeds_the_limit_as_often_as_stated(epsilon: float, truth: float) -> None:
    recommended = torch.full((RUNS,), 1.0 - truth - epsilon).double()
    found = share_better(draws(29), recommended, epsilon)
    wrong = (found.share < truth).double().mean().item()
    assert wrong <= 0.05 + 3 * (0.05 * 0.95 / RUNS) ** 0.5
    assert (found.share >= truth).any() and found.share.mean() < truth + 0.2


def test_the_best_of_the_check_points_may_be_recommended() -> None:
    risks = draws(29)
    best = risks.amax(dim=-1)
    found = share_better(risks, best)
    assert (found.num_better == 0).all()
    wrong = (1.0 - best > found.share).double().mean().item()
    assert abs(wrong - 0.05) < 0.005  # for a continuous risk it is exact


@pytest.mark.parametrize("recommended_error", [0.0, 0.05])
def test_noise_is_paid_for_by_a_wider_limit(recommended_error: float) -> None:
    stream = torch.Generator().manual_seed(1)
    risks, truth, epsilon = draws(60), 0.2, 0.05

    def noisy(values: Tensor, error: float) -> Tensor:
        noise = torch.randn(values.shape, generator=stream, dtype=torch.double)
        return values + error * noise

    recommended = torch.full((RUNS,), 1.0 - truth - epsilon).double()
    found = share_better(
        noisy(risks, 0.1),
        noisy(recommended, recommended_error),
        epsilon,
        error=0.1,
        recommended_error=recommended_error,
    )
    assert (found.share < truth).double().mean() < 0.05
    exact = share_better(risks, recommended, epsilon)
    assert found.share.mean() > exact.share.mean() and found.power[0] < exact.power[0] == 1.0
    same = noisy(recommended.unsqueeze(-1), 0.1)  # check points as good as the recommendation
    count = share_better(same, recommended, epsilon, error=0.1)
    assert abs(1 - count.num_better.double().mean() - count.power[0]) < 0.01


@pytest.mark.parametrize("share, overlooked", [(0.1, 0.0), (0.03, 0.0), (0.1, 0.2)])
def test_as_many_points_as_are_needed(share: float, overlooked: float) -> None:
    m, error = num_check_points(share, overlooked=overlooked), 1e-3 * (overlooked > 0)
    limits = [
        share_better(
            torch.zeros(1, n).double(),
            torch.ones(1).double(),
            error=error,
            overlooked=overlooked or 0.1,
        ).share.item()
        for n in (m - 1, m)
    ]
    assert limits[1] <= share * 1.005 < limits[0] * 1.005


BAD: list[tuple[dict[str, Any], str]] = [
    ({"risks": torch.zeros(3)}, "`risks` of shape `R x m`"),
    ({"recommended": torch.zeros(2)}, "`recommended` of shape `R`"),
    ({"risks": torch.full((1, 3), torch.nan)}, "finite `risks`"),
    ({"epsilon": -1.0}, "`epsilon`"),
    ({"delta": 1.0}, "`delta`"),
    ({"error": -0.1}, "`error` to be finite and >= 0"),
    ({"error": torch.zeros(2)}, r"`error` to be a number or of shape \(1, 3\)"),
    ({"recommended_error": torch.nan}, "`recommended_error` to be finite and >= 0"),
]


@pytest.mark.parametrize("change, message", BAD)
def test_bad_numbers_are_named(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"risks": torch.zeros(1, 3), "recommended": torch.zeros(1), **change}
    with pytest.raises((ValueError, BotorchTensorDimensionError)) as caught:
        share_better(**given)
    assert re.search(message, str(caught.value))
