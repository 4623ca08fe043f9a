r"""Small domains, models of them and their posteriors in plain numpy."""

import numpy as np
import pytest
import torch
from botorch.models import SingleTaskGP
from gpytorch.kernels import Kernel, LinearKernel, MaternKernel, RBFKernel, ScaleKernel
from torch import Tensor

dense = pytest.mark.parametrize("dense", [True, False], ids=["dense", "on demand"])


def domain(size: int = 40) -> Tensor:
    return torch.rand(size, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def truth(X: Tensor) -> Tensor:
    return 3 + 2 * (5 * X).sin().sum(dim=-1, keepdim=True)


def build(
    X: Tensor, Y: Tensor, noise: float | Tensor, kernel: Kernel | None = None
) -> SingleTaskGP:
    kernel = ScaleKernel(MaternKernel(nu=2.5)) if kernel is None else kernel
    variance = torch.as_tensor(noise, dtype=X.dtype).expand_as(Y)
    return SingleTaskGP(X, Y, variance, covar_module=kernel, outcome_transform=None).to(X)


def distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.sqrt(((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=-1))


def matern(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    r = np.sqrt(5) * distances(a, b) / 0.5
    return (1 + r + r**2 / 3) * np.exp(-r)


KERNELS = {
    "matern": (MaternKernel(nu=2.5), matern),
    "squared exponential": (RBFKernel(), lambda a, b: np.exp(-2 * distances(a, b) ** 2)),
    "exponential": (MaternKernel(nu=0.5), lambda a, b: np.exp(-2 * distances(a, b))),
    "sum": (
        MaternKernel(nu=2.5) + LinearKernel(),
        lambda a, b: matern(a, b) + np.log(2) * a @ b.T,  # the initial variance of the slope
    ),
}


CASES = [
    ("matern", 1e-6, True),
    ("matern", 1e-2, False),
    ("squared exponential", 1e-6, True),
    ("squared exponential", 1e-6, False),
    ("exponential", 1e-6, True),
    ("sum", 1e-6, False),
]
