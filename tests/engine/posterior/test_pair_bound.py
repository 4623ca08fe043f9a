r"""Numbers made of all bounds: NumPy against PyTorch, closed forms against autograd."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import (
    ChainedInputTransform,
    InputTransform,
    Normalize,
    NumericToCategoricalEncoding,
)
from torch import Tensor
from torch.nn.functional import one_hot

from botorch_risk.engine import Belief
from botorch_risk.engine.posterior import one_thread, pair_bound_on_host
from botorch_risk.engine.posterior import product as product_module

MINIMISE = ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.double))


def fitted(
    seed: int, batch: tuple[int, ...] = (), transform: InputTransform | None = None
) -> SingleTaskGP:
    torch.manual_seed(seed)
    n, d = int(torch.randint(2, 30, ())), int(torch.randint(2, 5, ()))
    X = torch.rand(*batch, n, d, dtype=torch.double)
    Y = (4 * X).sin().sum(dim=-1, keepdim=True)
    noise = torch.full_like(Y, 1.01 * 10.0 ** -float(6 * torch.rand(())))
    gp = SingleTaskGP(X, Y, noise, input_transform=transform)
    gp.covar_module.lengthscale = 0.2 + torch.rand(*batch, 1, d, dtype=torch.double)
    return gp.eval()


def all_weighted(bounds: Tensor) -> tuple[Tensor, Tensor]:
    slope = torch.linspace(-1, 2, bounds.shape[-1]).to(bounds).expand_as(bounds)
    return (slope * bounds).sum(dim=-1), slope


def smallest(bounds: Tensor) -> tuple[Tensor, Tensor]:
    least = bounds.min(dim=-1)
    return least.values, least.indices


REDUCTIONS = [all_weighted, smallest]


@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)], ids=str)
def test_numpy_finds_what_pytorch_does_on_a_thousand_problems(
    batch: tuple[int, ...], reduce: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(25 if batch else 60):
        gp = fitted(seed, batch)
        W = torch.rand(int(torch.randint(1, 40, ())), 1, dtype=torch.double)
        X = torch.rand(*batch, 20, gp.train_inputs[0].shape[-1] - 1, dtype=torch.double)
        width = torch.randn(*batch, 1, dtype=torch.double)
        pairs = Belief(gp, MINIMISE if seed % 2 else None).pairs(W)
        found = []
        for most in (0, 2**30):
            monkeypatch.setattr(pair_bound_on_host, "MOST_ENTRIES", most)
            found.append(pairs.reduced(X, reduce, width=width))
        for theirs, ours in zip(*found, strict=True):
            scale = max(1.0, float(theirs.abs().max()))
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9 * scale)


@pytest.mark.every_device
@pytest.mark.parametrize("most", [0, 2**30], ids=["pytorch", "numpy"])
@pytest.mark.parametrize("products", [True, False], ids=["products", "no products"])
@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("batch", [(), (2,)], ids=str)
def test_the_gradient_is_the_one_by_autograd(
    batch: tuple[int, ...],
    reduce: Any,
    products: bool,
    most: int,
    device: torch.device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pair_bound_on_host, "MOST_ENTRIES", most)
    if not products:
        monkeypatch.setattr(product_module, "_MAX_PRODUCTS", 0)
    transform = Normalize(3, batch_shape=torch.Size(batch))
    torch.manual_seed(0)
    train_X = 5 * torch.rand(*batch, 12, 3, dtype=torch.double).to(device)
    Y = train_X.sin().sum(dim=-1, keepdim=True)
    gp = SingleTaskGP(train_X, Y, torch.full_like(Y, 0.01), input_transform=transform).eval()
    pairs = Belief(gp).pairs(5 * torch.rand(6, 1, dtype=torch.double).to(device))
    X = 5 * torch.rand(*batch, 4, 2, dtype=torch.double).to(device)
    width = torch.full((4,), 1.5, dtype=torch.double).to(device)
    assert_by_autograd(pairs, X, width, reduce)


def assert_by_autograd(pairs: Any, X: Tensor, width: Tensor, reduce: Any) -> None:
    X = X.clone().requires_grad_()
    mean, variance = pairs(X)
    expected, _ = reduce(mean + width.unsqueeze(-1) * variance.sqrt())
    (of_expected,) = torch.autograd.grad(expected.sum(), X)
    assert pairs.serves(X)
    value, gradient = pairs.reduced(X, reduce, width=width)
    torch.testing.assert_close(value, expected.detach(), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(gradient, of_expected, rtol=1e-8, atol=1e-8)
    value, gradient = pairs.reduced(X, lambda bounds: (reduce(bounds)[0], None), width=width)
    torch.testing.assert_close(value, expected.detach(), rtol=1e-9, atol=1e-9)
    assert gradient is None


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_the_gradient_goes_through_an_encoding(reduce: Any) -> None:
    r"""Which is no scaling of columns, so that closed forms end at what it makes."""
    torch.manual_seed(0)
    X = torch.rand(12, 3, dtype=torch.double)
    X[:, 0] = torch.arange(12) % 2
    encoding = NumericToCategoricalEncoding(
        dim=3, categorical_features={0: 2}, encoders={0: partial(one_hot, num_classes=2)}
    )
    transform = ChainedInputTransform(codes=encoding, unit=Normalize(4))
    Y = X[:, 1:2] * X[:, 2:] + X[:, :1]
    gp = SingleTaskGP(X, Y, input_transform=transform).eval()
    pairs = Belief(gp).pairs(torch.rand(6, 1, dtype=torch.double))
    assert_by_autograd(pairs, X[:4, :2], torch.ones(4).double(), reduce)


def test_a_clamped_variance_has_no_gradient() -> None:
    X = torch.rand(5, 2, dtype=torch.double)
    Y = X.sum(dim=-1, keepdim=True)
    gp = SingleTaskGP(X, Y, torch.full_like(Y, 1e-6)).eval()
    pairs = Belief(gp).pairs(X[:1, 1:])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpytorch.settings.min_variance.value", classmethod(lambda cls, dtype: 10.0))
        gradients = [
            pairs.reduced(X[:2, :1], all_weighted, width=width.double().expand(2))[1]
            for width in (torch.tensor(0.0), torch.tensor(3.0))
        ]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("count", [1, 7, 64])
def test_products_in_parts_are_products(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_thread, "MOST_MULTIPLICATIONS", 100)
    generator = np.random.default_rng(0)
    rows, matrix = generator.random((3, count, 5)), generator.random((3, 5, 4))
    np.testing.assert_allclose(one_thread.product(rows, matrix), rows @ matrix, rtol=1e-14)
