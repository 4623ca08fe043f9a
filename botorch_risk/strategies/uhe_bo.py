r"""UHE-BO: random points by EXP3, hyperparameters by pseudo-data [Ha2023uhe]_."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from torch import Tensor

from botorch_risk.acquisition.named import gp_ucb
from botorch_risk.acquisition.widths import Beta, check_beta
from botorch_risk.arguments import check_arguments
from botorch_risk.bandits import RewardScale
from botorch_risk.fit.estimators import Estimator, PseudoData
from botorch_risk.strategies.acquire import Acquire
from botorch_risk.strategies.random_or_acquire import RandomOrAcquire
from botorch_risk.strategies.space import Box, decision_box
from botorch_risk.strategies.strategy import Strategy

PAPER_BETA = 1.96**2


def uhe_bo(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    beta: Beta = PAPER_BETA,
    estimator: Estimator | None = None,
    reward_scale: RewardScale = "min_max",
    exploration: float | None = None,
    num_initial: int = 10,
    batch_size: int = 1,
    **options: Any,
) -> Strategy:
    r"""UHE-BO: EXP3 decides when to sample at random, pseudo-data fit the model.

    Algorithm 1 of [Ha2023uhe]_.

    The paper's constant beta_t = 1.96 is read as the multiplier of sigma, so that `beta` is its
    square; `beta=1.96` is the other reading. The model is BoTorch's `SingleTaskGP` with its priors
    on the unit cube and standardised outcomes; `model` takes any other, such as the paper's Matern
    5/2 kernel with the priors of `botorch_risk.fit.set_gamma_priors`.

    Args:
        bounds: The lower and the upper bounds of the box, `2 x d`, or a `Box`.
        seeds: One seed per replicate.
        beta: Squared width of the bound: a number, or a function of the round from 1.
        estimator: Estimates the hyperparameters; `PseudoData()` if omitted.
        reward_scale: The scale of the bandit's rewards.
        exploration: A constant gamma; Algorithm 1's schedule if omitted.
        num_initial: The number of points of the initial design.
        batch_size: The number `q` of points of each later round.
        options: Further arguments of `Acquire`, such as `model`.

    Raises:
        ValueError: If `beta` is negative or not finite, `exploration` not positive, or the scale
            unknown.

    Example:
        >>> import torch
        >>> bounds = torch.tensor([[0.0], [2.0]], dtype=torch.double)
        >>> strategy = uhe_bo(bounds, seeds=[0, 1], num_initial=5)
        >>> for _ in range(2):
        ...     X = strategy.ask()
        ...     strategy.tell(X, (3 * X).sin())
        >>> strategy.ask().shape, strategy.recommend().shape
        (torch.Size([2, 1, 1]), torch.Size([2, 1]))
    """
    check_arguments(uhe_bo, locals())
    method = RandomOrAcquire(
        acquire_gp_ucb(beta, estimator=estimator or PseudoData(), **options),
        reward_scale=reward_scale,
        exploration=exploration,
    )
    return Strategy(
        decision_box(bounds), method, seeds, num_initial=num_initial, batch_size=batch_size
    )


def acquire_gp_ucb(beta: Beta = PAPER_BETA, **options: Any) -> Acquire:
    r"""GP-UCB over replicates, with further options of `Acquire`."""
    check_beta(beta)
    return Acquire(partial(gp_ucb, beta=beta), batched=True, **options)
