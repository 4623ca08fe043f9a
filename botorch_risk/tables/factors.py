r"""The rows of a table (the conditions or the contexts) and their distances."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from numbers import Number
from typing import Any

import numpy as np
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from botorch_risk.arguments import as_floating, first_wrong, in_order
from botorch_risk.tables.memory import check_memory


@dataclass(frozen=True)
class Factors:
    r"""Named rows with their distances in each column.

    Args:
        names: One for each of the n rows.
        distances: `c x n x n`, one matrix for each column: 1 between different categories, and
            between numbers half the squared difference in standard deviations of the column,
            divided by the number of such columns. The correlation of two rows is
            `exp(-sum_c rate_c distance_c)`.
        features: `n x d` coordinates of the rows, for measures of risk that need points.
    """

    names: tuple[Hashable, ...]
    distances: Tensor
    features: Tensor

    def __post_init__(self) -> None:
        for name in ("distances", "features"):
            object.__setattr__(self, name, as_floating(getattr(self, name), name))

    def __len__(self) -> int:
        return len(self.names)

    def of_rows(self, rows: Tensor) -> Factors:
        r"""Some of the rows, with the distances that they have in the table."""
        names = tuple(self.names[row] for row in rows.tolist())
        return Factors(names, self.distances[:, rows][..., rows], self.features[rows])

    def to(self, device: torch.device) -> Factors:
        r"""The same rows on another device."""
        if self.distances.device == device:
            return self
        return Factors(self.names, self.distances.to(device), self.features.to(device))

    @classmethod
    def of(cls, rows: Any, name: str = "rows") -> Factors:
        r"""The rows of a DataFrame, a tensor or a list; factors are returned unchanged.

        Args:
            rows: A DataFrame, whose columns of numbers of any dtype are descriptors and whose other
                columns are categories, and whose index names the rows; a tensor or an array of
                descriptors `n x d`; or a list of names, which may be tuples with one category per
                entry.
            name: The name of the rows in messages.

        Raises:
            InputDataError: If there is no row, a name is duplicated, a value is missing, or a
                column has dates or complex numbers.
            UnsupportedError: If there are so many rows that their distances do not fit into memory.
        """
        if isinstance(rows, Factors):
            return rows
        if hasattr(rows, "__len__"):
            check_memory(**{name: len(rows)})  # of the distances alone
        if hasattr(rows, "columns") and hasattr(rows, "index"):
            names = tuple(rows.index)
            columns = [_column_of_frame(rows.iloc[:, i], name) for i in range(rows.shape[1])]
        elif isinstance(rows, Tensor | np.ndarray):
            numbers = as_floating(rows, name).double()
            if numbers.dim() != 2:
                raise InputDataError(
                    f"Expected `{name}` to have shape `n x d`. Got {tuple(numbers.shape)}."
                )
            names = tuple(range(len(numbers)))
            columns = [
                _column(each.numpy(), name) for each in numbers.detach().cpu().unbind(dim=-1)
            ]
        elif isinstance(rows, Sequence) and not isinstance(rows, str):
            names = tuple(rows)
            if not all(isinstance(each, Hashable) for each in names):
                raise TypeError(
                    f"Expected `{name}` to be a DataFrame, a tensor `n x d` or a list of names. "
                    f"Got a list of {type(names[0]).__name__}."
                )
            columns = [_categories(each) for each in _entries(names, name)]
        else:
            raise TypeError(
                f"Expected `{name}` to be a DataFrame, a tensor `n x d` or a list of names. "
                f"Got {type(rows).__name__}."
            )
        if not names or not columns:
            raise InputDataError(f"Expected `{name}` to have a row and a column. Got none.")
        _check_names(names, name)
        numbers_of = sum(each.shape[-1] == 1 for each in columns)
        return cls(
            names,
            torch.stack([_distances(each, numbers_of) for each in columns]),
            torch.cat(columns, dim=-1),
        )

    @classmethod
    def with_distances(cls, names: Sequence[Hashable], distances: Any) -> Factors:
        r"""Rows with user-defined distances, such as 1 - Tanimoto similarity of fingerprints.

        Args:
            names: One for each of the n rows.
            distances: `c x n x n`, or `n x n` for one column; each column has a learnt rate. Scale
                them so that large distances are about 1: the prior of the rates assumes so. The
                rows and the columns of a DataFrame are found by their names, in any order.

        Raises:
            InputDataError: If a name is duplicated, or `exp(-rate * distance)` is not a correlation
                for every rate. It is one if the distances are squared Euclidean distances of points
                (Schoenberg).

        Example:
            >>> far = torch.tensor([[0.0, 0.2, 1.0], [0.2, 0.0, 0.9], [1.0, 0.9, 0.0]])
            >>> len(Factors.with_distances(["DBU", "MTBD", "BTPP"], far))
            3
        """
        named = tuple(names)
        distances = in_order("distances", distances, named, named)
        given = as_floating(distances, "distances").double().cpu()
        given = given.unsqueeze(0) if given.dim() == 2 else given
        n = len(named)
        if given.dim() != 3 or given.shape[-2:] != (n, n) or not n or not len(given):
            raise BotorchTensorDimensionError(
                f"Expected `distances` to have shape `c x {n} x {n}`, for {n} names. "
                f"Got {tuple(given.shape)}."
            )
        _check_names(named, "names")
        centring = torch.eye(n, dtype=torch.double) - 1 / n
        products = -centring @ ((given + given.mT) / 2) @ centring / 2
        slack = 1e-6 * given.abs().amax().clamp_min(1.0)
        squared = (
            bool(given.isfinite().all())
            and bool((given - given.mT).abs().amax() <= slack)
            and bool(given.diagonal(dim1=-2, dim2=-1).abs().amax() <= slack)
            and bool(torch.linalg.eigvalsh(products).amin() >= -n * slack)
        )
        if not squared:
            raise InputDataError(
                "Expected squared distances of points: symmetric, 0 between equal rows, and no "
                "direction of negative length. Got other distances."
            )
        return cls(named, given, torch.eye(n, dtype=torch.double))


def _check_names(names: tuple[Hashable, ...], name: str) -> None:
    if len(set(names)) < len(names):
        twice = next(each for each in names if names.count(each) > 1)
        raise InputDataError(f"Expected every name of `{name}` once. Got {twice!r} twice.")


def _entries(names: tuple[Hashable, ...], name: str) -> list[tuple[Any, ...]]:
    r"""The columns of a list of names: the entries of tuples, or the names themselves."""
    if not names or not isinstance(names[0], tuple):
        return [names]
    if not all(isinstance(each, tuple) and len(each) == len(names[0]) for each in names):
        raise InputDataError(f"Expected all of `{name}` to be tuples of one length. Got {names}.")
    return list(zip(*names, strict=True))


def _column_of_frame(column: Any, name: str) -> Tensor:
    if column.dtype == "category":  # of numbers too
        return _categories(column.tolist())
    values = column.to_numpy()
    if values.dtype.kind not in "biuf":
        listed = column.tolist()
        wrong = next((each for each in listed if _is_date(each) or isinstance(each, complex)), None)
        if wrong is not None:
            raise InputDataError(
                f"Expected numbers or categories in column {column.name!r} of `{name}`. Got "
                f"{wrong!r}: give a date as a number, such as of days, or as text."
            )
        if all(isinstance(each, Number) and not isinstance(each, bool) for each in listed):
            values = np.array(listed, dtype=float)  # of dtype object, as after a transposition
    return _column(values, name)


def _is_date(value: Any) -> bool:
    return hasattr(value, "year") or isinstance(value, timedelta | np.timedelta64)


def _column(values: np.ndarray, name: str) -> Tensor:
    r"""The coordinates of one column: one for numbers, or one for each value of a category."""
    if values.dtype.kind not in "iuf":
        return _categories(values.tolist())
    if not (finite := np.isfinite(values)).all():
        wrong = first_wrong(torch.from_numpy(values), torch.from_numpy(finite))
        raise InputDataError(f"Expected finite descriptors of `{name}`. Got {wrong}.")
    numbers = torch.tensor(values, dtype=torch.double).unsqueeze(-1)
    spread = numbers.std(dim=0, correction=0)
    return (numbers - numbers.mean(dim=0)) / spread.where(spread > 0, 1.0)


def _categories(values: Sequence[Any]) -> Tensor:
    if any(map(_is_missing, values)):
        raise InputDataError(f"Expected no missing category. Got {list(values)}.")
    codes = {each: code for code, each in enumerate(dict.fromkeys(values))}
    one_hot = torch.eye(max(2, len(codes)), dtype=torch.double)  # one column is a number
    return one_hot[[codes[each] for each in values]]


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)  # NaN is not itself
    except TypeError:  # of `pandas.NA`, which compares with nothing
        return True


def _distances(coordinates: Tensor, num_numbers: int) -> Tensor:
    squares = torch.cdist(coordinates, coordinates).square() / 2
    return squares / num_numbers if coordinates.shape[-1] == 1 else squares.round()
