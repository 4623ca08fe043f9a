r"""Seeded draws of several noisy outcomes."""

from __future__ import annotations

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError

from botorch_risk.seeding import generators
from botorch_risk.test_functions.several_outcomes import draw_outcomes

VALUES = torch.arange(12.0, dtype=torch.float64).reshape(3, 2, 2)


def test_each_outcome_has_its_noise() -> None:
    Y = draw_outcomes(VALUES, [0.0, 0.5], 4000, generators([5, 1, 8], "noise"))
    assert Y.shape == (3, 2, 4000, 2)
    assert torch.equal(Y[..., 0], VALUES[..., :1].expand(3, 2, 4000))
    noise = Y[..., 1] - VALUES[..., 1:]
    assert noise.mean().item() == pytest.approx(0.0, abs=0.02)
    assert noise.std().item() == pytest.approx(0.5, rel=0.03)


def test_replicates_draw_alone_what_they_draw_together() -> None:
    together = draw_outcomes(VALUES, [1.0, 1.0], 3, generators([5, 1, 8], "noise"))
    alone = draw_outcomes(VALUES[1:2], [1.0, 1.0], 3, generators([1], "noise"))
    assert torch.equal(alone[0], together[1])
    (stream,) = generators(8, "noise")
    assert torch.equal(draw_outcomes(VALUES[2], [1.0, 1.0], 3, stream), together[2])
    low = draw_outcomes(VALUES.float(), [1.0, 1.0], 3, generators([5, 1, 8], "noise"))
    assert low.dtype == torch.float32
    torch.testing.assert_close(low.double(), together, rtol=1e-6, atol=1e-5)


def test_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="at least one repeat"):
        draw_outcomes(VALUES, [0.0, 0.0], 0, torch.Generator())
    for values in (VALUES, VALUES[0]):
        with pytest.raises(BotorchTensorDimensionError, match="one generator for each entry"):
            draw_outcomes(values, [0.0, 0.0], 2, generators([1, 2], "noise"))
