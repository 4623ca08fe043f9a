r"""Maximises a risk over contexts that are observed but cannot be chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.arguments import check_counts, check_fields
from botorch_risk.models.standardized_gp import standardized_gp
from botorch_risk.strategies.history import rows_where
from botorch_risk.strategies.method import Method, View, rows_at
from botorch_risk.strategies.space import unit_cube

Recipe = Callable[..., RiskUpperConfidenceBound]


@dataclass(frozen=True)
class ContextualRisk(Method):
    r"""Maximises a confidence bound on a risk over contexts, whose distribution it learns.

    Each round fits a Gaussian process of (x, w) on the unit cube, learns the distribution of w from
    all contexts so far, also where the evaluation failed, and maximises the recipe's acquisition
    function. It recommends the evaluated decision with the best risk of the posterior
    mean.

    Algorithms 1 and 2 of [Huang2024kde]_, with any recipe.

    Args:
        recipe: The acquisition function, `recipe(model, observed, bounds, t, seeds=seeds)`, such
            as `botorch_risk.acquisition.sbo_kde`.
        uses_contexts: Whether the model is of (x, w), or of x alone.
        uses_previous: Whether the recipe takes what it returned in the round before, `previous`.
        num_restarts: Starts of the acquisition optimiser.
        raw_samples: Raw points of the acquisition optimiser.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a number is out of its range.

    Example:
        >>> from botorch_risk.acquisition import sbo_kde
        >>> from botorch_risk.strategies import Box, ContextSpace, Strategy
        >>> unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> space = ContextSpace(Box(unit), context_bounds=unit)
        >>> strategy = Strategy(space, ContextualRisk(sbo_kde), seeds=0, num_initial=8)
        >>> w = torch.linspace(0.1, 0.5, 8, dtype=torch.double).view(1, 8, 1)
        >>> X = torch.cat([strategy.ask(), w], dim=-1)
        >>> strategy.tell(X, -((X[..., :1] - w) ** 2))
        >>> (strategy.recommend() - 0.3).abs() < 0.1
        tensor([[True]])
    """

    recipe: Recipe
    uses_contexts: bool = True
    uses_previous: bool = False
    num_restarts: int = 10
    raw_samples: int = 256

    def __post_init__(self) -> None:
        check_fields(self)
        check_counts(num_restarts=self.num_restarts, raw_samples=self.raw_samples)

    @property
    def keeps_fits(self) -> bool:
        return True

    def believe(self, view: View) -> RiskUpperConfidenceBound:
        r"""The acquisition function of this round, on the unit cube."""
        space, d_w = view.space, view.space.context_bounds.shape[-1]
        X = space.unit(view.X)
        model = standardized_gp(X if self.uses_contexts else X[..., :-d_w], view.Y)
        view.fit("f", model)
        rows = view.history.X
        contexts = rows_where(space.unit(rows), rows.isfinite().all(dim=-1))[..., -d_w:]
        return self.recipe(
            model,
            contexts,
            unit_cube(space.context_bounds),
            view.round,
            seeds=view.history.streams("environment"),
            **({"previous": view.previous} if self.uses_previous else {}),
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
