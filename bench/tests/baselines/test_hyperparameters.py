r"""UHE-BO and the methods of its comparison are the parts they are said to be."""

from typing import Any

import numpy as np
import pytest
import torch
from botorch.models import SingleTaskGP
from botorch.models.utils.gpytorch_modules import get_matern_kernel_with_gamma_prior
from botorch_risk_bench import baselines
from botorch_risk_bench.baselines import fully_bayesian_gp_ucb, shorter_lengthscales
from botorch_risk_bench.baselines.gains import RewardGains
from botorch_risk_bench.baselines.shorter_lengthscales import (
    ExpandByOneStep,
    divide_lengthscales,
    expansion_factor,
)
from torch import Tensor

from botorch_risk.acquisition.risk_bound import gp_ucb
from botorch_risk.engine import fit_exact_gp
from botorch_risk.fit import FullyBayesian, MaximumAPosteriori, PseudoData, fit_pseudo_data
from botorch_risk.models.standardized_gp import standardized_gp
from botorch_risk.papers import uhe_bo
from botorch_risk.seeding import streams
from botorch_risk.strategies import Acquire, Strategy

BOUNDS = torch.tensor([[0.0], [2.0]], dtype=torch.double)
SMALL: dict[str, Any] = {"num_initial": 5, "num_restarts": 2, "raw_samples": 16}


def play(strategy: Any, rounds: int) -> list[Tensor]:
    asked = []
    for _ in range(rounds):
        asked.append(strategy.ask())
        strategy.tell(asked[-1], (3 * asked[-1]).sin())
    return asked


Parts = tuple[Any, type, Any, int]
PARTS: list[Parts] = [  # constructor, estimator, arms, steps
    (uhe_bo, PseudoData, "exp3", 2),
    (baselines.pseudo_data_gp_ucb, PseudoData, None, 0),
    (baselines.random_exp3, MaximumAPosteriori, "exp3", 2),
    (baselines.ra_bo, PseudoData, "alternate", 2),
    (baselines.portfolio_exp3, MaximumAPosteriori, "exp3", 1),
    (baselines.gp_ucb, MaximumAPosteriori, None, 0),
]


def fitted(strategy: Strategy) -> Any:
    r"""The model of all replicates, or of the first one that is modelled by itself."""
    method: Any = strategy.method
    method = getattr(method, "inner", method)
    ((_, view),) = strategy.views
    return method.believe(view)[0]


@pytest.mark.parametrize("parts", PARTS, ids=lambda parts: parts[0].__name__)
def test_every_method_is_its_parts(parts: Parts) -> None:
    make, estimator, arms, steps = parts
    method: Any = make(BOUNDS, [0, 1], **SMALL).method
    if arms is None:
        assert isinstance(method, Acquire)
    else:
        assert (method.arms, method.steps) == (arms, steps)
        method = method.inner
    assert type(method.estimator) is estimator
    assert method.acquisition.keywords["beta"] == pytest.approx(1.96**2)
    with pytest.raises(ValueError, match="`beta` to be finite and >= 0"):
        make(BOUNDS, 0, beta=-1.0, **SMALL)


def test_gp_ucb_is_the_bound() -> None:
    strategy = baselines.gp_ucb(BOUNDS, [0, 1], **SMALL)
    play(strategy, 1)
    model = fitted(strategy)
    X = torch.rand(2, 7, 1, dtype=torch.double)
    posterior = model.posterior(X)
    expected = (posterior.mean + 1.5 * posterior.variance.sqrt()).squeeze(-1)
    found = gp_ucb(model, 1, beta=2.25).evaluate(X)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


def test_pseudo_data_are_those_of_the_round() -> None:
    strategy = baselines.pseudo_data_gp_ucb(BOUNDS, [4, 7], **SMALL)
    play(strategy, 2)
    found = fitted(strategy).covar_module.lengthscale[1:]
    history = strategy.history.of([1])
    expected = standardized_gp(history.X / 2, history.mean.unsqueeze(-1))
    unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    fit_pseudo_data(expected, unit, seeds=streams([7], "estimate", 2))
    torch.testing.assert_close(found, expected.covar_module.lengthscale, rtol=1e-6, atol=1e-6)


