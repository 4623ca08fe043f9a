r"""Scores of a finite domain are what their formulas say, and find the maximum."""

from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.models import SingleTaskGP
from botorch_risk_bench.baselines import (
    expected_improvement_search,
    gchk,
    max_value_entropy_search,
    maximum_variance_search,
    minimum_regret_search,
    straddle_search,
    upper_confidence_bound_search,
)
from botorch_risk_bench.baselines.domain_search import expected_regret_reduction
from scipy import integrate, stats
from scipy.integrate import quad
from scipy.stats import norm
from torch import Tensor

from botorch_risk.engine import DomainPosterior
from botorch_risk.repeats.rank_one_gain import log_expected_improvement
from botorch_risk.strategies import Strategy
from tests.acquisition.lake import NOISE, build_model, build_posterior, grid, refit, truth

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
    given = torch.tensor([[u * 0.3], [0.09]], dtype=torch.double)
    found = log_expected_improvement(*given, torch.zeros(1).double()).item()
    assert found == pytest.approx(expected + np.log(0.3), rel=1e-7, abs=1e-6)
    nothing = torch.ones(1), torch.zeros(1)
    assert log_expected_improvement(*nothing, torch.zeros(1)).item() == -torch.inf


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

    from botorch_risk.seeding import streams

    strategy = told(max_value_entropy_search)
    X = grid()[ROWS]
    model: SingleTaskGP = build_model(X)
    with manual_seed(streams([0], "acquisition", 1)[0] % 2**31), torch.no_grad():
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


THRESHOLD = 0.7
KNOWN: dict[str, Any] = {"model": build_model, "estimator": None, "noise": 1e-3, "num_initial": 4}


def mean_and_variance() -> tuple[Tensor, Tensor]:
    X = grid()[ROWS]
    noise = torch.full((4,), 1e-3).double().numpy()
    mean, covariance = refit(X.numpy(), truth(X)[:, 0].numpy(), noise, grid().numpy())
    return torch.from_numpy(mean), torch.from_numpy(covariance).diagonal()


def next_point(make: Any, **options: Any) -> Any:
    strategy = make(grid(), 0, **KNOWN, **options)
    X = grid()[ROWS].unsqueeze(0)
    strategy.tell(X, truth(X))
    return strategy


def test_the_straddle() -> None:
    mean, variance = mean_and_variance()
    for beta in (1.96**2, 9.0):
        score = (beta * variance).sqrt() - (mean - THRESHOLD).abs()
        strategy = next_point(straddle_search, threshold=THRESHOLD, beta=beta)
        assert torch.equal(strategy.ask()[0, 0], grid()[score.argmax()])


def test_gchk_leaves_out_what_three_deviations_classify() -> None:
    mean, variance = mean_and_variance()
    reach = 3 * variance.sqrt()
    open_points = (mean - reach <= THRESHOLD) & (mean + reach >= THRESHOLD)
    strategy = next_point(gchk, threshold=THRESHOLD)
    assert torch.equal(strategy.state["unclassified"][0], open_points)
    assert torch.equal(strategy.state["high"][0], mean - reach > THRESHOLD)
    score = (reach - (mean - THRESHOLD).abs()).where(open_points, -torch.inf)
    assert torch.equal(strategy.ask()[0, 0], grid()[score.argmax()])


def test_uncertainty_sampling() -> None:
    _, variance = mean_and_variance()
    strategy = next_point(maximum_variance_search)
    assert torch.equal(strategy.ask()[0, 0], grid()[variance.argmax()])
