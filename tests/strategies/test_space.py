r"""What a point is: boxes and the columns beside the decision."""

from __future__ import annotations

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError

from botorch_risk.strategies import Box, ContextSpace

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
        space.rows(X, X)
    assert torch.equal(ContextSpace(Box(BOUNDS), contexts, may_leave=True).rows(X, X), X)
    with pytest.raises(BotorchTensorDimensionError, match=r"`R x q x 3`, q >= 1\. Got \(1, 2, 2\)"):
        space.rows(X[..., :2], X)
