r"""Linear constraints in BoTorch's form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from botorch.exceptions.errors import UnsupportedError
from torch import Tensor

# Columns, their coefficients, and the least (or, of an equality, the only) sum.
Constraint = tuple[Tensor, Tensor, float]
Constraints = Sequence[Constraint] | None
# The same as numbers, which can be compared.
Plain = tuple[tuple[int, ...], tuple[float, ...], float]


def plain_constraints(name: str, constraints: Constraints, d: int) -> Iterator[Plain]:
    r"""Check constraints on `d` columns (negative ones count from the end); return plain numbers.

    Raises:
        UnsupportedError: If a constraint is on several points at once.
    """
    for columns, coefficients, least in constraints or ():
        columns = torch.as_tensor(columns)
        if columns.dim() != 1:
            raise UnsupportedError(
                f"Expected `{name}` on each point by itself, with columns of shape `n`. "
                f"Got {tuple(columns.shape)}."
            )
        if len(columns) != len(coefficients):
            raise ValueError(
                f"Expected one coefficient for each column in `{name}`. "
                f"Got {len(coefficients)} for {len(columns)}."
            )
        for column in columns.tolist():
            if not -d <= column < d:
                raise ValueError(f"Expected columns in [0, {d}) in `{name}`. Got {column}.")
        listed = tuple(int(column) % d for column in columns.tolist())
        yield listed, tuple(float(each) for each in coefficients), float(least)
