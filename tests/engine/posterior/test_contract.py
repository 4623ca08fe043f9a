r"""The laws of every model, and of every predictor of one."""

import pytest
from botorch_risk_testing.laws import Law
from botorch_risk_testing.models import LAWS, ModelCase

from tests.contracts import at_home, every_law
from tests.engine.posterior.cases import POSTERIORS
from tests.models.cases import MODELS


@every_law(LAWS, [*MODELS, *POSTERIORS])
@pytest.mark.every_device
def test_law(case: ModelCase, law: Law) -> None:
    law.check(at_home(case))
