r"""Decisions with their numbers of readings."""

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError

from botorch_risk.repeats.adaptive_repeats import MeasuredBox
from botorch_risk.strategies import Box

BOX = Box(torch.tensor([[0.0, 1.0], [2.0, 5.0]]).double(), integers=[1])
SPACE = MeasuredBox(BOX, initial_repeats=3)


def test_the_design_is_that_of_the_box_with_the_number_of_readings() -> None:
    X = SPACE.initial([0, 1], 4)
    assert torch.equal(X[..., :-1], BOX.initial([0, 1], 4))
    assert (X[..., -1] == 3).all()
    assert SPACE.num_columns == 3
    assert torch.equal(SPACE.of([1]).bounds, BOX.bounds)


def test_rows_are_checked_and_rounded_as_those_of_the_box() -> None:
    X = torch.tensor([[[1.0, 2.0 + 1e-9, 4.0], [torch.nan, torch.nan, torch.nan]]]).double()
    rows = SPACE.rows(X, lambda: X)
    assert rows[0, 0].tolist() == [1.0, 2.0, 4.0]
    assert rows[0, 1].isnan().all()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([1.0, 2.0, 0.0], "whole numbers of readings, at least 1.*Got 0"),
        ([1.0, 2.0, 2.5], r"whole numbers of readings.*Got 2\.5"),
        ([1.0, 2.5, 2.0], "whole numbers in the columns"),
        ([3.0, 2.0, 2.0], "within bounds"),
    ],
)
def test_bad_rows_are_refused(row: list[float], message: str) -> None:
    X = torch.tensor([[row]]).double()
    with pytest.raises(InputDataError, match=message):
        SPACE.rows(X, lambda: X)


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match=r"`initial_repeats` to be at least 1. Got 0"):
        MeasuredBox(BOX, 0)
    X = torch.ones(1, 1, 2).double()
    with pytest.raises(BotorchTensorDimensionError, match="`R x q x 3`"):
        SPACE.rows(X, lambda: X)
