from __future__ import annotations

import pytest
import torch

from botorch_risk.strategies import initial_design

BOUNDS = torch.tensor([[-5.0, 0.0], [10.0, 1.0]], dtype=torch.double)


def test_is_a_function_of_each_seed_alone() -> None:
    design = initial_design(BOUNDS, [4, 9], 8)
    assert design.shape == (2, 8, 2)
    assert design.dtype == torch.double
    assert torch.equal(design[1:], initial_design(BOUNDS, 9, 8))
    assert not torch.equal(design[0], design[1])


def test_fills_the_box_evenly() -> None:
    unit = (initial_design(BOUNDS, 0, 8)[0] - BOUNDS[0]) / (BOUNDS[1] - BOUNDS[0])
    for column in unit.T:  # one Sobol point in each eighth
        assert (column * 8).floor().sort().values.tolist() == list(range(8))


def test_refuses_an_empty_design() -> None:
    with pytest.raises(ValueError, match="num_points=0"):
        initial_design(BOUNDS, 0, 0)
