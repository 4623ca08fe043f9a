r"""Linear constraints on settings, such as fractions that sum to 1."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from botorch.exceptions.errors import InputDataError, UnsupportedError
from numpy import ndarray
from torch import Tensor

from botorch_risk.arguments import check_fields, check_finite
from botorch_risk.engine import Polytope

# Inequalities and equalities as arguments of BoTorch's `optimize_acqf`, by their names.
Constraints = dict[str, Any]
Relation = Literal["<=", ">=", "=="]
# How far a told sum may be off its limit by rounding, in units of the sum's range.
_ROUNDING = 1e-6
# How far a program may be off, in units of a column's range.
_PRECISION = 1e-7


@dataclass(frozen=True)
class LinearLimit:
    r"""A linear constraint: a limit on a weighted sum of settings.

        sum of coefficients[column] * x[column]  <=, >= or ==  bound

    Fractions that sum to 1 are a mixture [Cornell2002mixtures]_.

    Args:
        coefficients: The weight of each column: by the number of the column in a `Box`, by its name
            in a `FrameExperiment`. Other columns have the weight 0.
        relation: `"<="`, `">="` or `"=="`.
        bound: The number with which the sum is compared, in the units of the settings.

    Example:
        >>> import torch
        >>> from botorch_risk.strategies import Box
        >>> unit = torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], dtype=torch.double)
        >>> whole = LinearLimit({0: 1, 1: 1, 2: 1}, "==", 1)
        >>> mixtures = Box(unit, limits=[whole, LinearLimit({0: 1, 1: 1}, "<=", 0.8)])
        >>> X = mixtures.initial([0], 100)
        >>> bool((X.sum(dim=-1) - 1).abs().max() < 1e-8), bool(X[..., 2].min() >= 0.2 - 1e-8)
        (True, True)
        >>> print(whole)
        column 0 + column 1 + column 2 == 1
    """

    coefficients: Mapping[Any, float]
    relation: Relation
    bound: float

    def __post_init__(self) -> None:
        check_fields(self)
        if not isinstance(self.coefficients, Mapping):
            raise TypeError(
                "Expected `coefficients` to be a dictionary from columns to numbers. "
                f"Got {self.coefficients!r}."
            )
        check_finite(bound=self.bound)
        named: dict[Any, float] = {}
        for column, coefficient in self.coefficients.items():
            check_finite(**{f"coefficients[{column!r}]": coefficient})
            named[_column(column)] = float(coefficient)
        if not any(named.values()):
            raise ValueError(
                f"Expected a coefficient that is not 0. Got coefficients={self.coefficients!r}."
            )
        object.__setattr__(self, "coefficients", named)
        object.__setattr__(self, "bound", float(self.bound))

    def __str__(self) -> str:
        text = ""
        for column, coefficient in self.coefficients.items():
            name = column if isinstance(column, str) else f"column {column}"
            sign = "-" if coefficient < 0 else "+" if text else ""
            factor = "" if abs(coefficient) == 1 else f"{abs(coefficient):g} * "
            text += f" {sign} {factor}{name}" if text else f"{sign}{factor}{name}"
        return f"{text} {self.relation} {self.bound:g}"

    def of_columns(self, d: int) -> LinearLimit:
        r"""The same limit, with negative numbers of columns counted from the end of `d`."""
        for column in self.coefficients:
            if not -d <= column < d:
                raise ValueError(f"Expected columns in [0, {d}) in the limits. Got `{self}`.")
        counted = {column % d: each for column, each in self.coefficients.items()}
        if len(counted) < len(self.coefficients):
            raise ValueError(f"Expected each column once in a limit. Got `{self}`.")
        return replace(self, coefficients=counted)

    def rescaled(self, columns: Mapping[Any, Any], origin: ndarray, unit: ndarray) -> LinearLimit:
        r"""The limit on other numbers z, where x = origin + unit * z, by the names that z has."""
        weights = self.row(list(columns))
        scaled = zip(columns.values(), weights * unit, strict=True)
        coefficients = {name: float(weight) for name, weight in scaled if weight}
        return LinearLimit(coefficients, self.relation, self.bound - float(weights @ origin))

    def row(self, columns: Sequence[Any]) -> ndarray:
        r"""The coefficients of the given columns, in their order."""
        return np.array([self.coefficients.get(column, 0.0) for column in columns])


def _column(column: Any) -> Any:
    if isinstance(column, str):
        return column
    try:
        return operator.index(column)
    except TypeError:
        raise TypeError(
            f"Expected columns by number or by name in `coefficients`. Got {column!r}."
        ) from None


@dataclass(frozen=True)
class LimitedColumns:
    r"""Columns with the limits on them.

    Args:
        columns: The number or the name of each column.
        steps: The step of each column; None if any number is allowed.
        categories: The columns whose values have no order.

    Raises:
        UnsupportedError: If a limit is on a category.
        ValueError: If a limit names another column, or at most one setting is within all limits.
    """

    columns: Sequence[Any]
    lower: Sequence[float]
    upper: Sequence[float]
    steps: Sequence[float | None]
    categories: Sequence[Any]
    limits: Sequence[LinearLimit]

    def __post_init__(self) -> None:
        for limit in self.limits:
            for column in limit.coefficients:
                if column not in self.columns:
                    raise ValueError(
                        f"Expected limits on the columns {list(self.columns)}. "
                        f"Got {column!r} in `{limit}`."
                    )
                if column in self.categories:
                    raise UnsupportedError(
                        "Expected limits on numbers, as the values of a category have no order. "
                        f"Got {_named(column)} in `{limit}`."
                    )
        self._check_each()
        self._check_all()

    def _check_each(self) -> None:
        r"""Raise a `ValueError` if the bounds of the columns alone exclude a limit."""
        for limit in self.limits:
            least, most = self._range(limit)
            slack = _PRECISION * (most - least)
            if limit.relation != ">=" and least > limit.bound + slack:
                raise ValueError(
                    f"Expected limits with a feasible setting. Got `{limit}`, whose left side is "
                    f"at least {least:g} within the bounds."
                )
            if limit.relation != "<=" and most < limit.bound - slack:
                raise ValueError(
                    f"Expected limits with a feasible setting. Got `{limit}`, whose left side is "
                    f"at most {most:g} within the bounds."
                )

    def _range(self, limit: LinearLimit) -> tuple[float, float]:
        row = limit.row(self.columns)
        ends = np.stack([row * np.array(self.lower), row * np.array(self.upper)])
        return float(ends.min(axis=0).sum()), float(ends.max(axis=0).sum())

    def _check_all(self) -> None:
        r"""Raise a `ValueError` if limits exclude each other, or leave one setting."""
        if not self._is_possible(self.limits):
            conflict = list(self.limits)
            for limit in self.limits:  # those without which a setting would be possible
                others = [each for each in conflict if each is not limit]
                if not self._is_possible(others):
                    conflict = others
            said = " and ".join(f"`{limit}`" for limit in conflict)
            steps = "" if all(step is None for step in self.steps) else " and steps"
            why = "exclude each other" if len(conflict) > 1 else "excludes all settings"
            raise ValueError(
                f"Expected limits with a feasible setting. Got {said}, which {why} within the "
                f"bounds{steps} of the columns."
            )
        for column, unit in enumerate(np.eye(len(self.columns))):
            low, high = (self.polytope.extreme(sign * unit) for sign in (1.0, -1.0))
            if low is None or high is None or high[column] - low[column] > _PRECISION:
                return
        settings = self.polytope.points(np.asarray(low)).tolist()
        one = {column: float(f"{x:.6g}") for column, x in zip(self.columns, settings, strict=True)}
        raise ValueError(f"Expected limits that leave a choice. Got only one setting: {one}.")

    @cached_property
    def polytope(self) -> Polytope:
        r"""The settings within the limits."""
        return self._polytope_of(self.limits)

    def _is_possible(self, limits: Sequence[LinearLimit]) -> bool:
        try:
            self._polytope_of(limits)
        except ValueError:
            return False
        return True

    def _polytope_of(self, limits: Sequence[LinearLimit]) -> Polytope:
        bounds = torch.tensor([self.lower, self.upper], dtype=torch.double)
        dims: dict[str, Any] = {"discrete_dims": {}, "cat_dims": {}}
        for index, step in enumerate(self.steps):
            if step is not None:
                lower, upper = bounds[:, index].tolist()
                count = round((upper - lower) / step)
                is_category = self.columns[index] in self.categories
                values = [min(lower + step * k, upper) for k in range(count + 1)]
                dims["cat_dims" if is_category else "discrete_dims"][index] = values
        return Polytope.of(bounds, **self._constraints(limits), **dims)

    def check(self, X: Tensor, names: Callable[[int], str]) -> None:
        r"""Raise an `InputDataError` if the sum of a row violates its limit by more than rounding.

        Rounding is 1e-6 of the range of the sum, or 64 epsilons in single precision.

        Args:
            X: Settings, `... x d`; NaN where one is missing.
            names: Returns the name of a row, given its index.
        """
        points = X.detach().cpu().double().reshape(-1, X.shape[-1])[:, : len(self.columns)]
        for limit in self.limits:
            least, most = self._range(limit)
            sums = points @ torch.as_tensor(limit.row(self.columns))
            over = sums - limit.bound
            off = {"<=": over, ">=": -over, "==": over.abs()}[limit.relation]
            rounding = max(_ROUNDING, 64 * torch.finfo(X.dtype).eps)
            outside = off > rounding * (most - least)
            if outside.any():
                row = int(outside.nonzero()[0])
                raise InputDataError(
                    f"Expected settings within `{limit}`. Got {sums[row]:.8g} in {names(row)}."
                )

    def constraints(self) -> Constraints:
        r"""The limits as arguments of BoTorch's `optimize_acqf`, by indices of the columns."""
        return self._constraints(self.limits)

    def _constraints(self, limits: Sequence[LinearLimit]) -> Constraints:
        found: Constraints = {"inequality_constraints": [], "equality_constraints": []}
        for limit in limits:
            row = torch.as_tensor(limit.row(self.columns))
            index, sign = row.nonzero().flatten(), -1.0 if limit.relation == "<=" else 1.0
            kind = "equality" if limit.relation == "==" else "inequality"
            found[f"{kind}_constraints"].append((index, sign * row[index], sign * limit.bound))
        return found


def in_unit_cube(constraints: Constraints, bounds: Tensor) -> Constraints:
    r"""Constraints on the columns of a box, converted to columns of the unit cube."""
    if not constraints:
        return {}
    lower, upper = bounds.cpu().double()
    width = upper - lower
    return {
        name: [
            (columns, weights * width[columns], least - float(weights @ lower[columns]))
            for columns, weights, least in listed
        ]
        for name, listed in constraints.items()
    }


def _named(column: Any) -> str:
    return repr(column) if isinstance(column, str) else f"column {column}"
