r"""TRUVAR over replicates, and a run that finds the level set."""

import itertools
import json
import warnings
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.exceptions.warnings import BotorchWarning, InputDataWarning
from torch import Tensor

from botorch_risk import papers, strategies
from botorch_risk.papers import LevelSet, Maximize, NoiseLevels, truvar_state
from botorch_risk.papers.truvar import status
from botorch_risk.seeding import generators
from botorch_risk.strategies import Strategy
from tests.acquisition.lake import build_model, grid, truth

LEVELS = NoiseLevels((1e-6, 1e-3, 0.05), costs=(15.0, 10.0, 2.0))
SEEDS = (0, 1, 2)
pytestmark = pytest.mark.filterwarnings(
    "ignore:Expected a threshold within:botorch.exceptions.warnings.InputDataWarning"
)


def travel(X: Tensor, previous: Tensor | None, level: int | None) -> Tensor:
    base = torch.ones_like(X[..., 0])
    return base if previous is None else base + (X[..., 0] - previous[..., 0]).abs()


KNOWN: dict[str, Any] = {"model": build_model, "estimator": None, "num_initial": 3}


def truvar(seeds: Any, **options: Any) -> Strategy:
    options = {"goal": LevelSet(0.7), "noise": 1e-3, **KNOWN, **options}
    return papers.truvar(grid(), seeds, **options)


def maximizer(seeds: Any, **options: Any) -> Strategy:
    return truvar(seeds, **{"goal": Maximize(), "initial": {"monotone": False}, **options})


def leveled(seeds: Any, **options: Any) -> Strategy:
    levels = {"noise": None, "levels": LEVELS, "initial_level": 1, "refit_every": 2}
    return truvar(seeds, **{**levels, **options})


CASES = {
    "truvar": truvar,
    "maximize": maximizer,
    "levels": leveled,
    "travel": lambda seeds, **options: truvar(seeds, cost=travel, **options),
}
every = pytest.mark.parametrize("build", CASES.values(), ids=CASES.keys())
# What `test_contract.py` asks of the others, which are cases there.
of_levels_and_costs = pytest.mark.parametrize(
    "build", [leveled, CASES["travel"]], ids=["levels", "travel"]
)


def of_posterior(strategy: Strategy, name: str) -> Tensor:
    r"""An attribute of the posterior, replicate by replicate, whatever the batches are."""
    found: dict[int, Tensor] = {}
    for replicates, view in strategy.views:
        found |= dict(zip(replicates, getattr(view.belief.posterior, name), strict=True))
    return torch.stack([found[replicate] for replicate in range(len(strategy.seeds))])


def evaluate(strategy: Any, X: Tensor, index: int) -> Tensor:
    streams = generators(strategy.seeds, "observations", index)
    noise = torch.stack(
        [torch.randn(*X.shape[1:-1], 1, generator=g, dtype=torch.float64) for g in streams]
    )
    return truth(X[..., :2]) + 1e-3**0.5 * noise


def play(strategy: Any, rounds: int, first: int = 0) -> list[Tensor]:
    asked = []
    for index in range(first, first + rounds):
        asked.append(strategy.ask())
        strategy.tell(asked[-1], evaluate(strategy, asked[-1], index))
    return asked


@of_levels_and_costs
def test_protocol_and_shapes(build: Any) -> None:
    strategy = build(SEEDS, batch_size=2)
    columns = strategy.ask().shape[-1]
    first, second = play(strategy, 2)
    assert first.shape == (3, 3, columns) and second.shape == (3, 2, columns)
    for X in (first, second):
        assert (X[..., None, :2] == grid()).all(dim=-1).any(dim=-1).all()
    assert torch.equal(strategy.ask().nan_to_num(), strategy.ask().nan_to_num())
    assert strategy.recommend().shape == (3, 2)
    assert not torch.equal(second[:, 0], second[:, 1])


@of_levels_and_costs
def test_state_continues(build: Any) -> None:
    r"""A posterior that is built again adds all samples in one block, which differs by rounding."""
    strategy, resumed = build(SEEDS), build(SEEDS)
    play(strategy, 4)
    resumed.load_state_dict(json.loads(json.dumps(strategy.state_dict())))
    for left, right in zip(play(strategy, 3, 4), play(resumed, 3, 4), strict=True):
        assert torch.equal(left.nan_to_num(), right.nan_to_num())
    means = (each.belief.posterior.mean for each in (strategy, resumed))
    torch.testing.assert_close(*means, rtol=0, atol=1e-10)
    assert torch.equal(strategy.state["cost"], resumed.state["cost"])


