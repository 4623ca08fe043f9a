r"""The laws of strategies, which `tests/strategies/test_contract.py` states, over the baselines."""

import inspect
from inspect import signature

import pytest
from botorch_risk_bench import baselines

from bench.tests.baselines.cases import BASELINES, SLOW
from tests.one_more_case import contract_tests, run_on
from tests.strategies import test_contract as contract
from tests.strategies.cases import StrategyCase

LAWS = contract_tests(contract)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[pytest.mark.slow] if case.make in SLOW else [])
        for case in BASELINES
    ],
)
@pytest.mark.every_device
@pytest.mark.filterwarnings(
    "ignore:Expected a threshold within:botorch.exceptions.warnings.InputDataWarning"
)
def test_law(case: StrategyCase, law: str, request: pytest.FixtureRequest) -> None:
    run_on(LAWS[law], case, request)


def test_every_baseline_has_a_case() -> None:
    makers = {
        name
        for name in baselines.__all__
        if inspect.isfunction(make := getattr(baselines, name))
        if "seeds" in signature(make).parameters
    }
    assert makers == {case.make.__name__ for case in BASELINES}
