from __future__ import annotations

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import MixedSingleTaskGP
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from botorch_risk.models import MeanVarianceGP, mixed_kernel


def points(n: int, *batch_shape: int) -> Tensor:
    r"""An ordered column between two of categories."""
    generator = torch.Generator().manual_seed(n)
    X = torch.rand(*batch_shape, n, 3, dtype=torch.double, generator=generator)
    X[..., 0] = (3 * X[..., 0]).floor()
    X[..., 2] = (4 * X[..., 2]).floor() * 10 - 7  # any numbers do
    return X


@pytest.mark.parametrize("cat_dims", [[2], [0, 2], [-1, 0], [0, 1, 2]])
def test_is_the_kernel_of_botorchs_mixed_model(cat_dims: list[int]) -> None:
    X = points(8)
    Y = torch.randn(8, 1, dtype=torch.double)
    theirs = MixedSingleTaskGP(X, Y, cat_dims=cat_dims).covar_module.double()
    ours = mixed_kernel(3, cat_dims).double()
    torch.testing.assert_close(ours(X).to_dense(), theirs(X).to_dense())
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())


def test_without_scales_it_is_a_product() -> None:
    X = points(8, 2)
    kernel = mixed_kernel(3, [0, 2], batch_shape=torch.Size([2]), scaled=False).double()
    ordered, categories = kernel.kernels
    product = ordered(X).to_dense() * categories(X).to_dense()
    torch.testing.assert_close(kernel(X).to_dense(), product)
    assert ordered.active_dims.tolist() == [1]
    assert categories.active_dims.tolist() == [0, 2]
    assert not any("outputscale" in name for name, _ in kernel.named_parameters())
    alone = mixed_kernel(3, [0, 1, 2], scaled=False)
    assert not any("outputscale" in name for name, _ in alone.named_parameters())


def test_a_model_learns_what_categories_share_and_what_not() -> None:
    r"""Two categories alike in mean and noise, one of its own; new points of all three."""

    def f(X: Tensor) -> Tensor:
        return (6 * X[:, :1]).sin() + 2.0 * (X[:, 1:] == 2)

    def spread(X: Tensor) -> Tensor:
        return torch.where(X[:, 1:] == 2, 0.5, 0.05)

    generator = torch.Generator().manual_seed(0)

    def draw(n: int) -> Tensor:
        X = torch.rand(n, 2, dtype=torch.double, generator=generator)
        return torch.cat([X[:, :1], (3 * X[:, 1:]).floor()], dim=-1)

    X, new = draw(30), draw(60)
    Y = f(X) + spread(X) * torch.randn(30, 4, dtype=torch.double, generator=generator)
    model = MeanVarianceGP(
        X,
        Y,
        covar_module=mixed_kernel(2, [1]),
        noise_covar_module=mixed_kernel(2, [1], scaled=False),
    )
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    with torch.no_grad():
        error = (model.posterior(new).mean - f(new)).abs()
        noise = model.predicted_noise(new).sqrt()
    loud = (new[:, 1] == 2).unsqueeze(-1)
    assert error[~loud].mean() < 0.1
    assert error[loud].mean() < 0.4
    assert noise[loud].median().item() == pytest.approx(0.5, rel=0.5)
    assert noise[~loud].median().item() == pytest.approx(0.05, rel=0.5)


@pytest.mark.parametrize("cat_dims", [[], [3], [-4], [1, 1], [0, -3]])
def test_refuses_other_columns(cat_dims: list[int]) -> None:
    with pytest.raises(ValueError, match=r"`cat_dims` to be different columns of 3. Got \["):
        mixed_kernel(3, cat_dims)
