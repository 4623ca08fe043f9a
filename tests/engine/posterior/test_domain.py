r"""Posteriors over a finite domain, observed point by point."""

import pickle

import numpy as np
import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.exceptions.warnings import UserInputWarning
from botorch.models import SingleTaskGP
from gpytorch.kernels import RBFKernel

from botorch_risk.chunks import ChunkSize
from botorch_risk.engine import DomainPosterior
from botorch_risk.engine.posterior import domain as domain_module
from tests.engine.posterior.domains import CASES, KERNELS, build, dense, domain, truth


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
    for posterior, *shape in ((single[0], 2, 2), (both[0], 2, 2, 2), (both[0], 3, 2)):
        bad = torch.rand(*shape)
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
    with pytest.raises(InputDataError, match=r"with the same data.* of shape \(3,\) after \(2,\)"):
        posterior.mean  # noqa: B018
    model.float()
    with pytest.raises(InputDataError, match=r"stay in torch.float64 on cpu.* Got torch.float32"):
        posterior.mean  # noqa: B018


def test_columns_between_observations_are_those_of_the_whole_covariance() -> None:
    r"""Up to 16 observations wait until the whole matrix is read."""
    D = domain()
    index = torch.tensor([[3, 7], [5, 9]])
    every, columns = slice(None), torch.tensor([[4, 0, 9], [2, 11, 5]])
    for count in (1, 2):
        X = D[index[:count]]
        held, made = (
            DomainPosterior(build(X, truth(X), 1e-2), D, dense=dense) for dense in (True, False)
        )
        for row in range(20):
            for each in (held, made):
                each.observe(row, truth(D[row]), 1e-2)
            found, expected = (
                each.covariance_between(None, columns[:count])(*[every] * 3)
                for each in (held, made)
            )
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
            if row in (8, 9):
                torch.testing.assert_close(held.covariance, made.covariance, rtol=0, atol=1e-10)


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


@pytest.mark.parametrize(("name", "noise", "dense"), CASES)
@pytest.mark.slow
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


