r"""What methods predict: the moments of their models, and intervals that hold."""

from functools import partial
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.model import ModelList
from gpytorch.kernels import PeriodicKernel, RBFKernel
from gpytorch.priors import LogNormalPrior

from botorch_risk.constraints import RiskConstraint
from botorch_risk.engine import DomainPosterior
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.models import MeanVarianceGP
from botorch_risk.models.standardized_gp import standardized_gp
from botorch_risk.papers import rahbo, uhe_bo
from botorch_risk.papers.truvar.domain_belief import DomainBelief, SampledDomain
from botorch_risk.repeats import adaptive_repeats
from botorch_risk.risk import ConditionalValueAtRisk, Expectation
from botorch_risk.stopping import strategy_gap
from botorch_risk.strategies import Strategy, random_search, risk_search
from botorch_risk.strategies.prediction import predicted_risks
from botorch_risk.test_functions import CertifiedProblem
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
    if isinstance(belief, SampledDomain):
        return [model for _, model in belief.parts]
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
        strategy = uhe_bo(bounds, 19, **few)  # others find less noise, or much less
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
    seeds = (8, 9)  # both of which draw random points, as GP-UCB chooses one point only
    one, three = case.build(seeds), case.build(seeds, batch_size=3)
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


DAYS = DiscreteEnvironment(torch.linspace(0, 1, 5, dtype=torch.double).unsqueeze(-1))
UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.double)


def hill(Z: torch.Tensor) -> torch.Tensor:
    x, w = Z[..., :1], Z[..., 1:]
    return (8 * x).sin() * (1 + w) - 2 * (x - w).square()


def told(seeds: list[int], n: int = 14, **options: Any) -> Strategy:
    r"""A search with readings of a hill, with noise of 0.1."""
    known: dict[str, Any] = {"environment": DAYS, "risk_measure": ConditionalValueAtRisk(0.4)}
    strategy = risk_search(UNIT, seeds, num_initial=n, **known, **options)
    X, w, noise = strategy.ask(), [], []
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        w.append(DAYS.points[torch.randint(5, (n,), generator=generator)])
        noise.append(torch.randn(n, 1, generator=generator, dtype=torch.double))
    Z = torch.cat([X, torch.stack(w)], dim=-1)
    strategy.tell(Z, hill(Z) + 0.1 * torch.stack(noise))
    return strategy


def random_rows(seeds: list[int]) -> torch.Tensor:
    generator = torch.Generator().manual_seed(99)
    x = torch.rand(len(seeds), 60, 1, generator=generator, dtype=torch.double)
    return torch.cat([x, DAYS.points[torch.arange(60) % 5].expand(len(seeds), 60, 1)], dim=-1)


@pytest.mark.parametrize(("num_samples", "least", "most"), [(16, 0.9, 0.99), (0, 0.6, 0.9)])
def test_intervals_by_samples_contain_what_they_say(
    num_samples: int, least: float, most: float
) -> None:
    seeds = list(range(12))
    (_, view), *_ = told(seeds, num_samples=num_samples).views
    Z = random_rows(seeds)
    found = view.method.predict(view, Z).outcome
    truth = hill(Z)
    held = ((found.lower <= truth) & (truth <= found.upper)).double().mean().item()
    assert least <= held <= most


def test_without_samples_predictions_are_of_the_fit() -> None:
    (_, view), *_ = told([0], num_samples=0).views
    assert view.interval_belief is view.belief
    found = view.method.predict(view, random_rows([0]))
    assert found.noise_interval is None


def test_the_noise_has_an_interval_that_contains_it() -> None:
    seeds = list(range(6))
    (_, view), *_ = told(seeds, 30).views
    interval: Any = view.method.predict(view, random_rows(seeds)).noise_interval
    lower, upper = interval
    assert ((lower < 0.1) & (upper > 0.1)).double().mean() > 0.8


def test_intervals_are_the_same_after_loading_and_alone_or_in_a_batch() -> None:
    first = told([3, 4])
    second = risk_search(
        UNIT, [3, 4], num_initial=14, environment=DAYS, risk_measure=ConditionalValueAtRisk(0.4)
    )
    second.load_state_dict(first.state_dict())
    alone = told([4])
    X = torch.tensor([[0.2], [0.7]], dtype=torch.double)
    found = []
    for strategy in (first, second, alone):
        (_, view), *_ = strategy.views
        found.append(view.method.predict_risk(view, X.expand(len(view.seeds), 2, 1)))
    for one, same, other in zip(*found, strict=True):
        assert torch.equal(one, same)
        torch.testing.assert_close(one[1:], other, rtol=1e-5, atol=1e-6)
    regrets = [strategy_gap(strategy, 0.1).gap for strategy in (first, second, alone)]
    assert torch.equal(regrets[0], regrets[1])
    torch.testing.assert_close(regrets[0][1:], regrets[2], rtol=1e-4, atol=1e-5)


