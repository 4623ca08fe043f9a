r"""Baselines of SBO-KDE and DRBO-KDE."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from botorch.models.model import Model
from torch import Tensor

from botorch_risk.acquisition.risk_bound import gp_ucb
from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.acquisition.widths import Beta, check_beta
from botorch_risk.arguments import check_arguments, check_counts
from botorch_risk.environments import Environment, ObservedContexts, StandardDeviationBox
from botorch_risk.papers.kde import PAPER_BETA
from botorch_risk.risk import WorstCase
from botorch_risk.strategies.decision_then_value import (
    DecisionThenValue,
    largest_bound,
    largest_reduction,
)
from botorch_risk.strategies.environment_risk import EnvironmentRisk
from botorch_risk.strategies.environment_space import EnvironmentSpace
from botorch_risk.strategies.risk_search import AS_IN_PAPERS, risk_search
from botorch_risk.strategies.space import Box, decision_box
from botorch_risk.strategies.strategy import Strategy
from botorch_risk_bench.baselines.documented import documented


@documented("num_initial=4", 1, n_w="Points of the box of contexts.")
def stable_opt(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    context_bounds: Tensor,
    n_w: int = 256,
    beta: Beta = PAPER_BETA,
    **options: Any,
) -> Strategy:
    r"""The worst context within a standard deviation of the mean [Bogunovic2018stableopt]_."""
    check_arguments(stable_opt, locals())
    check_counts(n_w=n_w)
    box = ObservedContexts(context_bounds, partial(StandardDeviationBox, n_w=n_w))
    return risk_search(
        bounds,
        seeds,
        environment=box,
        risk_measure=WorstCase(),
        beta=beta,
        **{**AS_IN_PAPERS, **options},
    )


@documented("num_initial=4", 1)
def context_free_gp_ucb(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    context_bounds: Tensor,
    beta: Beta = PAPER_BETA,
    num_initial: int = 10,
    batch_size: int = 1,
    **options: Any,
) -> Strategy:
    r"""GP-UCB on the decision alone, to which the context is noise.

    [Srinivas2010gpucb]_ as used in Sec. 4 of [Huang2024kde]_.
    """
    check_arguments(context_free_gp_ucb, locals())
    check_beta(beta)
    unused = ObservedContexts(context_bounds, partial(StandardDeviationBox, n_w=1))
    space = EnvironmentSpace(decision_box(bounds), unused, w_is_chosen=False)
    recipe = partial(_without_contexts, beta=beta)
    choose = DecisionThenValue(largest_bound, largest_reduction)  # w is observed
    method = EnvironmentRisk(recipe, choose, uses_w=False, **options)
    return Strategy(space, method, seeds, num_initial=num_initial, batch_size=batch_size)


def _without_contexts(
    model: Model, environment: Environment, t: int, *, beta: Beta, **options: Any
) -> RiskUpperConfidenceBound:
    return gp_ucb(model, t, beta=beta, **options)
