r"""No default of the modules at the top changes by accident, and no area is without its file."""

from __future__ import annotations

import pytest

from tests.defaults import AREAS, TESTS, TOP, path_of, present_defaults, stored_defaults


def test_defaults_are_those_of_the_file() -> None:
    assert present_defaults(TOP) == stored_defaults(TOP)


@pytest.mark.parametrize("area", AREAS)
def test_every_area_compares_its_defaults_with_a_file(area: str) -> None:
    assert path_of(area).is_file()
    test = TESTS / area / "test_defaults.py"
    assert area == TOP or f'present_defaults("{area}")' in test.read_text(encoding="utf-8")


def test_defaults_are_found_of_functions_constructors_and_methods() -> None:
    found = present_defaults("acquisition")
    assert "widths.bayesian_beta(delta=0.1, num_points=1)" in found
    assert "truncated_variance.acquisition.TruncatedVarianceReduction.select(q=1)" in found
    inherited = "level_set.MaximumVariance(posterior_transform=None, X_pending=None)"
    assert inherited in found  # of a private base
