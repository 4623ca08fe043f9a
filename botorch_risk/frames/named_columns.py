r"""Named columns of a DataFrame: their allowed values, and the numbers that encode these."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from botorch.exceptions.errors import InputDataError

# How far from a bound a number may be by rounding, in units of the range.
_ROUNDING = 1e-6
# How far from a step, in units of one step: enough for a third that was written 0.33333.
_OFF_STEP = 1e-4


@dataclass(frozen=True)
class NamedColumn:
    r"""A column of settings: numbers in a range, in steps or on a logarithmic scale, or labels.

    Args:
        name: The name of the column.
        lower: The least number.
        upper: The largest number.
        step: The step from `lower` to `upper`; None if any number is allowed.
        labels: Labels, which have no order, instead of numbers.
        unit: The unit of the numbers, for messages.
        is_log: Whether the strategy is given the decimal logarithm of the number.
    """

    name: str
    lower: float = 0.0
    upper: float = 1.0
    step: float | None = None
    labels: tuple[str | bool, ...] = ()
    unit: str = ""
    is_log: bool = False

    @classmethod
    def of(cls, name: str, values: Any, unit: str = "") -> NamedColumn:
        r"""A column from `(low, high)`, `(low, high, step)`, `(low, high, "log")`, or labels.

        A list of numbers is refused, as it could mean a range, steps or codes.
        """
        listed = list(values) if isinstance(values, list | tuple) else []
        if isinstance(values, tuple) and listed[2:] == ["log"]:
            return cls._of_logarithms(name, unit, *map(_number, listed[:2]))
        numbers = [_number(each) for each in listed]
        if isinstance(values, tuple) and len(listed) in (2, 3) and None not in numbers:
            return cls._of_numbers(name, unit, *numbers)  # type: ignore[arg-type]
        is_labels = all(isinstance(each, str | bool) for each in listed)
        is_labels &= not (isinstance(values, tuple) and any(map(_looks_like_a_number, values)))
        if not is_labels or len(listed) < 2 or len(set(listed)) < len(listed):
            raise ValueError(
                f"Expected {name!r} to be a tuple (low, high), (low, high, step) or (low, high, "
                "'log'), or a list of at least two different labels, which are strings. "
                f"Got {values!r}."
            )
        return cls(name, 0.0, len(listed) - 1.0, labels=tuple(listed), unit=unit)

    @classmethod
    def _of_logarithms(
        cls, name: str, unit: str, lower: float | None, upper: float | None
    ) -> NamedColumn:
        if lower is None or upper is None or not 0 < lower < upper:
            raise ValueError(
                f"Expected {name!r}, on a logarithmic scale, to have finite 0 < low < high. "
                f"Got {(lower, upper, 'log')}."
            )
        return cls(name, lower, upper, unit=unit, is_log=True)

    @classmethod
    def _of_numbers(
        cls, name: str, unit: str, lower: float, upper: float, step: float | None = None
    ) -> NamedColumn:
        steps = 1.0
        if step is not None:
            steps = (upper - lower) / step if step > 0 else 0.0
            if np.spacing(max(abs(lower), abs(upper))) > _OFF_STEP * step > 0:
                raise ValueError(
                    f"Expected {name!r} to have a step that numbers of double precision resolve. "
                    f"Got {(lower, upper, step)}."
                )
        whole = round(steps)
        if not lower < upper or whole < 1 or abs(steps - whole) > _OFF_STEP:
            raise ValueError(
                f"Expected {name!r} to have finite low < high, and high a positive number of "
                f"steps above low. Got {(lower, upper) if step is None else (lower, upper, step)}."
            )
        return cls(name, lower, upper, step, unit=unit)

    @property
    def is_whole(self) -> bool:
        r"""Whether it holds integers."""
        return self.step is not None and self.step % 1 == self.lower % 1 == 0

    @property
    def _stands_for_itself(self) -> bool:
        r"""Whether steps are not counted: for any number, and for all integers in a range."""
        return self.step is None or (self.is_whole and self.step == 1)

    @property
    def bounds(self) -> tuple[float, float]:
        r"""The smallest and the largest number that a strategy is given."""
        if self.is_log:
            return math.log10(self.lower), math.log10(self.upper)
        if self._stands_for_itself or self.step is None:
            return self.lower, self.upper
        return 0.0, float(round((self.upper - self.lower) / self.step))

    @property
    def scale(self) -> tuple[float, float]:
        r"""The value that a strategy's 0 represents, and the difference that its 1 represents."""
        if self._stands_for_itself or self.step is None:
            return 0.0, 1.0
        return self.lower, self.step

    def __str__(self) -> str:
        if self.labels:
            return f"{self.name!r} to be one of {list(self.labels)}"
        steps = "" if self.step is None else f" in steps of {self.step:g}"
        steps += " by its logarithm" * self.is_log
        unit = f" {self.unit}" if self.unit else ""
        return f"{self.name!r} from {self.lower:g} to {self.upper:g}{unit}{steps}"

    def code(self, value: Any) -> float | None:
        r"""The number that a strategy is given for a value; None if the value is not allowed."""
        if self.labels:
            same = [each == value and isinstance(value, type(each)) for each in self.labels]
            return float(same.index(True)) if True in same else None  # 1 is not True
        number = _number(value)
        if number is None:
            return None
        if self.step is None:
            lower, upper = self.bounds
            if self.is_log:
                number = math.log10(number) if number > 0 else -math.inf
            slack = _ROUNDING * (upper - lower)
            return number if lower - slack <= number <= upper + slack else None
        steps = (number - self.lower) / self.step
        whole, last = round(steps), round((self.upper - self.lower) / self.step)
        if abs(steps - whole) > _OFF_STEP or not 0 <= whole <= last:
            return None
        return float(round(number) if self._stands_for_itself else whole)

    def value(self, code: float) -> Any:
        r"""The value that a strategy's number represents."""
        if self.labels:
            return self.labels[round(code)]
        if self.is_log:  # 0.001, not 10 ** -3.0000000000000004
            return min(max(float(f"{10**code:.12g}"), self.lower), self.upper)
        if self.step is None:
            return code
        if self._stands_for_itself:
            return round(code)
        number = self.lower + round(code) * self.step
        if self.is_whole:
            return round(number)
        # 0.3, not 0.1 + 2 * 0.1: without the last bits of a number and of the difference of two.
        return round(float(f"{number:.15g}"), 9 - math.floor(math.log10(self.step)))

    def codes(self, frame: Any) -> list[float]:
        r"""The numbers of the column of a DataFrame, NaN where a value is missing."""
        rows = list(values_of(frame, self.name))
        codes = [math.nan if missing else self.code(value) for _, value, missing in rows]
        _check_read(str(self), rows, codes, of_labels=bool(self.labels))
        return codes  # type: ignore[return-value]


