r"""Numbers that are refused before anything happens, and those that are right."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from botorch_risk.arguments import (
    as_floating,
    check_arguments,
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


def pause(rule: Literal["short", "long"], steps: int | None = None, then: Any = None) -> None:
    check_arguments(pause, locals())


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"rule": "never"},
            ValueError,
            r"Expected `rule` to be one of \('short', 'long'\)\. Got",
        ),
        ({"rule": 3}, ValueError, r"Expected `rule` to be one of .* Got 3\."),
        ({"rule": "short", "steps": "2"}, TypeError, r"`steps` to be an integer or None. Got '2'"),
    ],
)
def test_the_signature_says_what_an_argument_may_be(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        pause(**options)


def test_complex_numbers_are_refused_whole() -> None:
    for values in (torch.ones(2, 1, dtype=torch.complex64), np.ones((2, 1), dtype=complex)):
        with pytest.raises(TypeError, match=r"`points` to (hold real numbers|be a tensor).*Got"):
            as_floating(values, "points")


def test_numbers_of_any_library_are_numbers() -> None:
    def count(
        n: int, x: float, values: Sequence[int], flag: bool, table: Tensor, call: Callable[[], int]
    ) -> None:
        check_arguments(count, locals())

    count(np.int64(3), np.float32(0.5), np.array([1, 2]), np.bool_(True), [[1.0]], len)
    count(torch.tensor(3), torch.tensor(0.5), torch.tensor([1, 2]), False, np.eye(2), pause)
    with pytest.raises(TypeError, match=r"`values` to be a sequence, each an integer. Got 'ab'"):
        count(1, 1.0, "ab", True, torch.ones(1), len)  # type: ignore[arg-type]