def test_a_gp_ucb_shrinks_lengthscales_and_may_widen_the_bound() -> None:
    strategy = baselines.a_gp_ucb(BOUNDS, [0, 1], **SMALL)
    play(strategy, 4)
    t, model = 4, fitted(strategy)
    expected = standardized_gp(strategy.history.X / 2, strategy.history.mean.unsqueeze(-1))
    fit_exact_gp(expected)
    factor = expansion_factor(t, 1)
    assert factor > 1
    torch.testing.assert_close(
        model.covar_module.lengthscale * factor, expected.covar_module.lengthscale
    )
    for widen, growth in ((False, 1.0), (True, factor)):
        method: Any = baselines.a_gp_ucb(BOUNDS, 0, widen=widen, **SMALL).method
        assert method.acquisition(model, t).beta == pytest.approx(1.96**2 * growth)
    with pytest.raises(ValueError, match="`regret_exponent` in"):
        baselines.a_gp_ucb(BOUNDS, 0, regret_exponent=1.0, **SMALL)


def widest_bounds(model: Any, row: int, factors: Any) -> list[tuple[float, float]]:
    r"""Where the upper bound of one replicate is largest on a line, and the width there."""
    with torch.no_grad():
        lengthscale = float(model.covar_module.lengthscale[row])
        noise, mean = float(model.likelihood.noise[row]), float(model.mean_module.constant[row])
    X, y = model.train_inputs[0][row].numpy(), model.train_targets[row].numpy()
    line = np.linspace(0, 1, 4001)[:, None]
    found = []
    for h in factors:

        def correlation(a: Any, b: Any, scale: float = lengthscale / h) -> Any:
            return np.exp(-((a[:, None, 0] - b[None, :, 0]) ** 2) / (2 * scale**2))

        K, k = correlation(X, X) + noise * np.eye(len(X)), correlation(line, X)
        weights = np.linalg.solve(K, k.T)
        sigma = np.sqrt(np.maximum(1 - (k * weights.T).sum(-1), 1e-10))
        best = np.argmax(mean + weights.T @ (y - mean) + 1.96 * sigma)
        found.append((2 * line[best, 0], 2 * 1.96 * sigma[best]))
    return found


def test_one_step_prediction_is_found_on_its_grid() -> None:
    r"""Seed by seed, by the formulas of a process on a line, with widths added up on the way."""
    strategy = baselines.a_gp_ucb(BOUNDS, [0, 1, 2], one_step=True, num_initial=5)
    factors, spent = [1.0] * 3, [0.0] * 3
    grown = set()
    for t in range(9):
        X = strategy.ask()
        if t:
            model = standardized_gp(strategy.history.X / 2, strategy.history.mean.unsqueeze(-1))
            fit_exact_gp(model)
            for row, asked in enumerate(X.flatten().tolist()):
                grid = factors[row] * 1.25 ** np.arange(17)
                found = widest_bounds(model, row, grid)
                enough = [k for k, (_, wide) in enumerate(found) if spent[row] + wide >= t**0.9]
                k = enough[0] if enough else int(np.argmax([wide for _, wide in found]))
                grown.add(k)
                factors[row], spent[row] = grid[k], spent[row] + found[k][1]
                assert asked == pytest.approx(found[k][0], abs=2e-3)
        strategy.tell(X, (3 * X).sin())
        assert strategy.state["factor"].tolist() == pytest.approx(factors)
    assert 0 in grown and len(grown) > 2
    recorded = strategy.history.recorded[:, 5:].sum(dim=-1)
    assert recorded.tolist() == pytest.approx(spent, rel=1e-2)


def test_one_step_prediction_resumes_and_takes_batches() -> None:
    def build() -> Strategy:
        return baselines.a_gp_ucb(BOUNDS, [3, 4], one_step=True, **SMALL)

    strategy, resumed = build(), build()
    play(strategy, 6)
    assert (strategy.state["factor"] > 1).any()
    resumed.load_state_dict(strategy.state_dict())
    torch.testing.assert_close(resumed.ask(), strategy.ask())
    assert strategy.ask(3).shape == (2, 3, 1)
    method: Any = strategy.method
    with pytest.raises(ValueError, match="`step` > 1"):
        ExpandByOneStep(method.inner, 4.0, step=1.0)
    with pytest.raises(ValueError, match="`widen` without `one_step`"):
        baselines.a_gp_ucb(BOUNDS, 0, one_step=True, widen=True)


