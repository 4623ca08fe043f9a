r"""Uniformly random points: the baseline that every method has to beat."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from botorch_risk.acquisition.pointwise import as_nonnegative
from botorch_risk.arguments import check_arguments, check_fields
from botorch_risk.strategies.history import History
from botorch_risk.strategies.method import Method, State, View, rows_at
from botorch_risk.strategies.running import random_rows
from botorch_risk.strategies.space import Box, Space, check_space, decision_box
from botorch_risk.strategies.strategy import Strategy


@dataclass(frozen=True)
class RandomPoints(Method):
    r"""Uniformly random points, recommended by the observed mean and variance of their repeats.

    The recommended point is the evaluated one with the largest

        mean(x) - risk_aversion * s2(x)

    over its repeats, where `s2` is their unbiased sample variance. Points with too few repeats are
    skipped; a replicate without other points recommends its first.

    Args:
        risk_aversion: The weight of the variance, RAHBO's `alpha`, in units of the outcome per
            unit of its variance.

    Example:
        >>> box, method = Box(torch.tensor([[0.0], [1.0]])), RandomPoints(risk_aversion=1.0)
        >>> strategy = Strategy(box, method, seeds=0, num_initial=2)
        >>> X = strategy.ask()
        >>> strategy.tell(X, torch.tensor([[[1.0, 9.0], [4.0, 4.0]]]))  # the first varies more
        >>> torch.equal(strategy.recommend(), X[:, 1])
        True
    """

    risk_aversion: float = 0.0

    def __post_init__(self) -> None:
        check_fields(self)
        as_nonnegative("risk_aversion", self.risk_aversion)

    def start(self, space: Space, num_replicates: int) -> State:
        check_space(space, self, "random_points")
        return {}

    def check(self, history: History) -> None:
        r"""Raise a `ValueError` if the outcomes cannot show a variance."""
        num_repeats = history.Y.shape[-2]
        if num_repeats < 2 and self.risk_aversion > 0:
            raise ValueError(
                "Expected at least 2 repeats, because 1 repeat shows no variance, or a "
                f"`risk_aversion` of 0. Got {num_repeats=}, {self.risk_aversion=}."
            )

    def propose(self, view: View) -> Tensor:
        r"""Points that depend on the seed, the round and the running points alone."""
        return random_rows(view, view.batch_size, "random search")

    def recommend(self, view: View) -> Tensor:
        r"""The evaluated point with the best observed mean minus weighted variance."""
        Y = view.complete[1]
        mean = Y.nanmean(dim=-1)  # R x n
        score = mean
        if self.risk_aversion > 0:
            count = Y.isfinite().sum(dim=-1)
            deviation = (Y - mean.unsqueeze(-1)).square().nansum(dim=-1)
            # One repeat gives 0 / 0: no variance, hence no score.
            score = mean - self.risk_aversion * deviation / (count - 1)
        score = torch.where(score.isfinite(), score, -torch.inf)
        return rows_at(view.decisions, score.argmax(dim=-1))


def random_search(
    bounds: Tensor | Box, seeds: int | Sequence[int], *, risk_aversion: float = 0.0, **options: Any
) -> Strategy:
    r"""Random search, which fits no model; see `RandomPoints`.

    Args:
        bounds: The lower and the upper bounds of the box, `2 x d`, or a `Box`.
        seeds: One seed per replicate.
        risk_aversion: The weight of the variance in the recommendation.
        options: `num_initial` and `batch_size` of `Strategy`.

    Example:
        >>> strategy = random_search(torch.tensor([[0.0], [1.0]]), seeds=[0, 1], num_initial=3)
        >>> X = strategy.ask()
        >>> strategy.tell(X, -((X - 0.5) ** 2).expand(2, 3, 5))
        >>> strategy.ask().shape, strategy.recommend().shape
        (torch.Size([2, 1, 1]), torch.Size([2, 1]))
    """
    check_arguments(random_search, locals())
    return Strategy(decision_box(bounds), RandomPoints(float(risk_aversion)), seeds, **options)
