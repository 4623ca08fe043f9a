r"""The cached factors follow their model, and are kept while nothing changes."""

import copy
import gc
import pickle
import weakref

import pytest
import torch
from botorch.exceptions.errors import InputDataError
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import Normalize
from gpytorch.kernels import MaternKernel, ScaleKernel

from botorch_risk.chunks import ChunkSize
from botorch_risk.engine import Belief
from botorch_risk.engine.posterior import cache
from botorch_risk.steady import steady
from tests.engine.posterior.examples import assert_agrees, make_model


def set_lengthscale(model):
    model.covar_module.base_kernel.lengthscale = 0.9


def set_data(model):
    model.set_train_data(targets=model.train_targets.flip(-1), strict=False)


def set_data_twice(model):
    r"""Gives the allocator the chance to put new data where old data lay."""
    for _ in range(2):
        set_data(model)
    model.train_targets = model.train_targets + torch.linspace(0, 1, 12, dtype=torch.double)


def change_in_place(model):
    with torch.no_grad():
        model.covar_module.raw_outputscale.add_(1.0)


def load_other(model):
    torch.manual_seed(1)
    model.load_state_dict(make_model(noise=model.noise_kind).state_dict())


def change_noise(model):
    if model.noise_kind == "inferred":
        model.likelihood.noise = 0.3
    else:
        model.likelihood.noise_covar.noise = model.likelihood.noise_covar.noise * 3


def change_mean(model):
    model.mean_module.constant.data.fill_(2.0)


CHANGES = [
    set_lengthscale,
    set_data,
    set_data_twice,
    change_in_place,
    load_other,
    change_noise,
    change_mean,
]


@pytest.mark.parametrize("noise", ["inferred", "fixed"])
@pytest.mark.parametrize("change", CHANGES)
def test_cache_follows_the_model(change, noise):
    model = make_model(noise=noise)
    model.noise_kind = noise
    predictor = Belief(model)
    X = torch.rand(5, 2, dtype=torch.double)
    before = predictor(X)
    change(model)
    assert not torch.allclose(predictor(X).mean, before.mean, rtol=1e-4)
    assert_agrees(predictor, X)


@pytest.mark.parametrize("transform", ["none", "normalize", "warp"])
def test_cache_is_kept_while_nothing_changes(transform):
    predictor = Belief(make_model(inputs=transform))
    X = torch.rand(5, 2, dtype=torch.double)
    first = predictor(X)
    cache = predictor._cache
    second = predictor(X)
    assert predictor._cache is cache
    assert torch.equal(first.mean, second.mean)


def test_cache_is_kept_when_a_transform_replaces_its_buffers_by_equal_ones():
    X = 3 * torch.rand(6, 2).double()
    model = SingleTaskGP(X, X.sum(dim=-1, keepdim=True), input_transform=Normalize(2))
    predictor = Belief(model)
    predictor(X)
    cache = predictor._cache
    before = predictor(X).mean
    assert predictor._cache is cache
    model.input_transform._coefficient = 2 * model.input_transform._coefficient
    assert not torch.equal(predictor(X).mean, before)


def test_cache_follows_a_transform_that_is_written_to():
    r"""`Normalize` detaches its buffers in each call: the memory is what counts."""
    model = make_model(inputs="normalize")
    predictor = Belief(model)
    X = torch.rand(5, 2, dtype=torch.double)
    predictor(X)
    cache = predictor._cache
    model.input_transform._offset.add_(0.3)
    predictor(X)
    assert predictor._cache is not cache


@pytest.mark.parametrize("noise", ["inferred", "fixed"])
def test_serves_single_precision_after_a_move(noise):
    model = make_model(noise=noise)
    model.covar_module.base_kernel.lengthscale = 0.5
    if noise == "inferred":
        model.likelihood.noise = 0.05
    predictor = Belief(model)
    X = torch.rand(5, 2, dtype=torch.double)
    double = predictor(X)
    model.to(torch.float32)
    single = predictor(X.float())
    assert single.mean.dtype == single.variance.dtype == torch.float32
    torch.testing.assert_close(single.mean.double(), double.mean, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(single.variance.double(), double.variance, rtol=0, atol=2e-2)


def test_cache_follows_a_move_to_another_device(device):
    predictor = Belief(make_model())
    X = torch.rand(5, 2, dtype=torch.double)
    on_cpu = predictor(X)
    predictor.model.to(device)
    torch.testing.assert_close(predictor(X.to(device)).mean.cpu(), on_cpu.mean)


@pytest.mark.parametrize("copy_of", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_copies_leave_the_cache_behind(copy_of):
    predictor = Belief(make_model())
    X = torch.rand(5, 2, dtype=torch.double)
    before = predictor(X)
    twin = copy_of(predictor)
    assert predictor._cache is not None
    assert twin._cache is None
    torch.testing.assert_close(twin(X), before)


@pytest.mark.slow
def test_a_block_does_not_keep_the_models_that_came_and_went():
    X = torch.rand(3, 2, dtype=torch.double)
    with steady():
        model = make_model()
        predictor = Belief(model)
        predictor(X), predictor(X)
        gone = weakref.ref(model)
        del model, predictor
        gc.collect()
        assert gone() is None


def test_hyperparameters_that_are_no_numbers_are_named() -> None:
    model = make_model()
    with torch.no_grad():
        model.covar_module.raw_outputscale.fill_(torch.nan)
    with pytest.raises(InputDataError, match=r"covariance and noise are numbers\. Got NaN: .*64"):
        Belief(model)(torch.rand(3, 2, dtype=torch.double))


@pytest.mark.parametrize("batch", [(), (5,), (2, 3)], ids=str)
@pytest.mark.parametrize("fixed", [False, True], ids=["inferred", "fixed"])
def test_factors_in_blocks_are_those_of_all(
    batch: tuple[int, ...], fixed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    r"""The covariances of a few models at a time."""
    X = torch.rand(*batch, 9, 2, dtype=torch.double)
    noise = {"train_Yvar": 0.01 + X[..., :1]} if fixed else {}
    kernel = ScaleKernel(MaternKernel(batch_shape=torch.Size(batch)), batch_shape=torch.Size(batch))
    model = SingleTaskGP(X, X.sum(dim=-1, keepdim=True), covar_module=kernel, **noise)
    kernel.outputscale = 1 + torch.rand(batch, dtype=torch.double)
    whole = cache.PosteriorCache.build(model)
    monkeypatch.setattr(cache, "_COVARIANCES", ChunkSize(cpu=2 * 81, gpu=2 * 81))
    blocks = cache.PosteriorCache.build(model)
    torch.testing.assert_close(blocks.factor, whole.factor, rtol=1e-12, atol=1e-12)
    covariance = model.covar_module(X).to_dense() + torch.diag_embed(
        model.likelihood.noise.expand(*batch, 9)
    )
    root = blocks.factor / kernel.outputscale[..., None, None].sqrt()
    identity = torch.eye(9, dtype=torch.double).expand_as(covariance)
    torch.testing.assert_close(root @ covariance @ root.mT, identity, rtol=0, atol=1e-9)