def test_a_model_of_ones_own_is_sampled_under_its_own_priors_or_refused() -> None:
    def smooth(X: Any, Y: Any, input_transform: Any) -> SingleTaskGP:
        kernel = RBFKernel(
            ard_num_dims=2, batch_shape=X.shape[:-2], lengthscale_prior=LogNormalPrior(0.0, 0.05)
        )
        return standardized_gp(X, Y, input_transform=input_transform, covar_module=kernel.to(X))

    def periodic(X: Any, Y: Any, input_transform: Any) -> SingleTaskGP:
        kernel = PeriodicKernel(batch_shape=X.shape[:-2]).to(X)
        return standardized_gp(X, Y, input_transform=input_transform, covar_module=kernel)

    (_, view), *_ = told([0], model=smooth).views
    model: Any = view.interval_belief.model
    assert (model.covar_module.lengthscale.log().abs() < 0.3).all()
    (_, view), *_ = told([0], model=periodic).views
    with pytest.raises(UnsupportedError, match=r"`num_samples=0`.*Periodic"):
        view.method.predict(view, random_rows([0]))
    (_, view), *_ = told([0], model=periodic, num_samples=0).views
    assert view.method.predict(view, random_rows([0])).outcome.mean.isfinite().all()


def noisy(strategy: Strategy, k: int = 2) -> Strategy:
    r"""With readings of `sin(6 x)`, whose noise has a standard deviation of `0.1 + 0.4 x`."""
    X = strategy.ask()
    inputs, noise = X[..., :1], []
    for seed in strategy.seeds:
        generator = torch.Generator().manual_seed(seed)
        noise.append(torch.randn(X.shape[-2], k, generator=generator, dtype=torch.double))
    strategy.tell(X, (6 * inputs).sin() + (0.1 + 0.4 * inputs) * torch.stack(noise))
    return strategy


MEAN_VARIANCE: dict[str, Any] = {
    "rahbo": partial(rahbo, num_repeats=2),
    "rahbo of the variance itself": partial(rahbo, num_repeats=2, variance_link="identity"),
    "adaptive_repeats": partial(adaptive_repeats, initial_repeats=2),
}


@pytest.mark.parametrize("name", MEAN_VARIANCE)
def test_mean_and_noise_have_intervals_by_samples(name: str) -> None:
    def build(seeds: list[int], **options: Any) -> Strategy:
        return MEAN_VARIANCE[name](UNIT, seeds, risk_aversion=1.0, num_initial=14, **options)

    first = noisy(build([3, 4, 5, 6]))
    second = build([3, 4, 5, 6])
    second.load_state_dict(first.state_dict())
    alone, fitted = noisy(build([4])), noisy(build([3, 4, 5, 6], num_samples=0))
    assert torch.equal(first.ask(), fitted.ask())
    x = torch.linspace(0.05, 0.95, 7, dtype=torch.double).unsqueeze(-1)
    found = []
    for strategy in (first, second, alone, fitted):
        (_, view), *_ = strategy.views
        X = x.expand(len(view.seeds), 7, 1)
        rows = torch.cat([X, torch.full_like(X, 2.0)], dim=-1)[..., : view.X.shape[-1]]
        outcome, _, noise = view.method.predict(view, rows)
        found.append((*outcome, *noise, *view.method.predict_risk(view, X)))
    of_f, of_noise = (6 * x).sin(), 0.1 + 0.4 * x
    for one, same, other in zip(*found[:3], strict=True):
        assert torch.equal(one, same)
        torch.testing.assert_close(one[1:2], other, rtol=1e-4, atol=1e-5)
    _, lower, upper, least, most, *_ = found[0]
    assert ((lower < of_f) & (of_f < upper)).double().mean() > 0.8
    assert ((least < of_noise) & (of_noise < most)).double().mean() > 0.8
    assert view.interval_belief is view.belief


# 25 readings of McCormick's function, x, w and the outcome: a fit explains the last ones by a
# lengthscale of 0.06 in x and noise of 0.1 of a standard deviation, and is sure of x = 0.17.
OVERFITTED = (
    (0.312, 0.625, -0.784),
    (0.73, 0.34375, -0.771),
    (0.815, 0.6875, -0.277),
    (0.147, 0.375, -0.067),
    (0.048, 0.5625, -1.311),
    (0.974, 0.5, -0.892),
    (0.496, 0.5, -0.23),
    (0.556, 0.65625, -0.337),
    (0.438, 0.34375, 0.022),
    (0.429, 0.8125, -0.899),
    (0.432, 0.53125, -0.291),
    (0.456, 0.15625, -0.3),
    (0.447, 0.40625, -0.033),
    (0.45, 0.625, -0.493),
    (0.43, 0.5, -0.286),
    (0.494, 0.34375, -0.28),
    (0.366, 0.40625, -0.099),
    (0.512, 0.5, -0.2),
    (0.509, 0.5, -0.235),
    (0.497, 0.65625, -0.338),
    (0.504, 0.34375, -0.249),
    (0.497, 0.5, -0.293),
    (0.474, 0.65625, -0.421),
    (0.474, 0.28125, -0.241),
    (0.481, 0.46875, -0.303),
)


