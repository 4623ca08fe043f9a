r"""Risk-averse heteroscedastic Bayesian optimisation [Makarova2021rahbo]_."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from botorch_risk.acquisition.mean_variance import NoisePosteriorStandardDeviation
from botorch_risk.acquisition.pointwise import PointwiseAcquisitionFunction
from botorch_risk.arguments import check_arguments, check_counts
from botorch_risk.models.heteroscedastic import MeanVarianceGP
from botorch_risk.strategies.mean_variance import MeanVarianceSearch, Weights, risk_averse
from botorch_risk.strategies.space import Box, decision_box
from botorch_risk.strategies.strategy import Strategy


def rahbo(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    num_repeats: int,
    risk_aversion: float,
    beta: float = 4.0,
    noise_beta: float = 4.0,
    num_initial: int = 10,
    batch_size: int = 1,
    **options: Any,
) -> Strategy:
    r"""RAHBO, Algorithm 1 of [Makarova2021rahbo]_; with `known_noise`, Eq. (9).

    Each round maximises `ucb_f(x) - risk_aversion * lcb_var(x)` and observes k repeats there.

    Args:
        bounds: The lower and the upper bounds of the box, `2 x d`, or a `Box`.
        seeds: One seed per replicate.
        num_repeats: The number k of repeats at each point.
        risk_aversion: Weight of the variance, >= 0 (the paper's alpha); it is also the weight by
            which points are reported.
        beta: Squared width of the bound of f (the paper's beta_t = 2, squared).
        noise_beta: Squared width of the bound of the noise (beta^var_t, squared).
        num_initial: The number of points of the initial design.
        batch_size: The number `q` of points of each later round.
        options: Further arguments of `MeanVarianceSearch`.

    Raises:
        ValueError: If a weight is negative or not finite, or a number out of its range.

    Example:
        >>> import torch
        >>> bounds = torch.tensor([[0.0], [2.0]], dtype=torch.double)
        >>> strategy = rahbo(bounds, [0, 1], num_repeats=4, risk_aversion=1.0, num_initial=5)
        >>> X = strategy.ask()
        >>> noise = 0.1 * torch.randn(2, 5, 4, dtype=torch.double)
        >>> strategy.tell(X, (3 * X).sin() + noise)
        >>> strategy.ask().shape, strategy.recommend().shape
        (torch.Size([2, 1, 1]), torch.Size([2, 1]))
    """
    check_arguments(rahbo, locals())
    weights = Weights(risk_aversion, beta, noise_beta)
    method = MeanVarianceSearch(weights, num_repeats=num_repeats, **options)
    return Strategy(
        decision_box(bounds), method, seeds, num_initial=num_initial, batch_size=batch_size
    )


def rahbo_us(
    bounds: Tensor | Box, seeds: int | Sequence[int], *, num_uncertainty: int = 10, **options: Any
) -> Strategy:
    r"""RAHBO-US: first learn the noise by uncertainty sampling, then trust its mean.

    The second baseline of [Makarova2021rahbo]_, Sec. 4.

    For `num_uncertainty` rounds the point is the one where the noise is known least; after that it
    maximises `ucb_f(x) - risk_aversion * mean_var(x)`. The noise model still learns from every
    point, as in the paper. The first stage costs evaluations like any other: charge regret for it,
    or show both.

    Args:
        bounds: The lower and the upper bounds of the box, `2 x d`, or a `Box`.
        seeds: One seed per replicate.
        num_uncertainty: Rounds of the first stage (10 in the paper's Branin).
        options: Further arguments of `rahbo` but `known_noise`.

    Raises:
        ValueError: If `num_uncertainty` is negative or the noise is known.

    Example:
        >>> import torch
        >>> bounds = torch.tensor([[0.0], [2.0]], dtype=torch.double)
        >>> options = {"num_repeats": 4, "risk_aversion": 1.0, "num_initial": 5}
        >>> rahbo_us(bounds, [0, 1], num_uncertainty=3, **options).ask().shape
        torch.Size([2, 5, 1])
    """
    check_arguments(rahbo_us, locals())
    check_counts(0, num_uncertainty=num_uncertainty)
    if options.get("known_noise") is not None:
        raise ValueError(
            f"Expected noise that is to be learnt. Got known_noise={options.get('known_noise')}."
        )
    return rahbo(bounds, seeds, acquisition=NoiseFirst(num_uncertainty), **options)


@dataclass(frozen=True)
class NoiseFirst:
    r"""Uncertainty sampling of the noise for some rounds, then a bound that trusts the noise."""

    num_uncertainty: int

    def __call__(
        self, model: MeanVarianceGP, t: int, weights: Weights
    ) -> PointwiseAcquisitionFunction:
        r"""The acquisition function of round t."""
        if t <= self.num_uncertainty:
            return NoisePosteriorStandardDeviation(model)
        return risk_averse(model, t, replace(weights, noise_beta=None))
