from __future__ import annotations

import numpy as np
import pytest
import torch
from botorch.models import SingleTaskGP
from botorch.models.utils.gpytorch_modules import get_matern_kernel_with_gamma_prior
from botorch_risk_bench.baselines.hyperparameters import divide_lengthscales, expansion_factor

from botorch_risk.fit import fit_exact_gp


def test_divides_below_the_constraint_and_renews_the_posterior() -> None:
    X = torch.rand(2, 8, 2, dtype=torch.double)
    model = SingleTaskGP(X, (5 * X).sin().sum(dim=-1, keepdim=True))
    fit_exact_gp(model)
    before = model.covar_module.lengthscale.detach().clone()
    points = torch.rand(2, 20, 2, dtype=torch.double)
    variance = model.posterior(points).variance
    assert divide_lengthscales(model, torch.tensor([1.0, 1000.0])) is model
    assert not model.training
    after = model.covar_module.lengthscale
    torch.testing.assert_close(after[0], before[0])
    torch.testing.assert_close(after[1], before[1] / 1000)
    renewed = model.posterior(points).variance
    torch.testing.assert_close(renewed[0], variance[0])
    assert (renewed[1] > variance[1]).all()


def test_of_a_scaled_kernel() -> None:
    X = torch.rand(8, 2, dtype=torch.double)
    kernel = get_matern_kernel_with_gamma_prior(2)
    model = SingleTaskGP(X, X.sum(dim=-1, keepdim=True), covar_module=kernel)
    before = kernel.base_kernel.lengthscale.detach().clone()
    divide_lengthscales(model, 4.0)
    torch.testing.assert_close(kernel.base_kernel.lengthscale, before / 4)
    with pytest.raises(ValueError, match="`factor` > 0"):
        divide_lengthscales(model, 0.0)


def test_regret_grows_as_the_reference() -> None:
    for d in (1, 3):
        regret = [t**0.5 * expansion_factor(t, d) ** d / t**0.9 for t in (1, 10, 1000)]
        assert regret == pytest.approx([1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="`regret_exponent` in"):
        expansion_factor(1, 1, 0.4)


@pytest.mark.parametrize("d", [1, 2])
def test_squared_norms_grow_no_faster_than_the_volume(d: int) -> None:
    r"""The norm of k(., 0.5) with lengthscales halved and quartered, from its values alone."""
    X = np.random.default_rng(0).random((40, d))
    squares = ((X[:, None] - X) ** 2).sum(-1)
    values = np.exp(-((X - 0.5) ** 2).sum(-1) / (2 * 0.4**2))  # of norm 1 at lengthscale 0.4
    for g in (2.0, 4.0):
        K = np.exp(-squares / (2 * (0.4 / g) ** 2)) + 1e-9 * np.eye(40)
        assert 0.25 * g**d < values @ np.linalg.solve(K, values) <= g**d
