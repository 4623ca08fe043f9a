r"""The dense covariance after many updates, read in any order."""

from __future__ import annotations

import torch
from gpytorch.kernels import RBFKernel

from botorch_risk.posterior import DomainPosterior
from tests.posterior.domains import build, domain, truth


def test_the_running_covariance_is_rebased_when_rounding_has_grown() -> None:
    D = domain()
    posterior = DomainPosterior(build(D[:2], truth(D[:2]), 1e-3), D)
    exact = DomainPosterior(build(D[:2], truth(D[:2]), 1e-3), D, dense=False)
    posterior._state.covariance.matrix.add_(1e-9)  # far more than rounding
    for row in (5, 11):
        posterior.observe(row, 1.0, 1e-3)
        exact.observe(row, 1.0, 1e-3)
    torch.testing.assert_close(posterior.covariance, exact.covariance, rtol=0, atol=1e-14)
    matrix = posterior._state.covariance.matrix
    posterior.observe(3, 1.0, 1e-3)
    assert posterior._state.covariance.matrix.data_ptr() == matrix.data_ptr()  # updated in place


def test_rows_are_up_to_date_whatever_the_order_they_are_read_in() -> None:
    D = domain()
    X = torch.stack([D[:2], D[5:7]])
    model = build(X, truth(X), 1e-3, RBFKernel(batch_shape=torch.Size([2])))
    posterior, exact = DomainPosterior(model, D), DomainPosterior(model, D, dense=False)
    for row in (5, 11):  # the second observation finds rows that nobody has read
        posterior.observe(row, 1.0, 1e-3)
        exact.observe(row, 1.0, 1e-3)
        blocks, expected = posterior.covariance_between(), exact.covariance
        for r, start, stop in ((1, 10, 20), (0, 3, 7), (1, 0, 12), (0, 5, 30)):
            block = blocks(slice(r, r + 1), slice(start, stop), slice(None))[0]
            torch.testing.assert_close(block, expected[r, start:stop], rtol=0, atol=1e-13)
    trial = posterior.copy()
    trial.observe(2, 1.0, 1e-3)
    torch.testing.assert_close(posterior.covariance, exact.covariance, rtol=0, atol=1e-13)
    exact.observe(2, 1.0, 1e-3)
    torch.testing.assert_close(trial.covariance, exact.covariance, rtol=0, atol=1e-13)
