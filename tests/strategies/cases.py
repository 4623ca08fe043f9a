r"""Every strategy, one line each; the laws that run over them are in `test_contract.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from botorch.acquisition import UpperConfidenceBound
from torch import Tensor

from botorch_risk.acquisition import LevelSet, Maximize
from botorch_risk.fit.estimators import MaximumAPosteriori
from botorch_risk.strategies import (
    AGPUCB,
    DRBOKDE,
    DRBOMMD,
    GCHK,
    GPUCB,
    RABO,
    RAHBO,
    RAHBOUS,
    SBOKDE,
    UHEBO,
    VUCB,
    AdversarialStableOpt,
    ContextFreeGPUCB,
    ContextualGPUCB,
    ExpectedImprovementSearch,
    FullyBayesianGPUCB,
    HeteroscedasticGPUCB,
    LevelSetSearch,
    MaximumVarianceSearch,
    MaxValueEntropySearch,
    MeanVarianceLogNEI,
    MinimumRegretSearch,
    PortfolioEXP3,
    PseudoDataGPUCB,
    RandomEXP3,
    RandomOrAcquire,
    RandomPairs,
    RandomSearch,
    RhoKnowledgeGradient,
    StableOpt,
    TruVaR,
    UpperConfidenceBoundSearch,
    ValueAtRiskLogNEI,
    WangDeFreitasGPUCB,
)
from botorch_risk.test_functions import (
    FiniteDomainProblem,
    HeteroscedasticSine,
    ValueAtRiskBranin,
    unit_grid,
)
from tests.acquisition.lake import build_model

NUM_REPEATS = 4
NUM_INITIAL = 6


class NoisyPairs:
    r"""A problem of pairs `(x, w)`, which gives repeats as `PROBLEM` does.

    `bounds` are those of the decision, which has as many variables as that of `PROBLEM`. A decision
    that comes alone meets a context from the law of W.
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


def _on_a_domain() -> FiniteDomainProblem:
    domain = unit_grid(41, dim=1)
    return FiniteDomainProblem(domain, (6 * domain).sin().squeeze(-1), noise=1e-2)


PROBLEM = HeteroscedasticSine()
PAIRS = NoisyPairs()
DOMAIN = _on_a_domain()


@dataclass(frozen=True)
class StrategyCase:
    r"""A strategy, built as `build(seeds, **options)`.

    Args:
        kind: Its class.
        arguments: What it is built with before the seeds.
        after: What it is built with after the seeds.
        options: What it is built with by name, unless a test asks for something else.
        problem: What it is played on.
        num_asked: How many columns it asks for, of which the first is the decision.
        num_told: How many columns it is told.
        label: Tells apart the cases of one class.
        batch_size: The largest batch that it takes, of those that tests ask for.
    """

    kind: Any
    arguments: tuple[Any, ...]
    after: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    problem: Any = PROBLEM
    num_asked: int = 1
    num_told: int = 1
    label: str = ""
    batch_size: int = 2

    @property
    def name(self) -> str:
        return self.kind.__name__ + self.label

    @property
    def of_a_domain(self) -> bool:
        r"""Whether it may end, and recommend what it has not evaluated."""
        return self.problem is DOMAIN

    def build(self, seeds: Any, **options: Any) -> Any:
        chosen = {"num_initial": NUM_INITIAL, **self.options, **options}
        return self.kind(*self.arguments, seeds, *self.after, **chosen)


_FAST = {"num_restarts": 3, "raw_samples": 32}


def of_mean_and_variance(kind: Any) -> StrategyCase:
    return StrategyCase(kind, (PROBLEM.bounds, NUM_REPEATS, 1.0), options=_FAST)


def of_outcomes(kind: Any, batch_size: int = 2, **options: Any) -> StrategyCase:
    options = {**_FAST, **options}
    return StrategyCase(kind, (PROBLEM.bounds,), options=options, batch_size=batch_size)


def of_contexts(kind: Any, label: str = "", **options: Any) -> StrategyCase:
    r"""The context is observed, its law unknown."""
    arguments, options = (PAIRS.bounds, PAIRS.contexts), {**_FAST, **options}
    return StrategyCase(kind, arguments, options=options, problem=PAIRS, num_told=2, label=label)


def of_pairs(kind: Any, *level: float, **options: Any) -> StrategyCase:
    r"""The context is chosen, its law known."""
    return StrategyCase(
        kind,
        (PAIRS.bounds, PAIRS.environment, *level),
        options={"num_restarts": 2, "raw_samples": 16, **options},
        problem=PAIRS,
        num_asked=2,
        num_told=2,
    )


def of_a_domain(
    kind: Any, *after: Any, label: str = "", batch_size: int = 2, **options: Any
) -> StrategyCase:
    r"""The points are those of a finite domain."""
    return StrategyCase(
        kind,
        (DOMAIN.domain,),
        (build_model, *after),
        {"noise": 1e-2, **options},
        DOMAIN,
        label=label,
        batch_size=batch_size,
    )


def _upper_bound(model: Any) -> UpperConfidenceBound:
    return UpperConfidenceBound(model, beta=4.0)


_TINY = {"n_w": 2, "num_samples": 2, "num_restarts": 1, "raw_samples": 2, "max_iterations": 1}

STRATEGIES = [
    of_mean_and_variance(RAHBO),
    of_mean_and_variance(RAHBOUS),
    of_mean_and_variance(HeteroscedasticGPUCB),
    of_mean_and_variance(MeanVarianceLogNEI),
    StrategyCase(RandomSearch, (PROBLEM.bounds,), options={"risk_aversion": 1.0}),
    of_outcomes(UHEBO),
    of_outcomes(GPUCB),
    of_outcomes(PseudoDataGPUCB),
    of_outcomes(RandomEXP3),
    of_outcomes(RABO),
    of_outcomes(PortfolioEXP3),
    of_outcomes(AGPUCB),
    of_outcomes(WangDeFreitasGPUCB),
    # With the estimator of the others: NumPyro is an extra, and its own tests are slow.
    of_outcomes(FullyBayesianGPUCB, 1, estimator=MaximumAPosteriori(), sample_every=2),
    StrategyCase(RandomOrAcquire, (_upper_bound, PROBLEM.bounds), options=_FAST, batch_size=1),
    of_contexts(SBOKDE, n_w=16),
    of_contexts(DRBOKDE, n_w=16),
    of_contexts(DRBOMMD, num_points=5, radius_scale=0.1, raw_samples=8, num_restarts=2),
    of_contexts(DRBOMMD, label="-minimax", num_points=5, radius_scale=0.1, minimax=True),
    of_contexts(StableOpt, n_w=16),
    of_contexts(ContextFreeGPUCB),
    of_pairs(VUCB, 0.1),
    of_pairs(AdversarialStableOpt),
    of_pairs(ContextualGPUCB, 0.1),
    of_pairs(RandomPairs, 0.1),
    of_pairs(RhoKnowledgeGradient, 0.1, num_fantasies=2, **_TINY),
    of_pairs(ValueAtRiskLogNEI, 0.1, **_TINY),
    of_a_domain(TruVaR, LevelSet(0.3)),
    of_a_domain(TruVaR, Maximize(), label="-maximum"),
    of_a_domain(LevelSetSearch, 0.3),
    of_a_domain(GCHK, 0.3),
    of_a_domain(MaximumVarianceSearch, 0.3),
    of_a_domain(ExpectedImprovementSearch),
    of_a_domain(UpperConfidenceBoundSearch),
    of_a_domain(MinimumRegretSearch),
    of_a_domain(MaxValueEntropySearch, batch_size=1),
]
