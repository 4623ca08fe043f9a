r"""What methods predict: the moments of their models, and intervals that hold."""

from typing import Any

import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import ModelList

from botorch_risk.engine import DomainPosterior
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.models import MeanVarianceGP
from botorch_risk.risk import ConditionalValueAtRisk, Expectation
from botorch_risk.strategies import Strategy, rahbo, random_search, risk_search, uhe_bo
from botorch_risk.strategies.truvar import DomainBelief
from tests.strategies.cases import STRATEGIES, StrategyCase
from tests.strategies.loops import play

CASES = {case.name: case for case in STRATEGIES}
NAMES = [
    "rahbo",
    "rahbo-mixed",
    "adaptive_repeats-fixed",
    "uhe_bo",
    "sbo_kde",
    "v_ucb",
    "truvar",
    "pareto_search",
    "level_set_search-mixed",
    "risk_search-constrained",
]
chosen = pytest.mark.parametrize("case", [pytest.param(CASES[name], id=name) for name in NAMES])


def models_of(belief: Any) -> list[Any]:
    r"""The models behind a belief that are fitted to inputs of its own."""
    while isinstance(belief, tuple):
        belief = belief[1].belief
    if isinstance(belief, list):
        return belief
    if isinstance(belief, DomainBelief):
        return [belief.posterior]
    model = belief if isinstance(belief, MeanVarianceGP) else belief.model
    return list(model.models) if isinstance(model, ModelList) else [model]


@chosen
def test_it_is_the_posterior_of_the_model(case: StrategyCase) -> None:
    strategy = case.build((0, 1))
    play(strategy, 2, problem=case.problem)
    (_, view), *_ = strategy.views
    X = strategy.history.X[view_rows(strategy)]
    found = strategy.method.predict(view, X)
    d = strategy.space.bounds.shape[-1]
    for outcome, model in enumerate(models_of(view.interval_belief)):
        mean, variance = moments(strategy, model, X)
        torch.testing.assert_close(found.outcome.mean[..., outcome], mean, rtol=1e-6, atol=1e-6)
        width = (found.outcome.upper - found.outcome.lower)[..., outcome] / (2 * 1.96)
        torch.testing.assert_close(width, variance.sqrt(), rtol=1e-4, atol=1e-5)
    assert (found.noise >= 0).all() and found.noise.shape == found.outcome.mean.shape
    if found.noise_interval is not None:
        lower, upper = found.noise_interval
        assert ((lower <= found.noise) & (found.noise <= upper)).all()
    risk = strategy.method.predict_risk(view, X[..., :d])
    assert risk.mean.shape[:2] == X.shape[:2]
    assert ((risk.lower <= risk.mean) & (risk.mean <= risk.upper)).all()


def view_rows(strategy: Strategy) -> list[int]:
    return strategy.views[0][0]


def moments(strategy: Strategy, model: Any, X: Any) -> tuple[Any, Any]:
    r"""Mean and variance by BoTorch's posterior, or by the joint posterior of a domain."""
    if isinstance(model, DomainPosterior):
        same = (X.unsqueeze(-2) == model.domain).all(dim=-1)
        assert same.any(dim=-1).all()
        index = same.to(torch.uint8).argmax(dim=-1)
        return model.mean.gather(-1, index), model.variance.gather(-1, index)
    if hasattr(model, "input_transform"):
        inputs = X
    else:
        inputs = strategy.space.unit(X[..., : strategy.space.bounds.shape[-1]])
    with torch.no_grad():
        posterior = model.posterior(inputs)
    mean, variance = posterior.mean.squeeze(-1), posterior.variance.squeeze(-1)
    if mean.dim() == 2:
        return mean, variance
    # A mixture of the samples of the hyperparameters: the law of total variance.
    return mean.mean(dim=0), variance.mean(dim=0) + mean.var(dim=0, correction=0)


@pytest.mark.parametrize("make", ["environment", "replicates"])
def test_the_noise_is_that_of_a_reading(make: str) -> None:
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    few: dict[str, Any] = {"num_initial": 40}
    if make == "environment":
        days = DiscreteEnvironment(torch.tensor([[0.0], [1.0]], dtype=torch.double))
        strategy = risk_search(bounds, 0, environment=days, risk_measure=Expectation(), **few)
        X = torch.cat([strategy.ask(), (torch.arange(40) % 2).double().view(1, 40, 1)], dim=-1)
    else:
        strategy = uhe_bo(bounds, 0, **few)
        X = strategy.ask()
    generator = torch.Generator().manual_seed(0)
    noise = 7 * torch.randn(1, 40, 1, generator=generator, dtype=torch.double)
    strategy.tell(X, 100 * (3 * X[..., :1]).sin() + noise)
    (_, view), *_ = strategy.views
    found = strategy.method.predict(view, X).noise
    assert found.max() == pytest.approx(found.min().item())
    assert found.mean().item() == pytest.approx(7, rel=0.3)


