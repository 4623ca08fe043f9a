r"""Decisions beside contexts."""

from __future__ import annotations

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError

from botorch_risk.strategies import Box, ContextSpace

BOUNDS = torch.tensor([[-1.0, 0.0], [3.0, 1.0]], dtype=torch.double)


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


def test_categories_come_before_contexts_on_the_unit_cube() -> None:
    contexts = torch.tensor([[0.0], [2.0]])
    box = Box(torch.tensor([[0.0, 1.0], [1.0, 3.0]], dtype=torch.double), categories=[1])
    space = ContextSpace(box, contexts)
    X = torch.tensor([[[0.5, 2.0, 1.5]]], dtype=torch.double)
    assert space.unit(X).flatten().tolist() == [0.5, 0.0, 1.0, 0.0, 0.75]
    assert torch.equal(space.random_points([0], 4, "a"), box.random_points([0], 4, "a"))
    with pytest.raises(InputDataError, match=r"whole numbers in the columns \[1\]"):
        space.rows(X + 0.25, lambda: X)