@dense
@pytest.mark.parametrize("noise", [None, 1e-2], ids=["inferred", "fixed"])
def test_a_block_of_outcomes_equals_the_loop(
    dense: bool, noise: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    r"""With gaps, points off the domain, and points that come twice; in one block or several."""
    D, shape = domain(), torch.Size([2])
    X = torch.stack([D[:3], D[5:8]])
    kernel = RBFKernel(batch_shape=shape)
    options = {} if noise is None else {"train_Yvar": torch.full_like(X[..., :1], noise)}
    model = SingleTaskGP(X, truth(X), covar_module=kernel, outcome_transform=None, **options)
    index = torch.tensor([[4, -1, 7, 4, 12, 3], [9, 9, -1, 30, 0, 5]])
    points = D[index].where(index.unsqueeze(-1) >= 0, torch.tensor([0.3, 0.4]).double())
    y = truth(points).squeeze(-1)
    y[0, 2] = y[1, 2] = y[1, 4] = torch.nan
    variance = None if noise is None else torch.rand(2, 6, dtype=torch.double) * noise
    loop, block, blocks = (DomainPosterior(model, D, dense=dense) for _ in range(3))
    for i in range(6):
        loop.observe_at(points[:, i], y[:, i], None if variance is None else variance[:, i])
    block.observe_all(points, y, variance, index)
    monkeypatch.setattr(domain_module, "_NEW_ROWS", ChunkSize(cpu=2 * 2 * 40, gpu=2 * 2 * 40))
    blocks.observe_all(points, y, variance)
    for each in (block, blocks):
        for name in ("mean", "variance", "covariance"):
            found, expected = getattr(each, name), getattr(loop, name)
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
        assert torch.equal(each.num_samples, loop.num_samples)
        for found, expected in zip(each.outcome_range, loop.outcome_range, strict=True):
            assert torch.equal(found, expected)
    for each in (loop, block):
        each.observe(11, torch.tensor([1.0, 2.0]), 1e-2)
    torch.testing.assert_close(block.covariance, loop.covariance, rtol=0, atol=1e-10)
    model.covar_module.lengthscale = 0.2  # builds the posterior again, in one block
    torch.testing.assert_close(block.mean, loop.mean, rtol=0, atol=1e-10)
    torch.testing.assert_close(block.covariance, loop.covariance, rtol=0, atol=1e-10)


def test_a_block_that_needs_gaps_is_taken_apart() -> None:
    r"""Without noise a second look says nothing: its variance is rounding."""
    D = domain()
    loop, block = (DomainPosterior(build(D[:2], truth(D[:2]), 1e-4), D) for _ in "12")
    index = torch.tensor([7, 7, 9, 7, 9])
    for i in index:
        loop.observe(i, truth(D[i]), 0.0)
    block.observe_all(D[index], truth(D[index]).squeeze(-1), torch.zeros(5).double(), index)
    torch.testing.assert_close(block.mean, loop.mean, rtol=0, atol=1e-10)
    torch.testing.assert_close(block.covariance, loop.covariance, rtol=0, atol=1e-10)


def test_without_noise_a_second_look_changes_nothing() -> None:
    D = domain()
    posterior = DomainPosterior(build(D[:2], truth(D[:2]), 1e-4), D)
    posterior.observe(7, 2.0, 0.0)
    mean, variance = posterior.mean, posterior.variance
    assert variance[7] < 1e-14
    posterior.observe(7, 2.0, 0.0)
    torch.testing.assert_close(posterior.mean, mean)
    torch.testing.assert_close(posterior.variance, variance)


def test_memory_guard_names_the_bytes_and_the_way_out() -> None:
    D = domain()
    model = build(D[:2], truth(D[:2]), 1e-3)
    with pytest.raises(UnsupportedError, match=r"12,800 bytes \(1 x 40 x 40 x 8\).*`dense=False`"):
        DomainPosterior(model, D, max_bytes=12_000)
    assert DomainPosterior(model, D, max_bytes=12_000, dense=False).variance.shape == (40,)
    with pytest.warns(UserInputWarning, match=r"needs 12,800 bytes .*`dense=False`"):
        DomainPosterior(model, D, max_bytes=50_000)
    DomainPosterior(model, D, max_bytes=52_000)


def test_bad_input() -> None:
    D = domain()
    model = build(D[:2], truth(D[:2]), 1e-3)
    two = SingleTaskGP(D[:4], torch.cat([truth(D[:4]), D[:4, :1]], dim=-1))
    with pytest.raises(UnsupportedError, match=r"one output.*num_outputs=2"):
        DomainPosterior(two, D)
    points = torch.rand(2, 2, 3, 2, dtype=torch.double)
    batched = SingleTaskGP(points, points.sum(dim=-1, keepdim=True))
    with pytest.raises(
        UnsupportedError, match=r"batch shape of \[\] or \[R\]\. .*Size\(\[2, 2\]\)"
    ):
        DomainPosterior(batched, D)
    with pytest.raises(BotorchTensorDimensionError, match="at least one point"):
        DomainPosterior(model, D[:0])
    with pytest.raises(BotorchTensorDimensionError, match=r"batch_shape x \|D\| x d"):
        DomainPosterior(model, D.expand(3, 40, 2))
    for columns in (D[:, :1], torch.cat([D, D], dim=-1)):
        with pytest.raises(BotorchTensorDimensionError, match="`domain` to have the 2 columns"):
            DomainPosterior(model, columns)
    nothing = ScalarizedPosteriorTransform(torch.zeros(1).double())
    with pytest.raises(ValueError, match=r"finite weight that is not 0. Got weight=0.0"):
        DomainPosterior(model, D, posterior_transform=nothing)
    with pytest.raises(InputDataError, match="finite `domain`"):
        DomainPosterior(model, D * torch.nan)
    posterior = DomainPosterior(model, D)
    mean = posterior.mean
    for index in (-1, 40):
        with pytest.raises(InputDataError, match=r"`index` in \[0, 40\)"):
            posterior.observe(index, 1.0, 1e-3)
    for index in (3.5, 3.0, torch.tensor(3.0), torch.tensor(True)):
        with pytest.raises(InputDataError, match=r"Expected integers as `index`. Got"):
            posterior.observe(index, 1.0, 1e-3)
    with pytest.raises(BotorchTensorDimensionError, match="one `index`, or one for each of 1 rep"):
        posterior.observe(torch.tensor([1, 2]), 1.0, 1e-3)
    with pytest.raises(BotorchTensorDimensionError, match="one `y`, or one for each of 1 rep"):
        posterior.observe(1, torch.zeros(2), 1e-3)
    with pytest.raises(InputDataError, match="finite `X`"):
        posterior.observe_at(torch.tensor([0.1, torch.nan]), 1.0, 1e-3)
    with pytest.raises(InputDataError, match="finite `y`"):
        posterior.observe(1, torch.inf, 1e-3)
    for noise in (-1.0, torch.nan):
        with pytest.raises(ValueError, match="finite noise variances >= 0"):
            posterior.observe(1, 1.0, noise)
    with pytest.raises(ValueError, match="noise of the model is fixed"):
        posterior.observe(1, 1.0)
    y = torch.zeros(3).double()
    for wrong in (D[:3, :1], D[:3].expand(1, 3, 2)):
        with pytest.raises(BotorchTensorDimensionError, match=r"`X: batch_shape x b x 2`"):
            posterior.observe_all(wrong, y, y)
    with pytest.raises(BotorchTensorDimensionError, match=r"`noise` for each of the points, \(3"):
        posterior.observe_all(D[:3], y, y[:2])
    with pytest.raises(InputDataError, match=r"finite `X`. Got \[nan, nan\] at \(1,\)"):
        posterior.observe_all(D[:3] / torch.tensor([[1.0], [torch.nan], [1.0]]), y, y)
    with pytest.raises(ValueError, match="noise of the model is fixed"):
        posterior.observe_all(D[:3], y)
    assert torch.equal(posterior.mean, mean)


@pytest.mark.filterwarnings("ignore:The model inputs are of type torch.float32")
def test_float32_refuses_small_noise() -> None:
    D = domain().float()
    posterior = DomainPosterior(build(D[:2], truth(D[:2]), 1e-2, RBFKernel()), D)
    posterior.observe(3, 1.0, 1e-3)
    assert posterior.mean.dtype == torch.float32
    with pytest.raises(InputDataError, match="float64 for noise below 1e-4"):
        posterior.observe(3, 1.0, 1e-5)
