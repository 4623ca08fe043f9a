r"""The bound of a round has the risk and the width of that round."""

import math

import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.models import SingleTaskGP

from botorch_risk.acquisition import bayesian_beta, gp_ucb, risk_bound
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.models import MeanVarianceGP, one_hot_inputs
from botorch_risk.risk import Expectation, ValueAtRisk


def a_model() -> SingleTaskGP:
    X = torch.rand(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    return SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))


def test_with_the_value_at_risk_it_is_the_one_of_the_upper_bound():
    model = a_model()
    w = torch.linspace(0, 1, 9, dtype=torch.double).unsqueeze(-1)
    environment = DiscreteEnvironment(w)
    acqf = risk_bound(model, environment, 1, risk_measure=ValueAtRisk(0.3), beta=4.0)
    x = torch.tensor([[0.4]], dtype=torch.double)
    posterior = model.posterior(torch.cat([x.expand(9, 1), w], dim=-1))
    upper = (posterior.mean + 2 * posterior.variance.sqrt()).squeeze(-1).detach()
    assert math.isclose(acqf(x.unsqueeze(0)).item(), upper.sort().values[2].item(), rel_tol=1e-9)
    assert isinstance(acqf.risk_measure, ValueAtRisk)


def test_known_distribution_takes_the_width_of_the_round():
    model = a_model()
    weather = DiscreteEnvironment(torch.linspace(0, 1, 9, dtype=torch.double).unsqueeze(-1))
    for beta, expected in ((bayesian_beta, bayesian_beta(7)), (lambda t: 2.0 * t, 14.0)):
        bound = risk_bound(model, weather, 7, risk_measure=ValueAtRisk(0.3), beta=beta)
        assert bound.beta == expected


def test_gp_ucb_is_botorchs_and_at_a_known_context_too():
    model = a_model()
    pairs = torch.rand(5, 1, 2, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    expected = UpperConfidenceBound(model, beta=3.0)(pairs)
    torch.testing.assert_close(gp_ucb(model, 1, beta=3.0)(pairs), expected)
    risk = {"risk_measure": Expectation(), "beta": 3.0}
    at_context = [
        risk_bound(model, DiscreteEnvironment(x[:, 1:]), 1, **risk)(x[:, :1]) for x in pairs
    ]
    torch.testing.assert_close(torch.cat(at_context), expected)


def test_gp_ucb_takes_a_model_that_has_predicted():
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(6, 2, generator=generator, dtype=torch.double)
    X[:, 1] = torch.arange(6) % 3
    bounds = torch.tensor([[0.0, 0.0], [1.0, 2.0]], dtype=torch.double)
    encoded = one_hot_inputs(bounds, [1])  # four columns of two
    Y = X.sum(dim=-1, keepdim=True)
    for model in (
        SingleTaskGP(X, Y, input_transform=encoded),
        MeanVarianceGP(X, Y, input_transform=encoded),
    ):
        training = gp_ucb(model.train(), 1, beta=3.0).evaluate(X)
        assert torch.equal(gp_ucb(model.eval(), 1, beta=3.0).evaluate(X), training)
