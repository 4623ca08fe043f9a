r"""Baselines of UHE-BO: ways to estimate hyperparameters and to sample at random.

All are GP-UCB with the same model and the same constant width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.acquisition.widths import Beta, beta_of_round
from botorch_risk.arguments import check_arguments, check_counts
from botorch_risk.fit.estimators import Estimator, MaximumAPosteriori, PseudoData
from botorch_risk.strategies.acquire import Acquire
from botorch_risk.strategies.method import Method, View, best_observed
from botorch_risk.strategies.random_or_acquire import RandomOrAcquire
from botorch_risk.strategies.space import Box, decision_box
from botorch_risk.strategies.strategy import Strategy
from botorch_risk.strategies.uhe_bo import PAPER_BETA, acquire_gp_ucb
from botorch_risk_bench.baselines.shrinkage import divide_lengthscales, expansion_factor


def gp_ucb(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    beta: Beta = PAPER_BETA,
    num_initial: int = 10,
    batch_size: int = 1,
    **options: Any,
) -> Strategy:
    r"""GP-UCB with hyperparameters at their maximum a posteriori.

    Algorithm 1 of [Srinivas2010gpucb]_; the MAP baseline of [Ha2023uhe]_, Appendix C.

    Args:
        bounds: The lower and the upper bounds of the box, `2 x d`, or a `Box`.
        seeds: One seed per replicate.
        beta: Squared width of the bound: a number, or a function of the round from 1.
        num_initial: The number of points of the initial design.
        batch_size: The number `q` of points of each later round.
        options: Further arguments of `Acquire`, such as `model` and `estimator`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `beta` is negative or not finite, a number below 1, or a seed repeats.

    Example:
        >>> bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> gp_ucb(bounds, seeds=[0, 1], num_initial=4).ask().shape
        torch.Size([2, 4, 1])
    """
    check_arguments(gp_ucb, locals())
    method = acquire_gp_ucb(beta, **options)
    return Strategy(
        decision_box(bounds), method, seeds, num_initial=num_initial, batch_size=batch_size
    )


def pseudo_data_gp_ucb(
    bounds: Tensor | Box, seeds: int | Sequence[int], **options: Any
) -> Strategy:
    r"""Pseudo-data without random points: an ablation of UHE-BO, [Ha2023uhe]_, Sec. 5.2.

    Args:
        bounds: The lower and the upper bounds of the box, `2 x d`, or a `Box`.
        seeds: One seed per replicate.
        options: Further arguments of `gp_ucb`.

    Raises:
        TypeError: If an argument has the wrong type.

    Example:
        >>> bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> pseudo_data_gp_ucb(bounds, seeds=[0, 1], num_initial=4).ask().shape
        torch.Size([2, 4, 1])
    """
    return gp_ucb(bounds, seeds, **{"estimator": PseudoData(), **options})


def random_exp3(bounds: Tensor | Box, seeds: int | Sequence[int], **options: Any) -> Strategy:
    r"""Random points by EXP3 without pseudo-data: the ablation of Fig. 4 of [Ha2023uhe]_.

    Args:
        bounds: The lower and the upper bounds of the box, `2 x d`, or a `Box`.
        seeds: One seed per replicate.
        options: Further arguments of `gp_ucb`; `reward_scale` and `exploration` of
            `RandomOrAcquire`.

    Example:
        >>> bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> random_exp3(bounds, seeds=[0, 1], num_initial=4).ask().shape
        torch.Size([2, 4, 1])
    """
    return _with_random_points(bounds, seeds, **options)


def ra_bo(bounds: Tensor | Box, seeds: int | Sequence[int], **options: Any) -> Strategy:
    r"""RA-BO: a random point and the acquisition's in turn, Sec. 6 of [Ha2023uhe]_.

    With pseudo-data, as in its Theorem 6.4.

    Args:
        bounds: The lower and the upper bounds of the box, `2 x d`, or a `Box`.
        seeds: One seed per replicate.
        options: Further arguments of `gp_ucb`.

    Example:
        >>> bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> ra_bo(bounds, seeds=[0, 1], num_initial=4).ask().shape
        torch.Size([2, 4, 1])
    """
    options = {"estimator": PseudoData(), **options}
    return _with_random_points(bounds, seeds, arms="alternate", **options)


def portfolio_exp3(bounds: Tensor | Box, seeds: int | Sequence[int], **options: Any) -> Strategy:
    r"""EXP3 over random sampling and GP-UCB, one evaluation an arm [Hoffman2011portfolio]_.

    As in Appendix C of [Ha2023uhe]_, with the reward that it does not state: the scaled outcome
    itself.

    Args:
        bounds: The lower and the upper bounds of the box, `2 x d`, or a `Box`.
        seeds: One seed per replicate.
        options: Further arguments of `random_exp3`.

    Example:
        >>> bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> portfolio_exp3(bounds, seeds=[0, 1], num_initial=4).ask().shape
        torch.Size([2, 4, 1])
    """
    return _with_random_points(bounds, seeds, steps=1, **options)


def a_gp_ucb(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    regret_exponent: float = 0.9,
    widen: bool = False,
    beta: Beta = PAPER_BETA,
    estimator: Estimator | None = None,
    **options: Any,
) -> Strategy:
    r"""A-GP-UCB: the function class grows with every round [Berkenkamp2019agpucb]_.

    Lengthscales are the estimate over g(t), `baselines.shrinkage.expansion_factor`. In
    theory the bound on the norm, of which sqrt(beta) is a multiple, grows with them, as
    `g(t)^(d / 2)`; UHE-BO's comparison keeps the width constant, as does the default.

    Args:
        bounds: The lower and the upper bounds of the box, `2 x d`, or a `Box`.
        seeds: One seed per replicate.
        regret_exponent: Of the reference regret, which sets g.
        widen: Whether the bound grows with the norm.
        beta: Squared width of the bound before it is widened: a number, or a function of the round.
        estimator: Estimates the lengthscales that are divided.
        options: Further arguments of `gp_ucb`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `regret_exponent` is not in [0.5, 1).

    Example:
        >>> bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> a_gp_ucb(bounds, seeds=[0, 1], num_initial=4).ask().shape
        torch.Size([2, 4, 1])
    """
    check_arguments(a_gp_ucb, locals())
    dimension = decision_box(bounds).num_columns
    expansion_factor(1, dimension, regret_exponent)  # raises
    shorter = ShorterLengthscales(regret_exponent, estimator or MaximumAPosteriori())
    if widen:
        beta = partial(_widened, beta=beta, dimension=dimension, regret_exponent=regret_exponent)
    return gp_ucb(bounds, seeds, beta=beta, estimator=shorter, **options)


@dataclass(frozen=True)
class ShorterLengthscales:
    r"""An estimator whose lengthscales shrink as A-GP-UCB prescribes."""

    regret_exponent: float
    estimator: Estimator

    def __call__(
        self, model: SingleTaskGP, seeds: Sequence[int], t: int, observed: Tensor | None = None
    ) -> Model:
        r"""The fitted model with its lengthscales divided."""
        fitted: Any = self.estimator(model, seeds, t, observed)
        dimension = model.train_inputs[0].shape[-1]
        return divide_lengthscales(fitted, expansion_factor(t, dimension, self.regret_exponent))


def wang_de_freitas_gp_ucb(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    threshold: float = 0.1,
    max_halvings: int = 8,
    num_initial: int = 10,
    batch_size: int = 1,
    beta: Beta = PAPER_BETA,
    **options: Any,
) -> Strategy:
    r"""Halves lengthscales until the next point is uncertain enough, after [Wang2014unknown]_.

    In the form of UHE-BO's comparison: in each round, from the estimate on, while the posterior
    standard deviation at the maximiser is below `threshold` in units of the standardised outcome.

    Args:
        bounds: The lower and the upper bounds of the box, `2 x d`, or a `Box`.
        seeds: One seed per replicate.
        threshold: The least standard deviation at the next point, kappa.
        max_halvings: The most halvings in one round.
        num_initial: The number of points of the initial design.
        batch_size: The number `q` of points of each later round.
        beta: Squared width of the bound: a number, or a function of the round from 1.
        options: Further arguments of `Acquire`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `threshold` or `max_halvings` is negative.

    Example:
        >>> bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> wang_de_freitas_gp_ucb(bounds, seeds=[0, 1], num_initial=4).ask().shape
        torch.Size([2, 4, 1])
    """
    check_arguments(wang_de_freitas_gp_ucb, locals())
    method = HalveLengthscales(acquire_gp_ucb(beta, **options), threshold, max_halvings)
    return Strategy(
        decision_box(bounds), method, seeds, num_initial=num_initial, batch_size=batch_size
    )


@dataclass(frozen=True)
class HalveLengthscales(Method):
    r"""Maximises an acquisition function again with half the lengthscales while it is too sure."""

    inner: Acquire
    threshold: float = 0.1
    max_halvings: int = 8

    def __post_init__(self) -> None:
        if not self.threshold >= 0:
            raise ValueError(f"Expected `threshold` >= 0. Got {self.threshold}.")
        check_counts(0, max_halvings=self.max_halvings)

    def believe(self, view: View) -> list[Any]:
        r"""The fitted models, with the lengthscales of the estimate."""
        return self.inner.believe(view)

    def propose(self, view: View) -> Tensor:
        r"""The maximiser at the first lengthscales that leave it uncertain enough."""
        parts = zip(self.inner.parts(view), view.belief, strict=True)
        return torch.cat([self._maximize(part, model) for part, model in parts])

    def recommend(self, view: View) -> Tensor:
        r"""The evaluated point with the best observed mean."""
        return best_observed(view)

    def _maximize(self, view: View, model: Any) -> Tensor:
        X = self.inner.maximize(view, model)
        for _ in range(self.max_halvings):
            unit = view.space.unit(X)
            with torch.no_grad():
                deviation = model(unit if model.batch_shape else unit.squeeze(0)).variance.sqrt()
            small = deviation.reshape(len(X), -1).amin(dim=-1) < self.threshold
            if not small.any():
                break
            halves = torch.where(small, 2.0, 1.0).view(model.batch_shape)
            again = self.inner.maximize(view, divide_lengthscales(model, halves))
            X = torch.where(small[:, None, None], again, X)
        return X


def _widened(t: int, beta: Beta, dimension: int, regret_exponent: float) -> Any:
    growth = expansion_factor(t, dimension, regret_exponent) ** dimension
    return beta_of_round(beta, t) * growth


def _with_random_points(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    beta: Beta = PAPER_BETA,
    num_initial: int = 10,
    batch_size: int = 1,
    reward_scale: Any = "min_max",
    exploration: float | None = None,
    arms: Any = "exp3",
    steps: int = 2,
    **options: Any,
) -> Strategy:
    inner = acquire_gp_ucb(beta, **options)
    method = RandomOrAcquire(inner, arms, steps, reward_scale, exploration)
    return Strategy(
        decision_box(bounds), method, seeds, num_initial=num_initial, batch_size=batch_size
    )
