r"""What `torch.compile` traces as one graph in the engine."""

import pytest
import torch
from torch import Tensor

from botorch_risk.engine.fit.marginal_likelihood import Hyperparameters, log_marginal_likelihood
from tests.test_compile import check
from tests.test_compile import validation_of_distributions as validation_of_distributions


@pytest.mark.parametrize("nu", [torch.inf, 2.5])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.slow
def test_a_likelihood_with_its_gradient(nu: float, masked: bool) -> None:
    X, Y, one = torch.rand(2, 8, 2).double(), torch.randn(2, 8).double(), torch.ones(2).double()
    observed = torch.rand(2, 8) > 0.2 if masked else None

    def likelihood(lengthscale: Tensor, noise: Tensor) -> tuple[Tensor, ...]:
        theta = Hyperparameters(lengthscale, noise, one, 0 * one)
        found = log_marginal_likelihood(X, Y, theta, nu, observed)
        return found.value, *(each for each in found.gradient if each is not None)

    check(likelihood, torch.full((2, 2), 0.3).double(), torch.full((2, 1), 0.1).double())
