r"""RAHBO and the methods it was compared with."""

from typing import Any

import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from torch import Tensor

from botorch_risk.acquisition import RiskAverseLowerConfidenceBound, RiskAverseUpperConfidenceBound
from botorch_risk.engine import fit_exact_gp
from botorch_risk.models import MeanVarianceGP
from botorch_risk.papers import rahbo, rahbo_us
from botorch_risk.repeats import LogRiskAverseKnowledgeGradient, risk_averse_kg
from botorch_risk.strategies.history import ReplicateWithoutOutcomesWarning
from tests.contracts import correlation_of
from tests.strategies.cases import NUM_REPEATS, PROBLEM, of_mean_and_variance
from tests.strategies.loops import evaluate, play


def build(kind: Any, seeds: Any = (0, 1, 2), **options: Any) -> Any:
    return of_mean_and_variance(kind).build(seeds, **options)


def test_one_round_by_hand() -> None:
    r"""Algorithm 1 with BoTorch's own fit and a grid in place of the optimiser."""
    strategy = build(rahbo, seeds=3, num_restarts=10, raw_samples=256)
    (X,) = play(strategy, 1)
    candidate = strategy.ask()
    acqf = RiskAverseUpperConfidenceBound(strategy.belief, 4.0, 4.0, 1.0)
    grid = torch.linspace(0, 1, 2001, dtype=torch.float64).reshape(1, -1, 1)
    best = acqf.evaluate(grid).max()
    assert acqf.evaluate(candidate / 2).item() >= best.item() - 1e-9
    Y = evaluate(strategy, X, 0)[0]
    by_hand = MeanVarianceGP(X[0] / 2, Y, noise_beta=4.0, noise_evidence="spread")
    for ours, theirs in (
        (by_hand.noise_model, strategy.belief.noise_model),
        (by_hand.mean_model, strategy.belief.mean_model),
    ):
        correlation_of(ours).lengthscale = correlation_of(theirs).lengthscale[0]
        ours.mean_module.constant = theirs.mean_module.constant[0].item()
    by_hand.covar_module.outputscale = strategy.belief.covar_module.outputscale[0]
    by_hand.refresh_noise()
    single = RiskAverseUpperConfidenceBound(by_hand, 4.0, 4.0, 1.0)
    torch.testing.assert_close(single.evaluate(grid[0]), acqf.evaluate(grid)[0].detach())


@pytest.mark.parametrize("num_repeats", [2, 4])
def test_all_readings_are_evidence_of_the_noise_if_asked_for(num_repeats: int) -> None:
    strategy, of_spread = (
        build(rahbo, seeds=3, num_repeats=num_repeats, **given)
        for given in ({"noise_evidence": "readings"}, {})
    )
    X = strategy.ask()
    Y = evaluate(strategy, X, 0)[..., :num_repeats]
    for each in (strategy, of_spread):
        each.tell(X, Y)
    model = MeanVarianceGP(X[0] / 2, Y[0], noise_beta=4.0)
    fit_exact_gp(model)
    at = torch.rand(5, 1, dtype=torch.float64)
    noise = strategy.belief.predicted_noise(at.unsqueeze(0))[0]
    torch.testing.assert_close(noise, model.predicted_noise(at), rtol=1e-6, atol=0)
    assert ((noise / of_spread.belief.predicted_noise(at.unsqueeze(0))[0]).log().abs() > 1e-3).all()


def test_uncertainty_sampling_comes_first() -> None:
    strategy = build(rahbo_us, num_uncertainty=2, num_restarts=10, raw_samples=256)
    play(strategy, 1)
    for _ in range(2):
        spread = strategy.belief.noise.marginals(strategy.ask() / 2).variance
        grid = torch.linspace(0, 1, 501, dtype=torch.float64).reshape(1, -1, 1).expand(3, -1, 1)
        best = strategy.belief.noise.marginals(grid).variance.amax(dim=-1, keepdim=True)
        assert (spread >= best * (1 - 1e-3)).all()
        play(strategy, 1, first=strategy.history.round)
    acqf = RiskAverseUpperConfidenceBound(strategy.belief, 4.0, None, 1.0)
    assert (acqf.evaluate(strategy.ask() / 2) >= acqf.evaluate(grid).amax(-1, True) - 1e-6).all()
    with pytest.raises(ValueError, match="`num_uncertainty` to be at least 0"):
        build(rahbo_us, num_uncertainty=-1)
    with pytest.raises(ValueError, match=r"is not known\. Got known_noise=<function"):
        build(rahbo_us, num_uncertainty=1, known_noise=lambda X: X[..., :1])


