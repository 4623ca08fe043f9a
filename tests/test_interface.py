r"""No default and no limit of a number changes by accident, and NaN is refused everywhere."""

import pytest

from tests.defaults import present_defaults, stored_defaults
from tests.limits import AREAS, WITHOUT_LIMITS, limits_of, present_limits, probes, stored_limits
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


def test_defaults_are_those_of_the_file() -> None:
    present = set(present_defaults())
    assert [line for line in stored_defaults() if line not in present] == []


def test_defaults_are_found_of_functions_constructors_and_methods() -> None:
    found = present_defaults()
    assert "acquisition.bayesian_beta(delta=0.1, num_points=1)" in found
    assert "papers.TruncatedVarianceReduction.select(q=1)" in found
    inherited = (
        "level_sets.Straddle(beta=3.8415999999999997, posterior_transform=None, X_pending=None)"
    )
    assert inherited in found  # of a private base


@pytest.mark.parametrize(
    "area",  # every example of `optim` is an optimisation
    [pytest.param(area, marks=[pytest.mark.slow] if area == "optim" else []) for area in AREAS],
)
def test_limits_are_those_of_the_file_and_nan_and_parts_of_integers_are_refused(area: str) -> None:
    present = present_limits(area)
    assert [line for line in stored_limits(area) if line not in present] == []
    taken = {line: set(line.replace(";", " ").replace(")", " ").split()) for line in present}
    assert [line for line in present if {"nan", "2.5"} & taken[line] or "!" in line] == []


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
