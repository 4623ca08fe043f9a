r"""The laws of every problem."""

import pytest
from botorch_risk_testing.laws import Law
from botorch_risk_testing.problems import LAWS, ProblemCase

from tests.contracts import at_home, every_law
from tests.test_functions.cases import PROBLEMS


@every_law(LAWS, PROBLEMS)
@pytest.mark.every_device
def test_law(case: ProblemCase, law: Law) -> None:
    law.check(at_home(case))
