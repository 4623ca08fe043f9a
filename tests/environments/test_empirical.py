r"""Observed contexts on a grid, and the box that they span."""

from __future__ import annotations

import math

import pytest
import torch
from botorch.exceptions.errors import (
    BotorchTensorDimensionError,
    InputDataError,
)

from botorch_risk.environments import (
    EmpiricalGrid,
    InputPerturbation,
    StandardDeviationBox,
    regular_grid,
)

THREE = torch.tensor([[0.0], [0.5], [1.0]], dtype=torch.double)


UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.double)


def test_ties_go_to_the_first_point_of_the_grid():
    observed = torch.tensor([[0.25], [0.25], [0.75], [5.0]], dtype=torch.double)
    assert EmpiricalGrid(observed, THREE).weights.tolist() == [0.5, 0.25, 0.25]


@pytest.mark.parametrize(
    ("d_w", "num_points", "size"), [(1, 100, 100), (2, 1024, 1024), (3, 1000, 1000), (4, 100, 256)]
)
def test_regular_grids_have_the_sizes_of_the_paper(d_w, num_points, size):
    grid = regular_grid(UNIT.expand(2, d_w), num_points)
    assert grid.shape == (size, d_w)
    assert grid.unique(dim=0).shape == grid.shape


def test_a_regular_grid_reaches_from_bound_to_bound():
    bounds = torch.tensor([[3.0, -2.0], [5.0, -1.0]], dtype=torch.double)
    grid = regular_grid(bounds, 9)
    assert grid[:3].tolist() == [[3.0, -2.0], [3.0, -1.5], [3.0, -1.0]]
    assert grid[-1].tolist() == [5.0, -1.0]


def test_refuses_a_grid_of_another_space():
    with pytest.raises(
        BotorchTensorDimensionError, match="Expected `grid` to have shape `n_w x 1`"
    ):
        EmpiricalGrid(THREE, torch.zeros(3, 2))


def test_the_box_is_cut_at_the_bounds():
    observed = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    wide = StandardDeviationBox(observed, 512, seeds=0, num_deviations=3.0)
    assert wide.box.tolist() == [[-1.0], [2.0]]
    cut = StandardDeviationBox(observed, 512, seeds=0, num_deviations=3.0, bounds=UNIT)
    assert cut.box.tolist() == UNIT.tolist()
    assert ((cut.points >= 0) & (cut.points <= 1)).all()


@pytest.mark.parametrize("num_deviations", [-1.0, math.nan, math.inf])
def test_refuses_a_box_that_is_none(num_deviations):
    with pytest.raises(ValueError, match=r"Expected finite `num_deviations` >= 0. Got num_dev"):
        StandardDeviationBox(THREE, 8, seeds=0, num_deviations=num_deviations)


def test_refuses_what_is_no_data():
    for build in (lambda w: EmpiricalGrid(w, THREE), lambda w: StandardDeviationBox(w, 8, 0)):
        with pytest.raises(InputDataError, match=r"finite `observed`. Got \[nan\] at \(1,\)"):
            build(torch.tensor([[0.5], [math.nan]]).double())
        with pytest.raises(BotorchTensorDimensionError, match=r"with no dimension empty. Got"):
            build(THREE[:0])
    with pytest.raises(InputDataError, match=r"Expected finite `perturbations`. Got \[nan\]"):
        InputPerturbation(THREE * math.nan)
    for build in (lambda: regular_grid(UNIT, 0), lambda: StandardDeviationBox(THREE, 0, 0)):
        with pytest.raises(ValueError, match=r"Expected at least one point or node. Got 0"):
            build()


def test_a_box_of_no_deviations_is_the_mean():
    box = StandardDeviationBox(THREE[1:], 4, seeds=0, num_deviations=0.0)
    assert (box.points == 0.75).all()


def test_one_observed_value_is_its_own_box():
    assert (StandardDeviationBox(THREE[1:2], 4, seeds=0).points == 0.5).all()
