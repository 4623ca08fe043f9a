r"""Uniformly random points: the baseline that every method has to beat."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from botorch_risk.acquisition.pointwise import as_nonnegative
from botorch_risk.strategies.initial_design import uniform_points
from botorch_risk.strategies.replicated import ReplicatedStrategy


class RandomSearch(ReplicatedStrategy):
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
        r"""Builds the strategy.

        Args:
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
        super().__init__(bounds, seeds, num_initial, batch_size)
        self.risk_aversion = float(as_nonnegative("risk_aversion", risk_aversion))

    def _validate(self, X: Tensor, Y: Tensor) -> None:
        super()._validate(X, Y)
        if Y.shape[-1] < 2 and self.risk_aversion > 0:
            raise ValueError(
                "Expected at least 2 repeats, as one shows no variance, or a `risk_aversion` "
                f"of 0. Got num_repeats={Y.shape[-1]}, {self.risk_aversion=}."
            )

    def recommend(self) -> Tensor:
        r"""The evaluated point with the best observed mean minus weighted variance, `R x d`.

        Raises:
            ValueError: If nothing has been told yet.
        """
        X, Y = self._observed()
        mean = Y.nanmean(dim=-1)  # R x n
        score = mean
        if self.risk_aversion > 0:
            count = Y.isfinite().sum(dim=-1)
            deviation = (Y - mean.unsqueeze(-1)).square().nansum(dim=-1)
            # One repeat gives 0 / 0: no variance, hence no score.
            score = mean - self.risk_aversion * deviation / (count - 1)
        score = torch.where(score.isfinite(), score, -torch.inf)
        best = score.argmax(dim=-1)  # R
        return X[torch.arange(len(self.seeds), device=best.device), best]

    def _propose(self) -> Tensor:
        return uniform_points(
            self.bounds, self.seeds, self.batch_size, "random search", self._round
        )
