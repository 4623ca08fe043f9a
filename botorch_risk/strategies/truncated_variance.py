r"""TRUVAR, and the heuristics for level sets that it is compared with.

References are to Bogunovic et al., "Truncated Variance Reduction", 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from torch import Tensor

from botorch_risk.acquisition.truncated_variance import (
    Status,
    TruncatedVarianceReduction,
    TruncatedVarianceState,
    status,
)
from botorch_risk.acquisition.truncated_variance.goals import Goal
from botorch_risk.strategies.finite_domain import FiniteDomainStrategy, ModelBuilder


class TruVaR(FiniteDomainStrategy):
    r"""Truncated variance reduction (Algorithm 1), to maximise or for a level set.

    `state` holds the sets and the epoch, `status()` says where each replicate stands, and `cost`
    what it has spent.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> from botorch_risk.acquisition import Maximize
        >>> domain = torch.linspace(0, 1, 50, dtype=torch.double).unsqueeze(-1)
        >>> strategy = TruVaR(domain, [0, 1], SingleTaskGP, Maximize(), noise=1e-4, num_initial=3)
        >>> for _ in range(2):
        ...     X = strategy.ask()
        ...     strategy.tell(X, (6 * X).sin())
        >>> strategy.recommend().shape, strategy.state.epoch.shape
        (torch.Size([2, 1]), torch.Size([2]))
    """

    def __init__(
        self,
        domain: Tensor,
        seeds: int | Sequence[int],
        build_model: ModelBuilder,
        goal: Goal,
        *,
        initial_state: dict[str, Any] | None = None,
        candidates: Literal["domain", "unclassified"] = "domain",
        weights: Tensor | None = None,
        anticipate: bool = False,
        **options: Any,
    ) -> None:
        r"""Builds the strategy.

        Args:
            domain: `|D| x d` points.
            seeds: One seed per replicate.
            build_model: As in `FiniteDomainStrategy`.
            goal: `Maximize()`, `LevelSet(threshold)` or `RelativeLevelSet(fraction)`.
            initial_state: Further arguments of `TruncatedVarianceState.initial`: `a`, `eta`, `r`,
                `slack`, `monotone`, `width`, `domain_size`.
            candidates: Which points may be sampled.
            weights: `|D|` weights of the points in the sum.
            anticipate: Whether to anticipate changes of the set.
            options: Further arguments of `FiniteDomainStrategy`.
        """
        super().__init__(domain, seeds, build_model, **options)
        self._choice: dict[str, Any] = {
            "candidates": candidates,
            "weights": weights,
            "anticipate": anticipate,
        }
        self.state = TruncatedVarianceState.initial(
            domain, goal, batch_shape=(len(self.seeds),), **(initial_state or {})
        )

    @property
    def acquisition(self) -> TruncatedVarianceReduction:
        r"""The acquisition function of this round."""
        terms = {name: getattr(self.terms, name) for name in ("cost", "noise", "levels")}
        return TruncatedVarianceReduction(
            self.posterior, self.state, previous=self._previous, **terms, **self._choice
        )

    def status(self) -> Status:
        r"""Where each replicate stands."""
        return status(self.state, self.posterior)

    def state_dict(self) -> dict[str, Any]:
        r"""The data and the state of the algorithm."""
        return {**super().state_dict(), "truncated_variance": self.state.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        r"""Continues from `state_dict()` of a strategy built with the same arguments."""
        super().load_state_dict(state)
        self.state = TruncatedVarianceState.from_state_dict(state["truncated_variance"])

    def _learn(self, paid: Tensor) -> None:
        self.state = self.state.update(self.posterior, paid)

    def _propose(self) -> Tensor:
        return self.acquisition.select(self.batch_size).X
