r"""The laws of every measure of risk."""

import pytest

from botorch_risk.testing.laws import Law
from botorch_risk.testing.risk_measures import LAWS, RiskMeasureCase
from tests.contracts import at_home, every_law
from tests.risk.cases import RISK_MEASURES


@every_law(LAWS, RISK_MEASURES)
@pytest.mark.every_device
def test_law(case: RiskMeasureCase, law: Law) -> None:
    law.check(at_home(case))
