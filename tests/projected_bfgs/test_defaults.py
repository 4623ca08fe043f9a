r"""No default of this area changes by accident; `python -m tests.defaults` writes them again."""

from __future__ import annotations

from tests.defaults import present_defaults, stored_defaults


def test_defaults_are_those_of_the_file() -> None:
    assert present_defaults("projected_bfgs") == stored_defaults("projected_bfgs")
