r"""Every strategy stays within the linear limits of its space."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from botorch.acquisition.logei import qLogExpectedImprovement, qLogNoisyExpectedImprovement
from torch import Tensor

from botorch_risk import constraints, level_sets, papers, repeats, robust, strategies
from botorch_risk.constraints import NoiseConstraint, NoisyChanceConstraint, RiskConstraint
from botorch_risk.environments import DiscreteEnvironment, InputPerturbation
from botorch_risk.papers import LevelSet
from botorch_risk.risk import ConditionalValueAtRisk
from botorch_risk.robust import HypervolumeImprovement, MonteCarloDecision
from botorch_risk.seeding import generators
from botorch_risk.strategies import Acquire, Box, LargestKnowledgeGradient, LinearLimit, Strategy

SEEDS = (2, 3)
UNIT = torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], dtype=torch.double)
WHOLE = LinearLimit({0: 1, 1: 1, 2: 1}, "==", 1)
TWENTIETHS = UNIT * 20
BOXES = {
    "fractions": Box(UNIT, limits=[WHOLE]),
    "steps": Box(
        UNIT * torch.tensor([4.0, 1.0, 1.0]), [0], limits=[LinearLimit({0: 0.2, 1: 1}, "<=", 0.8)]
    ),
    "category": Box(
        UNIT * torch.tensor([1.0, 1.0, 2.0]),
        categories=[2],
        limits=[LinearLimit({0: 1, 1: 1}, "<=", 0.8), LinearLimit({0: 1, 1: -1}, ">=", -0.1)],
    ),
    "fractions-in-steps": Box(
        TWENTIETHS, [0, 1, 2], limits=[LinearLimit({0: 1, 1: 1, 2: 1}, "==", 20)]
    ),
    "one-in-steps": Box(
        UNIT * torch.tensor([10.0, 1.0, 1.0]),
        [0],
        limits=[LinearLimit({0: 0.1, 1: 1, 2: 1}, "==", 1)],
    ),
}
WEATHER = DiscreteEnvironment(torch.linspace(0, 1, 4, dtype=torch.double).unsqueeze(-1))
CONTEXTS = torch.tensor([[0.0], [1.0]], dtype=torch.double)
CVAR = ConditionalValueAtRisk(0.3)
FAST: dict[str, Any] = {"num_restarts": 2, "raw_samples": 16}
FEW: dict[str, Any] = {"num_restarts": 1, "raw_samples": 4}


@dataclass(frozen=True)
class Limited:
    r"""A strategy as `make(box, seeds)`, and its largest batch."""

    name: str
    make: Callable[..., Strategy]
    batch_size: int = 4


def with_options(make: Any, label: str = "", batch_size: int = 4, **options: Any) -> Limited:
    return Limited(make.__name__ + label, partial(make, **{**FAST, **options}), batch_size)


def improvement(model: Any, t: int) -> qLogExpectedImprovement:
    return qLogExpectedImprovement(model, best_f=model.posterior(model.train_inputs[0]).mean.max())


def acquire(box: Box, seeds: Any, *, num_initial: int, **options: Any) -> Strategy:
    return Strategy(box, Acquire(improvement, **options), seeds, num_initial=num_initial)


def safe(box: Box, seeds: Any, *, num_initial: int, **options: Any) -> Strategy:
    return constraints.safe_rahbo(
        box, seeds, safe_points=box.initial([7], num_initial)[0], **options
    )


def perturbed(box: Box, seeds: Any, **options: Any) -> Strategy:
    moves = torch.tensor([[0.0], [0.05], [-0.05]], dtype=torch.double)
    moves = torch.cat([0 * moves, moves, 0 * moves], dim=-1)
    return papers.v_ucb(box, seeds, environment=InputPerturbation(moves), **options)


MEAN_AND_VARIANCE: dict[str, Any] = {"num_repeats": 3, "risk_aversion": 0.5}
SAFETY: dict[str, Any] = {
    "constraints": [
        NoisyChanceConstraint(-50.0, outcome=0, delta=0.5, at_most=False),
        NoiseConstraint(50.0),
    ],
    "num_candidates": 32,
}
RISK: dict[str, Any] = {"environment": WEATHER, "risk_measure": CVAR}
USED = [RiskConstraint.chance(WEATHER, 1e3, outcome=1, delta=0.1)]
STRATEGIES = [
    with_options(papers.rahbo, **MEAN_AND_VARIANCE),
    with_options(papers.rahbo_us, num_uncertainty=1, **MEAN_AND_VARIANCE),
    with_options(repeats.risk_averse_kg, **MEAN_AND_VARIANCE),
    Limited("safe_rahbo", partial(safe, **FAST, **MEAN_AND_VARIANCE, **SAFETY)),
    with_options(repeats.adaptive_repeats, batch_size=1, risk_aversion=0.5),
    Limited("random_search", strategies.random_search),
    with_options(papers.uhe_bo),
    with_options(acquire),
    with_options(papers.sbo_kde, context_bounds=CONTEXTS, n_w=8),
    with_options(papers.risk_kde, context_bounds=CONTEXTS, n_w=8, risk_measure=CVAR),
    with_options(papers.drbo_kde, context_bounds=CONTEXTS, n_w=8),
    with_options(papers.drbo_mmd, context_bounds=CONTEXTS, num_points=4, radius_scale=0.1),
    with_options(papers.v_ucb, environment=WEATHER, risk_level=0.3),
    with_options(perturbed, risk_level=0.3),
    with_options(strategies.risk_search, **RISK),
    with_options(strategies.risk_search, "-chosen", w_is_chosen=True, **RISK),
    with_options(strategies.risk_search, "-constrained", constraints=USED, **RISK),
    with_options(
        strategies.risk_search,
        "-knowledge-gradient",
        choose=LargestKnowledgeGradient(num_compared=4, num_candidates=8, num_samples=4),
        **RISK,
    ),
    with_options(
        strategies.risk_search,
        "-botorch",
        decide=MonteCarloDecision(qLogNoisyExpectedImprovement),
        **RISK | FEW,
    ),
    with_options(level_sets.level_set_search, goal=LevelSet(0.0), num_points=24, **RISK),
    with_options(
        robust.pareto_search,
        acquisition=HypervolumeImprovement((-5.0, -5.0), num_samples=4),
        max_iterations=2,
        **RISK | FEW,
    ),
]
# They choose among a list, from which settings outside the limits are left out.
OF_LISTS = {"truvar", "table_search"}


def test_every_named_strategy_of_a_box_is_among_them() -> None:
    named = {
        name
        for name in strategies.__all__
        if hasattr(getattr(strategies, name), "__code__")
        and "Strategy" in str(getattr(strategies, name).__annotations__.get("return"))
    }
    assert named - OF_LISTS <= {case.name for case in STRATEGIES}


def outcomes(strategy: Strategy, X: Tensor, index: int) -> Tensor:
    r"""Repeats `R x q x 3` or `R x q x 3 x m` of a smooth function, best near a limit."""
    m = strategy.method.num_outcomes
    noise = [
        torch.randn(X.shape[1], 3, m, generator=each, dtype=torch.double)
        for each in generators(strategy.seeds, "noise", index)
    ]
    width = strategy.space.bounds[1]
    decisions = X[..., : len(width)] / width
    peak = torch.tensor([0.6, 0.4, 0.1], dtype=torch.double)
    value = -(decisions - peak).square().sum(dim=-1) - 0.1 * X[..., -1] * decisions[..., 0]
    Y = value[..., None, None] + 0.05 * torch.stack(noise)
    return Y.squeeze(-1) if m == 1 else Y


def told_of(strategy: Strategy, X: Tensor, index: int) -> Tensor:
    r"""The proposed rows, with the observed context if it is not chosen."""
    space: Any = strategy.space
    if getattr(space, "perturbs", False):
        return X
    missing = strategy.space.num_columns - X.shape[-1]
    if not missing:
        return X
    streams = generators(strategy.seeds, "contexts", index)
    return torch.cat([X, WEATHER.sample(X.shape[1], streams)], dim=-1)


def off(box: Box, X: Tensor) -> float:
    r"""How far decisions are outside limits and bounds, at most, or their whole numbers off."""
    lower, upper = box.bounds
    found = [(lower - X).max(), (X - upper).max()]
    for limit in box.limits or ():
        over = sum(c * X[..., column] for column, c in limit.coefficients.items()) - limit.bound
        found.append({"<=": over, ">=": -over, "==": abs(over)}[limit.relation].max())
    whole = X[..., box.discrete]
    return max(0.0, *map(float, found), *(whole - whole.round()).abs().flatten().tolist())


@pytest.mark.filterwarnings("ignore:A not p.d.:linear_operator.utils.warnings.NumericalWarning")
@pytest.mark.parametrize("place", BOXES)
@pytest.mark.parametrize("case", STRATEGIES, ids=lambda case: case.name)
def test_all_proposals_and_recommendations_are_within_the_limits(case: Limited, place: str) -> None:
    r"""The initial design, a batch of four, and one point while three of the batch run."""
    box = BOXES[place]
    if case.name == "perturbed" and box.discrete:
        pytest.skip("whole numbers are not perturbed")
    strategy = case.make(box, SEEDS, num_initial=6)
    d = box.num_columns
    perturbs = getattr(strategy.space, "perturbs", False)  # x + w is evaluated, x is within limits
    for index, q in enumerate((None, min(4, case.batch_size), 1)):
        X = strategy.ask(q)
        assert perturbs or off(box, X[..., :d]) <= 1e-8
        rows = told_of(strategy, X[:, :1] if index == 1 else X, index)
        strategy.tell(rows, outcomes(strategy, rows, index))
        assert off(box, strategy.history.X[..., :d]) <= 1e-8
        if index:
            reported = strategy.recommend().reshape(-1, d)
            assert off(box, reported[~reported.isnan().any(dim=-1)]) <= 1e-8


ROWS_OF_TEN = Box(3 * UNIT, [0, 1, 2], limits=[LinearLimit({0: 1, 1: 1, 2: 1}, "==", 3)])


@pytest.mark.filterwarnings("ignore:A not p.d.:linear_operator.utils.warnings.NumericalWarning")
@pytest.mark.parametrize(
    "case",
    [case for case in STRATEGIES if case.batch_size > 1 and case.name != "perturbed"],
    ids=lambda case: case.name,
)
def test_no_setting_comes_twice_while_another_within_the_limits_is_left(case: Limited) -> None:
    r"""Of ten settings three run, and the other seven are proposed."""
    strategy = case.make(ROWS_OF_TEN, SEEDS, num_initial=8)
    X = strategy.ask()
    assert all(len(each[:, :3].unique(dim=0)) == 8 for each in X)
    rows = told_of(strategy, X, 0)
    strategy.tell(rows, outcomes(strategy, rows, 0))
    some = told_of(strategy, strategy.ask(4)[:, :1], 1)
    strategy.tell(some, outcomes(strategy, some, 1))
    every = torch.cat([strategy.running, strategy.ask(7)], dim=-2)
    assert all(len(each[:, :3].unique(dim=0)) == 10 for each in every)


@pytest.mark.parametrize("place", BOXES)
def test_a_replicate_does_not_depend_on_its_company(place: str) -> None:
    box = BOXES[place]
    both = [papers.rahbo(box, seeds, **MEAN_AND_VARIANCE, **FAST) for seeds in (SEEDS, SEEDS[1:])]
    asked = []
    for strategy in both:
        asked.append([])
        for index in range(3):
            X = strategy.ask(None if index == 0 else 2)
            asked[-1].append(X[-1:])
            strategy.tell(X, outcomes(strategy, X, index))
    for many, one in zip(*asked, strict=True):
        torch.testing.assert_close(many, one, atol=1e-6, rtol=0)
    alone = box.random_points(SEEDS[1:], 5, "any stream")
    many = box.random_points(SEEDS, 5, "any stream")[1:]
    torch.testing.assert_close(many, alone, atol=1e-12, rtol=0)
    assert not torch.equal(alone, box.random_points(SEEDS[1:], 5, "another"))