@of_levels_and_costs
def test_a_replicate_does_not_depend_on_its_company(build: Any) -> None:
    together, alone = play(build([4, 0, 7]), 5), play(build(0), 5)
    for many, one in zip(together, alone, strict=True):
        assert torch.equal(many[1:2].nan_to_num(), one.nan_to_num())


@of_levels_and_costs
def test_missing_outcomes_leave_the_others_untouched(build: Any) -> None:
    whole, holed = build(SEEDS), build(SEEDS)
    for index in range(4):
        X = whole.ask()
        Y = evaluate(whole, X, index)
        whole.tell(X, Y)
        asked = holed.ask()
        assert torch.equal(asked[[0, 2]].nan_to_num(), X[[0, 2]].nan_to_num())
        Z = evaluate(holed, asked, index)
        Z[1, 1:] = torch.nan
        if index:
            Z[1] = torch.nan
        holed.tell(asked, Z)
    assert holed.recommend().isfinite().all()
    assert of_posterior(holed, "num_samples").tolist()[0] == 6


@every
@pytest.mark.parametrize("rows", [[0], [2], [0, 1]], ids=str)
def test_a_row_without_an_outcome_is_no_sample(build: Any, rows: list[int]) -> None:
    strategy = build(SEEDS)
    X = strategy.ask()
    Y = evaluate(strategy, X, 0)
    Y[1, rows] = torch.nan
    strategy.tell(X, Y)
    expected = [3, 3 - len(rows), 3]
    assert of_posterior(strategy, "num_samples").tolist() == expected
    X = strategy.ask()
    Y = evaluate(strategy, X, 1)
    Y[2] = torch.nan
    strategy.tell(X, Y)
    assert of_posterior(strategy, "num_samples").tolist() == [4, 4 - len(rows), 3]
    (posterior,) = [view.belief.posterior for rows, view in strategy.views if rows == [1]]
    low, high = posterior.outcome_range
    outcomes = strategy.history.mean[1]
    known = outcomes[outcomes.isfinite()]
    assert (low[0], high[0]) == (known.min(), known.max())


@of_levels_and_costs
def test_bad_input_changes_nothing(build: Any) -> None:
    strategy = build(SEEDS)
    X = strategy.ask()
    Y = evaluate(strategy, X, 0)
    outside = X.clone()
    outside[1, 0, 0] = 1.001
    for bad_X, bad_Y, error, message in (
        (X[:2], Y[:2], BotorchTensorDimensionError, "Expected `X` to have shape"),
        (outside, Y, InputDataError, "Expected points within bounds"),
        (X, Y.masked_fill(Y > 0, torch.inf), InputDataError, "Got infinity"),
    ):
        with pytest.raises(error, match=message):
            strategy.tell(bad_X, bad_Y)
    assert torch.equal(strategy.ask(), X) and (strategy.state["cost"] == 0).all()
    with pytest.raises(ValueError, match="Expected the outcomes of the initial design"):
        strategy.recommend()


def test_refitting_every_round_equals_rank_one_updates() -> None:
    updated, refitted = truvar(SEEDS), truvar(SEEDS, refit_every=1)
    for left, right in zip(play(updated, 6), play(refitted, 6), strict=True):
        assert torch.equal(left, right)
    torch.testing.assert_close(updated.belief.posterior.mean, refitted.belief.posterior.mean)
    torch.testing.assert_close(
        updated.belief.posterior.covariance, refitted.belief.posterior.covariance
    )


def test_costs_add_up_along_the_path() -> None:
    strategy = truvar(SEEDS, cost=travel, batch_size=2)
    X = torch.cat(play(strategy, 4), dim=-2)
    expected = torch.zeros(3, dtype=torch.float64)
    for r in range(3):
        path = [x for x in X[r] if x.isfinite().all()]
        # The initial points are sampled in their order, and the first has no travel.
        expected[r] = len(path) + sum(
            (x[0] - last[0]).abs() for last, x in itertools.pairwise(path)
        )
    torch.testing.assert_close(strategy.state["cost"], expected)
    torch.testing.assert_close(truvar_state(strategy).cost, expected)
    report = status(truvar_state(strategy), strategy.belief.posterior)
    torch.testing.assert_close(report.cost, expected)


def test_levels_have_their_noise_and_their_price() -> None:
    strategy = leveled(0, initial_level=2)
    asked = play(strategy, 5)
    level = torch.cat(asked, dim=-2)[0, :, 2].long()
    assert (level[:3] == 2).all()
    assert strategy.state["cost"] == torch.tensor(LEVELS.costs)[level].sum()
    indices = (torch.cat(asked, dim=-2)[0, :, None, :2] == grid()).all(dim=-1).nonzero()[:, 1]
    noise = torch.tensor(LEVELS.variances).double()[level]
    X = grid()[indices]
    Y = strategy.history.Y[0, ..., 0]
    with torch.no_grad():
        expected = build_model(X, Y, noise).posterior(grid())
    torch.testing.assert_close(
        strategy.belief.posterior.mean[0], expected.mean[:, 0], atol=1e-6, rtol=0
    )
    torch.testing.assert_close(
        strategy.belief.posterior.variance[0], expected.variance[:, 0], atol=1e-6, rtol=0
    )