def numbers_of(frame: Any, name: str) -> list[float]:
    r"""The readings of a column of a DataFrame, NaN where one is missing."""
    rows = list(values_of(frame, name))
    read = [math.nan if missing else _number(value) for _, value, missing in rows]
    _check_read(f"{name!r} to be a finite number, or missing", rows, read)
    return read  # type: ignore[return-value]


def _check_read(
    expected: str,
    rows: Sequence[tuple[Any, Any, bool]],
    read: Sequence[float | None],
    of_labels: bool = False,
) -> None:
    r"""Name an entry that was not read; of text, not one that became text because of it."""
    wrong = [row for row, number in zip(rows, read, strict=True) if number is None]
    if wrong:
        row, value, _ = wrong[0] if of_labels else min(wrong, key=_comes_last)
        text = ", which is text" if isinstance(value, str) and not of_labels else ""
        raise InputDataError(f"Expected {expected}. Got {value!r} in row {row!r}{text}.")


def told_values(frame: Any, name: str) -> list[Any]:
    r"""The values of a column as plain Python values for JSON; None where missing."""
    rows = values_of(frame, name)
    return [None if missing else _plain(value) for _, value, missing in rows]


def values_of(frame: Any, name: str) -> Iterable[tuple[Any, Any, bool]]:
    r"""The label of each row, its value in a column, and whether the value is missing."""
    column = frame[name]
    return zip(frame.index, column.tolist(), column.isna().tolist(), strict=True)


def check_names(frame: Any, expected: Sequence[str], allowed: Sequence[str] = ()) -> None:
    r"""Raise an error unless a DataFrame has all expected columns and no unknown ones."""
    if not (hasattr(frame, "columns") and hasattr(frame, "index")):
        raise TypeError(f"Expected a DataFrame. Got {type(frame).__name__}.")
    names = list(frame.columns)
    for wrong, said in (
        ([each for each in names if names.count(each) > 1], "each column once. Got twice:"),
        ([each for each in names if each not in (*expected, *allowed)], "no other. Got also:"),
        ([each for each in expected if each not in names], "all of them. Missing:"),
    ):
        if wrong:
            listed = ", ".join(repr(each) for each in dict.fromkeys(wrong))
            raise InputDataError(f"Expected the columns {list(expected)}, {said} {listed}.")


def _number(value: Any) -> float | None:
    r"""A finite number, or None; booleans and text are not numbers."""
    if isinstance(value, bool | np.bool_ | str | bytes):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str) else float(value)


def _comes_last(row: tuple[Any, Any, bool]) -> bool:
    return _looks_like_a_number(row[1])


def _looks_like_a_number(value: Any) -> bool:
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False
