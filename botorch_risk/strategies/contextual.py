r"""Strategies for decisions under an environment that is observed but not chosen."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from torch import Tensor

from botorch_risk.acquisition.pointwise import as_nonnegative
from botorch_risk.acquisition.risk_ucb import Optimism, RiskUpperConfidenceBound
from botorch_risk.environments import Environment
from botorch_risk.fit.exact_gp import fit_exact_gp
from botorch_risk.models.standardized_gp import standardized_gp
from botorch_risk.optim.multistart import optimize_acqf_replicates
from botorch_risk.risk import RiskMeasure
from botorch_risk.seeding import derive_seed
from botorch_risk.strategies.replicated import ReplicatedStrategy, as_data, fill_rows


class ContextualStrategy(ReplicatedStrategy):
    r"""A strategy that asks for decisions and is told decisions with the contexts they met.

    `ask` returns decisions `R x q x d_x`; `tell` takes the same rows with the observed context
    in the last `d_w` columns, and their outcomes. Each round it fits a Gaussian process of
    (x, w), learns the law of w from all contexts so far, and maximises the risk measure of
    the upper confidence bound. It recommends the evaluated decision with the best risk of
    the posterior mean.

    A row without an outcome does not count in the fit of the hyperparameters, and its context
    counts in the law if it was observed. Tensors have no gaps: in the posterior such a row is
    the first row of its replicate once more, and so is its context in the law if that is missing.

    A subclass chooses the environment and the risk measure of a round.
    """

    def __init__(
        self,
        bounds: Tensor,
        context_bounds: Tensor,
        seeds: int | Sequence[int],
        *,
        num_initial: int = 10,
        batch_size: int = 1,
        beta: float | Callable[[int], float] = 2.25,
        num_restarts: int = 10,
        raw_samples: int = 256,
    ) -> None:
        r"""Builds the strategy.

        Args:
            bounds: The lower and the upper bounds of the decisions, `2 x d_x`.
            context_bounds: Those of the contexts, `2 x d_w`.
            seeds: One seed per replicate.
            num_initial: The number of decisions of the initial design.
            batch_size: The number `q` of decisions of each later round.
            beta: Squared width of the bound, or a function of the round, 1 after the initial
                design, that returns it (see `botorch_risk.acquisition.widths`); the paper's
                sqrt(beta) is 1.5 in all rounds. No part of the state.
            num_restarts: Starts of the acquisition optimiser.
            raw_samples: Raw points of the acquisition optimiser.

        Raises:
            BotorchTensorDimensionError: If a box is not `2 x d`.
            ValueError: If a box is reversed or not finite, or a number is out of its range.
        """
        if context_bounds.ndim != 2 or context_bounds.shape[0] != 2:
            raise BotorchTensorDimensionError(
                f"Expected `context_bounds` to have shape `2 x d_w`. Got {context_bounds.shape=}."
            )
        finite = context_bounds.isfinite().all()
        if not (finite and (context_bounds[0] < context_bounds[1]).all()):
            raise ValueError(
                "Expected finite `context_bounds` with each lower bound below its upper bound. "
                f"Got {context_bounds.tolist()}."
            )
        self.context_bounds = as_data(context_bounds).to(as_data(bounds))
        super().__init__(bounds, seeds, num_initial, batch_size)
        self.beta = beta if callable(beta) else float(as_nonnegative("beta", beta))
        self.num_restarts, self.raw_samples = num_restarts, raw_samples
        self._acquisition: tuple[int, RiskUpperConfidenceBound] | None = None
        self._optimism: Optimism = "of_risk"

    @property
    def acquisition(self) -> RiskUpperConfidenceBound:
        r"""The acquisition function of this round, on the unit cube; built when asked for."""
        if self._acquisition is None or self._acquisition[0] != self._round:
            self._acquisition = self._round, self._build()
        return self._acquisition[1]

    def recommend(self) -> Tensor:
        r"""The evaluated decision with the best risk of the posterior mean, `R x d_x`."""
        X, _ = self._complete()
        decisions = X[..., : self.bounds.shape[-1]]
        with torch.no_grad():
            best = self.acquisition.mean(self._unit(X)[..., : self.bounds.shape[-1]]).argmax(dim=-1)
        return decisions[torch.arange(len(best), device=best.device), best]

    def load_state_dict(self, state: dict[str, Any]) -> None:
        r"""Continues from `state_dict()` of a strategy built with the same arguments.

        Raises:
            ValueError: If the state is that of other seeds.
        """
        super().load_state_dict(state)
        self._acquisition = None

    @property
    def _schedule_round(self) -> int:
        r"""The round t of schedules, which start at 1."""
        return max(1, self._round)

    @property
    def _num_inputs(self) -> int:
        return self.bounds.shape[-1] + self.context_bounds.shape[-1]

    @abstractmethod
    def _environment(self, contexts: Tensor) -> Environment:
        r"""The law of the context learnt from contexts `R x t x d_w` on the unit cube."""

    @abstractmethod
    def _risk_measure(self) -> RiskMeasure:
        r"""The risk measure of this round."""

    def _model_inputs(self, X: Tensor) -> Tensor:
        r"""What the model sees of points `R x n x d` on the unit cube."""
        return X

    def _build(self) -> RiskUpperConfidenceBound:
        X, Y = self._complete()
        inputs = self._model_inputs(self._unit(X))
        model = standardized_gp(inputs, Y.nanmean(dim=-1, keepdim=True))
        fit_exact_gp(model, observed=~self._missing())
        environment = self._environment(self._contexts())
        beta = self.beta(self._schedule_round) if callable(self.beta) else self.beta
        return RiskUpperConfidenceBound(
            model, environment, self._risk_measure(), beta=beta, optimism=self._optimism
        )

    def _propose(self) -> Tensor:
        lower, upper = self.bounds
        X, _ = optimize_acqf_replicates(
            self.acquisition,
            torch.stack([torch.zeros_like(lower), torch.ones_like(upper)]),
            q=self.batch_size,
            seeds=[derive_seed(seed, "acquisition", self._round) for seed in self.seeds],
            num_restarts=self.num_restarts,
            raw_samples=self.raw_samples,
        )
        return (lower + (upper - lower) * X).clamp(lower, upper)

    def _contexts(self) -> Tensor:
        r"""All contexts on the unit cube, whatever became of the outcome, `R x n x d_w`."""
        W = self._unit(self._observed()[0])[..., self.bounds.shape[-1] :]
        return fill_rows(W, W.isnan().any(dim=-1))

    def _unit(self, X: Tensor) -> Tensor:
        lower, upper = torch.cat([self.bounds, self.context_bounds], dim=-1)
        return (X - lower) / (upper - lower)

    def _unit_contexts(self) -> Tensor:
        r"""The box of the contexts on the unit cube, `2 x d_w`."""
        lower = torch.zeros_like(self.context_bounds[0])
        return torch.stack([lower, lower + 1])

    def _law_seeds(self) -> list[int]:
        r"""Seeds of the points that stand for the law in this round."""
        return [derive_seed(seed, "environment", self._round) for seed in self.seeds]

    def _grid_size(self, num_points: int) -> int:
        r"""`ceil(num_points^(1/d_w))^d_w`, the grid of the paper."""
        d_w = self.context_bounds.shape[-1]
        return int(math.ceil(round(num_points ** (1 / d_w), 9)) ** d_w)
