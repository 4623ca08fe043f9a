r"""What `torch.compile` traces as one graph: likelihoods, marginals, risks and their bounds.

With the backend that calls PyTorch as before, so that no compiler is needed.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.models import SingleTaskGP
from torch import Tensor
from torch.distributions import Distribution

from botorch_risk.acquisition import RiskUpperConfidenceBound
from botorch_risk.engine import Belief
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.risk import ConditionalValueAtRisk, Expectation, RiskMeasure, ValueAtRisk
from tests.risk.cases import RISK_MEASURES, RiskMeasureCase

# Its iterations end when a gap has closed, which depends on values.
NOT_ONE_GRAPH = {"mmd_ball", "share_above_in_an_mmd_ball"}
CASES = [case for case in RISK_MEASURES if case.name not in NOT_ONE_GRAPH]


@pytest.fixture(autouse=True)
def validation_of_distributions(monkeypatch: pytest.MonkeyPatch) -> None:
    r"""`torch.compile` switches it off for the rest of the process."""
    monkeypatch.setattr(Distribution, "_validate_args", Distribution._validate_args)


def check(function: Callable[..., Any], *arguments: Tensor) -> None:
    r"""One graph has the values and the gradients that the function has."""
    torch.compiler.reset()
    compiled = torch.compile(function, fullgraph=True, backend="eager")
    found, expected = compiled(*arguments), function(*arguments)
    torch.testing.assert_close(found, expected)
    leaves = [each for each in arguments if each.requires_grad]
    if leaves:
        gradients = (torch.autograd.grad(each.sum(), leaves) for each in (found, expected))
        torch.testing.assert_close(*gradients)


def gp() -> SingleTaskGP:
    X = torch.rand(2, 8, 2).double()
    return SingleTaskGP(X, X.sin().sum(dim=-1, keepdim=True)).eval()


def test_marginals_with_their_gradient() -> None:
    predictor = Belief(gp())
    predictor(torch.rand(2, 3, 2).double())  # computes the factors before the trace
    X = torch.rand(2, 3, 2).double().requires_grad_()
    check(lambda X: sum(predictor(X)), X)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.handful
def test_a_risk_with_its_gradient(case: RiskMeasureCase) -> None:
    measure = case.bind(torch.rand(5, 1).double())
    values, weights = torch.rand(3, 5).double().requires_grad_(), torch.full((5,), 0.2).double()
    check(measure, values, weights)


MEASURES = [Expectation(), ValueAtRisk(0.1), ConditionalValueAtRisk(0.3)]


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: type(measure).__name__)
@pytest.mark.slow
def test_a_bound_of_a_risk_with_its_gradient(measure: RiskMeasure) -> None:
    w = DiscreteEnvironment(torch.linspace(0, 1, 6).double()[:, None])
    acqf = RiskUpperConfidenceBound(gp(), w, measure, beta=4.0)
    X = torch.rand(2, 3, 1).double().requires_grad_()
    acqf.evaluate(X)
    check(acqf.evaluate, X)
