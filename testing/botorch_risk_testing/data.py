r"""Data and models that laws build parts from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from botorch.models import SingleTaskGP
from torch import Tensor

from botorch_risk.models import MeanVarianceGP

BOUNDS = [[0.0, 0.0], [1.0, 1.0]]


@dataclass(frozen=True)
class RepeatedData:
    r"""Inputs in the unit square, and repeats of the readings there.

    Args:
        X: `batch_shape x n x 2`.
        Y: `batch_shape x n x k`.
    """

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
        device: torch.device | str = "cpu",
    ) -> RepeatedData:
        r"""Readings of a smooth function, with more noise where the first input is large."""
        generator = torch.Generator().manual_seed(seed)
        X = torch.rand(*batch_shape, num_rows, 2, generator=generator, dtype=torch.float64)
        noise = torch.randn(
            *batch_shape, num_rows, num_repeats, generator=generator, dtype=torch.float64
        )
        Y = (4 * X).sin().sum(dim=-1, keepdim=True) + (0.2 + X[..., :1]) * noise
        return cls(X.to(device, dtype), Y.to(device, dtype))

    @property
    def means(self) -> Tensor:
        r"""`batch_shape x n x 1`."""
        return self.Y.mean(dim=-1, keepdim=True)

    def cpu(self) -> RepeatedData:
        r"""The same where an oracle computes."""
        return RepeatedData(self.X.cpu(), self.Y.cpu())

    def __getitem__(self, index: tuple[int, ...]) -> RepeatedData:
        return RepeatedData(self.X[index], self.Y[index])


def gaussian_process(X: Tensor, Y: Tensor | None = None) -> SingleTaskGP:
    r"""An unfitted model with hyperparameters that differ between replicates.

    Args:
        X: `batch_shape x n x d`.
        Y: `batch_shape x n x 1`; by default those of a smooth function.
    """
    model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True) if Y is None else Y)
    batch, d = X.shape[:-2], X.shape[-1]
    offset = torch.arange(batch.numel(), dtype=X.dtype).reshape(*batch, 1, 1) / 10
    model.covar_module.lengthscale = (0.4 + offset).expand(*batch, 1, d).to(X)
    model.likelihood.noise = 1e-2
    return model.eval()


def of_decision(data: RepeatedData) -> SingleTaskGP:
    r"""A model of the mean readings."""
    return gaussian_process(data.X, data.means)


def replicate(
    make: Callable[[RepeatedData], Any], together: Any, data: RepeatedData, index: tuple[int, ...]
) -> Any:
    r"""The model of one entry of a batch, with the hyperparameters of that entry."""
    alone = make(data[index])
    for one, many in zip(alone.parameters(), together.parameters(), strict=True):
        one.data.copy_(many[index])
    refresh(alone)
    return alone


def refresh(model: Any) -> None:
    r"""Recompute a model's caches after its hyperparameters were written."""
    model.train().eval()
    if isinstance(model, MeanVarianceGP):
        model.refresh_noise()
