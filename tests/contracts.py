r"""Data, models, dtypes and batch shapes that the contract tests run over.

Each part of the package is listed in `tests/<area>/cases.py`, one line and one oracle a class. The
tests that run over these lists are in the `test_contract.py` beside them.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from botorch.exceptions.warnings import InputDataWarning
from botorch.models import SingleTaskGP
from gpytorch.kernels import ScaleKernel
from torch import Tensor

from botorch_risk.models import MeanVarianceGP
from tests.devices import home

DTYPES = [torch.float32, torch.float64]
BATCH_SHAPES: list[tuple[int, ...]] = [(), (3,), (2, 3)]  # not (2,): inputs have 2 columns
BOUNDS = [[0.0, 0.0], [1.0, 1.0]]


@dataclass(frozen=True)
class RepeatedData:
    r"""Inputs and repeats that tests build models from."""

    X: Tensor
    Y: Tensor

    @classmethod
    def make(
        cls,
        batch_shape: tuple[int, ...] = (),
        num_rows: int = 9,
        num_repeats: int = 4,
        seed: int = 0,
        dtype: torch.dtype = torch.float64,
    ) -> RepeatedData:
        generator = torch.Generator().manual_seed(seed)
        draw = {"generator": generator, "dtype": torch.float64}
        X = torch.rand(*batch_shape, num_rows, 2, **draw)
        noise = torch.randn(*batch_shape, num_rows, num_repeats, **draw)
        Y = (4 * X).sin().sum(dim=-1, keepdim=True) + (0.2 + X[..., :1]) * noise
        return cls(X.to(home(), dtype), Y.to(home(), dtype))


def correlation_of(model: Any) -> Any:
    r"""The kernel of a process that holds the lengthscales."""
    kernel = model.covar_module
    return kernel.base_kernel if isinstance(kernel, ScaleKernel) else kernel


def mean_variance_gp(data: RepeatedData, **options: Any) -> MeanVarianceGP:
    r"""An unfitted model with hyperparameters that differ between replicates."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputDataWarning)  # float32
        model = MeanVarianceGP(data.X, data.Y, **options)
    batch = data.X.shape[:-2]
    offset = torch.arange(batch.numel(), dtype=data.X.dtype).reshape(*batch, 1, 1) / 10
    scale = (1.0 + offset.reshape(batch)).to(data.X)
    model.mean_model.covar_module.outputscale = scale
    correlation_of(model.mean_model).lengthscale = (0.4 + offset).expand(*batch, 1, 2).to(data.X)
    if not hasattr(model.noise_model, "covar_module"):
        return model
    correlation_of(model.noise_model).lengthscale = (0.7 + offset).expand(*batch, 1, 2).to(data.X)
    model.refresh_noise()
    return model


def gaussian_process(X: Tensor, Y: Tensor | None = None) -> SingleTaskGP:
    r"""An unfitted model with hyperparameters that differ between replicates."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputDataWarning)  # float32
        model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True) if Y is None else Y)
    batch, d = X.shape[:-2], X.shape[-1]
    offset = torch.arange(batch.numel(), dtype=X.dtype).reshape(*batch, 1, 1) / 10
    model.covar_module.lengthscale = (0.4 + offset).expand(*batch, 1, d).to(X)
    model.likelihood.noise = 1e-2
    return model.eval()


def of_decision_and_context(data: RepeatedData) -> SingleTaskGP:
    r"""A model of both columns and of a context that each row happened to meet."""
    inputs = torch.cat([data.X, data.X.flip(-2)[..., :1]], dim=-1)
    return gaussian_process(inputs, data.Y.mean(dim=-1, keepdim=True))


def of_decision(data: RepeatedData) -> SingleTaskGP:
    return gaussian_process(data.X, data.Y.mean(dim=-1, keepdim=True))
