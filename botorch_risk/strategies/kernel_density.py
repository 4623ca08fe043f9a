r"""Optimisation under an unknown law of the context, learnt as it is observed, and its rivals.

.. [Huang2024kde]
    X. Huang, L. Song, K. Xue, C. Qian. Stochastic Bayesian Optimization with Unknown Continuous
    Context Distribution via Kernel Density Estimation. AAAI Conference on Artificial
    Intelligence, 2024.

.. [Kirschner2020drbo]
    J. Kirschner, I. Bogunovic, S. Jegelka, A. Krause. Distributionally Robust Bayesian
    Optimization. International Conference on Artificial Intelligence and Statistics, 2020.

.. [Bogunovic2018stableopt]
    I. Bogunovic, J. Scarlett, S. Jegelka, V. Cevher. Adversarially Robust Optimization with
    Gaussian Processes. Advances in Neural Information Processing Systems 31, 2018.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from botorch.exceptions.errors import InputDataError
from torch import Tensor

from botorch_risk.acquisition.arguments import as_nonnegative
from botorch_risk.acquisition.schedules import (
    maximum_mean_discrepancy_radius,
    total_variation_radius,
)
from botorch_risk.environments import (
    EmpiricalGrid,
    Environment,
    InputPerturbation,
    KernelDensityEnvironment,
    StandardDeviationBox,
    regular_grid,
)
from botorch_risk.environments.uniforms import check_num_points
from botorch_risk.posterior.kernels import correlation
from botorch_risk.risk import (
    Expectation,
    MaximumMeanDiscrepancyBall,
    MinimaxApproximation,
    RiskMeasure,
    TotalVariationBall,
    WorstCase,
)
from botorch_risk.strategies.contextual import ContextualStrategy


class _DensityStrategy(ContextualStrategy, ABC):
    r"""A strategy that learns the law of the context as a kernel density."""

    def __init__(
        self,
        bounds: Tensor,
        context_bounds: Tensor,
        seeds: int | Sequence[int],
        *,
        n_w: int = 256,
        density_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        r"""Builds the strategy.

        Args:
            bounds: The lower and the upper bounds of the decisions, `2 x d_x`.
            context_bounds: Those of the contexts, `2 x d_w`.
            seeds: One seed per replicate.
            n_w: Points that stand for the law; the paper takes 1,024 Monte-Carlo points, which
                256 quasi-random ones match.
            density_options: Further arguments of `KernelDensityEnvironment`. Contexts outside
                their bounds are refused unless `at_bounds` is `"clip"`.
            options: Further arguments of `ContextualStrategy`.
        """
        super().__init__(bounds, context_bounds, seeds, **options)
        check_num_points(n_w)
        self.n_w = n_w
        self.density_options = density_options or {}

    def _validate(self, X: Tensor, Y: Tensor) -> None:
        super()._validate(X, Y)
        lower, upper = self.context_bounds
        contexts = X[..., self.bounds.shape[-1] :].to(lower)
        outside = (contexts < lower) | (contexts > upper)
        if outside.any() and self.density_options.get("at_bounds") != "clip":
            raise InputDataError(
                "Expected contexts within `context_bounds`, or density_options={'at_bounds': "
                f"'clip'}}. Got {contexts[outside][0].item()}, {self.context_bounds.tolist()=}."
            )

    def _environment(self, contexts: Tensor) -> Environment:
        return KernelDensityEnvironment(
            contexts,
            self._unit_contexts(),
            n_w=self.n_w,
            seeds=self._law_seeds(),
            **self.density_options,
        )


class SBOKDE(_DensityStrategy):
    r"""SBO-KDE: the expectation over a kernel density of the contexts [Huang2024kde]_, Eq. (3).

    Further arguments are those of `ContextualStrategy`.

    Example:
        >>> unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> strategy = SBOKDE(unit, unit, seeds=[0, 1], num_initial=5)
        >>> decisions = strategy.ask()
        >>> told = torch.cat([decisions, torch.rand(2, 5, 1, dtype=torch.double)], dim=-1)
        >>> strategy.tell(told, (4 * told).sin().sum(dim=-1, keepdim=True))
        >>> strategy.ask().shape, strategy.recommend().shape
        (torch.Size([2, 1, 1]), torch.Size([2, 1]))
    """

    def _risk_measure(self) -> RiskMeasure:
        return Expectation()


class DRBOKDE(_DensityStrategy):
    r"""DRBO-KDE: the worst law in a ball round the density [Huang2024kde]_, Eq. (5).

    A ball in total variation. Its radius in round t is `radius_scale * t^(-2 / (4 + d_w))`, in the
    paper's l1 units; the infimum is over the points of the density and as many Sobol points of
    the whole box.
    """

    def __init__(
        self,
        bounds: Tensor,
        context_bounds: Tensor,
        seeds: int | Sequence[int],
        *,
        radius_scale: float = 1.0,
        **options: Any,
    ) -> None:
        r"""Builds the strategy.

        Args:
            bounds: The lower and the upper bounds of the decisions, `2 x d_x`.
            context_bounds: Those of the contexts, `2 x d_w`.
            seeds: One seed per replicate.
            radius_scale: Factor of the radius, >= 0; 1 in the paper.
            options: Further arguments, those of `SBOKDE`.
        """
        super().__init__(bounds, context_bounds, seeds, **options)
        self.density_options = {"n_ball": self.n_w, **self.density_options}
        self.radius_scale = float(as_nonnegative("radius_scale", radius_scale))

    def _risk_measure(self) -> RiskMeasure:
        radius = total_variation_radius(self._schedule_round, self.context_bounds.shape[-1])
        return TotalVariationBall(min(2.0, self.radius_scale * radius))


class DRBOMMD(ContextualStrategy):
    r"""DRBO-MMD: the worst law in an MMD ball round the empirical one [Kirschner2020drbo]_.

    Contexts go to the nearest of about `num_points` grid points. The radius of round t is
    `radius_scale * (2 + sqrt(2 log(1 / gamma))) / sqrt(t)` with gamma = 0.1; with the default
    kernel of unit amplitude that is close to the pure worst case for many rounds, so the
    kernel and the scale are arguments (the paper states neither).
    """

    def __init__(
        self,
        bounds: Tensor,
        context_bounds: Tensor,
        seeds: int | Sequence[int],
        *,
        num_points: int = 100,
        radius_scale: float = 1.0,
        kernel: Callable[[Tensor, Tensor], Tensor] | None = None,
        minimax: bool = False,
        **options: Any,
    ) -> None:
        r"""Builds the strategy.

        Args:
            bounds: The lower and the upper bounds of the decisions, `2 x d_x`.
            context_bounds: Those of the contexts, `2 x d_w`.
            seeds: One seed per replicate.
            num_points: Points of the grid, rounded up to a power of `d_w`; the paper takes 1,024
                with the minimax approximation.
            radius_scale: Factor of the radius, >= 0.
            kernel: The kernel of the discrepancy on the unit cube; a squared exponential of
                lengthscale 0.2 if omitted.
            minimax: Whether to use the minimax approximation instead of the exact ball.
            options: Further arguments of `ContextualStrategy`.
        """
        super().__init__(bounds, context_bounds, seeds, **options)
        check_num_points(num_points)
        self.num_points = num_points
        self.radius_scale = float(as_nonnegative("radius_scale", radius_scale))
        self.kernel = kernel or _discrepancy_kernel
        self.minimax = minimax
        if minimax:  # of the worst expectation of the upper bounds, as the exact ball maximises it
            self._optimism = "of_values"

    def _environment(self, contexts: Tensor) -> Environment:
        grid = regular_grid(self._unit_contexts(), self._grid_size(self.num_points))
        return EmpiricalGrid(contexts, grid)

    def _risk_measure(self) -> RiskMeasure:
        radius = self.radius_scale * maximum_mean_discrepancy_radius(self._schedule_round)
        previous = self._acquisition and self._acquisition[1].risk_measure
        if isinstance(previous, MinimaxApproximation):
            return replace(previous, radius=radius)  # bound to the grid, which stays
        ball = MinimaxApproximation if self.minimax else MaximumMeanDiscrepancyBall
        return ball(radius, self.kernel)


class StableOpt(ContextualStrategy):
    r"""The worst context within a standard deviation of the mean [Bogunovic2018stableopt]_."""

    def __init__(
        self,
        bounds: Tensor,
        context_bounds: Tensor,
        seeds: int | Sequence[int],
        *,
        n_w: int = 256,
        **options: Any,
    ) -> None:
        r"""Builds the strategy.

        Args:
            bounds: The lower and the upper bounds of the decisions, `2 x d_x`.
            context_bounds: Those of the contexts, `2 x d_w`.
            seeds: One seed per replicate.
            n_w: Points of the box of contexts.
            options: Further arguments of `ContextualStrategy`.
        """
        super().__init__(bounds, context_bounds, seeds, **options)
        check_num_points(n_w)
        self.n_w = n_w

    def _environment(self, contexts: Tensor) -> Environment:
        return StandardDeviationBox(
            contexts, self.n_w, self._law_seeds(), bounds=self._unit_contexts()
        )

    def _risk_measure(self) -> RiskMeasure:
        return WorstCase()


class ContextFreeGPUCB(ContextualStrategy):
    r"""GP-UCB on the decision alone, to which the context is noise: a baseline."""

    def _environment(self, contexts: Tensor) -> Environment:
        return InputPerturbation(torch.zeros_like(self.bounds[:1]))

    def _risk_measure(self) -> RiskMeasure:
        return Expectation()

    def _model_inputs(self, X: Tensor) -> Tensor:
        return X[..., : self.bounds.shape[-1]]


def _discrepancy_kernel(first: Tensor, second: Tensor) -> Tensor:
    squares = (first.unsqueeze(-2) - second.unsqueeze(-3)).square().sum(dim=-1)
    return correlation(squares / 0.2**2, math.inf)
