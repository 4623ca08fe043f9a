r"""Exact GPs of many kinds, and the comparison of a predictor with their posteriors."""

import copy

import torch
from botorch.models import SingleTaskGP
from botorch.models.gpytorch import GPyTorchModel
from botorch.models.transforms.input import Normalize, Warp
from botorch.models.transforms.outcome import Log, Standardize, StratifiedStandardize
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import MaternKernel, RBFKernel, RQKernel, ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import ConstantMean
from gpytorch.models import ExactGP
from torch.utils._python_dispatch import TorchDispatchMode

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


class OwnForward(SingleTaskGP):
    r"""A kernel of learnt features, as in a deep kernel."""

    def forward(self, x):
        return super().forward(torch.tanh(5 * x))


class OwnPosterior(SingleTaskGP):
    r"""Predicts at points that are moved."""

    def posterior(self, X, *args, **kwargs):
        return super().posterior(X + 0.3, *args, **kwargs)


class OwnCall(SingleTaskGP):
    r"""Scales what GPyTorch predicts."""

    def __call__(self, *args, **kwargs):
        return super().__call__(*args, **kwargs) * 2.0


class OtherNames(ExactGP, GPyTorchModel):
    r"""A model of GPyTorch whose modules have names of its own."""

    _num_outputs = 1

    def __init__(self, train_X, train_Y):
        super().__init__(train_X, train_Y.squeeze(-1), GaussianLikelihood())
        self.average, self.similarity = ConstantMean(), RBFKernel(ard_num_dims=2)
        self.to(train_X)

    def forward(self, x):
        x = self.transform_inputs(x) if self.training else x
        return MultivariateNormal(self.average(x), self.similarity(x))


KINDS_OF_THEIR_OWN = [OwnForward, OwnPosterior, OwnCall, OtherNames]


def of_kind(kind, X, Y):
    r"""A model of a class, with hyperparameters that its data call for."""
    model = kind(X, Y)
    model.likelihood.noise = 1e-2
    return model.eval()


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


def log_outcomes(batch_shape=()):
    X = torch.rand(*batch_shape, 8, 2, dtype=torch.double)
    Y = 1 + X.sum(dim=-1, keepdim=True)
    kernel = make_kernel("rbf", False, True, batch_shape)
    return SingleTaskGP(X, Y, covar_module=kernel, outcome_transform=Log())


def stratified(column):
    r"""A model of outcomes in two strata, by a column of 2 and 3 that is transformed to 0 and 1."""
    X = torch.rand(12, 2, dtype=torch.double)
    X[:, column] = 2 + (torch.arange(12) % 2)
    Y = (6 * X).sin().sum(dim=-1, keepdim=True) + 100 * X[:, [column]]
    strata = StratifiedStandardize(column, torch.arange(2))
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
    bounds[:, column] += 2
    return SingleTaskGP(
        X, Y, input_transform=Normalize(2, bounds=bounds), outcome_transform=strata
    ).eval()


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
