r"""Fast marginals against `model.posterior`, point by point."""

from __future__ import annotations

import copy
import itertools
import pickle
import warnings

import pytest
import torch
from botorch.acquisition.objective import (
    ExpectationPosteriorTransform,
    PosteriorTransform,
    ScalarizedPosteriorTransform,
)
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.exceptions.warnings import InputDataWarning
from botorch.models import ModelListGP, MultiTaskGP, SingleTaskGP
from botorch.models.deterministic import GenericDeterministicModel
from botorch.models.map_saas import EnsembleMapSaasSingleTaskGP
from botorch.models.transforms.input import AppendFeatures, InputPerturbation, Normalize, Warp
from botorch.models.transforms.outcome import Log, Standardize
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.kernels import MaternKernel, RBFKernel, RQKernel, ScaleKernel
from torch.utils._python_dispatch import TorchDispatchMode

from botorch_risk.chunks import ChunkSize
from botorch_risk.posterior import MarginalPredictor, stationary_moments

SHAPES = [(), (2,), (2, 3)]
KERNELS = {
    "rbf": RBFKernel,
    "rq": RQKernel,
    **{f"matern{nu}": lambda nu=nu, **kw: MaternKernel(nu=nu, **kw) for nu in (0.5, 1.5, 2.5)},
}


def make_kernel(name, scaled, ard, batch_shape):
    shape = torch.Size(batch_shape)
    kernel = KERNELS[name](ard_num_dims=2 if ard else None, batch_shape=shape).double()
    kernel.lengthscale = 0.2 + 0.5 * torch.rand(kernel.lengthscale.shape).double()
    if scaled:
        kernel = ScaleKernel(kernel, batch_shape=shape).double()
        kernel.outputscale = 0.5 + 2 * torch.rand(kernel.outputscale.shape).double()
    return kernel


def make_input_transform(name, batch_shape):
    if name == "normalize":
        return Normalize(2, batch_shape=torch.Size(batch_shape))
    if name == "warp":
        warp = Warp(2, indices=[0, 1], batch_shape=torch.Size(batch_shape))
        for parameter, value in ((warp.concentration0, 0.7), (warp.concentration1, 1.6)):
            parameter.data.fill_(value)
        return warp.double()
    return None


def make_model(
    kernel="matern2.5",
    scaled=True,
    ard=True,
    batch_shape=(),
    noise="inferred",
    inputs=None,
    outcomes="standardize",
    n=12,
):
    X = torch.rand(*batch_shape, n, 2, dtype=torch.double)
    Y = 5 + 3 * (6 * X).sin().sum(dim=-1, keepdim=True) + 0.3 * torch.randn_like(X[..., :1])
    standardize = Standardize(1, batch_shape=torch.Size(batch_shape))
    model = SingleTaskGP(
        X,
        Y,
        train_Yvar=None if noise == "inferred" else 0.01 + 0.2 * torch.rand_like(Y),
        covar_module=make_kernel(kernel, scaled, ard, batch_shape),
        input_transform=make_input_transform(inputs, batch_shape),
        outcome_transform=standardize if outcomes == "standardize" else None,
    )
    if noise == "inferred":
        model.likelihood.noise = 1e-4
    return model


def reference(model, X, **options):
    r"""BoTorch's moments of single points, never from a cache of its own."""
    model = copy.deepcopy(model)
    model.train()
    X = X.expand(*torch.broadcast_shapes(X.shape[:-2], model.batch_shape), *X.shape[-2:])
    posterior = model.posterior(X.movedim(-2, 0).unsqueeze(-2), **options)
    return tuple(v[..., 0, 0].movedim(0, -1) for v in (posterior.mean, posterior.variance))


def assert_agrees(predictor, X, tolerance=1e-8):
    model = predictor.model
    with torch.no_grad():
        mean, variance = reference(model, X, posterior_transform=predictor.posterior_transform)
    moments = predictor(X)
    scale = model.train_targets.amax() - model.train_targets.amin()
    transform = model._modules.get("outcome_transform")
    stdv = transform.stdvs.max() if transform is not None else 1.0
    prior = model.covar_module(X, diag=True).max() * stdv**2
    assert moments.mean.shape == moments.variance.shape == mean.shape
    assert moments.mean.dtype == X.dtype
    assert (moments.mean - mean).abs().max() < tolerance * scale * stdv
    assert (moments.variance - variance).abs().max() < tolerance * prior
    assert (moments.variance > 0).all()


