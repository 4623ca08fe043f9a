r"""The posterior over a finite domain against a refit of everything."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions.errors import (
    BotorchTensorDimensionError,
    InputDataError,
)
from gpytorch.kernels import RBFKernel

from botorch_risk.posterior import DomainPosterior
from tests.posterior.domains import build, dense, domain, truth


def test_rows_that_only_fill_up_are_no_samples() -> None:
    points = domain()
    index = torch.tensor([[3, 7, 11, 20], [5, 5, 9, 5]])
    X = points[index]
    observed = torch.tensor([[True] * 4, [False, False, True, True]])
    model = build(X, truth(X), torch.where(observed, 1e-2, 1e8).unsqueeze(-1))
    posterior = DomainPosterior(model, points, observed=observed)
    assert posterior.num_samples.tolist() == [4, 2]
    low, high = posterior.outcome_range
    kept = truth(points[[9, 5]])
    assert low.tolist() == pytest.approx([truth(X[0]).min().item(), kept.min().item()])
    assert high.tolist() == pytest.approx([truth(X[0]).max().item(), kept.max().item()])
    posterior.observe(2, torch.tensor([1.0, torch.nan]), 1e-2)
    model.covar_module.outputscale = 2.0  # builds the posterior again
    assert posterior.num_samples.tolist() == [5, 2]
    for wrong in (observed[:1], observed.double()):
        with pytest.raises(BotorchTensorDimensionError, match="`observed` to be a boolean mask"):
            DomainPosterior(model, points, observed=wrong)


@dense
@pytest.mark.parametrize(("weight", "offset"), [(-1.0, 0.0), (-2.0, 1.0), (0.5, -3.0)])
def test_observations_are_in_the_units_of_the_data(
    dense: bool, weight: float, offset: float
) -> None:
    r"""Outcome and noise as in the model's own data, whatever is done to its posterior."""
    D = domain()
    noise = torch.tensor([[1e-3], [1e-3], [0.2], [0.1]]).double()
    transform = ScalarizedPosteriorTransform(torch.tensor([weight]).double(), offset=offset)
    start, whole = (build(D[:n], truth(D[:n]), noise[:n]) for n in (2, 4))
    posterior = DomainPosterior(start, D, dense=dense, posterior_transform=transform)
    expected = DomainPosterior(whole, D, dense=dense, posterior_transform=transform)
    plain = DomainPosterior(start, D, dense=dense)
    for each in (posterior, plain):
        each.observe(2, truth(D[2]), 0.2)
        each.observe_at(D[3], truth(D[3]), 0.1)
    torch.testing.assert_close(posterior.mean, offset + weight * plain.mean)
    for name in ("mean", "variance", "covariance", "num_samples", "outcome_range"):
        torch.testing.assert_close(getattr(posterior, name), getattr(expected, name))
    hallucinated = posterior.copy()
    posterior.observe(7, None, 0.3)
    hallucinated.hallucinate(D[7], torch.tensor(0.3 * weight**2))
    torch.testing.assert_close(hallucinated.variance, posterior.variance)
    torch.testing.assert_close(hallucinated.mean, expected.mean)


@dense
def test_hallucinations_are_of_some_replicates(dense: bool) -> None:
    D = domain()
    X = torch.stack([D[:3], D[5:8]])
    model = build(X, truth(X), 1e-3, RBFKernel(batch_shape=torch.Size([2])))
    before, posterior = (DomainPosterior(model, D, dense=dense) for _ in range(2))
    rows, within = torch.tensor([9, 11]), torch.tensor([False, True])
    posterior.hallucinate(D[rows], torch.tensor([1e-3, 1e-3]), index=rows, within=within)
    assert torch.equal(posterior.variance[0], before.variance[0])
    assert posterior.variance[1, 11] < 1e-3 < before.variance[1, 11]
    torch.testing.assert_close(posterior.mean, before.mean)
    before.observe(rows, torch.stack([torch.tensor(torch.nan), before.mean[1, 11]]), 1e-3)
    torch.testing.assert_close(posterior.covariance, before.covariance)


