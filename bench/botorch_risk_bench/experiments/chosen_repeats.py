r"""A problem whose strategies choose the number of readings at each point."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor


class ChosenRepeats:
    r"""A problem with the number of readings of each point in one more, last column.

    The readings that were not asked for are NaN. Two strategies with the same seed that ask for the
    same point in the same round get the same readings, the one that asks for fewer the first ones.
    """

    def __init__(self, problem: Any, max_repeats: int) -> None:
        r"""Wraps a problem.

        Args:
            problem: A `RepeatedTestProblem` that knows its objective.
            max_repeats: The most readings in one round.
        """
        if max_repeats < 1:
            raise ValueError(f"Expected `max_repeats` to be at least 1. Got {max_repeats}.")
        self.problem, self.max_repeats = problem, max_repeats

    @property
    def bounds(self) -> Tensor:
        box: Tensor = self.problem.bounds
        return torch.cat([box, box.new_tensor([[1.0], [self.max_repeats]])], dim=-1)

    def sample_repeats(
        self, X: Tensor, num_repeats: int, generators: Sequence[Generator]
    ) -> Tensor:
        r"""Readings `R x q x num_repeats`, NaN beyond a point's number and in rows of NaN.

        Args:
            X: Decisions with numbers of readings, `R x q x (d + 1)`.
            num_repeats: The number of columns of the result.
            generators: One for each replicate.
        """
        decisions, counts = X[..., :-1], X[..., -1:]
        if bool((counts > num_repeats).any()):
            raise ValueError(
                f"Expected at most {num_repeats} readings of a point. "
                f"Got {counts.nan_to_num().max().item():g}."
            )
        asked = ~X.isnan().any(dim=-1, keepdim=True)
        inside = self.problem.bounds.mean(dim=0).to(X)
        Y: Tensor = self.problem.sample_repeats(
            decisions.where(asked, inside), num_repeats, generators
        )
        columns = torch.arange(num_repeats, device=X.device)
        return Y.where(asked & (columns < counts), torch.nan)

    def objective(self, X: Tensor) -> Tensor:
        r"""The objective of decisions, with or without numbers of readings; NaN at NaN."""
        decisions = X[..., : self.problem.bounds.shape[-1]]
        asked = ~decisions.isnan().any(dim=-1, keepdim=True)
        inside = self.problem.bounds.mean(dim=0).to(X)
        values: Tensor = self.problem.objective(decisions.where(asked, inside))
        return values.where(asked.squeeze(-1), torch.nan)
