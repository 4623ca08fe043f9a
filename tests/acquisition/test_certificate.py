r"""V-UCB's certificate against functions that keep the bounds."""

from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.models import SingleTaskGP
from gpytorch.kernels import RBFKernel

from botorch_risk.acquisition import RiskUpperConfidenceBound, certified_regret, select_lacing_value
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.risk import ValueAtRisk
from tests import oracles


def of_pairs(beta: float, batch: tuple[int, ...] = ()) -> RiskUpperConfidenceBound:
    r"""A bound of the value-at-risk over five values of W, from twelve outcomes."""
    generator = torch.Generator().manual_seed(5)
    X = torch.rand(*batch, 12, 2, generator=generator, dtype=torch.double)
    Y = (6 * X).sin().sum(dim=-1, keepdim=True)
    kernel = RBFKernel(batch_shape=torch.Size(batch)).double()
    kernel.lengthscale = 0.3
    model = SingleTaskGP(X, Y, torch.full_like(Y, 1e-2), covar_module=kernel).eval()
    points = torch.linspace(0, 1, 5, dtype=torch.double).unsqueeze(-1)
    weights = torch.tensor([0.1, 0.3, 0.2, 0.3, 0.1], dtype=torch.double)
    environment = DiscreteEnvironment(points, weights)
    return RiskUpperConfidenceBound(model, environment, ValueAtRisk(0.2), beta)


@pytest.mark.parametrize("rule", ["probability", "uniform", "variance"])
def test_the_certificate_bounds_the_regret_of_every_function_within_the_bounds(rule: Any) -> None:
    acqf = of_pairs(beta=4.0)
    decisions = torch.linspace(0, 1, 101, dtype=torch.double).unsqueeze(-1)
    best = acqf.upper(decisions).argmax()
    queries = select_lacing_value(acqf, decisions[best : best + 1], rule, seeds=0)
    found = certified_regret(acqf, queries)
    model: Any = acqf.model
    deviation = model.posterior(queries.unsqueeze(-2)).variance.sqrt().squeeze()
    assert found.shape == (1,)
    torch.testing.assert_close(found, 2 * 4.0**0.5 * deviation.reshape(1))  # Lemma 3
    lower, upper, weights = acqf.pointwise_bounds(decisions)
    p = weights.expand_as(lower)[0].numpy()
    generator = torch.Generator().manual_seed(1)
    largest = 0.0
    for share in (0.1, 0.5, 0.9):  # functions anywhere between the bounds, and at them
        place = (torch.rand(lower.shape, generator=generator) < share).double()
        values = (lower + place * (upper - lower)).numpy()
        risks = [oracles.value_at_risk(row, p, 0.2) for row in values]
        regret = max(risks) - risks[int(best)]
        assert regret <= found.item() + 1e-12
        largest = max(largest, regret)
    worst = lower[best].numpy(), upper.numpy()  # it is nearly attained
    most = max(oracles.value_at_risk(row, p, 0.2) for row in worst[1])
    assert most - oracles.value_at_risk(worst[0], p, 0.2) <= found.item() + 1e-12
    assert largest > 0


def test_the_certificate_is_pointwise_and_per_replicate() -> None:
    acqf = of_pairs(beta=2.0, batch=(3,))
    queries = torch.rand(3, 4, 2, generator=torch.Generator().manual_seed(2), dtype=torch.double)
    found = certified_regret(acqf, queries)
    assert found.shape == (3, 4)
    torch.testing.assert_close(found[:, 1:2], certified_regret(acqf, queries[:, 1:2]))
    narrow = of_pairs(beta=0.5, batch=(3,))
    torch.testing.assert_close(found, 2 * certified_regret(narrow, queries))
    with pytest.raises(BotorchTensorDimensionError, match="Expected"):
        certified_regret(acqf, queries[..., :1])
