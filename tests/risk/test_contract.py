r"""The laws of every measure of risk."""

import pytest
from botorch_risk_testing.laws import Law
from botorch_risk_testing.risk_measures import LAWS, RiskMeasureCase

from tests.contracts import at_home, every_law
from tests.risk.cases import RISK_MEASURES

# The program of `mmd_ball` and the shares of `share_above_in_a_ball` hold in `make test`.
CASES = [
    pytest.param(each, marks=pytest.mark.slow)
    if each.name == "share_above_in_an_mmd_ball"
    else each
    for each in RISK_MEASURES
]


@every_law(LAWS, CASES)
@pytest.mark.every_device
def test_law(case: RiskMeasureCase, law: Law) -> None:
    law.check(at_home(case))
