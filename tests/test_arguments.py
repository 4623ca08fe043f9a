r"""Numbers that are refused before anything happens, and those that are right."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from botorch_risk.arguments import (
    check_counts,
    check_finite,
    check_integers,
    check_nonnegative,
    check_positive,
    check_probability,
)

RIGHT: list[tuple[Callable[..., None], list[float]]] = [
    (check_finite, [-1.0, 0.0, 1e300]),
    (check_nonnegative, [0.0, 5e-324, 1e300]),
    (check_positive, [5e-324, 1e300]),
    (check_probability, [5e-324, 1 - 2**-53]),
    (check_integers, [-1, 0, True, np.int32(3), torch.tensor(3)]),
    (check_counts, [1, np.int64(1), torch.tensor(2)]),
]
WRONG: list[tuple[Callable[..., None], list[float], str]] = [
    (check_finite, [math.nan, math.inf, -math.inf], "a finite `size`"),
    (check_nonnegative, [math.nan, math.inf, -5e-324], "`size` to be finite and >= 0"),
    (check_positive, [math.nan, math.inf, 0.0, -0.0], "`size` to be finite and > 0"),
    (check_probability, [math.nan, 0.0, 1.0, math.inf], r"`size` in \(0, 1\)"),
    (check_integers, [math.nan, 1.0, np.float64(2)], "`size` to be an integer"),
    (check_counts, [math.nan, 1.5, 1.0], "`size` to be an integer"),
    (check_counts, [0, -1, torch.tensor(0)], "`size` to be at least 1"),
]


@pytest.mark.parametrize(("check", "numbers"), RIGHT)
def test_right_numbers_pass(check: Callable[..., None], numbers: list[float]) -> None:
    for number in numbers:
        check(other=numbers[0], size=number)


@pytest.mark.parametrize(("check", "numbers", "said"), WRONG)
def test_wrong_numbers_are_named(
    check: Callable[..., None], numbers: list[float], said: str
) -> None:
    for number in numbers:
        with pytest.raises(ValueError, match=f"Expected {said}. Got ") as error:
            check(size=number)
        assert str(number).strip("tensor()") in str(error.value)


def test_the_least_count_is_the_callers() -> None:
    check_counts(0, size=0)
    check_counts(3, size=3, other=4)
    with pytest.raises(ValueError, match=r"`other` to be at least 3\. Got 2\."):
        check_counts(3, size=3, other=2)
