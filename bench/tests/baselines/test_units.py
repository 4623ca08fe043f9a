r"""No unit of an outcome changes what a baseline recommends under constraints."""

import functools

import pytest
from botorch_risk_bench.baselines import constrained_log_ei, random_decisions, random_pareto_search

from botorch_risk.risk import Expectation
from tests.test_units import FEW, TAIL, UNITS, assert_no_unit_matters, of_strategy

CASES = {
    "random_decisions": functools.partial(of_strategy, random_decisions, risk_measure=TAIL, **FEW),
    "constrained_log_ei": functools.partial(
        of_strategy, constrained_log_ei, risk_measure=TAIL, **FEW
    ),
    "random_pareto_search": functools.partial(
        of_strategy, random_pareto_search, risk_measures=[TAIL, Expectation()]
    ),
}


@pytest.mark.parametrize("units", UNITS, ids=["small and large", "large and small"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::botorch_risk.recommend.InfeasibleRecommendationWarning")
@pytest.mark.filterwarnings("ignore:No observation of outcome")
def test_no_unit_of_an_outcome_changes_what_is_recommended(
    name: str, units: tuple[float, float]
) -> None:
    assert_no_unit_matters(CASES[name], units)
