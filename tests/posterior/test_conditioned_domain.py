r"""Rank-one updates against refits and loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gpytorch.kernels import RBFKernel

from botorch_risk.posterior import DomainPosterior
from tests.posterior.domains import CASES, KERNELS, build, dense, domain, truth


@pytest.mark.parametrize(("name", "noise", "dense"), CASES)
def test_five_hundred_observations_equal_a_refit(name: str, noise: float, dense: bool) -> None:
    D = domain()
    indices = torch.cat([torch.tensor([0, 1]), torch.randint(len(D), (500,))])
    Y = truth(D[indices]) + noise**0.5 * torch.randn(502, 1, dtype=torch.float64)
    kernel, formula = KERNELS[name]
    for part in kernel.sub_kernels() if name == "sum" else [kernel]:
        if part.has_lengthscale:
            part.lengthscale = 0.5
    posterior = DomainPosterior(build(D[:2], Y[:2], noise, kernel), D, dense=dense)
    for row, y in zip(indices[2:], Y[2:], strict=True):  # each point a dozen times
        posterior.observe(row, y, noise)
    X, points = D[indices].numpy(), D.numpy()
    gram, cross = formula(X, X) + noise * np.eye(502), formula(X, points)
    covariance = formula(points, points) - cross.T @ np.linalg.solve(gram, cross)
    mean = cross.T @ np.linalg.solve(gram, Y.numpy()[:, 0])
    np.testing.assert_allclose(posterior.mean, mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(posterior.covariance, covariance, rtol=0, atol=1e-8)
    np.testing.assert_allclose(posterior.variance, np.diag(covariance), rtol=0, atol=1e-8)
    assert posterior.num_samples == 502


@dense
def test_replicates_noise_and_gaps_equal_the_loop(dense: bool) -> None:
    D = domain()
    X = torch.stack([D[:3], D[5:8]])
    model = build(X, truth(X), 1e-3, RBFKernel(batch_shape=torch.Size([2])))
    model.covar_module.lengthscale = torch.tensor([0.2, 0.5]).double().reshape(2, 1, 1)
    singles = [build(x, truth(x), 1e-3, RBFKernel()) for x in X]
    for single, lengthscale in zip(singles, (0.2, 0.5), strict=True):
        single.covar_module.lengthscale = lengthscale
    both = DomainPosterior(model, D, dense=dense)
    alone = [DomainPosterior(single, D, dense=dense) for single in singles]
    both.observe(torch.tensor([4, 9]), torch.tensor([2.0, 3.0]), torch.tensor([1e-3, 0.1]))
    both.observe(7, torch.tensor([torch.nan, 1.5]), 1e-2)
    both.observe_at(torch.tensor([0.3, 0.4]), 2.5, 1e-2)
    for posterior, row, y, noise in zip(
        alone, (4, 9), (2.0, 3.0), torch.tensor([1e-3, 0.1]), strict=True
    ):
        posterior.observe(row, y, noise)
    alone[1].observe(7, 1.5, 1e-2)
    for r, posterior in enumerate(alone):
        posterior.observe_at(torch.tensor([0.3, 0.4]), 2.5, 1e-2)
        torch.testing.assert_close(both.mean[r], posterior.mean, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(both.covariance[r], posterior.covariance, rtol=0, atol=1e-10)
        assert both.num_samples[r] == posterior.num_samples
        assert both.outcome_range[0][r] == posterior.outcome_range[0]
    rows, columns = torch.tensor([[1, 5], [2, 0]]), torch.tensor([[3, 4, 9], [0, 1, 2]])
    blocks, every = both.covariance_between(rows, columns), slice(None)
    for r in range(2):
        expected = both.covariance[r][rows[r]][:, columns[r]]
        torch.testing.assert_close(blocks(every, every, every)[r], expected)
        part = blocks(slice(r, r + 1), slice(1, 2), slice(0, 2))
        torch.testing.assert_close(part[0], expected[1:, :2])


def test_without_noise_a_second_look_changes_nothing() -> None:
    D = domain()
    posterior = DomainPosterior(build(D[:2], truth(D[:2]), 1e-4), D)
    posterior.observe(7, 2.0, 0.0)
    mean, variance = posterior.mean, posterior.variance
    assert variance[7] < 1e-14
    posterior.observe(7, 2.0, 0.0)
    torch.testing.assert_close(posterior.mean, mean)
    torch.testing.assert_close(posterior.variance, variance)
