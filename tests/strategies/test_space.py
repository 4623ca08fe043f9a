r"""What a point is: boxes and the columns beside the decision."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from botorch_risk.acquisition.named_known import gp_ucb
from botorch_risk.strategies import Acquire, Box, ContextSpace, Strategy

BOUNDS = torch.tensor([[-1.0, 0.0], [3.0, 1.0]], dtype=torch.double)


def test_the_unit_cube_and_back() -> None:
    box = Box(BOUNDS)
    X = BOUNDS[0] + (BOUNDS[1] - BOUNDS[0]) * torch.rand(2, 5, 2, dtype=torch.double)
    unit = box.unit(X)
    assert ((unit >= 0) & (unit <= 1)).all()
    torch.testing.assert_close(box.from_unit(unit), X)
    beyond = torch.full((1, 1, 2), 1 + 1e-12, dtype=torch.double)
    assert torch.equal(box.from_unit(beyond)[0, 0], BOUNDS[1])


def test_bounds_are_copied() -> None:
    mine = BOUNDS.clone()
    box = Box(mine)
    mine.zero_()
    assert torch.equal(box.bounds, BOUNDS)


@pytest.mark.parametrize(
    ("bounds", "error", "message"),
    [
        (torch.zeros(3, 2), BotorchTensorDimensionError, r"`bounds` .* `2 x d`, .* Got \(3, 2\)"),
        (torch.zeros(2, 0), BotorchTensorDimensionError, "d >= 1"),
        (torch.tensor([[1.0], [0.0]]), ValueError, "each lower bound below its upper bound"),
        (torch.tensor([[0.0], [torch.inf]]), ValueError, "finite `bounds`"),
    ],
)
def test_boxes_that_are_none(bounds: torch.Tensor, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Box(bounds)


def test_contexts_come_after_the_decision_and_may_leave_their_box_if_told_so() -> None:
    contexts = torch.tensor([[0.0], [2.0]])
    space = ContextSpace(Box(BOUNDS), contexts)
    assert space.num_columns == 3
    X = torch.tensor([[[0.5, 0.5, 1.0], [0.5, 0.5, 2.5]]], dtype=torch.double)
    assert torch.equal(space.unit(X)[0, 0], torch.tensor([0.375, 0.5, 0.5]).double())
    with pytest.raises(InputDataError, match=r"contexts within `context_bounds`.* Got 2\.5"):
        space.rows(X, lambda: X)
    assert torch.equal(ContextSpace(Box(BOUNDS), contexts, may_leave=True).rows(X, lambda: X), X)
    with pytest.raises(BotorchTensorDimensionError, match=r"`R x q x 3`, q >= 1\. Got \(1, 2, 2\)"):
        space.rows(X[..., :2], lambda: X)


class WholeNumbers:
    r"""A space of one's own: the first column is a whole number, the last how often to repeat."""

    bounds = torch.tensor([[0.0, 0.0, 1.0], [9.0, 1.0, 4.0]], dtype=torch.double)
    num_columns = 3

    def of(self, replicates: Sequence[int]) -> WholeNumbers:
        return self

    def rounded(self, X: Tensor) -> Tensor:
        return torch.cat([X[..., :1].round(), X[..., 1:2], X[..., 2:].round()], dim=-1)

    def initial(self, seeds: Sequence[int], num_points: int) -> Tensor:
        return self.rounded(Box(self.bounds).initial(seeds, num_points))

    def shown(self, asked: Tensor) -> Tensor:
        return asked

    def rows(self, X: Tensor, asked: Any) -> Tensor:
        return Box(self.bounds).rows(X, asked)

    def unit(self, X: Tensor) -> Tensor:
        return Box(self.bounds).unit(X)

    def maximize(self, *arguments: Any) -> Tensor:
        return self.rounded(Box(self.bounds).maximize(*arguments))


def test_whole_numbers_and_a_number_of_repeats_that_the_method_chooses() -> None:
    r"""Nothing of a strategy takes a box for granted, or the number of repeats."""
    acquire = Acquire(partial(gp_ucb, beta=4.0), batched=True, num_restarts=2, raw_samples=16)
    strategy = Strategy(WholeNumbers(), acquire, [0, 1], num_initial=4)
    for _ in range(3):
        X = strategy.ask()
        assert (X[..., [0, 2]].frac() == 0).all()
        outcomes = (0.5 * X).sin().sum(dim=-1, keepdim=True).expand(*X.shape[:-1], 4)
        taken = torch.arange(4) < X[..., 2:]
        strategy.tell(X, outcomes.masked_fill(~taken, torch.nan))
    counts = strategy.history.Y[..., 0].isfinite().sum(dim=-1)
    assert torch.equal(counts, strategy.history.X[..., 2].long())
    resumed = Strategy(WholeNumbers(), acquire, [0, 1], num_initial=4)
    resumed.load_state_dict(strategy.state_dict())
    assert torch.equal(resumed.ask(), strategy.ask())
