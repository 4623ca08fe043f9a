r"""Level sets of a risk, found by a strategy."""

import copy
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import InputDataError, UnsupportedError
from scipy.stats import norm
from torch import Tensor

from botorch_risk.environments import (
    DiscreteEnvironment,
    InputPerturbation,
    KernelDensityEnvironment,
    ObservedContexts,
)
from botorch_risk.level_sets import ExpectedClassification, level_set_search
from botorch_risk.papers import LevelSet, RelativeLevelSet
from botorch_risk.risk import (
    ConditionalValueAtRisk,
    Expectation,
    RiskMeasure,
    ShareAbove,
    TotalVariationBall,
)
from botorch_risk.seeding import generators
from botorch_risk.strategies import Box, FiniteDomain, Strategy

DECISIONS = torch.linspace(0, 1, 41, dtype=torch.double).unsqueeze(-1)
WEATHER = DiscreteEnvironment(torch.linspace(0, 1, 5, dtype=torch.double).unsqueeze(-1))
RELIABLE = ShareAbove(0.3, under=TotalVariationBall(0.3))


def outcome(X: Tensor) -> Tensor:
    x, w = X.unbind(dim=-1)
    return ((5 * x).sin() - w * x).unsqueeze(-1)


def build(seeds: Any = (0, 1), **options: Any) -> Strategy:
    chosen = {
        "environment": WEATHER,
        "risk_measure": ConditionalValueAtRisk(0.4),
        "goal": LevelSet(0.2),
        "num_initial": 6,
        **options,
    }
    return level_set_search(chosen.pop("decisions", DECISIONS), seeds, **chosen)


def play(strategy: Strategy, rounds: int) -> Strategy:
    for index in range(rounds):
        X = strategy.ask()
        if X.shape[-1] == 1:
            draws = generators(strategy.seeds, "weather", index)
            W = torch.stack([torch.randint(5, X.shape[1:], generator=each) for each in draws]) / 4
            X = torch.cat([X, W.to(X)], dim=-1)
        strategy.tell(X, outcome(X))
    return strategy


def risks(measure: RiskMeasure) -> Tensor:
    inputs, weights = WEATHER.expand(DECISIONS)
    return measure(outcome(inputs).squeeze(-1), weights)


