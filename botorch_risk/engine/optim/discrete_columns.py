r"""Columns of a search space with a list of values: ordered ones and categories."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

Values = Mapping[int, Sequence[float]]


@dataclass(frozen=True)
class DiscreteColumns:
    r"""The values of discrete columns.

    In these columns, a search point holds the index of a value in ascending order: neighbours then
    have adjacent indices, and values are recovered without rounding.
    """

    values: Mapping[int, Tensor]  # the values of each column in ascending order, by its number
    categorical: frozenset[int]  # the columns whose values have no order

    @property
    def listed(self) -> list[int]:
        return list(self.values)

    def indexed(self, points: ndarray) -> ndarray:
        r"""Search points, all equally probable, from uniform numbers `... x d` in [0, 1)."""
        points = points.copy()
        for column, values in self.values.items():
            index = np.floor(points[..., column] * len(values))
            points[..., column] = index.clip(0, len(values) - 1)
        return points

    def located(self, points: ndarray, X: Tensor) -> ndarray:
        r"""Search points of given points `X`, `... x d`, at the nearest value of each column."""
        points = points.copy()
        for column, values in self.values.items():
            given = X[..., column]
            index = (given.unsqueeze(-1) - values).abs().argmin(dim=-1)
            other = ~given.isclose(values[index], atol=1e-6)  # X may have been float32
            if column in self.categorical and other.any():
                listed = ", ".join(f"{value:g}" for value in values.tolist())
                raise ValueError(
                    f"Expected `raw_points` with one of the values [{listed}] in column {column}. "
                    f"Got {given[other][0].item():g}."
                )
            points[..., column] = index.cpu().numpy()
        return points

    def put(self, X: Tensor, points: Tensor) -> Tensor:
        r"""The points `X` with the values of search points of the same shape."""
        X = X.clone()
        for column, values in self.values.items():
            X[..., column] = values[points[..., column].long()]
        return X

    def neighbors(self, points: ndarray) -> tuple[ndarray, ndarray]:
        r"""Points that differ in one column: by a step, or by any other category.

        Returns the neighbours of `rows x d` search points, and the row of each, ascending.
        """
        found, rows = [], []
        for column, values in self.values.items():
            count = len(values)
            # A step up or down; of a category every other value is one step away, round the end.
            steps = range(1, count) if column in self.categorical else (-1, 1)
            for step in steps:
                moved = points.copy()
                moved[:, column] += step
                if column in self.categorical:
                    moved[:, column] %= count
                inside = (moved[:, column] >= 0) & (moved[:, column] < count)
                found.append(moved[inside])
                rows.append(np.flatnonzero(inside))
        row = np.concatenate(rows)
        order = np.argsort(row, kind="stable")
        return np.concatenate(found)[order], row[order]


def discrete_columns(
    discrete_dims: Values | None, cat_dims: Values | None, box: Tensor, fixed: Sequence[int] = ()
) -> DiscreteColumns | None:
    r"""Check the discrete columns that a user passes; None if none is searched.

    Columns that are `fixed` are not searched.
    """
    d, held = box.shape[-1], {column % box.shape[-1] for column in fixed}
    checked: dict[int, Tensor] = {}
    categorical = set()
    for name, given in (("discrete_dims", discrete_dims), ("cat_dims", cat_dims)):
        for column, values in (given or {}).items():
            if not -d <= column < d:
                raise ValueError(f"Expected columns in [0, {d}) in `{name}`. Got {column}.")
            if column % d in checked:
                raise ValueError(
                    "Expected each column once in `discrete_dims` and `cat_dims`. "
                    f"Got column {column % d} twice."
                )
            listed = sorted({float(value) for value in values})
            lower, upper = box[:, column].tolist()
            within = column % d in held or all(lower <= value <= upper for value in listed)
            if not listed or not within:
                raise ValueError(
                    f"Expected values within [{lower:g}, {upper:g}] for column {column} in "
                    f"`{name}`, at least one. Got {list(values)}."
                )
            checked[column % d] = torch.tensor(listed, dtype=torch.double).to(box)
            if name == "cat_dims":
                categorical.add(column % d)
    searched = {column: values for column, values in checked.items() if column not in held}
    return DiscreteColumns(searched, frozenset(categorical)) if searched else None
