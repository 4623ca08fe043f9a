r"""Baselines of SBO-KDE and DRBO-KDE."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from botorch.models.model import Model
from torch import Tensor

from botorch_risk.acquisition import named
from botorch_risk.acquisition.named import gp_ucb
from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.acquisition.widths import Beta, check_beta
from botorch_risk.arguments import check_arguments
from botorch_risk.environments.uniforms import check_num_points
from botorch_risk.strategies.kde import contextual
from botorch_risk.strategies.space import Box
from botorch_risk.strategies.strategy import Strategy


def stable_opt(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    context_bounds: Tensor,
    n_w: int = 256,
    beta: Beta = named.PAPER_BETA,
    **options: Any,
) -> Strategy:
    r"""The worst context within a standard deviation of the mean [Bogunovic2018stableopt]_.

    Args:
        bounds: The lower and the upper bounds of the decisions, `2 x d_x`, or a `Box`.
        seeds: One seed per replicate.
        context_bounds: The lower and the upper bounds of the contexts, `2 x d_w`.
        n_w: Points of the box of contexts.
        beta: Squared width of the bound: a number, or a function of the round from 1.
        options: `num_initial` and `batch_size`; further arguments of `ContextualRisk`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `n_w` is below 1, or `beta` negative or not finite.

    Example:
        >>> import torch
        >>> unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> stable_opt(unit, seeds=[0, 1], context_bounds=unit, num_initial=4).ask().shape
        torch.Size([2, 4, 1])
    """
    check_arguments(stable_opt, locals())
    check_num_points(n_w)
    check_beta(beta)
    recipe = partial(named.stable_opt, n_w=n_w, beta=beta)
    return contextual(recipe, bounds, seeds, context_bounds, **options)


def context_free_gp_ucb(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    context_bounds: Tensor,
    beta: Beta = named.PAPER_BETA,
    **options: Any,
) -> Strategy:
    r"""GP-UCB on the decision alone, to which the context is noise.

    [Srinivas2010gpucb]_ as used in Sec. 4 of [Huang2024kde]_.

    Args:
        bounds: The lower and the upper bounds of the decisions, `2 x d_x`, or a `Box`.
        seeds: One seed per replicate.
        context_bounds: The lower and the upper bounds of the contexts, `2 x d_w`.
        beta: Squared width of the bound: a number, or a function of the round from 1.
        options: `num_initial` and `batch_size`; further arguments of `ContextualRisk`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `beta` is negative or not finite.

    Example:
        >>> import torch
        >>> unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> context_free_gp_ucb(unit, seeds=[0, 1], context_bounds=unit, num_initial=4).ask().shape
        torch.Size([2, 4, 1])
    """
    check_arguments(context_free_gp_ucb, locals())
    check_beta(beta)
    recipe = partial(_without_contexts, beta=beta)
    return contextual(recipe, bounds, seeds, context_bounds, uses_contexts=False, **options)


def _without_contexts(
    model: Model,
    observed: Tensor,
    bounds: Tensor | Box,
    t: int,
    *,
    seeds: Sequence[int],
    beta: Beta,
) -> RiskUpperConfidenceBound:
    return gp_ucb(model, t, beta=beta)
