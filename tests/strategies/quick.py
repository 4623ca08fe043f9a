r"""Which cases of the strategies `make test` runs; the others are slow."""

from collections.abc import Iterable, Set
from typing import Any

import pytest

from tests.strategies.cases import STRATEGIES, StrategyCase

SLOW = {"pareto_search-learnt"}  # with another environment, the code of `pareto_search`


def parametrized(cases: Iterable[StrategyCase], also_slow: Set[str] = frozenset()) -> Any:
    r"""Runs a test with cases; slow are those above and those of these names."""
    marks = {name: [pytest.mark.slow] for name in also_slow | SLOW}
    params = [pytest.param(case, id=case.name, marks=marks.get(case.name, [])) for case in cases]
    return pytest.mark.parametrize("case", params)


def _further_of_a_constructor() -> set[str]:
    firsts = {case.make: case.name for case in reversed(STRATEGIES)}
    return {case.name for case in STRATEGIES} - {*firsts.values()}


every = parametrized(STRATEGIES)
# For laws that the variants of a constructor do not bear on.
one_of_a_kind = parametrized(STRATEGIES, also_slow=_further_of_a_constructor())
