r"""Marginals at all pairs of a decision and an environmental value."""

import pickle

import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Warp
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from torch.utils._python_dispatch import TorchDispatchMode

from botorch_risk.chunks import ChunkSize
from botorch_risk.engine import Belief
from botorch_risk.engine.posterior import product as module
from botorch_risk.engine.posterior import stationary_moments

BATCHES: list[tuple[int, ...]] = [(), (2,), (2, 3)]


def build(
    batch: tuple[int, ...] = (),
    d: int = 3,
    kernel: Kernel | None = None,
    normalize: bool = False,
    dtype: torch.dtype = torch.float64,
) -> SingleTaskGP:
    generator = torch.Generator().manual_seed(0)
    X = 5 * torch.rand(*batch, 15, d, generator=generator, dtype=torch.float64)
    Y = X.sin().sum(dim=-1, keepdim=True)
    if not normalize:
        X = X / 5
    transform = Normalize(d, batch_shape=torch.Size(batch)) if normalize else None
    model = SingleTaskGP(X.to(dtype), Y.to(dtype), covar_module=kernel, input_transform=transform)
    model.likelihood.noise = 1e-4
    return model


def pair_by_pair(model: SingleTaskGP, X: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    r"""Means and variances through `model.posterior`, one pair at a time."""
    moments = []
    for x in X.unbind(dim=-2):
        for w in points.unbind(dim=-2):
            w = w.expand(*x.shape[:-1], w.shape[-1])
            posterior = model.posterior(torch.cat([x, w], dim=-1).unsqueeze(-2))
            moments.append(
                torch.stack([posterior.mean, posterior.variance]).squeeze(-1).squeeze(-1)
            )
    stacked = torch.stack(moments, dim=-1)
    return stacked.unflatten(-1, (X.shape[-2], points.shape[-2]))


@pytest.mark.parametrize("normalize", [False, True], ids=["unit", "normalize"])
@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize("d_w", [1, 2])
@pytest.mark.handful
def test_equals_the_posterior_pair_by_pair(
    batch: tuple[int, ...], d_w: int, normalize: bool
) -> None:
    model = build(batch, normalize=normalize)
    X = torch.rand(*batch, 4, 3 - d_w, dtype=torch.float64)
    for points in (torch.rand(6, d_w).double(), torch.rand(*batch, 6, d_w).double()):
        marginals = Belief(model).pairs(points)
        ours = torch.stack([*marginals(X)])
        assert marginals._current_factors() is not None
        assert ours.shape == (2, *batch, 4, 6)
        torch.testing.assert_close(ours, pair_by_pair(model, X, points), rtol=1e-8, atol=1e-8)
        torch.testing.assert_close(marginals.mean(X), ours[0])


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_a_t_batch_stays_a_product(batch: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    r"""BoTorch's optimisers call with `b x batch_shape x 1 x d_x`, which is no other question."""
    model, points = build(batch), torch.rand(6, 1).double()
    marginals = Belief(model).pairs(points)
    X = torch.rand(5, *batch, 1, 2, dtype=torch.float64)
    expected = torch.stack([*marginals._at_every_pair(X)])
    monkeypatch.delattr(type(marginals), "_at_every_pair")
    ours = torch.stack([*marginals(X)])
    assert ours.shape == (2, 5, *batch, 1, 6)
    torch.testing.assert_close(ours, expected, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(marginals.mean(X), ours[0])
    shared = torch.stack([*marginals(X.reshape(-1, 2)[:3])])
    assert shared.shape == (2, *batch, 3, 6)


@pytest.mark.parametrize(
    "kernel",
    [
        ScaleKernel(RBFKernel(ard_num_dims=3)),
        RBFKernel(),
        MaternKernel(ard_num_dims=3),
        RBFKernel(active_dims=(0, 2)),
    ],
    ids=["scaled", "one lengthscale", "matern", "active dims"],
)
def test_other_kernels(kernel: Kernel) -> None:
    model = build(kernel=kernel)
    points, X = torch.rand(5, 1).double(), torch.rand(4, 2).double()
    marginals = Belief(model).pairs(points)
    ours = torch.stack([*marginals(X)])
    torch.testing.assert_close(ours, pair_by_pair(model, X, points), rtol=1e-7, atol=1e-8)
    torch.testing.assert_close(marginals.mean(X), ours[0])


def test_other_transforms_go_pair_by_pair() -> None:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(12, 2, generator=generator, dtype=torch.float64)
    model = SingleTaskGP(X, X.sum(-1, keepdim=True), input_transform=Warp(d=2, indices=[0, 1]))
    points = torch.rand(5, 1).double()
    marginals = Belief(model).pairs(points)
    ours = torch.stack([*marginals(X[:3, :1])])
    assert not marginals._is_product(X[:3, :1])
    torch.testing.assert_close(ours, pair_by_pair(model, X[:3, :1], points), rtol=1e-7, atol=1e-8)


@pytest.mark.filterwarnings("ignore:The model inputs are of type torch.float32")
def test_single_precision_goes_pair_by_pair() -> None:
    model = build(dtype=torch.float32)
    marginals = Belief(model).pairs(torch.rand(5, 1))
    mean, variance = marginals(torch.rand(4, 2))
    assert mean.dtype == variance.dtype == torch.float32
    assert not marginals._is_product(torch.rand(4, 2))


def test_gradient() -> None:
    marginals = Belief(build()).pairs(torch.rand(4, 1).double())
    X = torch.rand(3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda X: tuple(marginals(X)), X)
    assert torch.autograd.gradcheck(marginals.mean, X)
    assert not marginals(X.detach()).mean.requires_grad


def at_all_pairs(model: SingleTaskGP, X: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    r"""Means and variances through one call of `model.posterior`, each pair in its t-batch."""
    pairs = torch.stack(
        [
            torch.cat([x, w.expand(*x.shape[:-1], w.shape[-1])], dim=-1)
            for x in X.unbind(dim=-2)
            for w in points.unbind(dim=-2)
        ]
    )
    posterior = model.posterior(pairs.unsqueeze(-2))
    moments = torch.stack([posterior.mean, posterior.variance])[..., 0, 0].movedim(1, -1)
    return moments.unflatten(-1, (X.shape[-2], points.shape[-2]))


@pytest.mark.parametrize("products", [True, False], ids=["products", "no products"])
@pytest.mark.parametrize("batch", [(), (2,)], ids=str)
@pytest.mark.parametrize("n_w", [64, 65, 129])
def test_values_and_gradients_do_not_depend_on_the_chunks(
    n_w: int, batch: tuple[int, ...], products: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 64 values of w at a time
    monkeypatch.setattr(stationary_moments, "_CROSS_COVARIANCE", ChunkSize(cpu=1))
    if not products:
        monkeypatch.setattr(module, "_MAX_PRODUCTS", 0)
    model = build(batch)
    points = torch.rand(*batch, n_w, 2, generator=torch.Generator().manual_seed(1)).double()
    X = torch.rand(*batch, 3, 1, generator=torch.Generator().manual_seed(2)).double()
    marginals = Belief(model).pairs(points)
    sides = []
    for moments in (
        lambda X: torch.stack([*marginals(X)]),
        lambda X: at_all_pairs(model, X, points),
    ):
        trial = X.clone().requires_grad_()
        values = moments(trial)
        weights = torch.linspace(-1, 1, n_w).double()  # each value of w its own
        (gradient,) = torch.autograd.grad((values.sum(dim=0) * weights).sum(), trial)
        sides.append((values.detach(), gradient))
    factors = marginals._current_factors()
    assert factors is not None
    assert (factors.products is not None) == products
    torch.testing.assert_close(*sides, rtol=1e-7, atol=1e-8)


def test_more_coordinates_than_there_is_room_for_go_pair_by_pair(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_MAX_COORDINATES", 10)
    model, points, X = build(), torch.rand(6, 1).double(), torch.rand(4, 2).double()
    marginals = Belief(model).pairs(points)
    ours = torch.stack([*marginals(X)])
    assert marginals._current_factors() is None
    torch.testing.assert_close(ours, pair_by_pair(model, X, points), rtol=1e-8, atol=1e-8)


def test_follows_the_model_and_the_sign() -> None:
    model, points = build(), torch.rand(5, 1).double()
    X = torch.rand(4, 2, dtype=torch.float64)
    marginals = Belief(model).pairs(points)
    marginals(X)
    model.covar_module.lengthscale = 2.0
    fresh = Belief(model).pairs(points)(X)
    torch.testing.assert_close(marginals(X).mean, fresh.mean)
    torch.testing.assert_close(pickle.loads(pickle.dumps(marginals))(X).mean, fresh.mean)
    minimise = ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.float64))
    negated = Belief(model, minimise).pairs(points)(X)
    torch.testing.assert_close(negated.mean, -fresh.mean)
    torch.testing.assert_close(negated.variance, fresh.variance)


class LargestTensor(TorchDispatchMode):
    r"""The most entries of a tensor that an operation makes, views aside."""

    def __init__(self) -> None:
        super().__init__()
        self.entries = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        for each in result if isinstance(result, tuple | list) else (result,):
            if isinstance(each, torch.Tensor):
                owned = each.untyped_storage().nbytes() // each.element_size()
                self.entries = max(self.entries, owned)
        return result


@pytest.mark.parametrize("batch", [(), (2,)], ids=str)
def test_the_factor_is_not_copied_for_each_decision(batch: tuple[int, ...]) -> None:
    r"""As a broadcast matrix product does: `m n^2` entries in the place of `m n r`."""
    n, m, n_w = 60, 50, 5
    train_X = torch.rand(*batch, n, 2, dtype=torch.float64)
    model = SingleTaskGP(train_X, train_X.sin().sum(dim=-1, keepdim=True))
    points = torch.linspace(0, 1, n_w, dtype=torch.float64).unsqueeze(-1)
    marginals = Belief(model).pairs(points)
    X = torch.rand(*batch, m, 1, dtype=torch.float64)
    marginals(X)
    with LargestTensor() as largest:
        mean, variance = marginals(X.requires_grad_())
        (mean + variance).sum().backward()
    replicates = torch.Size(batch).numel()
    assert replicates * m * n <= largest.entries <= 1.1 * replicates * m * n * n_w


@pytest.mark.parametrize("outcome", [0, 1])
@pytest.mark.parametrize("predicted", [False, True], ids=["new", "predicted"])
def test_one_outcome_of_a_model_of_several(outcome: int, predicted: bool) -> None:
    X = 5 * torch.rand(12, 3, dtype=torch.float64)
    Y = torch.stack([X.sum(dim=-1), X[:, 0].sin()], dim=-1)
    both = SingleTaskGP(X, Y, input_transform=Normalize(3))
    decisions, points = 5 * torch.rand(4, 2).double(), 5 * torch.rand(5, 1).double()
    if predicted:  # BoTorch has then transformed the inputs in place
        both.posterior(X)
    model = both.subset_output([outcome])
    found = Belief(model).pairs(points)(decisions)
    expected = pair_by_pair(model, decisions, points)
    torch.testing.assert_close(torch.stack(found), expected, rtol=1e-8, atol=1e-8)
