r"""Every strategy, one line each; `test_contract.py` tests what they share."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import pytest
import torch
from botorch.acquisition import UpperConfidenceBound
from torch import Tensor

from botorch_risk import constraints, level_sets, papers, repeats, robust, strategies
from botorch_risk.constraints import RiskConstraint
from botorch_risk.environments import (
    DiscreteEnvironment,
    KernelDensityEnvironment,
    ObservedContexts,
)
from botorch_risk.papers import LevelSet, Maximize, RandomOrAcquire
from botorch_risk.repeats import FixedRepeats
from botorch_risk.risk import ConditionalValueAtRisk, Expectation
from botorch_risk.robust import HypervolumeImprovement
from botorch_risk.strategies import Acquire, Box, DecisionThenValue, Strategy
from botorch_risk.strategies.decision_then_value import least_certain
from botorch_risk.test_functions import (
    FiniteDomainProblem,
    HeteroscedasticSine,
    ValueAtRiskBranin,
    unit_grid,
)
from tests.acquisition.lake import build_model
from tests.devices import home
from tests.strategies.safe_start import SAFE

NUM_REPEATS = 4
NUM_INITIAL = 6


class NoisyPairs:
    r"""A problem of pairs `(x, w)`, which gives repeats as `PROBLEM` does.

    `bounds` are the decision's, which has as many variables as `PROBLEM`'s. A decision
    that comes alone meets a context from the distribution of W.
    """

    def __init__(self) -> None:
        self.outcome = ValueAtRiskBranin()
        self.bounds, self.contexts = self.outcome.bounds.tensor_split(2, dim=-1)
        self.environment = self.outcome.environment

    def draw_contexts(self, X: Tensor, streams: Any) -> Tensor:
        return self.environment.sample(X.shape[-2], streams)

    def sample_repeats(self, X: Tensor, num_repeats: int, streams: Any) -> Tensor:
        shape = (X.shape[-2], num_repeats)
        noise = [torch.randn(shape, generator=each, dtype=torch.double) for each in streams]
        return self.outcome(X, noise=False).unsqueeze(-1) + 0.1 * torch.stack(noise)

    def sample_outcomes(self, X: Tensor, num_repeats: int, streams: Any) -> Tensor:
        r"""A second outcome beside the first: what is used, between 0 and 2."""
        first = self.sample_repeats(X, num_repeats, streams)
        noise = [
            torch.randn(first.shape[1:], generator=each, dtype=torch.double) for each in streams
        ]
        used = X.sum(dim=-1, keepdim=True) + 0.01 * torch.stack(noise)
        return torch.stack([first, used], dim=-1)


class NoisyObjectives:
    r"""Two outcomes of pairs `(x, w)`, of which one is good where the other is bad."""

    def __init__(self) -> None:
        self.bounds = torch.tensor([[0.0], [2.0]], dtype=torch.double)
        weather = torch.tensor([[0.0], [0.5], [1.0]], dtype=torch.double)
        self.environment = DiscreteEnvironment(weather)

    def draw_contexts(self, X: Tensor, streams: Any) -> Tensor:
        return self.environment.sample(X.shape[-2], streams)

    def sample_outcomes(self, X: Tensor, num_repeats: int, streams: Any) -> Tensor:
        r"""`R x q x k x 2`."""
        shape = (X.shape[-2], num_repeats, 2)
        noise = [torch.randn(shape, generator=each, dtype=torch.double) for each in streams]
        x, w = X.split(1, dim=-1)
        values = torch.cat([-(x - 0.4).square() - w * x, (2 * x).sin() - (1 - w)], dim=-1)
        return values.unsqueeze(-2) + 0.1 * torch.stack(noise)


class NoisyLots:
    r"""Bread by the time in the oven, the lot of flour, which has no order, and the humidity.

    Args:
        numbers: Whether the humidity is there, as the first context.
    """

    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    lots = torch.tensor([0.6, 0.1, 0.3], dtype=torch.double)

    def __init__(self, numbers: bool) -> None:
        self.numbers = numbers
        lot = torch.tensor([[0.0], [2.0]], dtype=torch.double)
        self.contexts = torch.cat([self.bounds, lot], dim=-1) if numbers else lot

    def draw_contexts(self, X: Tensor, streams: Any) -> Tensor:
        u = torch.stack([torch.rand(X.shape[-2], 2, generator=each) for each in streams]).double()
        lot = (u[..., 1:] > self.lots.cumsum(dim=-1)[:-1]).sum(dim=-1, keepdim=True).double()
        return torch.cat([u[..., :1], lot], dim=-1) if self.numbers else lot

    def sample_repeats(self, X: Tensor, num_repeats: int, streams: Any) -> Tensor:
        shape = (X.shape[-2], num_repeats)
        noise = [torch.randn(shape, generator=each, dtype=torch.double) for each in streams]
        x, lot = X[..., 0], X[..., -1]
        rise = (6 * x + 2 * lot * (2 - lot)).sin() - X[..., 1:-1].sum(dim=-1) * x
        return rise.unsqueeze(-1) + 0.1 * torch.stack(noise)


def _on_a_domain() -> FiniteDomainProblem:
    domain = unit_grid(41, dim=1)
    return FiniteDomainProblem(domain, (6 * domain).sin().squeeze(-1), noise=1e-2)


class NoisyOven:
    r"""Whether a cake has risen: the heat, the number of trays and the kind of oven."""

    bounds = torch.tensor([[0.0, 1.0, -1.0], [1.0, 5.0, 1.0]], dtype=torch.double)
    integers, categories = (1,), (2,)

    def sample_repeats(self, X: Tensor, num_repeats: int, streams: Any) -> Tensor:
        heat, trays, kind = X.unbind(dim=-1)
        rise = (5 * heat + kind).sin() - 0.2 * (trays - 3 + kind).square()
        shape = (X.shape[-2], num_repeats)
        noise = [torch.randn(shape, generator=each, dtype=torch.double) for each in streams]
        return rise.unsqueeze(-1) + 0.1 * (1 + heat.unsqueeze(-1)) * torch.stack(noise)


class NoisySeasons:
    r"""The profit of a season at a price, a number of lots and a supplier; w is its quality."""

    bounds = torch.tensor([[3.0, 1.0, 0.0], [10.0, 8.0, 2.0]], dtype=torch.double)
    contexts = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    integers, categories = (1,), (2,)
    suppliers = torch.tensor([[15.0, 20.0, 30.0], [3.0, 2.4, 1.7], [0.0, 0.2, 0.6]]).double()

    def __init__(self) -> None:
        qualities = torch.linspace(0, 1, 33, dtype=torch.double)
        masses = (-((qualities - 0.5) / 0.15).square() / 2).exp()
        self.environment = DiscreteEnvironment(qualities.unsqueeze(-1), masses / masses.sum())

    def draw_contexts(self, X: Tensor, streams: Any) -> Tensor:
        return self.environment.sample(X.shape[-2], streams)

    def sample_repeats(self, X: Tensor, num_repeats: int, streams: Any) -> Tensor:
        price, lots, supplier, quality = X.unbind(dim=-1)
        units, cost, loss = self.suppliers[:, supplier.long()].unbind(dim=0)
        demand = 400 * (-price / 4).exp() * (0.4 + 1.2 * quality)
        received = lots * units * (1 - loss * (1 - quality))
        profit = price * torch.minimum(demand, received) - cost * lots * units
        shape = (X.shape[-2], num_repeats)
        noise = [torch.randn(shape, generator=each, dtype=torch.double) for each in streams]
        return profit.unsqueeze(-1) / 100 + 0.1 * torch.stack(noise)


PROBLEM = HeteroscedasticSine()


class ChosenReadings:
    r"""`PROBLEM`, with the number of readings of a point as its last column."""

    bounds = torch.cat([PROBLEM.bounds, PROBLEM.bounds.new_tensor([[1.0], [NUM_REPEATS]])], dim=-1)

    def sample_repeats(self, X: Tensor, num_repeats: int, streams: Any) -> Tensor:
        r"""NaN for the readings that were not asked for, and in rows of NaN."""
        Y = PROBLEM.sample_repeats(X[..., :-1].nan_to_num(), num_repeats, streams)
        return Y.where(torch.arange(num_repeats) < X[..., -1:], torch.nan)


OVEN = NoisyOven()
SEASONS = NoisySeasons()
PAIRS = NoisyPairs()
LOTS, HUMID_LOTS = NoisyLots(numbers=False), NoisyLots(numbers=True)
OBJECTIVES = NoisyObjectives()
MEASURED = ChosenReadings()
DOMAIN = _on_a_domain()


@dataclass(frozen=True)
class StrategyCase:
    r"""A strategy, built as `build(seeds, **options)`.

    Args:
        make: Its constructor, `make(box, seeds, **options)`.
        box: The bounds of the decisions, or the domain. Which of them are whole numbers is the
            problem's to say.
        options: What it is built with by name, unless a test asks for something else.
        problem: What it is played on.
        num_asked: How many columns it asks for, of which the first are the decision.
        num_told: How many columns it is told.
        label: Tells apart the cases of one constructor.
        batch_size: The largest batch that it takes, of those that tests ask for.
    """

    make: Callable[..., Strategy]
    box: Tensor
    options: dict[str, Any] = field(default_factory=dict)
    problem: Any = PROBLEM
    num_asked: int = 1
    num_told: int = 1
    label: str = ""
    batch_size: int = 2

    @property
    def name(self) -> str:
        return self.make.__name__ + self.label

    @cached_property
    def kind(self) -> str:
        r"""Its method: `make test` runs a law of strategies on one of each."""
        return type(self.build(0).method).__name__

    @property
    def num_decisions(self) -> int:
        r"""The number of columns of a decision."""
        return self.box.shape[-1]

    @property
    def of_sets(self) -> bool:
        r"""Whether it recommends a set of decisions, of several outcomes."""
        return self.problem is OBJECTIVES

    @property
    def learns_contexts(self) -> bool:
        r"""Whether the distribution of the context is learnt."""
        environment = self.options.get("environment")
        return "context_bounds" in self.options or isinstance(environment, ObservedContexts)

    @property
    def of_a_domain(self) -> bool:
        r"""Whether it may end, and recommend what it has not evaluated."""
        return self.problem is DOMAIN

    def build(self, seeds: Any, **options: Any) -> Strategy:
        chosen = {"num_initial": NUM_INITIAL, **self.options, **options}
        return self.make(self.bounds, seeds, **chosen)

    @property
    def bounds(self) -> Tensor | Box:
        r"""The bounds as the constructor takes them."""
        box = self.box.to(home())
        if self.problem not in (OVEN, SEASONS):
            return box
        return Box(box, self.problem.integers, self.problem.categories)


_FAST = {"num_restarts": 3, "raw_samples": 32}


def of_mean_and_variance(make: Any) -> StrategyCase:
    options = {"num_repeats": NUM_REPEATS, "risk_aversion": 1.0, **_FAST}
    return StrategyCase(make, PROBLEM.bounds, options)


def of_chosen_repeats(make: Any, label: str = "", **options: Any) -> StrategyCase:
    r"""The number of readings is chosen too."""
    options = {"risk_aversion": 1.0, **_FAST, **options}
    return StrategyCase(
        make, PROBLEM.bounds, options, MEASURED, 2, num_told=2, label=label, batch_size=1
    )


def of_outcomes(make: Any, batch_size: int = 2, label: str = "", **more: Any) -> StrategyCase:
    return StrategyCase(make, PROBLEM.bounds, _FAST | more, batch_size=batch_size, label=label)


def of_contexts(make: Any, label: str = "", **options: Any) -> StrategyCase:
    r"""The context is observed, its distribution unknown."""
    options = {"context_bounds": PAIRS.contexts, **_FAST, **options}
    return StrategyCase(make, PAIRS.bounds, options, PAIRS, num_told=2, label=label)


def of_labels(make: Any, problem: NoisyLots, label: str, **options: Any) -> StrategyCase:
    r"""The context is observed, and has a column of labels, the last one."""
    d_w = problem.contexts.shape[-1]
    boxes = {"context_bounds": problem.contexts, "context_categories": [d_w - 1]}
    options = {**boxes, **_FAST, **options}
    return StrategyCase(make, problem.bounds, options, problem, num_told=1 + d_w, label=label)


def of_pairs(make: Any, **options: Any) -> StrategyCase:
    r"""The context is chosen, its distribution known."""
    few = {"num_restarts": 2, "raw_samples": 16}
    options = {"environment": PAIRS.environment, **few, **options}
    return StrategyCase(make, PAIRS.bounds, options, PAIRS, num_asked=2, num_told=2)


def of_risks(make: Any, label: str = "", **options: Any) -> StrategyCase:
    r"""The context is observed, its distribution known."""
    few = {"num_restarts": 2, "raw_samples": 16}
    known = {
        "environment": PAIRS.environment,
        "risk_measure": ConditionalValueAtRisk(0.3),
        "reporting": "posterior_mean",
    }
    chosen = bool(options.get("w_is_chosen"))
    return StrategyCase(
        make, PAIRS.bounds, {**known, **few, **options}, PAIRS, 1 + chosen, num_told=2, label=label
    )


def of_mixed(make: Any, **options: Any) -> StrategyCase:
    r"""Decisions of which one is an integer and one a category."""
    options = {**_FAST, **options}
    return StrategyCase(make, OVEN.bounds, options, OVEN, num_asked=3, num_told=3, label="-mixed")


def of_mixed_contexts(make: Any, num_asked: int = 3, **options: Any) -> StrategyCase:
    r"""Such decisions beside a context."""
    options = {"num_restarts": 2, "raw_samples": 16, **options}
    return StrategyCase(
        make, SEASONS.bounds, options, SEASONS, num_asked, num_told=4, label="-mixed"
    )


def of_objectives(make: Any, label: str = "", **options: Any) -> StrategyCase:
    r"""Several outcomes are observed with the context."""
    options = {"environment": OBJECTIVES.environment, **options}
    return StrategyCase(make, OBJECTIVES.bounds, options, OBJECTIVES, num_told=2, label=label)


def of_a_domain(make: Any, label: str = "", batch_size: int = 2, **options: Any) -> StrategyCase:
    r"""Points of a finite domain, with known hyperparameters."""
    known = {"model": build_model, "estimator": None, "noise": 1e-2}
    return StrategyCase(
        make, DOMAIN.domain, {**known, **options}, DOMAIN, label=label, batch_size=batch_size
    )


def upper_bound(model: Any, t: int) -> UpperConfidenceBound:
    return UpperConfidenceBound(model, beta=4.0)


def random_or_acquire(
    bounds: Tensor, seeds: Any, *, num_initial: int = 10, batch_size: int = 1, **options: Any
) -> Strategy:
    method = RandomOrAcquire(Acquire(upper_bound, **options))
    return Strategy(Box(bounds), method, seeds, num_initial=num_initial, batch_size=batch_size)


# All decisions meet it with confidence, so that nothing is said of a recommendation that fails.
_USED = [RiskConstraint.chance(PAIRS.environment, 1e3, outcome=1, delta=0.1)]
_LEARNT = ObservedContexts(PAIRS.contexts)
_USED_IN_ANY_WEATHER = [RiskConstraint.chance(_LEARNT, 1e3, outcome=1, delta=0.1)]
_FEW = {"num_restarts": 1, "raw_samples": 4, "max_iterations": 2}
_CVAR = ConditionalValueAtRisk(0.4)
_IN_SEASON = {
    "environment": SEASONS.environment,
    "risk_measure": ConditionalValueAtRisk(0.2),
    "reporting": "posterior_mean",
}
_FEW_COMPARED = strategies.LargestKnowledgeGradient(num_compared=6, num_candidates=16)
STRATEGIES = [
    of_mean_and_variance(papers.rahbo),
    of_mean_and_variance(papers.rahbo_us),
    of_mean_and_variance(repeats.risk_averse_kg),
    of_outcomes(constraints.safe_rahbo, num_repeats=NUM_REPEATS, **SAFE),
    of_chosen_repeats(repeats.adaptive_repeats, num_repeats=(1, 2, 4)),
    of_chosen_repeats(repeats.adaptive_repeats, label="-fixed", rule=FixedRepeats(NUM_REPEATS)),
    StrategyCase(strategies.random_search, PROBLEM.bounds, {"risk_aversion": 1.0}),
    of_outcomes(papers.uhe_bo),
    of_outcomes(random_or_acquire, 1),
    of_contexts(papers.sbo_kde, n_w=16),
    of_contexts(papers.risk_kde, n_w=16, risk_measure=ConditionalValueAtRisk(0.1)),
    of_contexts(papers.drbo_kde, n_w=16),
    of_contexts(papers.drbo_mmd, num_points=5, radius_scale=0.1, raw_samples=8, num_restarts=2),
    of_contexts(papers.drbo_mmd, label="-minimax", num_points=5, radius_scale=0.1, minimax=True),
    of_contexts(
        papers.risk_kde,
        label="-constrained",
        n_w=16,
        risk_measure=ConditionalValueAtRisk(0.1),
        constraints=_USED_IN_ANY_WEATHER,
        reporting="posterior_mean",
    ),
    of_labels(papers.drbo_kde, LOTS, "-labels"),
    of_labels(
        papers.risk_kde,
        HUMID_LOTS,
        "-labels-and-numbers",
        n_w=8,
        risk_measure=ConditionalValueAtRisk(0.3),
    ),
    of_pairs(papers.v_ucb, risk_level=0.1),
    of_risks(strategies.risk_search),
    of_risks(
        strategies.risk_search,
        label="-chosen",
        w_is_chosen=True,
        choose=DecisionThenValue(strategies.largest_bound, least_certain),
        constraints=_USED,
    ),
    of_risks(strategies.risk_search, label="-joint", w_is_chosen=True, risk_measure=Expectation()),
    of_risks(
        strategies.risk_search,
        label="-risk-variance",
        w_is_chosen=True,
        joint=False,
        constraints=_USED,
    ),
    of_risks(
        strategies.risk_search, label="-lacing", w_is_chosen=True, value_rule="lacing", joint=False
    ),
    of_risks(
        strategies.risk_search, label="-knowledge-gradient", w_is_chosen=True, choose=_FEW_COMPARED
    ),
    of_risks(strategies.risk_search, label="-knowledge-gradient-observed", choose=_FEW_COMPARED),
    of_risks(strategies.risk_search, label="-constrained", constraints=_USED),
    of_mixed(papers.rahbo, num_repeats=NUM_REPEATS, risk_aversion=1.0),
    of_mixed(repeats.risk_averse_kg, num_repeats=NUM_REPEATS, risk_aversion=1.0),
    of_mixed(papers.uhe_bo),
    StrategyCase(
        strategies.random_search, OVEN.bounds, {}, OVEN, num_asked=3, num_told=3, label="-mixed"
    ),
    of_mixed_contexts(papers.sbo_kde, context_bounds=SEASONS.contexts, n_w=16),
    of_mixed_contexts(papers.drbo_kde, context_bounds=SEASONS.contexts, n_w=16),
    of_mixed_contexts(strategies.risk_search, **_IN_SEASON),
    of_mixed_contexts(level_sets.level_set_search, goal=LevelSet(0.5), num_points=32, **_IN_SEASON),
    of_mixed_contexts(papers.v_ucb, num_asked=4, environment=SEASONS.environment, risk_level=0.2),
    of_objectives(
        robust.pareto_search,
        risk_measure=_CVAR,
        acquisition=HypervolumeImprovement((-5.0, -5.0), num_samples=4),
        **_FEW,
    ),
    of_objectives(
        robust.pareto_search,
        label="-learnt",
        environment=ObservedContexts(
            torch.tensor([[0.0], [1.0]], dtype=torch.double),
            partial(KernelDensityEnvironment, n_w=4),
        ),
        risk_measure=_CVAR,
        acquisition=HypervolumeImprovement((-5.0, -5.0), num_samples=4),
        **_FEW,
    ),
    of_a_domain(papers.truvar, goal=LevelSet(0.3)),
    of_a_domain(papers.truvar, label="-maximum", goal=Maximize()),
]
# Other cases cover its code, except the hypervolume, which needs seconds a round.
_MARKS = {"pareto_search": [pytest.mark.slow], "pareto_search-learnt": [pytest.mark.slow]}
every_strategy = pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=_MARKS.get(case.name, [])) for case in STRATEGIES],
)
