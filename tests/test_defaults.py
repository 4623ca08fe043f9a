r"""No default changes by accident."""

from __future__ import annotations

from tests.defaults import present_defaults, stored_defaults


def test_defaults_are_those_of_the_file() -> None:
    assert present_defaults() == stored_defaults()


def test_defaults_are_found_of_functions_constructors_and_methods() -> None:
    found = present_defaults()
    assert "acquisition.widths.bayesian_beta(delta=0.1, num_points=1)" in found
    method = "truncated_variance.acquisition.TruncatedVarianceReduction.select(q=1)"
    assert f"acquisition.{method}" in found
    inherited = "acquisition.level_set.MaximumVariance(posterior_transform=None, X_pending=None)"
    assert inherited in found  # of a private base
