r"""Confidence widths of epochs against their formulas."""

import math

import numpy as np
import pytest
import torch

from botorch_risk.papers import GuaranteedWidth, Maximize, PracticalWidth, TruncatedVarianceState
from tests.acquisition.lake import grid


def test_widths() -> None:
    epoch, start = torch.tensor([1, 2, 5]), torch.tensor([1, 4, 9])
    practical = PracticalWidth(0.5).beta(epoch, start, 100)
    expected = [0.5 * math.log(100 * t**2) for t in (1, 4, 9)]
    np.testing.assert_allclose(practical, expected)
    width = GuaranteedWidth(0.1, epoch_costs=(10.0, 30.0), min_cost=2.0)
    totals = [10.0, 40.0, 130.0]
    expected = [2 * math.log(100 * c**2 * math.pi**2 / (6 * 0.1 * 4)) for c in totals]
    np.testing.assert_allclose(width.beta(epoch, start, 100), expected)
    state = TruncatedVarianceState.initial(grid(), Maximize(), width=width)
    np.testing.assert_allclose(state.beta, 2 * math.log(36 * 100 * math.pi**2 / 2.4))


def test_bad_widths() -> None:
    with pytest.raises(ValueError, match="`a` to be finite and > 0"):
        PracticalWidth(0.0)
    with pytest.raises(ValueError, match="`delta` in"):
        GuaranteedWidth(1.0, (1.0,))
    for costs in ((0.5,), (), (0.0,), (math.nan,)):
        with pytest.raises(ValueError, match="each >= `min_cost` > 0"):
            GuaranteedWidth(0.1, costs)