def test_known_noise_is_in_the_units_of_the_bounds() -> None:
    strategy = build(rahbo, known_noise=lambda X: PROBLEM.noise_variance(X).unsqueeze(-1))
    play(strategy, 2)
    X = torch.rand(3, 5, 1, dtype=torch.float64)
    expected = PROBLEM.noise_variance(2 * X)
    torch.testing.assert_close(strategy.belief.predicted_noise(X).squeeze(-1), expected)


def test_recorded_bounds_are_those_of_the_model_that_chose() -> None:
    strategy = build(rahbo, rule="recorded_lower_confidence_bound")
    play(strategy, 1)
    bound = RiskAverseLowerConfidenceBound(strategy.belief, 4.0, 4.0, 1.0)
    (X,) = play(strategy, 1, first=1)
    torch.testing.assert_close(strategy.history.recorded[:, -1:], bound.lower(X / 2).detach())
    assert strategy.recommend().shape == (3, 1)


@pytest.mark.filterwarnings("ignore:Data .outcome observations. is not standardized")
def test_a_replicate_may_fail_from_the_start() -> None:
    strategy = build(rahbo)
    for index in range(3):
        X = strategy.ask()
        Y = evaluate(strategy, X, index)
        Y[2] = torch.nan
        X[2] = torch.nan if index else X[2]
        strategy.tell(X, Y)
        strategy.ask()
    assert strategy.ask().isfinite().all()
    named = rf"without readings for seeds=\[{strategy.seeds[2]}\]"
    with pytest.warns(ReplicateWithoutOutcomesWarning, match=named):
        assert strategy.recommend().isfinite().all(dim=-1).tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bounds": torch.tensor([[1.0], [0.0]])}, "each lower bound below its upper bound"),
        ({"bounds": torch.tensor([[0.0], [torch.inf]])}, "finite `bounds`"),
        ({"num_repeats": 1}, "num_repeats=1"),
        ({"risk_aversion": -1.0}, r"`risk_aversion` to be finite and >= 0\. Got -1"),
        ({"beta": -1.0}, "`beta`"),
        ({"seeds": [1, 1]}, "one distinct seed per replicate"),
        ({"num_initial": 0}, "`num_initial` to be at least 1"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {
        "bounds": PROBLEM.bounds,
        "num_repeats": 4,
        "risk_aversion": 1.0,
        "seeds": 0,
    }
    with pytest.raises(ValueError, match=message):
        rahbo(**{**good, **arguments})


@pytest.mark.parametrize("link", ["log", "identity"])
def test_hyperparameters_are_fitted_again_when_due(link: str) -> None:
    def hyperparameters(strategy: Any) -> Tensor:
        r"""All of both processes; with the identity link also an inferred noise level."""
        values = [each.detach().flatten() for each in strategy.belief.parameters()]
        assert len(values) == (5 if link == "log" else 6)
        return torch.cat(values)

    once, thrice = (build(rahbo, refit_every=n, variance_link=link) for n in (None, 2))
    for strategy in (once, thrice):
        play(strategy, 1)
    first = hyperparameters(once)
    for index, refitted in enumerate((True, False, False), start=1):
        for strategy in (once, thrice):
            play(strategy, 1, first=index)
        assert torch.equal(hyperparameters(once), first)
        assert torch.equal(hyperparameters(thrice), first) is refitted
    resumed = build(rahbo, refit_every=None, variance_link=link)
    resumed.load_state_dict(once.state_dict())
    assert torch.equal(resumed.ask(), once.ask())
    with pytest.raises(ValueError, match=r"`refit_every` to be at least 1\. Got 0"):
        build(rahbo, refit_every=0)


def test_the_knowledge_gradient_is_maximised_on_the_model_of_rahbo() -> None:
    gaining = build(risk_averse_kg, num_restarts=10, raw_samples=256)
    (X,) = play(gaining, 1)
    by_bound = build(rahbo, num_restarts=10, raw_samples=256)
    assert torch.equal(play(by_bound, 1)[0], X)
    assert torch.equal(gaining.recommend(), by_bound.recommend())  # same data, same rule
    acqf = LogRiskAverseKnowledgeGradient(gaining.belief, 1.0, [NUM_REPEATS])
    grid = torch.linspace(0, 1, 501, dtype=torch.float64).reshape(1, -1, 1).expand(3, -1, 1)
    best = acqf.evaluate(grid).amax(dim=-1)
    chosen = gaining.ask()
    assert (acqf.evaluate(chosen / 2).squeeze(-1) >= best - 1e-4).all()
    assert not torch.equal(chosen, by_bound.ask())


def test_the_second_point_of_a_batch_gains_most_once_the_first_is_pending() -> None:
    strategy = build(risk_averse_kg, batch_size=2, num_restarts=10, raw_samples=256)
    play(strategy, 1)
    first, second = (strategy.ask() / 2).split(1, dim=-2)
    acqf = LogRiskAverseKnowledgeGradient(
        strategy.belief, 1.0, [NUM_REPEATS], X_pending=first.detach()
    )
    grid = torch.linspace(0, 1, 501, dtype=torch.float64).reshape(1, -1, 1).expand(3, -1, 1)
    best = acqf.evaluate(grid).amax(dim=-1)
    assert (acqf.evaluate(second).squeeze(-1) >= best - 1e-4).all()


@pytest.mark.slow
def test_a_batch_by_the_knowledge_gradient_is_four_experiments() -> None:
    r"""Pending points are compared: otherwise a point close to one would gain the same again."""
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double()
    options = {"num_repeats": 4, "risk_aversion": 0.3, "num_initial": 12, "batch_size": 4}
    strategy = risk_averse_kg(bounds, [0, 1, 2, 3], num_restarts=4, raw_samples=64, **options)
    X = strategy.ask().unsqueeze(-2)
    mean = -4 * (X - torch.tensor([0.5, 0.4]).double()).square().sum(dim=-1, keepdim=True)
    noise = torch.randn(4, 12, 4, 1, generator=torch.Generator().manual_seed(0)).double()
    strategy.tell(X.squeeze(-2), mean + (0.05 + 0.2 * (X[..., :1] > 0.6)) * noise)
    nearest = [torch.pdist(batch).min().item() for batch in strategy.ask()]
    assert min(nearest) > 0.02, nearest  # 1e-4 if pending points were not compared


@pytest.mark.parametrize(
    "options", [{"known_noise": torch.ones_like}, {"variance_link": "identity"}]
)
def test_the_knowledge_gradient_learns_the_log_noise(options: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError, match=r"with `variance_link='log'`\. Got known_n"):
        build(risk_averse_kg, **options)


def test_any_point_may_be_recommended_by_the_posterior_mean() -> None:
    unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    options = {"num_repeats": 3, "risk_aversion": 0.5, "num_initial": 8}
    found = {}
    for rule in ("posterior_mean", "posterior_mean_everywhere"):
        strategy = rahbo(unit, [0, 1], rule=rule, **options)
        X = strategy.ask()
        noise = 0.05 * torch.tensor([-1.0, 0.0, 1.0], dtype=torch.double)
        strategy.tell(X, -((X - 0.37) ** 2) + noise)
        bound = strategy.method.weights.lower(strategy.belief)
        point = strategy.recommend()
        found[rule] = point, bound.mean(point.unsqueeze(-2)).squeeze(-1)
    (tried, known), (anywhere, best) = found.values()
    assert (best >= known).all()
    assert (best > known).any()
    assert ((anywhere - 0.37).abs() <= (tried - 0.37).abs() + 0.01).all()
    grid = torch.linspace(0, 1, 1001, dtype=torch.double).reshape(1, -1, 1).expand(2, -1, 1)
    assert (best >= bound.mean(grid).amax(dim=-1) - 1e-9).all()