@pytest.mark.parametrize(
    ("options", "least", "most"),
    [({}, 0.0, 0.03), ({"overrules_fit": False}, 0.3, 0.4), ({"num_samples": 0}, 0.3, 0.4)],
)
def test_samples_overrule_a_fit_that_a_reading_has_ruined(
    options: dict[str, Any], least: float, most: float
) -> None:
    problem = CertifiedProblem("mccormick", "expectation")
    strategy = risk_search(
        problem.bounds[:, :1],
        [0, 1],
        environment=problem.environment,
        risk_measure=problem.risk_measure,
        w_is_chosen=True,
        num_initial=25,
        **options,
    )
    readings = torch.tensor(OVERFITTED, dtype=torch.double).expand(2, 25, 3)
    strategy.tell(readings[..., :2], readings[..., 2:])
    x = strategy.recommend()
    assert (
        (least <= (regret := problem.optimal_risk - problem.objective(x))) & (regret <= most)
    ).all()


def told_of_load(seeds: list[int], n: int = 24, **options: Any) -> Strategy:
    r"""A search whose second outcome has two limits."""
    limits = [
        RiskConstraint(DAYS, ConditionalValueAtRisk(0.4), 1.2, outcome=1, at_most=True),
        RiskConstraint(DAYS, Expectation(), 0.2, outcome=1),
    ]
    known: dict[str, Any] = {"environment": DAYS, "risk_measure": Expectation()}
    strategy = risk_search(UNIT, seeds, constraints=limits, num_initial=n, **known, **options)
    x = strategy.ask()
    w = DAYS.points[torch.arange(n) % 5].expand(len(seeds), n, 1)
    draws = [torch.Generator().manual_seed(seed) for seed in seeds]
    noise = torch.stack([torch.randn(n, 1, generator=each, dtype=x.dtype) for each in draws])
    outcomes = torch.stack([x, load_of(x, w) + 0.05 * noise], dim=-1)
    strategy.tell(torch.cat([x, w], dim=-1), outcomes)
    return strategy


def load_of(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return 1.2 * x + 0.5 * w * x


@pytest.mark.parametrize("num_samples", [0, 16])
def test_constraints_hold_with_the_probability_of_their_risks(num_samples: int) -> None:
    (_, view), *_ = told_of_load([0, 1], num_samples=num_samples).views
    X = torch.linspace(0, 1, 9, dtype=torch.double).reshape(1, 9, 1).expand(2, 9, 1)
    found = view.method.predict_feasible(view, X)
    assert found is not None and found.shape == (2, 9, 2)
    assert found[..., 0].isnan().all()  # an outcome without a constraint
    inputs, weights = DAYS.expand(X)
    values = load_of(*inputs.split(1, dim=-1)).squeeze(-1)
    holds = ConditionalValueAtRisk(0.4)(-values, weights) >= -1.2
    holds &= Expectation()(values, weights) >= 0.2
    assert 3 < holds[0].sum() < 8
    assert ((found[..., 1] >= 0.5) == holds).all()
    # One limit by the quantiles of its own risk, whose sign is that of the limit.
    upper = view.interval_belief.constraint_bounds[0]
    share = (predicted_risks(upper, X) >= -1.2).double().mean(dim=-1)
    torch.testing.assert_close(found[:, 5:, 1], share[:, 5:])


def test_probabilities_of_constraints_are_the_same_alone_and_in_a_batch() -> None:
    X = torch.linspace(0, 1, 9, dtype=torch.double).reshape(1, 9, 1)
    (_, batch), *_ = told_of_load([3, 5]).views
    (_, alone), *_ = told_of_load([5]).views
    found = batch.method.predict_feasible(batch, X.expand(2, 9, 1))
    expected = alone.method.predict_feasible(alone, X)
    assert found is not None and expected is not None
    torch.testing.assert_close(found[1:], expected, rtol=0, atol=2e-3, equal_nan=True)


def test_without_constraints_nothing_is_said_of_them() -> None:
    (_, view), *_ = told([0]).views
    assert view.method.predict_feasible(view, UNIT[:1].unsqueeze(0)) is None