@dense
def test_one_point_may_come_as_a_selection_has_it(dense: bool) -> None:
    D, X = domain(), torch.tensor([[0.3, 0.4]]).double()
    single = [DomainPosterior(build(D[:2], truth(D[:2]), 1e-3), D, dense=dense) for _ in "12"]
    single[0].observe_at(X[0], 2.0, 1e-3)
    single[1].observe_at(X, 2.0, 1e-3)
    assert torch.equal(single[0].mean, single[1].mean)
    batch = torch.stack([D[:3], D[5:8]])
    model = build(batch, truth(batch), 1e-3, RBFKernel(batch_shape=torch.Size([2])))
    both = [DomainPosterior(model, D, dense=dense) for _ in "12"]
    both[0].observe_at(torch.cat([X, X + 0.1]), 2.0, 1e-3)
    both[1].observe_at(torch.stack([X, X + 0.1]), 2.0, 1e-3)
    assert torch.equal(both[0].mean, both[1].mean)
    for posterior, bad in ((single[0], torch.rand(2, 2)), (both[0], torch.rand(2, 2, 2))):
        with pytest.raises(BotorchTensorDimensionError, match=r"`X` to be one point: 2 values"):
            posterior.observe_at(bad.double(), 2.0, 1e-3)
    with pytest.raises(BotorchTensorDimensionError, match=r"`X` to be one point: 2 values"):
        single[0].observe_at(X[:, :1], 2.0, 1e-3)  # a missing column


@dense
def test_new_hyperparameters_keep_the_observations(dense: bool) -> None:
    D = domain()
    model = build(D[:2], truth(D[:2]), 1e-3)
    posterior = DomainPosterior(model, D, dense=dense)
    posterior.observe(5, 1.0, 1e-2)
    before = posterior.mean
    model.covar_module.base_kernel.lengthscale = 0.2
    fresh = DomainPosterior(model, D, dense=dense)
    fresh.observe(5, 1.0, 1e-2)
    assert torch.equal(posterior.covariance, fresh.covariance)
    assert torch.equal(posterior.mean, fresh.mean) and not torch.equal(posterior.mean, before)
    model.set_train_data(D[:3], truth(D[:3]).squeeze(-1), strict=False)
    with pytest.raises(InputDataError, match="Expected the model to keep its data"):
        posterior.mean  # noqa: B018


def test_a_copy_is_on_trial() -> None:
    D = domain()
    posterior = DomainPosterior(build(D[:2], truth(D[:2]), 1e-3), D)
    mean, covariance = posterior.mean, posterior.covariance.clone()
    trial = posterior.copy()
    trial.observe(7, None, 1e-3)
    torch.testing.assert_close(trial.mean, mean)
    assert trial.variance[7] < 1e-3
    assert torch.equal(posterior.covariance, covariance) and posterior.num_samples == 2
    torch.testing.assert_close(pickle.loads(pickle.dumps(trial)).mean, trial.mean)


def test_devices_agree(device: torch.device) -> None:
    D = domain()
    here = DomainPosterior(build(D[:2], truth(D[:2]), 1e-3, RBFKernel()), D)
    there = DomainPosterior(build(D[:2], truth(D[:2]), 1e-3, RBFKernel()).to(device), D.to(device))
    for posterior in (here, there):
        posterior.observe(5, 1.0, 1e-3)
    torch.testing.assert_close(there.covariance.cpu(), here.covariance)


def test_whole_numbers_are_points_of_the_domain() -> None:
    line = torch.arange(5).unsqueeze(-1)
    model = build(line[::2].double(), line[::2].sin().double(), 1e-3)
    posterior = DomainPosterior(model, line)
    assert posterior.domain.dtype == torch.float64
    assert torch.equal(posterior.mean, DomainPosterior(model, line.double()).mean)
    posterior.observe(np.int64(1), 0.5, 1e-3)
    assert posterior.num_samples == 4
