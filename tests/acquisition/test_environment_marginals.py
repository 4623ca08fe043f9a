r"""Moments at what an environment makes of decisions, against a model's own posterior."""

import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from torch import Tensor

from botorch_risk.acquisition.outcomes_over_w import OutcomesOverW
from botorch_risk.engine import Belief
from botorch_risk.environments import DiscreteEnvironment, Environment, InputPerturbation
from tests.contracts import of_decision, of_decision_and_context, repeated_data

CONTEXTS = torch.tensor([[0.1], [0.35], [0.9]], dtype=torch.float64)
SHIFTS = torch.tensor([[-0.1, 0.05], [0.0, 0.0], [0.07, 0.1]], dtype=torch.float64)
MINUS = ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.float64))


class Mirrored(Environment):
    r"""W is x_1 or -x_1, so that its points depend on the decision."""

    def expand(self, X: Tensor) -> tuple[Tensor, Tensor]:
        pairs = [torch.cat([X, sign * X[..., :1]], dim=-1) for sign in (1, -1)]
        return torch.stack(pairs, dim=-2), torch.tensor([0.25, 0.75]).to(X)


CASES = [
    (of_decision_and_context, DiscreteEnvironment(CONTEXTS, torch.tensor([0.2, 0.3, 0.5]))),
    (of_decision, InputPerturbation(SHIFTS)),
    (of_decision_and_context, Mirrored()),
]


@pytest.mark.parametrize("transform", [None, MINUS], ids=["outcome", "minus"])
@pytest.mark.parametrize("batch_shape", [(), (2,)], ids=str)
@pytest.mark.parametrize(("fit", "environment"), CASES, ids=lambda each: type(each).__name__)
def test_moments_are_those_of_the_posterior_at_all_pairs(
    fit: object, environment: Environment, batch_shape: tuple[int, ...], transform: object
) -> None:
    model = fit(repeated_data(batch_shape))  # type: ignore[operator]
    X = torch.rand(*batch_shape, 4, 2, dtype=torch.float64)
    over_w = OutcomesOverW.of(Belief(model, transform), environment)  # type: ignore[arg-type]
    mean, variance, weights = over_w(X)
    inputs, expected_weights = environment.expand(X)
    posterior = model.posterior(inputs.flatten(-3, -2), posterior_transform=transform)
    for found, expected in ((mean, posterior.mean), (variance, posterior.variance)):
        assert found.shape == inputs.shape[:-1]
        torch.testing.assert_close(found, expected.reshape(found.shape), rtol=1e-6, atol=1e-8)
    assert torch.equal(weights.expand_as(mean), expected_weights.expand_as(mean))