def accuracy(strategy: Strategy) -> Tensor:
    r"""The smallest epsilon for which the sets are right.

    Definition 3.1 of [Bogunovic2016truvar]_.
    """
    state = truvar_state(strategy)
    return state.goal.accuracy(state.sets, truth(grid())[:, 0].expand(state.unclassified.shape))


def test_finds_the_level_set_then_asks_for_nothing() -> None:
    strategy = truvar(SEEDS, batch_size=3, initial={"r": 0.5})
    high = truth(grid())[:, 0] >= 0.7
    for index in range(25):
        X = strategy.ask()
        strategy.tell(X, evaluate(strategy, X, index))
        if bool(truvar_state(strategy).finished.all()):
            break
    known = strategy.belief.posterior.mean >= 0.7
    f1 = 2 * (known & high).sum(dim=-1) / (known.sum(dim=-1) + high.sum())
    assert (f1 > 0.95).all()
    assert (accuracy(strategy) < 0.5).all()
    done = truvar_state(strategy).finished
    assert done.any()
    assert strategy.ask()[done].isnan().all()
    cost = strategy.state["cost"]
    X = strategy.ask()
    strategy.tell(X, evaluate(strategy, X, 99))
    assert torch.equal(strategy.state["cost"][done], cost[done])


def test_finds_the_maximum() -> None:
    strategy = maximizer(SEEDS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BotorchWarning)
        play(strategy, 15)
    values = truth(grid())[:, 0]
    best = grid()[values.argmax()]
    assert (strategy.recommend() == best).all()
    assert (accuracy(strategy) < 0.5).all()


def test_repeats_divide_the_noise() -> None:
    one, many = truvar(0), truvar(0, noise=4e-3)
    X = one.ask()
    Y = truth(X)
    one.tell(X, Y)
    many.tell(X, Y.expand(-1, -1, 4))
    torch.testing.assert_close(one.belief.posterior.variance, many.belief.posterior.variance)


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match=r"`initial_level` in 0, \.\., 2. Got 3"):
        leveled(0, initial_level=3)
    with pytest.raises(ValueError, match="`num_initial` of at most 36 points"):
        truvar(0, num_initial=40)
    with pytest.raises(BotorchTensorDimensionError, match="at least one point"):
        papers.truvar(grid()[:0], 0, goal=Maximize())
    with pytest.raises(ValueError, match=r"Got seeds=\[0, 1\]"):
        strategy = truvar(SEEDS)
        play(strategy, 1)
        truvar([0, 1]).load_state_dict(strategy.state_dict())


def test_warns_of_a_level_outside_the_data() -> None:
    strategy = truvar([0, 1], goal=LevelSet(50.0))
    X = strategy.ask()
    with (
        warnings.catch_warnings(),
        pytest.warns(InputDataWarning, match=r"Got 50\.0 .* in 2 of 2 replicates"),
    ):
        warnings.simplefilter("always")
        strategy.tell(X, truth(X))


def test_noise_on_the_domain_is_not_that_of_another_point() -> None:
    noise = torch.linspace(1e-4, 1.0, len(grid()), dtype=torch.double)
    strategy = truvar(0, noise=noise, goal=Maximize(), num_initial=2)
    X = strategy.ask()
    between = X.clone()
    between[0, 1] = grid()[:2].mean(dim=0)
    before = strategy.state_dict()
    with pytest.raises(ValueError, match="`noise` as a function of the point"):
        strategy.tell(between, between.sum(dim=-1, keepdim=True))
    assert strategy.state_dict() == before
    strategy.tell(X, X.sum(dim=-1, keepdim=True))


def test_categories_of_a_domain_are_refused() -> None:
    domain = torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.double)
    space = strategies.FiniteDomain(domain, categories=[0])
    method = papers.SampleDomain(papers.TruncateVariance(Maximize()))
    with pytest.raises(UnsupportedError, match="Expected a domain without categories"):
        Strategy(space, method, seeds=0, num_initial=2)


def test_only_truvar_has_sets_and_epochs() -> None:
    other = strategies.random_search(torch.tensor([[0.0], [1.0]]), 0)
    with pytest.raises(UnsupportedError, match=r"strategy of `truvar`\. Got Random"):
        truvar_state(other)


