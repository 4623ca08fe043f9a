r"""The laws of every environment."""

import pytest
from botorch_risk_testing.environments import LAWS, EnvironmentCase
from botorch_risk_testing.laws import Law

from tests.contracts import at_home, every_law
from tests.environments.cases import ENVIRONMENTS, PERTURBATIONS


@every_law(LAWS, [*ENVIRONMENTS, PERTURBATIONS])
@pytest.mark.every_device
def test_law(case: EnvironmentCase, law: Law) -> None:
    law.check(at_home(case))
