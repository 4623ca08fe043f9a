r"""Values of discrete columns, and neighbours among them."""

from __future__ import annotations

import numpy as np
import torch

from botorch_risk.optim.discrete_columns import discrete_columns

BOX = torch.tensor([[0.0, 0.0, 0.0], [1.0, 9.0, 5.0]], dtype=torch.double)


def test_neighbours_are_a_step_or_any_other_category_away() -> None:
    columns = discrete_columns({1: [9.0, 0.0, 2.0, 2.0]}, {2: [5.0, 0.0, 1.0]}, BOX)
    assert columns is not None
    points = np.array([[0.5, 0.0, 1.0], [0.25, 1.0, 2.0]])
    neighbours, rows = columns.neighbors(points)
    assert rows.tolist() == [0, 0, 0, 1, 1, 1, 1]
    found = {tuple(point) for point in neighbours[rows == 0].tolist()}
    assert found == {(0.5, 1.0, 1.0), (0.5, 0.0, 0.0), (0.5, 0.0, 2.0)}
    X = columns.put(torch.as_tensor(neighbours), torch.as_tensor(neighbours))
    second = {tuple(point) for point in X[torch.as_tensor(rows == 1)].tolist()}
    assert second == {(0.25, 0.0, 5.0), (0.25, 9.0, 5.0), (0.25, 2.0, 0.0), (0.25, 2.0, 1.0)}


def test_uniform_numbers_become_indices_within_range() -> None:
    columns = discrete_columns(None, {-1: [0.0, 1.0, 2.0]}, BOX)
    assert columns is not None and columns.listed == [2]
    points = np.array([[0.3, 0.3, 0.0], [0.3, 0.3, 0.34], [0.3, 0.3, 1.0]])
    assert columns.indexed(points)[:, 2].tolist() == [0.0, 1.0, 2.0]
    assert (columns.indexed(points)[:, :2] == 0.3).all()


def test_nothing_is_searched_where_nothing_is_discrete_or_all_is_fixed() -> None:
    assert discrete_columns(None, None, BOX) is None
    assert discrete_columns({1: [0.0, 1.0]}, {2: [3.0]}, BOX, fixed=[-2, 2]) is None
