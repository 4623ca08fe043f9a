r"""The laws of every acquisition function, and what ours promise beyond them."""

import pytest
import torch
from botorch_risk_testing.acquisition import LAWS, AcquisitionCase, pointwise
from botorch_risk_testing.laws import Law

from botorch_risk.gradients import differentiated
from botorch_risk.steady import steady
from tests.acquisition.cases import ACQUISITIONS, arguments_at_home
from tests.contracts import at_home, every_law
from tests.devices import home
from tests.engine.recorders import RECORDERS

pytestmark = pytest.mark.every_device

# Those that look at values: at the noise of a posterior, at counts of readings, at a table's sizes.
CALLED_ONE_BY_ONE = {"straddle", "straddle_of_gchk", "knowledge_gradient", "truncated_variance"}


@every_law(LAWS, ACQUISITIONS)
def test_law(case: AcquisitionCase, law: Law) -> None:
    law.check(at_home(case, arguments=arguments_at_home(case)))


@pytest.mark.parametrize("case", [*filter(pointwise, ACQUISITIONS)], ids=lambda case: case.name)
def test_replicates_may_have_weights_of_their_own(case: AcquisitionCase) -> None:
    acqf = at_home(case).made((3,))
    names = {"beta", "noise_beta", "risk_aversion", "threshold"} & dict(acqf.named_buffers()).keys()
    X = at_home(case).points(3, 4)
    for name in names:
        weight, shares = getattr(acqf, name), torch.tensor([0.5, 0.8, 1.5]).to(X)
        setattr(acqf, name, weight * shares)
        together = acqf.evaluate(X)
        for row, share in enumerate(shares):
            setattr(acqf, name, weight * share)
            torch.testing.assert_close(together[row], acqf.evaluate(X)[row])
        setattr(acqf, name, weight)


@pytest.mark.parametrize("case", [*filter(pointwise, ACQUISITIONS)], ids=lambda case: case.name)
def test_the_steps_of_an_optimiser_are_recorded_and_have_the_values_of_calls(
    case: AcquisitionCase,
) -> None:
    r"""After a first call within a block nothing waits for the device, and nothing is uploaded."""
    case = at_home(case, arguments=arguments_at_home(case))
    acqf, X = case.made((3,)), case.points(3, 4)

    def step(X: torch.Tensor) -> torch.Tensor:
        values, gradient = differentiated(acqf.evaluate, X)
        return torch.cat([values.unsqueeze(-1), gradient], dim=-1)

    expected, record = step(0.9 * X), RECORDERS.get(home().type, lambda function, X: function)
    with steady():
        step(X)
        if case.name in CALLED_ONE_BY_ONE and home().type in RECORDERS:
            with pytest.raises(RuntimeError):
                record(step, X)
        else:
            torch.testing.assert_close(record(step, X)(0.9 * X), expected)


@pytest.mark.parametrize("case", ACQUISITIONS, ids=lambda case: case.name)
def test_pending_points_lower_the_value_of_staying_close(case: AcquisitionCase) -> None:
    case = at_home(case)
    acqf, X = case.made(), case.points(1, 1)
    conditioned = case.build(acqf.model, X_pending=X[0] + 0.01)
    if "lcb" in case.name:
        assert conditioned(X) > acqf(X)
    else:
        assert conditioned(X) < acqf(X)
    acqf.set_X_pending(X[0] + 0.01)
    torch.testing.assert_close(acqf(X), conditioned(X))
