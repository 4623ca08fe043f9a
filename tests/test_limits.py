r"""No number that makes no sense is taken, and no limit changes by accident."""

from __future__ import annotations

import pytest

from tests.limits import (
    AREAS,
    WITHOUT_LIMITS,
    limits_of,
    present_limits,
    probes,
    stored_limits,
)
from tests.public_objects import public_objects


def half_of(number: float, of: int = 2) -> float:
    r"""A half that takes anything but 0, and dies of infinity.

    Example:
        >>> half_of(3.0)
        1.5
    """
    if number == 0:
        raise ValueError("Expected a number that is not 0. Got 0.")
    return int(number) / of


@pytest.mark.parametrize("area", AREAS)
def test_limits_are_those_of_the_file(area: str) -> None:
    assert present_limits(area) == stored_limits(area)


@pytest.mark.parametrize("area", AREAS)
def test_nan_and_a_fraction_of_an_integer_are_refused_with_an_error_of_use(area: str) -> None:
    lines = stored_limits(area)
    assert not [each for each in lines if {"nan", "2.5"} & set(each.replace(";", " ").split())]
    assert not [each for each in lines if "!" in each]


def test_a_name_without_limits_is_one() -> None:
    names = set(public_objects())
    arguments = {"constraint_noise_std", "dim", "lower_bounds", "noise_std", "optimal_value"}
    for name in WITHOUT_LIMITS.keys() - arguments - {"upper_bounds"}:
        assert name in names or name.rpartition(".")[0] in names


def test_limits_are_found_by_calling() -> None:
    assert dict(limits_of(half_of)) == {
        "number": "-inf!OverflowError -1 0.5 1 2 inf!OverflowError",
        "of": "nan -1 0!ZeroDivisionError 1 2 2.5",
    }


def test_what_is_a_number() -> None:
    assert probes(float | None) and probes(int) and not probes(str)
    assert probes(int) != probes(float | int) == probes(float)