@pytest.mark.parametrize("gain", ["amount", "sign"])
def test_arms_earn_what_they_gain(gain: Any) -> None:
    strategy = baselines.random_exp3(BOUNDS, range(8), gain=gain, **SMALL)
    play(strategy, 1)
    weights, rewards = torch.zeros(8, 2).double(), []
    for t in range(1, 11):
        method: Any = strategy.method
        ((_, view),) = strategy.views
        if t % 2:
            outcomes = strategy.history.mean
            arms = method.report.chosen(view, t).tolist()
            odd, even = (min(1.0, (4 * np.log(2) / ((np.e - 1) * s)) ** 0.5) for s in (t, t + 1))
        play(strategy, 1)
        if t % 2:
            continue
        before = weights.softmax(dim=-1)
        for row, arm in enumerate(arms):
            told = outcomes[row].tolist()
            gained = max(strategy.history.mean[row].tolist()) - max(told)
            amount = min(gained / (max(told[:5]) - min(told[:5])), 1.0)
            rewards.append(amount if gain == "amount" else float(gained > 0))
            p = (1 - odd) * before[row, arm] + odd / 2
            weights[row, arm] += even * rewards[-1] / (2 * p)
        torch.testing.assert_close(strategy.state["log_weights"], weights)
    assert 0.0 in rewards and max(rewards) > 0
    assert strategy.state["num_rewards"].tolist() == [5] * 8


def test_gains_need_outcomes_and_the_scale_of_the_initial_design() -> None:
    strategy = baselines.random_exp3(BOUNDS, [0, 1], gain="sign", **SMALL)
    play(strategy, 2)
    X = strategy.ask()
    strategy.tell(X, torch.tensor([[[2.0]], [[torch.nan]]]).double())
    play(strategy, 1)
    X = strategy.ask()
    strategy.tell(X, torch.full_like(X, torch.nan))
    assert strategy.state["num_rewards"].tolist() == [2, 2]
    play(strategy, 1)
    for _ in range(2):
        X = strategy.ask()
        strategy.tell(X, torch.full_like(X, torch.nan))
    assert strategy.state["num_rewards"].tolist() == [3, 3]
    method: Any = baselines.random_exp3(BOUNDS, 0, reward_scale="z_score", **SMALL).method
    with pytest.raises(ValueError, match='scale "min_max" for gains'):
        RewardGains(method)


