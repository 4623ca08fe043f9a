r"""Data, models, dtypes and batch shapes that tests run over, and the laws of the package's parts.

Each part of the package is listed in `tests/<area>/cases.py`, one line and one oracle a class. The
laws are those of `botorch_risk_testing`; the `test_contract.py` beside the cases runs them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
import torch
from botorch.exceptions.warnings import InputDataWarning
from botorch.models import SingleTaskGP
from botorch_risk_testing.data import BOUNDS as BOUNDS
from botorch_risk_testing.data import RepeatedData as RepeatedData
from botorch_risk_testing.data import gaussian_process as gaussian_process
from botorch_risk_testing.data import of_decision as of_decision
from botorch_risk_testing.laws import BATCH_SHAPES as BATCH_SHAPES
from botorch_risk_testing.laws import DTYPES as DTYPES
from botorch_risk_testing.laws import Laws
from gpytorch.kernels import ScaleKernel

from botorch_risk.models import MeanVarianceGP
from tests.devices import home


def every_law(laws: Laws, cases: Iterable[Any]) -> Any:
    r"""Each case with each law that applies, as parameters `case` and `law` of a test.

    Args:
        laws: Of `botorch_risk_testing`.
        cases: Of one kind, or parameters of pytest with marks.
    """
    of_pytest = type(pytest.param())
    rows = [each if isinstance(each, of_pytest) else pytest.param(each) for each in cases]
    pairs = [(*row.values, law, row.marks) for row in rows for law in laws]
    return pytest.mark.parametrize(
        ("case", "law"),
        [
            pytest.param(case, law, id=f"{case.name}-{law.name}", marks=marks)
            for case, law, marks in pairs
            if law.applies(case)
        ],
    )


def at_home(case: Any, **changes: Any) -> Any:
    r"""A case on the device of the test."""
    return replace(case, device=home(), **changes)


def repeated_data(*args: Any, **options: Any) -> RepeatedData:
    r"""Readings on the device of the test."""
    return RepeatedData.make(*args, device=home(), **options)


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


def of_decision_and_context(data: RepeatedData) -> SingleTaskGP:
    r"""A model of both columns and of a context that each row happened to meet."""
    inputs = torch.cat([data.X, data.X.flip(-2)[..., :1]], dim=-1)
    return gaussian_process(inputs, data.Y.mean(dim=-1, keepdim=True))
