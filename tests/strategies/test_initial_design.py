from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from botorch_risk.environments import regular_grid
from botorch_risk.environments.uniforms import seeded_uniforms
from botorch_risk.fit.pseudo_points import pseudo_points
from botorch_risk.seeding import sobol_points
from botorch_risk.strategies import initial_design
from botorch_risk.strategies.space import uniform_points

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


@pytest.mark.parametrize(
    "draw",
    [
        lambda: initial_design(BOUNDS, [0, 1], 8),
        lambda: uniform_points(BOUNDS, [0, 1], 8, "stream"),
        lambda: sobol_points(0, 8, 3),
        lambda: seeded_uniforms(8, 3, [0, 1], "stream"),
        lambda: regular_grid(BOUNDS, 36),
        lambda: pseudo_points(initial_design(BOUNDS, 0, 8)[0], BOUNDS, seeds=0, points="sobol").X,
    ],
    ids=["initial", "uniform", "sobol", "environment", "grid", "pseudo-points"],
)
def test_points_do_not_depend_on_the_default_dtype(
    draw: Callable[[], Tensor], default_dtype: Callable[..., None]
) -> None:
    drawn = []
    for dtype in (torch.float, torch.double):
        default_dtype(dtype)
        drawn.append(draw())
    assert drawn[0].dtype == torch.double
    assert torch.equal(*drawn)


def test_in_single_precision_is_the_same_design_rounded() -> None:
    single = initial_design(BOUNDS.float(), [0, 1], 8)
    assert single.dtype == torch.float
    assert torch.equal(single, initial_design(BOUNDS, [0, 1], 8).float())


def test_refuses_an_empty_design() -> None:
    with pytest.raises(ValueError, match="`num_points` to be at least 1"):
        initial_design(BOUNDS, 0, 0)