@pytest.mark.parametrize("seeds", [[0, 1], 0])
def test_wang_and_de_freitas_end_where_it_is_uncertain(
    seeds: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    halved: list[Any] = []

    def watched(model: Any, factor: Any) -> Any:
        halved.append(divide_lengthscales(model, factor))
        return halved[-1]

    strategy = baselines.wang_de_freitas_gp_ucb(BOUNDS, seeds, threshold=0.3, **SMALL)
    plain = baselines.gp_ucb(BOUNDS, seeds, **SMALL)
    idle = baselines.wang_de_freitas_gp_ucb(BOUNDS, seeds, threshold=0.0, **SMALL)
    for _ in range(3):
        X = strategy.ask()
        for each in (strategy, plain, idle):
            each.tell(X, (3 * X).sin())
    before = fitted(plain)(plain.ask() / 2).variance.sqrt()
    assert (before < 0.3).any()
    monkeypatch.setattr(shorter_lengthscales, "divide_lengthscales", watched)
    X = strategy.ask()
    assert (halved[-1](X / 2 if halved[-1].batch_shape else X[0] / 2).variance.sqrt() >= 0.3).all()
    assert torch.equal(idle.ask(), plain.ask())
    with pytest.raises(ValueError, match="`threshold` >= 0"):
        baselines.wang_de_freitas_gp_ucb(BOUNDS, 0, threshold=-1.0, **SMALL)


def check_that_samples_stay_between_samplings(estimator: Any) -> None:
    def build() -> Strategy:
        return fully_bayesian_gp_ucb(BOUNDS, [3], estimator=estimator, sample_every=2, **SMALL)

    strategy = build()
    play(strategy, 1)
    (first,) = strategy.belief.models
    play(strategy, 1)
    (second,) = strategy.belief.models
    X = torch.rand(7, 1, dtype=torch.double)
    assert torch.equal(first.covar_module.lengthscale, second.covar_module.lengthscale)
    told, Y = strategy.history.X[0, -1:] / 2, strategy.history.mean[0, -1:].unsqueeze(-1)
    expected = first.condition_on_observations(told, Y).posterior(X)
    torch.testing.assert_close(second.posterior(X).mean, expected.mean)
    assert not torch.allclose(second.posterior(X).mean, first.posterior(X).mean)
    resumed = build()
    resumed.load_state_dict(strategy.state_dict())
    torch.testing.assert_close(resumed.ask(), strategy.ask())
    play(strategy, 1)
    (third,) = strategy.belief.models
    assert not torch.allclose(first.covar_module.lengthscale, third.covar_module.lengthscale)


def test_estimates_stay_between_estimations() -> None:
    check_that_samples_stay_between_samplings(MaximumAPosteriori())


def test_estimator_and_numbers() -> None:
    method: Any = fully_bayesian_gp_ucb(BOUNDS, 0, **SMALL).method
    assert isinstance(method.inner.estimator, FullyBayesian)
    assert method.inner.acquisition.beta == pytest.approx(1.96**2)
    with pytest.raises(ValueError, match="`sample_every` to be at least 1"):
        fully_bayesian_gp_ucb(BOUNDS, 0, sample_every=0, **SMALL)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_mcmc_proposes() -> None:
    pytest.importorskip("numpyro")
    estimator = FullyBayesian(warmup_steps=16, num_samples=4)
    strategy = fully_bayesian_gp_ucb(BOUNDS, [0, 1], estimator=estimator, **SMALL)
    _, X = play(strategy, 2)
    assert X.shape == (2, 1, 1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_mcmc_samples_now_and_then() -> None:
    pytest.importorskip("numpyro")
    check_that_samples_stay_between_samplings(FullyBayesian(warmup_steps=16, num_samples=4))


def test_divides_below_the_constraint_and_renews_the_posterior() -> None:
    X = torch.rand(2, 8, 2, dtype=torch.double)
    model = SingleTaskGP(X, (5 * X).sin().sum(dim=-1, keepdim=True))
    fit_exact_gp(model)
    before = model.covar_module.lengthscale.detach().clone()
    points = torch.rand(2, 20, 2, dtype=torch.double)
    variance = model.posterior(points).variance
    assert divide_lengthscales(model, torch.tensor([1.0, 1000.0])) is model
    assert not model.training
    after = model.covar_module.lengthscale
    torch.testing.assert_close(after[0], before[0])
    torch.testing.assert_close(after[1], before[1] / 1000)
    renewed = model.posterior(points).variance
    torch.testing.assert_close(renewed[0], variance[0])
    assert (renewed[1] > variance[1]).all()


def test_of_a_scaled_kernel() -> None:
    X = torch.rand(8, 2, dtype=torch.double)
    kernel = get_matern_kernel_with_gamma_prior(2)
    model = SingleTaskGP(X, X.sum(dim=-1, keepdim=True), covar_module=kernel)
    before = kernel.base_kernel.lengthscale.detach().clone()
    divide_lengthscales(model, 4.0)
    torch.testing.assert_close(kernel.base_kernel.lengthscale, before / 4)
    with pytest.raises(ValueError, match="`factor` > 0"):
        divide_lengthscales(model, 0.0)


def test_regret_grows_as_the_reference() -> None:
    for d in (1, 3):
        regret = [t**0.5 * expansion_factor(t, d) ** d / t**0.9 for t in (1, 10, 1000)]
        assert regret == pytest.approx([1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="`regret_exponent` in"):
        expansion_factor(1, 1, 0.4)


@pytest.mark.parametrize("d", [1, 2])
def test_squared_norms_grow_no_faster_than_the_volume(d: int) -> None:
    r"""The norm of k(., 0.5) with lengthscales halved and quartered, from its values alone."""
    X = np.random.default_rng(0).random((40, d))
    squares = ((X[:, None] - X) ** 2).sum(-1)
    values = np.exp(-((X - 0.5) ** 2).sum(-1) / (2 * 0.4**2))  # of norm 1 at lengthscale 0.4
    for g in (2.0, 4.0):
        K = np.exp(-squares / (2 * (0.4 / g) ** 2)) + 1e-9 * np.eye(40)
        assert 0.25 * g**d < values @ np.linalg.solve(K, values) <= g**d
