import math
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from botorch_risk.fit import pseudo_points

BOUNDS = torch.tensor([[0.0, -2.0], [1.0, 2.0]], dtype=torch.double)


def data(*batch_shape: int, n: int = 7) -> Tensor:
    unit = torch.rand(*batch_shape, n, 2, dtype=torch.double)
    return BOUNDS[0] + (BOUNDS[1] - BOUNDS[0]) * unit


def nearest(point: list[float], rows: list[list[float]]) -> int:
    r"""By a loop, in the unit cube; the first one of those that tie."""

    def unit(x: list[float]) -> list[float]:
        return [(a - lo) / (hi - lo) for a, lo, hi in zip(x, *BOUNDS.tolist(), strict=True)]

    distances = [math.dist(unit(point), unit(row)) for row in rows]
    return distances.index(min(distances))


@pytest.mark.parametrize("points", ["uniform", "sobol"])
def test_neighbours_equal_brute_force(points: str) -> None:
    X = data(3)
    drawn = pseudo_points(X, BOUNDS, 40, seeds=[0, 1, 2], points=points)
    assert drawn.X.shape == (3, 40, 2)
    assert ((BOUNDS[0] <= drawn.X) & (BOUNDS[1] >= drawn.X)).all()
    for r in range(3):
        expected = [nearest(point, X[r].tolist()) for point in drawn.X[r].tolist()]
        assert drawn.neighbours[r].tolist() == expected


def test_ties_do_not_depend_on_the_order_of_the_rows() -> None:
    lattice = torch.tensor([[i / 4, j - 2.0] for i in range(5) for j in range(5)]).double()
    middle = torch.tensor([[i / 8, j / 2 - 2.0] for i in range(9) for j in range(9)]).double()
    for rows in (torch.randperm(25), torch.arange(25)):
        X = lattice[rows]
        drawn = pseudo_points(X, BOUNDS, seeds=0, points=middle)
        # The lattice is in lexicographic order, whose first row a loop over it finds first.
        expected = [lattice[nearest(point, lattice.tolist())] for point in middle.tolist()]
        assert torch.equal(X[drawn.neighbours], torch.stack(expected))


def test_a_point_has_every_observation_of_its_nearest_input() -> None:
    single = data(2)
    X = torch.cat([single, single[:, :3], single[:, :1]], dim=1)
    X[1, 8:] = 0.5  # three repeats of an input that the first replicate does not have
    drawn = pseudo_points(X, BOUNDS, seeds=[0, 1], points="sobol")
    for r in range(2):
        counted = drawn.counted[r]
        pairs = [
            (tuple(x), row)
            for x, row in zip(
                drawn.X[r, counted].tolist(), drawn.neighbours[r, counted].tolist(), strict=True
            )
        ]
        distinct = {tuple(x) for x in X[r].tolist()}
        points = {point for point, _ in pairs}
        assert len(points) == 2 * len(distinct)  # twice that of the inputs, not of the rows
        expected = []
        for point in points:
            closest = X[r, nearest(list(point), X[r].tolist())]
            expected += [(point, row) for row in range(11) if torch.equal(X[r, row], closest)]
        assert sorted(pairs) == sorted(expected)


def test_equal_points_count_once() -> None:
    X = data()
    points = data(n=8)
    once = pseudo_points(X, BOUNDS, seeds=0, points=points)
    twice = pseudo_points(X, BOUNDS, seeds=0, points=torch.cat([points, points.flip(0)]))
    assert all(torch.equal(left, right) for left, right in zip(once, twice, strict=True))


def test_distances_are_those_of_the_unit_cube() -> None:
    X = torch.tensor([[0.0, 0.0], [0.45, 0.0]]).double()
    far_in_x = torch.tensor([[0.2, 1.6], [0.26, 1.6]]).double()
    assert pseudo_points(X, BOUNDS, seeds=0, points=far_in_x).neighbours.tolist() == [0, 1]


@pytest.mark.parametrize("points", ["uniform", "sobol"])
def test_a_replicate_is_its_seed(points: str) -> None:
    X = data().expand(3, 7, 2)
    together = pseudo_points(X, BOUNDS, seeds=[4, 0, 7], points=points)
    alone = pseudo_points(X[0], BOUNDS, seeds=0, points=points)
    assert torch.equal(together.X[1], alone.X)
    assert not torch.equal(together.X[0], alone.X)


def test_sobol_points_stay_when_their_number_grows() -> None:
    few, many = (pseudo_points(data(), BOUNDS, m, seeds=0, points="sobol").X for m in (14, 30))
    assert torch.equal(few, many[:14])


def test_masked_rows_are_nobodys_neighbours_and_need_no_points() -> None:
    X = data(2)
    observed = torch.ones(2, 7, dtype=torch.bool)
    observed[1, :3] = False
    holed = X.clone()
    holed[1, :3] = math.nan
    drawn = pseudo_points(holed, BOUNDS, seeds=[0, 1], observed=observed)
    assert drawn.counted.sum(dim=-1).tolist() == [14, 8]
    alone = pseudo_points(X[1, 3:], BOUNDS, seeds=1)
    assert torch.equal(drawn.X[1, :8], alone.X)
    assert torch.equal(drawn.neighbours[1, :8], alone.neighbours + 3)
    assert drawn.X.isfinite().all()


def test_points_may_be_an_array_or_a_list() -> None:
    X, points = data(), data(n=9)
    expected = pseudo_points(X, BOUNDS, seeds=0, points=points)
    for other in (points.numpy(), points.tolist()):
        found = pseudo_points(X, BOUNDS, seeds=0, points=other)
        assert torch.equal(found.X, expected.X)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"X": data(n=1)}, InputDataError, "at least two observations"),
        ({"bounds": BOUNDS / 100}, InputDataError, "`bounds` that contain the data"),
        ({"X": data() * math.nan}, InputDataError, "`bounds` that contain the data"),
        ({"bounds": BOUNDS[:, :1]}, BotorchTensorDimensionError, "`2 x 2`"),
        ({"bounds": BOUNDS.flip(0)}, ValueError, "lower bound below"),
        ({"num_pseudo": 6}, ValueError, r"M_t >= \|D\|. Got 6 and 7"),
        ({"points": data(n=3)}, ValueError, "Got 3 and 7"),
        (
            {"points": data(n=9).index_fill(0, torch.tensor([4]), math.nan)},
            InputDataError,
            r"finite `points`. Got \[nan, nan\]",
        ),
        ({"points": data(n=9)[:, :1]}, BotorchTensorDimensionError, r"`M x 2`.* Got \(9, 1\)"),
        ({"points": data(3, n=9)}, BotorchTensorDimensionError, r"`M x 2`.* Got \(3, 9, 2\)"),
        ({"points": "grid"}, ValueError, "`points` to be one of"),
        ({"seeds": [0, 1]}, ValueError, "one seed for each of 1 replicates"),
        ({"observed": torch.ones(7)}, BotorchTensorDimensionError, "to be boolean"),
    ],
)
def test_bad_input(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    options = {"X": data(), "bounds": BOUNDS, "seeds": 0, **arguments}
    with pytest.raises(error, match=message):
        pseudo_points(**options)
