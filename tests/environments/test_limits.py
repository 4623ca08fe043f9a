r"""No limit of a number of this area changes by accident; `python -m tests.limits` writes them."""

from __future__ import annotations

from tests.limits import present_limits, stored_limits


def test_limits_are_those_of_the_file() -> None:
    assert present_limits("environments") == stored_limits("environments")
