r"""Maximises a risk over contexts that are observed but cannot be chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.acquisition.arguments import as_nonnegative
from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.fit.exact_gp import fit_exact_gp
from botorch_risk.models.standardized_gp import standardized_gp
from botorch_risk.seeding import derive_seed
from botorch_risk.strategies.history import rows_where
from botorch_risk.strategies.method import Method, View, rows_at
from botorch_risk.strategies.space import unit_cube

Beta = float | Callable[[int], float]


class Recipe(Protocol):
    r"""From a model and the contexts so far to an acquisition function."""

    def __call__(
        self,
        model: Model,
        observed: Tensor,
        bounds: Tensor,
        t: int,
        *,
        seeds: Sequence[int],
        beta: float,
    ) -> RiskUpperConfidenceBound:
        r"""The acquisition function of round t, on the unit cube.

        Args:
            model: A fitted model of (x, w).
            observed: The contexts so far, `R x t x d_w`.
            bounds: The unit cube of the contexts, `2 x d_w`.
            t: The round, from 1.
            seeds: One seed per replicate.
            beta: Squared width of the bound.
        """
        ...


@dataclass(frozen=True)
class ContextualRisk(Method):
    r"""Maximises a confidence bound on a risk over contexts, whose distribution it learns.

    Each round fits a Gaussian process of (x, w) on the unit cube, learns the distribution of w from
    all contexts so far, also those of failed evaluations, and maximises the recipe's acquisition
    function. It recommends the evaluated decision with the best risk of the posterior mean.

    Args:
        recipe: The acquisition function, such as a paper's in `botorch_risk.acquisition.named`.
        beta: Squared width of the bound, or a function of the round from 1; the paper's sqrt(beta)
            is 1.5 in all rounds.
        uses_contexts: Whether the model is of (x, w), or of x alone.
        num_restarts: Starts of the acquisition optimiser.
        raw_samples: Raw points of the acquisition optimiser.
    """

    recipe: Recipe
    beta: Beta = 2.25
    uses_contexts: bool = True
    num_restarts: int = 10
    raw_samples: int = 256

    def __post_init__(self) -> None:
        if not callable(self.beta):
            as_nonnegative("beta", self.beta)

    def believe(self, view: View) -> RiskUpperConfidenceBound:
        r"""The acquisition function of this round, on the unit cube."""
        d_x, space = view.space.bounds.shape[-1], view.space
        X = space.unit(view.X)
        model = standardized_gp(X if self.uses_contexts else X[..., :d_x], view.Y)
        fit_exact_gp(model)
        evaluated = view.history.X
        contexts = rows_where(space.unit(evaluated), evaluated.isfinite().all(dim=-1))[..., d_x:]
        return self.recipe(
            model,
            contexts,
            unit_cube(space.context_bounds),
            view.round,
            seeds=[derive_seed(seed, "environment", view.round) for seed in view.seeds],
            beta=self.beta(view.round) if callable(self.beta) else self.beta,
        )

    def propose(self, view: View) -> Tensor:
        r"""The decisions that maximise the acquisition function."""
        return view.space.box.maximize(
            view.belief,
            view.history.streams("acquisition"),
            view.batch_size,
            self.num_restarts,
            self.raw_samples,
        )

    def recommend(self, view: View) -> Tensor:
        r"""The evaluated decision with the best risk of the posterior mean."""
        with torch.no_grad():
            values = view.belief.mean(view.space.box.unit(view.decisions))
        return rows_at(view.decisions, values.argmax(dim=-1))