@pytest.mark.parametrize(
    ("criterion", "w_is_chosen"),
    [
        ("classified", True),
        ("straddle", False),
        pytest.param("straddle", True, marks=pytest.mark.slow),
        pytest.param("classified", False, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(
    ("measure", "level"),
    [(ConditionalValueAtRisk(0.4), 0.2), (Expectation(), 0.1), (RELIABLE, 0.5)],
    ids=["tail", "mean", "reliable"],
)
@pytest.mark.slow
def test_it_finds_the_level_set(
    criterion: Any, w_is_chosen: bool, measure: RiskMeasure, level: float
) -> None:
    options = {"criterion": criterion, "w_is_chosen": w_is_chosen, "risk_measure": measure}
    found = play(build(goal=LevelSet(level), **options), 15).classify()
    above = risks(measure) >= level
    assert 5 < above.sum() < 36
    assert ((found.probability >= 0.5) != above).sum() <= 3
    assert ((found.high & ~above) | (found.low & above)).sum() <= 1
    assert found.unclassified.sum() <= 12
    assert (found.high.int() + found.low.int() + found.unclassified.int() == 1).all()


@pytest.mark.slow
def test_several_levels_and_one_that_is_relative() -> None:
    goals = [LevelSet(0.2), LevelSet(0.5), RelativeLevelSet(0.5)]
    found = play(build(goal=goals, w_is_chosen=True), 14).classify()
    assert found.high.shape == (2, 3, 41)
    risk = risks(ConditionalValueAtRisk(0.4))
    for row, goal in enumerate(goals):
        above = risk >= goal.level(risk)
        assert ((found.probability[:, row] >= 0.5) != above).sum() <= 3
    assert (found.high[:, 1] <= found.high[:, 0]).all()  # a higher level has fewer above it


def test_a_level_that_is_relative_is_of_the_expected_risks() -> None:
    goal = RelativeLevelSet(0.5)
    strategy = play(build(goal=[LevelSet(0.2), goal]), 1)
    method: Any = strategy.method
    (_, view), *_ = strategy.views
    samples = method.classes.samples(view.interval_belief, DECISIONS)
    level = goal.level(samples.mean(dim=-1)).unsqueeze(-1)
    expected = (samples >= level).double().mean(dim=-1)
    found = strategy.classify().probability
    torch.testing.assert_close(found[:, 1], expected)
    assert 0 < expected.mean() < 1


def searched(num_samples: int, seeds: Sequence[int] = tuple(range(8)), n: int = 9) -> Strategy:
    r"""A search with few readings of a hill and a ridge, with noise of 0.1."""
    strategy = build(seeds, num_initial=n, num_samples=num_samples, goal=LevelSet(0.0))
    X = strategy.ask()
    draws = [torch.Generator().manual_seed(seed) for seed in seeds]
    w = torch.stack([torch.randint(5, (n, 1), generator=each) for each in draws]).to(X) / 4
    noise = torch.stack([torch.randn(n, 1, generator=each, dtype=X.dtype) for each in draws])
    strategy.tell(torch.cat([X, w], dim=-1), hill(X, w) + 0.1 * noise)
    return strategy


def hill(x: Tensor, w: Tensor) -> Tensor:
    return (9 * x).sin() * (1 + w) - (x - w).square()


def test_classes_by_samples_are_right_as_often_as_stated() -> None:
    inputs, weights = WEATHER.expand(DECISIONS)
    values = hill(*inputs.split(1, dim=-1)).squeeze(-1)
    above = ConditionalValueAtRisk(0.4)(values, weights) >= 0
    wrong = {}
    for num_samples in (0, 16):
        found = searched(num_samples, range(48)).classify()
        classified = (~found.unclassified).sum()
        assert classified > 360  # of 1,968
        mistaken = (found.high & ~above) | (found.low & above)
        wrong[num_samples] = float(mistaken.sum() / classified)
    assert wrong[16] <= 0.05 and 2 * wrong[16] < wrong[0]


def test_without_samples_classes_are_of_the_fit() -> None:
    strategy = searched(0)
    method: Any = strategy.method
    found, samples = strategy.classify(), method.classes.samples(strategy.belief, DECISIONS)
    assert samples.shape[-1] == 256
    assert torch.equal(found.high, samples.quantile(0.05, dim=-1) > 0)
    assert torch.equal(found.low, samples.quantile(0.95, dim=-1) < 0)
    assert torch.equal(found.probability, (samples >= 0).double().mean(dim=-1))


def test_classes_are_the_same_alone_in_a_batch_and_from_a_state() -> None:
    batch, alone = searched(16, (3, 5)), searched(16, (5,))
    again = build((5,), num_initial=9, goal=LevelSet(0.0))
    again.load_state_dict(alone.state_dict())
    found = batch.classify().probability[1:]
    torch.testing.assert_close(alone.classify().probability, found, rtol=0, atol=2e-3)
    assert torch.equal(again.classify().probability, alone.classify().probability)


def test_a_box_is_a_sobol_sequence_of_it() -> None:
    box = Box(torch.tensor([[0.0], [1.0]]).double())
    strategy = play(build(decisions=box, num_points=64, w_is_chosen=True), 3)
    assert strategy.classify().high.shape == (2, 64)
    X = strategy.ask()
    listed: Any = strategy.space
    assert (X[..., :1].unsqueeze(-2) == listed.box.domain).all(dim=-1).any(dim=-1).all()


def test_whole_numbers_of_a_box_are_listed_once_and_categories_have_no_order() -> None:
    box = Box(torch.tensor([[0.0], [3.0]]).double(), integers=[0])
    strategy = build(decisions=box, num_initial=10, w_is_chosen=True)
    listed: Any = strategy.space
    assert listed.box.domain.flatten().sort().values.tolist() == [0.0, 1.0, 2.0, 3.0]
    for X in strategy.ask():  # more readings than decisions, which meet several w
        assert sorted(X[:, 0].unique(return_counts=True)[1].tolist()) == [2, 2, 3, 3]

    box = Box(torch.tensor([[0.0, 0.0], [2.0, 1.0]]).double(), categories=[0])
    strategy = build(decisions=box, num_points=32, w_is_chosen=True)
    X = strategy.ask()
    strategy.tell(X, X.sum(dim=-1, keepdim=True))
    model = copy.deepcopy(strategy.belief.model).eval()
    assert model.train_inputs[0].shape[-1] == 5  # one column per code, x and w
    codes = torch.tensor([[0, 0.5, 0.5], [1, 0.5, 0.5], [2, 0.5, 0.5]]).double()
    model.covar_module.lengthscale = 1.0
    correlation = model.covar_module(model.transform_inputs(codes)).to_dense()
    torch.testing.assert_close(correlation[..., 0, 1], correlation[..., 0, 2])
    again = build(decisions=box, num_points=32, w_is_chosen=True)
    again.load_state_dict(strategy.state_dict())
    torch.testing.assert_close(again.ask(), strategy.ask())
    with pytest.raises(UnsupportedError, match=r"perturbations of 0 .* \[0\]"):
        shifts = InputPerturbation(torch.tensor([[-0.1, 0.0], [0.1, 0.0]]).double())
        build(decisions=box, environment=shifts)


def test_categories_of_a_finite_domain_are_checked() -> None:
    domain = torch.tensor([[0.0, 0.5], [1.0, 0.2]])
    assert FiniteDomain(domain, categories=(-2,)).categories == (0,)
    with pytest.raises(ValueError, match=r"columns in \[0, 2\) in `categories`\. Got 2"):
        FiniteDomain(domain, categories=(2,))
    with pytest.raises(InputDataError, match=r"whole numbers in the columns \(1,\) .* 0\.5"):
        FiniteDomain(domain, categories=(1,))


def test_a_batch_has_its_earlier_readings_pending() -> None:
    strategy = play(build(batch_size=3, w_is_chosen=True), 1)
    X = strategy.ask()
    assert X.shape == (2, 3, 2)
    assert all(len(rows.unique(dim=0)) == 3 for rows in X)


def test_the_distribution_may_be_learnt_and_the_decision_perturbed() -> None:
    density = partial(KernelDensityEnvironment, n_w=16)
    contexts = ObservedContexts(torch.tensor([[0.0], [1.0]]).double(), density)
    found = play(build(environment=contexts), 12).classify()
    above = risks(ConditionalValueAtRisk(0.4)) >= 0.2
    assert ((found.probability >= 0.5) != above).double().mean() < 0.2

    shifts = InputPerturbation(torch.tensor([[-0.05], [0.0], [0.05]]).double())
    strategy = build(environment=shifts, risk_measure=Expectation(), goal=LevelSet(0.0))
    for _ in range(8):
        X = strategy.ask()
        strategy.tell(X, (5 * X).sin())
    above = (5 * DECISIONS.squeeze()).sin() >= 0
    assert ((strategy.classify().probability >= 0.5) != above).sum(dim=-1).max() <= 4


@pytest.mark.parametrize(
    ("number", "picks", "w_is_chosen"), [(12, 1, True), (41, 3, True), (41, 3, False)]
)
def test_it_reads_what_is_expected_to_classify_most_of_the_least_certain(
    number: int, picks: int, w_is_chosen: bool
) -> None:
    options: dict[str, Any] = {"confidence": 0.99, "num_compared": number, "batch_size": picks}
    options |= {"criterion": "classified", "goal": LevelSet(0.5), "w_is_chosen": w_is_chosen}
    strategy = play(build(0, **options), 1)
    method: Any = strategy.method
    bound, samples = strategy.belief, method.classes.samples(strategy.belief, DECISIONS)[0]
    mean, deviation = samples.mean(dim=-1), samples.std(dim=-1, correction=0)
    compared = DECISIONS[((mean - 0.5).abs() / deviation).argsort()[:number]].unsqueeze(0)
    asked = strategy.ask()
    for pick in range(picks):
        score = ExpectedClassification(
            bound.model,
            WEATHER,
            ConditionalValueAtRisk(0.4),
            compared,
            0.5,
            beta=norm.ppf(0.99) ** 2,
            w_is_chosen=w_is_chosen,
            X_pending=asked[:, :pick] if pick else None,
        )
        if w_is_chosen and pick:
            score.keep_apart(asked[:, :pick, :1], 0.1)
        best = score.evaluate(compared).argmax()
        rows = score.best_value(compared) if w_is_chosen else compared
        assert torch.equal(rows[:, best], asked[:, pick])


def test_it_goes_on_from_its_state() -> None:
    strategy = play(build(w_is_chosen=True), 2)
    again = build(w_is_chosen=True)
    again.load_state_dict(strategy.state_dict())
    torch.testing.assert_close(again.ask(), strategy.ask())


def test_bad_arguments_are_refused() -> None:
    contexts = ObservedContexts(torch.tensor([[0.0], [1.0]]).double())
    with pytest.raises(UnsupportedError, match="known distribution"):
        build(environment=contexts, w_is_chosen=True)
    for wrong in (
        {"confidence": 0.4},
        {"confidence": 0.5},
        {"criterion": "widest"},
        {"num_compared": 1},
    ):
        with pytest.raises((ValueError, TypeError), match=next(iter(wrong))):
            build(**wrong)
    with pytest.raises((ValueError, TypeError), match="goal"):
        build(goal=[0.5])
    with pytest.raises(ValueError, match=r"Expected at least one level, `goal`\. Got none"):
        build(goal=[])
