r"""Scores of a finite domain are what their formulas say, and find the maximum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.models import SingleTaskGP
from botorch_risk_bench.baselines import (
    expected_improvement_search,
    max_value_entropy_search,
    minimum_regret_search,
    upper_confidence_bound_search,
)
from botorch_risk_bench.baselines.domain_search import expected_regret_reduction
from scipy import integrate, stats
from torch import Tensor

from botorch_risk.posterior.marginals import Marginals
from botorch_risk.repeats.log_expected_improvement import log_expected_improvement
from botorch_risk.strategies import Strategy
from tests.acquisition.lake import build_model, build_posterior, grid, refit, truth

SEEDS = (0, 1, 2)
KINDS: list[Any] = [
    expected_improvement_search,
    upper_confidence_bound_search,
    minimum_regret_search,
    max_value_entropy_search,
]
every = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
ROWS = [3, 17, 20, 30]


def build(kind: Any, seeds: Any, **options: Any) -> Any:
    options = {"noise": 1e-3, "num_initial": 3, **options}
    return kind(grid(), seeds, model=build_model, estimator=None, **options)


def score(strategy: Strategy) -> Tensor:
    r"""Scores of the domain, `R x |D|`."""
    ((_, view),) = strategy.views
    method: Any = strategy.method
    posterior = view.belief.posterior
    noise = method.terms.domain_noise(posterior)[..., 0]
    return method.sampler.score(view, posterior, noise)


def play(strategy: Any, rounds: int) -> list[Tensor]:
    asked = []
    for _ in range(rounds):
        asked.append(strategy.ask())
        strategy.tell(asked[-1], truth(asked[-1]))
    return asked


def told(kind: Any, **options: Any) -> Any:
    strategy = build(kind, 0, num_initial=len(ROWS), **options)
    X = grid()[ROWS].unsqueeze(0)
    strategy.tell(X, truth(X))
    return strategy


def moments() -> tuple[np.ndarray, np.ndarray]:
    X = grid()[ROWS]
    noise = np.full(len(ROWS), 1e-3)
    return refit(X.numpy(), truth(X)[:, 0].numpy(), noise, grid().numpy())


@every
def test_protocol_seeds_and_company(kind: Any) -> None:
    together, alone = build(kind, SEEDS), build(kind, 1)
    for many, one in zip(play(together, 3), play(alone, 3), strict=True):
        assert torch.equal(many[1:2], one)
    assert together.ask().shape == (3, 1, 2)


@pytest.mark.filterwarnings("ignore:Very small noise values detected")  # of the model's own data
@every
def test_asks_points_of_the_domain_without_noise_to_the_end(kind: Any) -> None:
    r"""Also when all but one are known exactly, and scores are 0 / 0."""
    domain = grid(3)
    known = {"model": build_model, "estimator": None}
    strategy = kind(domain, SEEDS, noise=0.0, num_initial=3, **known)
    for X in play(strategy, 9):
        assert (X.unsqueeze(-2) == domain).all(dim=-1).any(dim=-1).all()


@every
def test_finds_the_maximum(kind: Any) -> None:
    strategy = build(kind, SEEDS)
    play(strategy, 15)
    best = grid()[truth(grid()).argmax()]
    assert (strategy.recommend() == best).all()


def test_expected_improvement_is_an_integral() -> None:
    mean, covariance = moments()
    best = truth(grid()[ROWS]).max().item()
    expected = [
        stats.norm(m, np.sqrt(v)).expect(lambda f: max(f - best, 0.0), lb=best)
        for m, v in zip(mean, covariance.diagonal(), strict=True)
    ]
    strategy = told(expected_improvement_search)
    found = score(strategy)[0].exp().numpy()
    np.testing.assert_allclose(found, expected, atol=1e-7)
    assert torch.equal(strategy.ask()[0, 0], grid()[int(np.argmax(expected))])


@pytest.mark.parametrize("u", [3.0, -0.5, -1.0, -8.0, -300.0, -5e5])
def test_logarithm_of_the_improvement_far_below_the_best(u: float) -> None:
    # log int_0^inf s phi(s - u) ds, with the factor phi(u) taken out of the integral
    integral, _ = integrate.quad(
        lambda s: s * np.exp(-0.5 * (s / abs(u)) ** 2 + s * np.sign(u)), 0, 60, epsabs=0
    )
    expected = stats.norm.logpdf(u) + np.log(integral / u**2)
    given = Marginals(torch.tensor([u * 0.3], dtype=torch.double), torch.full((1,), 0.09))
    given = Marginals(given.mean, given.variance.double())
    found = log_expected_improvement(given, torch.zeros(1).double()).item()
    assert found == pytest.approx(expected + np.log(0.3), rel=1e-7, abs=1e-6)
    nothing = Marginals(torch.ones(1), torch.zeros(1))
    assert log_expected_improvement(nothing, torch.zeros(1)).item() == -torch.inf


def test_upper_bound_has_a_fifth_of_the_theoretical_width() -> None:
    mean, covariance = moments()
    strategy = told(upper_confidence_bound_search)
    beta = 2 * np.log(36 * 5**2 * np.pi**2 / (6 * 0.1)) / 5
    expected = mean + np.sqrt(beta * covariance.diagonal())
    found = score(strategy)[0].numpy()
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_regret_reduction_agrees_with_refitting_on_drawn_outcomes() -> None:
    mean, covariance = moments()
    X = grid()[ROWS].numpy()
    y, noise = truth(grid()[ROWS])[:, 0].numpy(), np.full(len(ROWS) + 1, 1e-3)
    posterior = build_posterior(torch.tensor(ROWS))
    found = expected_regret_reduction(posterior, torch.full((1, 36), 1e-3).double(), 36)
    rng = np.random.default_rng(0)
    outcomes = stats.norm.ppf((rng.permutation(200) + 0.5) / 200)
    for candidate in (0, 8, 35):
        more = np.append(X, grid()[candidate][None].numpy(), axis=0)
        scale = np.sqrt(covariance[candidate, candidate] + 1e-3)
        best = [
            refit(more, np.append(y, mean[candidate] + scale * z), noise, grid().numpy())[0].max()
            for z in outcomes
        ]
        assert found[candidate].item() == pytest.approx(np.mean(best) - mean.max(), abs=2e-3)
    assert (found >= 0).all()


def test_regret_search_explores_when_nothing_can_change_the_recommendation() -> None:
    strategy = told(minimum_regret_search)
    posterior = strategy.belief.posterior
    for index in range(36):
        posterior.observe(index, truth(grid()[index]).item(), 1e-12)
    posterior.observe(0, None, 1e-12)
    assert torch.equal(score(strategy), posterior.variance)


def test_entropy_search_is_that_of_botorch_on_the_same_draws() -> None:
    from botorch.acquisition.max_value_entropy_search import qMaxValueEntropy
    from botorch.utils.sampling import manual_seed

    from botorch_risk.seeding import derive_seed

    strategy = told(max_value_entropy_search)
    X = grid()[ROWS]
    model: SingleTaskGP = build_model(X)
    with manual_seed(derive_seed(0, "acquisition", 1) % 2**31), torch.no_grad():
        acqf = qMaxValueEntropy(model, grid())
        expected = acqf(grid().unsqueeze(-2))
    torch.testing.assert_close(score(strategy)[0], expected)


def test_errors() -> None:
    with pytest.raises(UnsupportedError, match=r"`batch_size` of 1\. Got 2"):
        build(max_value_entropy_search, 0, batch_size=2)
    for options, message in (
        ({"fraction": 0.0}, "`fraction` to be finite and > 0"),
        ({"delta": 1.0}, r"`delta` in \(0, 1\)"),
    ):
        with pytest.raises(ValueError, match=message):
            build(upper_confidence_bound_search, 0, **options)