def test_a_row_of_which_a_part_is_missing_is_no_sample() -> None:
    partly, wholly = leveled([0, 1]), leveled([0, 1])
    for index, strategy in enumerate((partly, wholly)):
        X = strategy.ask()
        Y = truth(X[..., :2])
        strategy.tell(X, Y)
        X = strategy.ask()
        Y = truth(X[..., :2])
        X[0, 0, -1 if index == 0 else slice(None)] = torch.nan
        Y[0, 0] = torch.nan
        strategy.tell(X, Y)
    assert torch.equal(partly.ask(), wholly.ask())


@pytest.mark.parametrize("weights", [-torch.ones(len(grid())), torch.ones(3)])
def test_weights_are_checked_before_anything_is_asked(weights: Tensor) -> None:
    with pytest.raises((ValueError, BotorchTensorDimensionError), match=r"Expected .*`weights`"):
        truvar(0, weights=weights)


LINE = torch.linspace(0, 1, 50, dtype=torch.double).unsqueeze(-1)


def fitted(seeds: Any, rounds: int = 5, **options: Any) -> Strategy:
    r"""A search for a level of a wave with a step, with noise of 0.1 and a fitted model."""
    known: dict[str, Any] = {"goal": LevelSet(0.0), "num_initial": 6}
    strategy = papers.truvar(LINE, seeds, **known | options)
    for index in range(rounds):
        X = strategy.ask()
        draws = generators(strategy.seeds, "noise", index)
        noise = torch.stack([torch.randn(X.shape[1], 1, generator=each) for each in draws])
        strategy.tell(X, wave(X) + 0.1 * noise.to(X))
    return strategy


def wave(X: Tensor) -> Tensor:
    return (9 * X).sin() + (40 * (X - 0.6)).tanh()


def predicted(strategy: Strategy) -> Any:
    (rows, view), *_ = strategy.views
    return strategy.method.predict(view, LINE.expand(len(rows), -1, -1))


def test_predictions_by_samples_contain_what_they_say() -> None:
    held = {}
    for num_samples in (0, 16):
        found = predicted(fitted(range(12), num_samples=num_samples)).outcome
        inside = (found.lower <= wave(LINE)) & (wave(LINE) <= found.upper)
        held[num_samples] = inside.double().mean().item()
    assert held[0] < 0.88 and 0.9 <= held[16] <= 0.99


def test_probabilities_of_classes_come_from_samples_and_the_sets_from_the_fit() -> None:
    sets = {"classes": "epochs"}
    by_fit, by_samples = fitted(SEEDS, num_samples=0, **sets), fitted(SEEDS, **sets)
    fit, found = by_fit.classify(), by_samples.classify()
    assert torch.equal(fit.high, found.high) and torch.equal(fit.low, found.low)
    assert torch.equal(by_fit.ask().nan_to_num(), by_samples.ask().nan_to_num())
    posterior = by_fit.belief.posterior
    torch.testing.assert_close(
        fit.probability, torch.special.ndtr(posterior.mean / posterior.variance.sqrt())
    )
    outcome = predicted(by_fit).outcome
    torch.testing.assert_close(outcome.mean.squeeze(-1), posterior.mean)
    assert ((found.probability - 0.5).abs() < (fit.probability - 0.5).abs()).double().mean() > 0.8
    among_many = fitted(range(12)).classify().probability
    assert ((among_many >= 0.5) == (wave(LINE).squeeze(-1) >= 0)).double().mean() > 0.9


def test_predictions_by_samples_are_the_same_alone_and_in_a_batch() -> None:
    together, alone = fitted([4, 0, 7]), fitted(0)
    for strategy in (together, alone):
        X = strategy.ask()
        Y = wave(X)
        Y[strategy.seeds.index(0)] = torch.nan  # fewer outcomes than the others
        strategy.tell(X, Y)
    many, one = predicted(together), predicted(alone)
    assert len(together.views) == 1
    for left, right in zip(many.outcome, one.outcome, strict=True):
        torch.testing.assert_close(left[1:2], right, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(many.noise[1:2], one.noise, rtol=1e-4, atol=1e-4)
    resumed = fitted([4, 0, 7], rounds=0)
    resumed.load_state_dict(together.state_dict())
    assert torch.equal(predicted(resumed).outcome.mean, many.outcome.mean)


def test_known_hyperparameters_and_other_estimators_are_not_sampled() -> None:
    for strategy in (leveled(0), fitted(0, estimator=NoEstimate())):
        if not strategy.history.num_rows:
            play(strategy, 1)
        (_, view), *_ = strategy.views
        assert view.interval_belief is view.belief
    with pytest.raises(ValueError, match="`num_samples` of 0, or at least 2"):
        fitted(0, rounds=0, num_samples=1)


class NoEstimate:
    def __call__(self, model: Any, seeds: Any, t: int, observed: Any = None) -> Any:
        return model.eval()