@pytest.mark.parametrize("batch_shape", SHAPES, ids=str)
@pytest.mark.parametrize("noise", ["inferred", "fixed"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_agrees_with_the_posterior(kernel, noise, batch_shape):
    for scaled, ard in itertools.product((False, True), repeat=2):
        model = make_model(kernel, scaled, ard, batch_shape, noise)
        X = torch.rand(*batch_shape, 7, 2, dtype=torch.double)
        X[..., 0, :] = model.train_inputs[0][..., 0, :]  # a training point
        assert_agrees(MarginalPredictor(model), X)


@pytest.mark.parametrize("batch_shape", SHAPES, ids=str)
@pytest.mark.parametrize("outcomes", ["standardize", None])
@pytest.mark.parametrize("inputs", ["normalize", "warp"])
@pytest.mark.parametrize("kernel", ["rbf", "rq"])
def test_agrees_through_transforms(kernel, inputs, outcomes, batch_shape):
    model = make_model(kernel, batch_shape=batch_shape, inputs=inputs, outcomes=outcomes)
    assert_agrees(MarginalPredictor(model), torch.rand(*batch_shape, 5, 2, dtype=torch.double))


@pytest.mark.parametrize("kernel", ["matern0.5", "matern2.5", "rbf"])
@pytest.mark.parametrize("offset", [0.0, 2000.0])
def test_keeps_its_digits_far_from_the_origin(kernel, offset):
    X = offset + torch.rand(20, 2, dtype=torch.double)
    model = SingleTaskGP(
        X,
        (X - offset).sum(dim=-1, keepdim=True).sin(),
        train_Yvar=torch.full((20, 1), 1e-4, dtype=torch.double),
        covar_module=make_kernel(kernel, True, True, ()),
        outcome_transform=None,
    )
    assert_agrees(MarginalPredictor(model), torch.cat([X, X + 0.01]))


@pytest.mark.parametrize(
    ("model_batch", "X_batch"), [((), (3,)), ((), (2, 3)), ((2,), ()), ((2,), (4, 2)), ((2, 3), ())]
)
@pytest.mark.parametrize("kernel", ["matern1.5", "rq"])
def test_batches_of_points_broadcast(kernel, model_batch, X_batch):
    model = make_model(kernel, batch_shape=model_batch)
    X = torch.rand(*X_batch, 4, 2, dtype=torch.double)
    assert_agrees(MarginalPredictor(model), X)
    moments = MarginalPredictor(model)(X)
    assert moments.mean.shape == (*torch.broadcast_shapes(model_batch, X_batch), 4)


@pytest.mark.parametrize("noise", ["inferred", "fixed"])
@pytest.mark.parametrize("batch_shape", [(), (2,)], ids=str)
def test_agrees_on_conditioned_models(batch_shape, noise):
    model = make_model(batch_shape=batch_shape, noise=noise)
    X = torch.rand(*batch_shape, 3, 2, dtype=torch.double)
    fantasies = model.fantasize(X, SobolQMCNormalSampler(torch.Size([4]), seed=0))
    test_X = torch.rand(4, *batch_shape, 6, 2, dtype=torch.double)
    with torch.no_grad():
        posterior = fantasies.posterior(test_X)
    mean, variance = MarginalPredictor(fantasies)(test_X)
    torch.testing.assert_close(mean, posterior.mean.squeeze(-1), rtol=0, atol=1e-7)
    torch.testing.assert_close(variance, posterior.variance.squeeze(-1), rtol=0, atol=1e-7)


@pytest.mark.parametrize("batch_shape", [(), (2,)], ids=str)
@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_are_those_of_finite_differences(kernel, batch_shape):
    inputs = "warp" if kernel == "rbf" else None
    predictor = MarginalPredictor(make_model(kernel, batch_shape=batch_shape, inputs=inputs, n=6))
    X = (0.05 + 0.9 * torch.rand(*batch_shape, 3, 2, dtype=torch.double)).requires_grad_()
    assert torch.autograd.gradcheck(lambda X: tuple(predictor(X)), X)


def test_gradients_equal_those_of_the_posterior_over_several_chunks(monkeypatch):
    monkeypatch.setattr(stationary_moments, "_CROSS_COVARIANCE", ChunkSize(cpu=12 * 64))
    model = make_model()
    X = torch.rand(150, 2, dtype=torch.double, requires_grad=True)
    gradients = []
    for mean, variance in (MarginalPredictor(model)(X), reference(model, X)):
        gradients.append(torch.autograd.grad((mean + variance.sqrt()).sum(), X)[0])
    torch.testing.assert_close(*gradients, rtol=1e-8, atol=1e-8)


def test_keeps_no_graph_where_none_is_wanted():
    predictor = MarginalPredictor(make_model())
    X = torch.rand(3, 2, dtype=torch.double)
    assert not predictor(X).mean.requires_grad
    with torch.no_grad():
        assert not predictor(X.requires_grad_()).variance.requires_grad


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
    predictor = MarginalPredictor(model)
    X = torch.rand(5, 2, dtype=torch.double)
    before = predictor(X)
    change(model)
    assert not torch.allclose(predictor(X).mean, before.mean, rtol=1e-4)
    assert_agrees(predictor, X)


@pytest.mark.parametrize("transform", ["none", "normalize", "warp"])
def test_cache_is_kept_while_nothing_changes(transform):
    predictor = MarginalPredictor(make_model(inputs=transform))
    X = torch.rand(5, 2, dtype=torch.double)
    first = predictor(X)
    cache = predictor._cache
    second = predictor(X)
    assert predictor._cache is cache
    assert torch.equal(first.mean, second.mean)


def test_cache_is_kept_when_a_transform_replaces_its_buffers_by_equal_ones():
    X = 3 * torch.rand(6, 2).double()
    model = SingleTaskGP(X, X.sum(dim=-1, keepdim=True), input_transform=Normalize(2))
    predictor = MarginalPredictor(model)
    predictor(X)
    cache = predictor._cache
    before = predictor(X).mean
    assert predictor._cache is cache
    model.input_transform._coefficient = 2 * model.input_transform._coefficient
    assert not torch.equal(predictor(X).mean, before)


def test_cache_follows_a_transform_that_is_written_to():
    r"""`Normalize` detaches its buffers in each call: the memory is what counts."""
    model = make_model(inputs="normalize")
    predictor = MarginalPredictor(model)
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
    predictor = MarginalPredictor(model)
    X = torch.rand(5, 2, dtype=torch.double)
    double = predictor(X)
    model.to(torch.float32)
    single = predictor(X.float())
    assert single.mean.dtype == single.variance.dtype == torch.float32
    torch.testing.assert_close(single.mean.double(), double.mean, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(single.variance.double(), double.variance, rtol=0, atol=2e-2)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_cache_follows_a_move_to_the_gpu():
    predictor = MarginalPredictor(make_model())
    X = torch.rand(5, 2, dtype=torch.double)
    on_cpu = predictor(X)
    predictor.model.cuda()
    torch.testing.assert_close(predictor(X.cuda()).mean.cpu(), on_cpu.mean)


@pytest.mark.parametrize("copy_of", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_copies_leave_the_cache_behind(copy_of):
    predictor = MarginalPredictor(make_model())
    X = torch.rand(5, 2, dtype=torch.double)
    before = predictor(X)
    twin = copy_of(predictor)
    assert predictor._cache is not None
    assert twin._cache is None
    torch.testing.assert_close(twin(X), before)


class LargestTensor(TorchDispatchMode):
    r"""Remembers the size of the largest tensor that any operation made."""

    def __init__(self):
        super().__init__()
        self.entries = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in torch.utils._pytree.tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self.entries = max(self.entries, tensor.numel())
        return result


@pytest.mark.parametrize(
    ("kernel", "grad"),
    [
        ("matern2.5", False),
        ("matern2.5", True),
        ("matern0.5", True),
        ("rq", False),  # with gradients, kernels of GPyTorch keep their own graph
    ],
)
def test_memory_does_not_grow_beyond_the_result(kernel, grad):
    predictor = MarginalPredictor(make_model(kernel, n=40))
    X = torch.rand(40_000, 2, dtype=torch.double, requires_grad=grad)
    with LargestTensor() as largest:
        moments = predictor(X)
        if grad:
            (moments.mean + moments.variance).sum().backward()
    # The cross-covariance has 1,600,000 entries, a chunk of it at most 131,072 (twice that
    # where inputs are stacked).
    assert largest.entries <= 2**18


@pytest.mark.parametrize("kernel", ["matern2.5", "rq"])
def test_scalarizations_keep_the_closed_form(kernel):
    predictor = MarginalPredictor(
        make_model(kernel),
        ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.double), offset=0.5),
    )
    X = torch.rand(5, 2, dtype=torch.double)
    assert_agrees(predictor, X)
    assert predictor._cache is not None
    plain = MarginalPredictor(predictor.model)(X)
    torch.testing.assert_close(predictor(X).mean, 0.5 - plain.mean)
    torch.testing.assert_close(predictor(X).variance, plain.variance)


def model_list():
    return ModelListGP(make_model(n=6), make_model("rbf", n=8))


def deterministic():
    return GenericDeterministicModel(lambda X: X.sum(dim=-1, keepdim=True))


def log_outcomes(batch_shape=()):
    X = torch.rand(*batch_shape, 8, 2, dtype=torch.double)
    Y = 1 + X.sum(dim=-1, keepdim=True)
    kernel = make_kernel("rbf", False, True, batch_shape)
    return SingleTaskGP(X, Y, covar_module=kernel, outcome_transform=Log())


@pytest.mark.parametrize("make", [model_list, deterministic, log_outcomes])
def test_other_models_go_through_their_posterior(make):
    model, transform = make(), None
    if model.num_outputs == 2:
        weights = torch.tensor([0.3, -2.0], dtype=torch.double)
        transform = ScalarizedPosteriorTransform(weights)
    predictor = MarginalPredictor(model, transform)
    X = torch.rand(2, 5, 2, dtype=torch.double, requires_grad=True)
    mean, variance = predictor(X)
    posterior = model.posterior(X.unsqueeze(-2), posterior_transform=transform)
    torch.testing.assert_close(mean, posterior.mean[..., 0, 0])
    torch.testing.assert_close(variance, posterior.variance[..., 0, 0])
    assert predictor._cache is None
    assert torch.autograd.grad(mean.sum(), X)[0].abs().sum() > 0


def test_points_do_not_meet_the_batch_of_other_models():
    model = log_outcomes(batch_shape=(2,))
    X = torch.rand(2, 2, dtype=torch.double)  # as many points as models
    together = MarginalPredictor(model)(X)
    assert together.mean.shape == (2, 2)
    torch.testing.assert_close(together, MarginalPredictor(model)(X.expand(2, 2, 2)))


def test_refuses_what_it_cannot_predict():
    X = torch.rand(6, 2, dtype=torch.double)
    with pytest.raises(UnsupportedError, match=r"one output.*num_outputs=2"):
        MarginalPredictor(SingleTaskGP(X, X))
    with pytest.raises(UnsupportedError, match="ensemble"):
        MarginalPredictor(EnsembleMapSaasSingleTaskGP(X, X[:, :1].sin()))
    with pytest.raises(BotorchTensorDimensionError, match="`batch_shape x m x d`"):
        MarginalPredictor(make_model())(torch.rand(2, dtype=torch.double))


def to_several_points(kind):
    r"""A model whose transform makes three points of each, and points for it."""
    X = torch.rand(8, 2, dtype=torch.double)
    if kind is AppendFeatures:
        transform, d = AppendFeatures(torch.rand(3, 1, dtype=torch.double)), 1
    else:
        transform, d = InputPerturbation(0.1 * torch.randn(3, 2, dtype=torch.double)), 2
    model = SingleTaskGP(X, X.sum(dim=-1, keepdim=True).sin(), input_transform=transform)
    return model.eval(), torch.rand(5, d, dtype=torch.double)


@pytest.mark.parametrize("kind", [AppendFeatures, InputPerturbation])
def test_transforms_to_several_points_are_not_taken_for_one(kind):
    model, X = to_several_points(kind)
    with pytest.raises(UnsupportedError, match=r"one value for each point. Got \(3, 1\), of an"):
        MarginalPredictor(model)(X)


@pytest.mark.parametrize("kind", [AppendFeatures, InputPerturbation])
def test_several_points_may_be_reduced_to_one(kind):
    model, X = to_several_points(kind)
    average = ExpectationPosteriorTransform(n_w=3)
    mean, variance = MarginalPredictor(model, average)(X)
    posterior = model.posterior(X.unsqueeze(-2), posterior_transform=average)
    torch.testing.assert_close(mean, posterior.mean.flatten())
    torch.testing.assert_close(variance, posterior.variance.flatten())


class FirstTwo(PosteriorTransform):
    r"""Reduces nothing."""

    scalarize = False

    def evaluate(self, Y, X=None):
        return Y

    def forward(self, posterior, X=None):
        return posterior


def test_outputs_that_are_not_reduced_are_refused():
    with pytest.raises(UnsupportedError, match=r"one value for each point. Got \(1, 2\)"):
        MarginalPredictor(model_list(), FirstTwo())(torch.rand(3, 2, dtype=torch.double))


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # of linear_operator's interpolation
@pytest.mark.parametrize("fixed", [False, True])
def test_one_task_of_a_multi_task_model(fixed):
    X, tasks = torch.rand(12, 2).double(), torch.arange(12).remainder(2).unsqueeze(-1)
    model = MultiTaskGP(
        torch.cat([X, tasks], dim=-1),
        X.sum(dim=-1, keepdim=True).sin(),
        task_feature=-1,
        output_tasks=[1],
        train_Yvar=torch.full((12, 1), 1e-3).double() if fixed else None,
    )
    points = torch.rand(2, 5, 2).double()
    predictor = MarginalPredictor(model)
    posterior = model.posterior(points.unsqueeze(-2))
    for inputs in (points, torch.cat([points, torch.ones(2, 5, 1)], dim=-1)):
        mean, variance = predictor(inputs)
        torch.testing.assert_close(mean, posterior.mean[..., 0, 0])
        torch.testing.assert_close(variance, posterior.variance[..., 0, 0])
    with pytest.raises(BotorchTensorDimensionError, match=r"the 2 or 3 columns of the model"):
        predictor(points[..., :1])


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("inputs", [None, "normalize", "warp"])
@pytest.mark.parametrize("batch_shape", [(), (2,)], ids=str)
def test_a_missing_column_does_not_broadcast(batch_shape, inputs, training):
    model = make_model("rbf", batch_shape=batch_shape, inputs=inputs).train(training)
    for columns in (1, 3):
        X = torch.rand(*batch_shape, 4, columns, dtype=torch.double)
        message = rf"Expected `X` to have the 2 columns of the model's inputs. Got .* {columns}\)"
        with pytest.raises(BotorchTensorDimensionError, match=message):
            MarginalPredictor(model)(X)


@pytest.mark.parametrize("make", [make_model, lambda: make_model("rq"), log_outcomes])
@pytest.mark.parametrize("shape", [(0, 2), (3, 0, 2), (0, 4, 2)], ids=str)
def test_no_points_have_no_moments(make, shape):
    X = torch.rand(shape, dtype=torch.double, requires_grad=True)
    mean, variance = MarginalPredictor(make())(X)
    assert mean.shape == variance.shape == shape[:-1]
    assert torch.autograd.grad((mean + variance).sum(), X)[0].shape == shape
    batched = MarginalPredictor(make_model(batch_shape=(2, 3)))(torch.rand(0, 2).double())
    assert batched.mean.shape == (2, 3, 0)


@pytest.mark.parametrize("make", [make_model, lambda: make_model("rq"), log_outcomes])
def test_whole_numbers_are_points(make):
    predictor, X = MarginalPredictor(make()), torch.tensor([[0, 1], [1, 1]])
    torch.testing.assert_close(predictor(X), predictor(X.double()))


def test_single_precision_keeps_four_digits():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputDataWarning)  # BoTorch advises double precision
        X = torch.rand(12, 2)
        model = SingleTaskGP(X, (6 * X).sin().sum(dim=-1, keepdim=True))
    model.likelihood.noise = 0.01
    test_X = torch.rand(5, 2)
    mean, variance = MarginalPredictor(model)(test_X)
    double = copy.deepcopy(model).double()
    expected = MarginalPredictor(double)(test_X.double())
    torch.testing.assert_close(mean.double(), expected.mean, rtol=0, atol=1e-3)
    torch.testing.assert_close(variance.double(), expected.variance, rtol=0, atol=1e-3)
