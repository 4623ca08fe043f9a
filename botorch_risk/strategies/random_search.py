r"""Uniformly random points: the baseline that every method has to beat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from torch import Tensor

from botorch_risk.seeding import as_seeds, generators
from botorch_risk.strategies.initial_design import initial_design


class RandomSearch:
    r"""Random search that recommends by the observed mean and variance.

    No model is fitted. After the shared initial design the points are uniform in the
    box, and each is a function of its seed and its round alone. The point recommended
    is the evaluated point with the largest

        mean(x) - risk_aversion * s2(x)

    over its repeats, where `s2` is their unbiased sample variance. Points with too few
    repeats for that are passed over; a replicate that has no other recommends its first.

    Example:
        >>> strategy = RandomSearch(torch.tensor([[0.0], [1.0]]), seeds=[0, 1], num_initial=3)
        >>> X = strategy.ask()
        >>> strategy.tell(X, -((X - 0.5) ** 2).expand(2, 3, 5))
        >>> strategy.ask().shape, strategy.recommend().shape
        (torch.Size([2, 1, 1]), torch.Size([2, 1]))
    """

    def __init__(
        self,
        bounds: Tensor,
        seeds: int | Sequence[int],
        num_initial: int,
        risk_aversion: float = 0.0,
        batch_size: int = 1,
    ) -> None:
        r"""Args:
            bounds: The lower and the upper bounds of the box, `2 x d`.
            seeds: One seed per replicate.
            num_initial: The number of points of the initial design.
            risk_aversion: The weight of the variance, RAHBO's `alpha`, in units of the
                outcome per unit of its variance.
            batch_size: The number `q` of points of each later round.

        Raises:
            BotorchTensorDimensionError: If `bounds` is not `2 x d`.
            ValueError: If a number is out of its range or a seed repeats.
        """
        if bounds.ndim != 2 or bounds.shape[0] != 2:
            raise BotorchTensorDimensionError(
                f"Expected `bounds` to have shape `2 x d`. Got {bounds.shape=}."
            )
        if min(num_initial, batch_size) < 1 or not 0 <= risk_aversion < float("inf"):
            raise ValueError(
                "Expected `num_initial` and `batch_size` to be at least 1 and `risk_aversion` "
                f"to be finite and not negative. Got {num_initial=}, {batch_size=}, "
                f"{risk_aversion=}."
            )
        self.bounds = bounds
        self._seeds = as_seeds(seeds)
        self.num_initial = num_initial
        self.risk_aversion = risk_aversion
        self.batch_size = batch_size
        self._X = bounds.new_empty(len(self._seeds), 0, bounds.shape[-1])  # R x n x d
        self._Y: Tensor | None = None  # R x n x k
        self._round = 0

    @property
    def seeds(self) -> list[int]:
        r"""The seeds, one per replicate."""
        return self._seeds

    def ask(self) -> Tensor:
        r"""The initial design, then `batch_size` uniform points a round, `R x q x d`."""
        if self._round == 0:
            return initial_design(self.bounds, self.seeds, self.num_initial)
        shape, dtype = (self.batch_size, self.bounds.shape[-1]), self.bounds.dtype
        streams = generators(self.seeds, "random search", self._round)
        unit = torch.stack([torch.rand(shape, dtype=dtype, generator=g) for g in streams])
        lower, upper = self.bounds
        return lower + (upper - lower) * unit.to(self.bounds)

    def tell(self, X: Tensor, Y: Tensor) -> None:
        r"""Records outcomes.

        Args:
            X: The evaluated points, `R x q x d`.
            Y: Their repeats, `R x q x k`. NaN marks a missing repeat.

        Raises:
            BotorchTensorDimensionError: If the shapes do not fit each other, the bounds,
                the seeds or the repeats told before.
            ValueError: If one repeat is to show a variance.
        """
        expected = (len(self.seeds), self.bounds.shape[-1])
        num_repeats = Y.shape[-1] if self._Y is None else self._Y.shape[-1]
        if (X.shape[0], X.shape[-1]) != expected or Y.shape != (*X.shape[:-1], num_repeats):
            raise BotorchTensorDimensionError(
                f"Expected `X` to have shape `{expected[0]} x q x {expected[1]}` and `Y` "
                f"`{expected[0]} x q x {num_repeats}`. Got {X.shape=}, {Y.shape=}."
            )
        if num_repeats < 2 and self.risk_aversion > 0:
            raise ValueError(
                "Expected at least 2 repeats, as one shows no variance, or a `risk_aversion` "
                f"of 0. Got {num_repeats=}, {self.risk_aversion=}."
            )
        self._X = torch.cat([self._X, X], dim=-2)
        self._Y = Y.clone() if self._Y is None else torch.cat([self._Y, Y], dim=-2)
        self._round += 1

    def recommend(self) -> Tensor:
        r"""The evaluated point with the best observed mean minus weighted variance, `R x d`.

        Raises:
            ValueError: If nothing has been told yet.
        """
        if self._Y is None:
            raise ValueError(f"Expected outcomes before a recommendation. Got {self._round=}.")
        mean = self._Y.nanmean(dim=-1)  # R x n
        score = mean
        if self.risk_aversion > 0:
            count = self._Y.isfinite().sum(dim=-1)
            deviation = (self._Y - mean.unsqueeze(-1)).square().nansum(dim=-1)
            # One repeat gives 0 / 0: no variance, hence no score.
            score = mean - self.risk_aversion * deviation / (count - 1)
        score = torch.where(score.isfinite(), score, -torch.inf)
        best = score.argmax(dim=-1)  # R
        return self._X[torch.arange(len(self.seeds), device=best.device), best]

    def state_dict(self) -> dict[str, Any]:
        r"""The data and the number of rounds."""
        return {"seeds": self.seeds, "round": self._round, "X": self._X, "Y": self._Y}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        r"""Continues from `state_dict()` of a strategy built with the same arguments.

        Raises:
            ValueError: If the state is that of other seeds.
        """
        if list(state["seeds"]) != self.seeds:
            raise ValueError(
                f"Expected the state of seeds {self.seeds}. Got seeds={state['seeds']}."
            )
        self._round = state["round"]
        self._X = state["X"].to(self.bounds)
        self._Y = None if state["Y"] is None else state["Y"].to(self.bounds)