def test_the_noise_of_a_mean_variance_search_is_learnt_in_its_place() -> None:
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    strategy = rahbo(bounds, 0, num_repeats=8, risk_aversion=1.0, num_initial=20)
    X = strategy.ask()
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(1, 20, 8, generator=generator, dtype=torch.double)
    strategy.tell(X, X.where(X > 0.5, 0.1) * noise)
    (_, view), *_ = strategy.views
    found = strategy.method.predict(view, torch.tensor([[[0.2], [0.9]]], dtype=torch.double))
    quiet, loud = found.noise.flatten().tolist()
    assert quiet == pytest.approx(0.1, rel=0.5) and loud == pytest.approx(0.9, rel=0.5)
    assert found.noise_interval is not None
    known = rahbo(
        bounds, 0, num_repeats=8, risk_aversion=1.0, num_initial=20, known_noise=torch.ones_like
    )
    known.tell(X, noise)
    (_, view), *_ = known.views
    found = known.method.predict(view, X)
    assert found.noise_interval is None
    torch.testing.assert_close(found.noise, torch.ones_like(found.noise))


def test_the_risk_is_between_those_of_good_and_bad_luck() -> None:
    r"""With the outcomes known, all three are the risk."""
    unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    w = torch.linspace(0, 1, 4, dtype=torch.double).unsqueeze(-1)
    strategy = risk_search(
        unit,
        0,
        environment=DiscreteEnvironment(w),
        risk_measure=ConditionalValueAtRisk(0.5),
        num_initial=60,
        w_is_chosen=True,
    )
    X = strategy.ask()

    def outcome(x: Any, w: Any) -> Any:
        return (2 * x).sin() + x * w

    strategy.tell(X, outcome(*X.split(1, dim=-1)))
    (_, view), *_ = strategy.views
    x = torch.tensor([[[0.3], [0.8]]], dtype=torch.double)
    found = strategy.method.predict_risk(view, x)
    truth = outcome(x, w.mT)[..., :2].mean(dim=-1, keepdim=True)  # of the smaller half
    for each in found:
        torch.testing.assert_close(each, truth, rtol=0, atol=0.02)


def test_without_a_model_there_is_none() -> None:
    strategy = random_search(torch.tensor([[0.0], [1.0]]), 0, num_initial=3)
    strategy.tell(strategy.ask(), torch.ones(1, 3, 1))
    (_, view), *_ = strategy.views
    with pytest.raises(UnsupportedError, match="Expected a method with a model"):
        strategy.method.predict(view, strategy.history.X)


BATCHES = ["rahbo", "random_or_acquire", "sbo_kde", "truvar", "random_search"]


@pytest.mark.parametrize("name", BATCHES)
def test_a_number_that_is_asked_for_is_the_batch_size_of_the_round(name: str) -> None:
    case = CASES[name]
    one, three = case.build((0, 1)), case.build((0, 1), batch_size=3)
    for each in (one, three):
        play(each, 1, problem=case.problem)
    before = one.ask().nan_to_num(nan=-1.0)
    asked = one.ask(3).nan_to_num(nan=-1.0)
    assert torch.equal(asked, three.ask().nan_to_num(nan=-1.0))
    assert torch.equal(one.ask().nan_to_num(nan=-1.0), asked)  # until it is told
    assert torch.equal(one.ask(1).nan_to_num(nan=-1.0), before)


def test_of_the_initial_design_it_is_at_most_what_is_left() -> None:
    strategy = random_search(torch.tensor([[0.0], [1.0]]), 0, num_initial=5)
    design = strategy.ask()
    assert torch.equal(strategy.ask(2), design[:, :2])
    strategy.tell(design[:, :2], torch.ones(1, 2, 1))
    assert torch.equal(strategy.ask(9), design[:, 2:])
    with pytest.raises(ValueError, match="`batch_size` to be at least 1"):
        strategy.ask(0)
