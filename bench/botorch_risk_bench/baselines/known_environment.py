r"""Baselines of V-UCB made of this package's parts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from botorch.exceptions.errors import UnsupportedError
from torch import Tensor

from botorch_risk.acquisition import risk_bound
from botorch_risk.acquisition.widths import Beta, bayesian_beta
from botorch_risk.arguments import check_arguments
from botorch_risk.environments import DiscreteEnvironment, Environment, IndependentEnvironment
from botorch_risk.risk import Expectation, ValueAtRisk, WorstCase
from botorch_risk.seeding import generators
from botorch_risk.strategies.decision_then_value import (
    DecisionThenValue,
    LacingValue,
    largest_bound,
)
from botorch_risk.strategies.environment_risk import Chooser, Reporting, Turn
from botorch_risk.strategies.risk_search import AS_IN_PAPERS, risk_search
from botorch_risk.strategies.space import Box
from botorch_risk.strategies.strategy import Strategy
from botorch_risk_bench.baselines.documented import documented


@documented(
    "num_initial=4", 2, environment="Its points of positive weight are the adversary's choices."
)
def adversarial_stable_opt(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    environment: Environment,
    beta: Beta = bayesian_beta,
    w_is_chosen: bool = True,
    reporting: Reporting = "posterior_mean",
    **options: Any,
) -> Strategy:
    r"""StableOpt as published: the adversary's w is chosen and queried.

        x_t = argmax_x min_w u_{t-1}(x, w),  w_t = argmin_w l_{t-1}(x_t, w)

    Eq. (5) of [Nguyen2021vucb]_, after [Bogunovic2018stableopt]_; the minima are over the support
    of the distribution, whose probabilities do not matter. What V-UCB becomes as its level goes to
    0 (Corollary 2.2). `stable_opt` is for contexts that are observed, with an unknown distribution.
    """
    check_arguments(adversarial_stable_opt, locals())
    return risk_search(
        bounds,
        seeds,
        environment=environment,
        risk_measure=WorstCase(),
        beta=beta,
        choose=DecisionThenValue(largest_bound, LacingValue("uniform")),
        w_is_chosen=w_is_chosen,
        reporting=reporting,
        **{**AS_IN_PAPERS, **options},
    )


@documented("risk_level=0.1, num_initial=4", 2)
def contextual_gp_ucb(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    environment: Environment,
    risk_level: float,
    beta: Beta = bayesian_beta,
    **options: Any,
) -> Strategy:
    r"""Contextual GP-UCB: w from its distribution, then the best decision [Krause2011contextual]_.

        w_t ~ W,  x_t = argmax_x u_{t-1}(x, w_t)

    It draws w instead of choosing it; it reports by the value-at-risk as V-UCB does.
    """
    check_arguments(contextual_gp_ucb, locals())
    choose = BestDecision(beta)
    return drawn_contexts(choose, bounds, seeds, environment, risk_level, beta=beta, **options)


@documented("risk_level=0.1, num_initial=4", 2)
def random_pairs(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    environment: Environment,
    risk_level: float,
    **options: Any,
) -> Strategy:
    r"""Uniformly random decisions with w from its distribution, reported as V-UCB's are."""
    check_arguments(random_pairs, locals())
    return drawn_contexts(random_pair, bounds, seeds, environment, risk_level, **options)


def drawn_contexts(
    choose: Chooser,
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    environment: Environment,
    risk_level: float,
    *,
    beta: Beta = bayesian_beta,
    **options: Any,
) -> Strategy:
    r"""A strategy whose w is drawn from its distribution, reported by the value-at-risk."""
    if not isinstance(environment, IndependentEnvironment):
        raise UnsupportedError(
            f"Expected an `IndependentEnvironment`. Got {type(environment).__name__}."
        )
    return risk_search(
        bounds,
        seeds,
        environment=environment,
        risk_measure=ValueAtRisk(risk_level),
        beta=beta,
        choose=choose,
        w_is_chosen=True,
        **{**AS_IN_PAPERS, "reporting": "posterior_mean", **options},
    )


@dataclass(frozen=True)
class BestDecision:
    r"""A value of W from its distribution, and the decision of the largest bound there."""

    beta: Beta

    def __call__(self, turn: Turn) -> Tensor:
        W = _drawn(turn)
        bound = risk_bound(
            turn.model,
            DiscreteEnvironment(W),
            turn.view.round,
            risk_measure=Expectation(),
            beta=self.beta,
        )
        return torch.cat([turn.maximize(bound), W], dim=-1)


def random_pair(turn: Turn) -> Tensor:
    r"""A uniformly random decision with a value of W from its distribution."""
    X = turn.space.box.random_points(turn.streams("decision"), 1)
    return torch.cat([X, _drawn(turn)], dim=-1)


def _drawn(turn: Turn) -> Tensor:
    r"""A value of W for each replicate, `R x 1 x d_w`."""
    streams = generators(turn.streams("context"), "environment")
    environment: Any = turn.space.environment
    return environment.sample(1, streams).to(turn.space.bounds)
