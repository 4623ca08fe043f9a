r"""What numbers may be: checks that run before anything is built or changed.

NaN passes every `if number < limit: raise`, so that each check here asks for what is right.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence


def check_finite(**numbers: float) -> None:
    r"""Raises ValueError unless every number is finite."""
    for name, number in numbers.items():
        if not abs(number) < math.inf:
            raise ValueError(f"Expected a finite `{name}`. Got {number}.")


def check_nonnegative(**numbers: float) -> None:
    r"""Raises ValueError unless every number is finite and >= 0."""
    for name, number in numbers.items():
        if not 0 <= number < math.inf:
            raise ValueError(f"Expected `{name}` to be finite and >= 0. Got {number}.")


def check_positive(**numbers: float) -> None:
    r"""Raises ValueError unless every number is finite and > 0."""
    for name, number in numbers.items():
        if not 0 < number < math.inf:
            raise ValueError(f"Expected `{name}` to be finite and > 0. Got {number}.")


def check_probability(**numbers: float) -> None:
    r"""Raises ValueError unless every number is strictly between 0 and 1."""
    for name, number in numbers.items():
        if not 0 < number < 1:
            raise ValueError(f"Expected `{name}` in (0, 1). Got {name}={number}.")


def check_integers(**numbers: int) -> None:
    r"""Raises ValueError unless every number is an integer: Python's own, NumPy's or a tensor's."""
    for name, number in numbers.items():
        try:
            operator.index(number)
        except TypeError:
            raise ValueError(f"Expected `{name}` to be an integer. Got {number!r}.") from None


def check_counts(least: int = 1, **counts: int) -> None:
    r"""Raises ValueError unless every number is an integer that is large enough.

    Args:
        least: What is large enough.
        counts: The numbers by their names.
    """
    check_integers(**counts)
    for name, count in counts.items():
        if count < least:
            raise ValueError(f"Expected `{name}` to be at least {least}. Got {count}.")


def as_counts(name: str, counts: Sequence[int], least: int = 1) -> tuple[int, ...]:
    r"""Several counts as a tuple; raises ValueError if there is none or one is too small.

    Args:
        name: What they are called.
        counts: The numbers.
        least: What is large enough.
    """
    try:
        listed = tuple(counts)
    except TypeError:
        listed = ()
    if not listed:
        raise ValueError(
            f"Expected `{name}` to be a sequence of at least one integer. Got {counts!r}."
        )
    for count in listed:
        check_counts(least, **{name: count})
    return listed
