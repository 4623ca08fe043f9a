r"""Search among decisions whose categories are several columns of the model's inputs."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction, OneShotAcquisitionFunction
from botorch.optim import optimize_acqf_mixed_alternating
from botorch.utils.sampling import manual_seed
from torch import Tensor
from torch.quasirandom import SobolEngine

from botorch_risk.acquisition.pointwise import PointwiseAcquisitionFunction
from botorch_risk.acquisition.spacing import KeptApart
from botorch_risk.engine import PointwiseAcquisition

# Decisions at which the range of an acquisition function of BoTorch is computed.
_NUM_REFERENCES = 64


class AcquisitionOfDecisions(AcquisitionFunction):
    r"""An acquisition function of encoded points, made one of decisions.

    A model of one-hot columns cannot be searched column by column, as exactly one of a category's
    columns is 1.

    Args:
        acqf: An acquisition function of encoded points. Its pending points stay pending.
        encode: Maps decisions `... x d` to encoded points. Default: they are the decisions.
    """

    def __init__(self, acqf: Any, encode: Callable[[Tensor], Tensor] = lambda X: X) -> None:
        super().__init__(model=acqf.model)
        self.acqf, self.encode = acqf, encode
        self._before: Tensor | None = None
        if "X_pending" in dir(acqf):  # it takes pending points
            self._before = acqf.X_pending
            super().set_X_pending(None)

    def evaluate(self, X: Tensor) -> Tensor:
        r"""Values `batch_shape x m` of decisions `batch_shape x m x d`, each by itself."""
        inputs = self.encode(X)
        if isinstance(self.acqf, PointwiseAcquisition):
            return self.acqf.evaluate(inputs)
        values: Tensor = self.acqf(inputs.movedim(-2, 0).unsqueeze(-2))
        return values.movedim(0, -1)

    def forward(self, X: Tensor) -> Tensor:
        r"""Values of decisions `batch_shape x q x d`, for BoTorch's optimisers."""
        values: Tensor = self.acqf(self.encode(X))
        return values

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        r"""Add pending decisions to earlier ones; None keeps only the earlier ones."""
        super().set_X_pending(X_pending)
        pending = self._before
        if X_pending is not None:
            pending = self.encode(X_pending)
            if self._before is not None:
                before = self._before.expand(*pending.shape[:-2], *self._before.shape[-2:])
                pending = torch.cat([before, pending], dim=-2)
        self.acqf.set_X_pending(pending)


def kept_apart(
    acqf: Any, X: Tensor | None, scaled: Callable[[Tensor], Tensor], bounds: Tensor
) -> AcquisitionFunction:
    r"""One of BoTorch's acquisition functions, with the minimum distance of this package's own.

    This package's own are returned unchanged, as are those that optimise fantasies with a point.

    Args:
        acqf: An acquisition function that takes pending points.
        X: Its pending decisions, `p x d`, or None.
        scaled: Maps decisions to the unit cube.
    """
    if isinstance(acqf, PointwiseAcquisitionFunction | OneShotAcquisitionFunction):
        return acqf
    lower, upper = bounds
    d = len(lower)
    references = SobolEngine(d).draw(_NUM_REFERENCES, dtype=torch.double).to(bounds)
    radius = PointwiseAcquisitionFunction.min_distance * d**0.5
    return KeptApart(acqf, X, scaled, lower + (upper - lower) * references, radius)


def maximize_by_botorch(
    acqf: AcquisitionFunction, box: Any, seed: int, q: int = 1, **options: Any
) -> Tensor:
    r"""Decisions `q x d` by BoTorch's `optimize_acqf_mixed_alternating`, a function of the seed.

    Args:
        acqf: An acquisition function of decisions, for one replicate.
        box: A `Box` with integers or categories.
        seed: A seed of 31 bits.
    """
    before = random.getstate()  # BoTorch draws among many categories by Python's generator
    random.seed(seed)
    try:
        with manual_seed(seed):
            X, _ = optimize_acqf_mixed_alternating(
                acqf, box.bounds, box.discrete_dims, box.cat_dims, q=q, **options
            )
    finally:
        random.setstate(before)
    return X


def decoded(X: Tensor, cat_dims: Mapping[int, Sequence[float]], num_columns: int) -> Tensor:
    r"""One column, from 0 to 1, instead of the one-hot columns of a category.

    Args:
        X: Encoded points, `... x d'`.

    Returns:
        Points of the unit cube, `... x d`, the values of a category evenly spaced.
    """
    columns, first = [], 0
    for column in range(num_columns):
        count = len(cat_dims.get(column, (0,)))
        part = X[..., first : first + count]
        if column in cat_dims:
            part = part.argmax(dim=-1, keepdim=True).to(X) / (count - 1)
        columns.append(part)
        first += count
    return torch.cat(columns, dim=-1)
