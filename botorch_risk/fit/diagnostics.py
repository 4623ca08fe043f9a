r"""Diagnostics of hyperparameters: both losses side by side, and calibration on held-out values."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.fit.exact_gp import fit_exact_gp
from botorch_risk.fit.parameters import read_exact_gp
from botorch_risk.fit.pseudo_data import fit_pseudo_data
from botorch_risk.posterior.marginals import MarginalPredictor
from botorch_risk.seeding import generators


class Estimates(NamedTuple):
    r"""One hyperparameter under both losses.

    Args:
        ordinary: Fitted to the data, `batch_shape x k`.
        pseudo_data: Fitted to pseudo-data, `batch_shape x k`.
    """

    ordinary: Tensor
    pseudo_data: Tensor


def compare_losses(
    model: SingleTaskGP,
    bounds: Tensor,
    num_pseudo: int | None = None,
    *,
    seeds: int | Sequence[int],
) -> dict[str, Estimates]:
    r"""Fits copies of a model to its data and to pseudo-data.

    Args:
        model: A model that the closed form knows; it is not changed.
        bounds: The bounds of its inputs, `2 x d`.
        num_pseudo: The number of pseudo-points; twice the number of inputs if omitted.
        seeds: One seed for each replicate, the batch flattened.

    Returns:
        From the names of the hyperparameters, such as `lengthscale` and `noise`, to their estimates
        in the units that the model sees.

    Example:
        >>> X = torch.rand(12, 1, dtype=torch.double)
        >>> bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> table = compare_losses(SingleTaskGP(X, (6 * X).sin()), bounds, seeds=0)
        >>> list(table), table["lengthscale"].pseudo_data.shape
        (['lengthscale', 'noise', 'constant'], torch.Size([1]))
    """
    ordinary, pseudo = copy.deepcopy(model), copy.deepcopy(model)
    fit_exact_gp(ordinary)
    fit_pseudo_data(pseudo, bounds, num_pseudo, seeds=seeds)
    first, second = _natural(ordinary), _natural(pseudo)
    return {name: Estimates(first[name], second[name]) for name in first}


class Calibration(NamedTuple):
    r"""How a model's predictions of held-out values compare with the truth.

    Args:
        levels: Probabilities of central intervals, `L`.
        coverage: The share of held-out values within each, `batch_shape x L`.
        root_mean_square: Root mean square of `(f - mean) / standard deviation`, `batch_shape`:
            above 1 where the model is too sure of itself.
        error: Root mean square error of the mean, `batch_shape`.
    """

    levels: Tensor
    coverage: Tensor
    root_mean_square: Tensor
    error: Tensor


def calibration(
    model: Model,
    function: Callable[[Tensor], Tensor],
    bounds: Tensor,
    *,
    seeds: int | Sequence[int],
    num_points: int = 1000,
    levels: Sequence[float] = (0.5, 0.8, 0.95),
) -> Calibration:
    r"""Compares a model's posterior of f with f at uniform points of the domain.

    Args:
        model: A fitted model with one output, of batch shape `[R]` or of none.
        function: f without noise, from points `... x d` to values `...`.
        bounds: The bounds of the domain, `2 x d`, in the units of the model's inputs.
        seeds: One seed for each replicate, which has points of its own.
        num_points: Held-out points for each replicate.
        levels: Probabilities of central intervals.

    Example:
        >>> X = torch.rand(12, 1, dtype=torch.double)
        >>> model = SingleTaskGP(X, (6 * X).sin())
        >>> bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> calibration(model, lambda X: (6 * X[..., 0]).sin(), bounds, seeds=0).coverage.shape
        torch.Size([3])
    """
    d, dtype = bounds.shape[-1], bounds.dtype
    streams = generators(seeds, "calibration")
    unit = torch.stack([torch.rand(num_points, d, dtype=dtype, generator=g) for g in streams])
    X = bounds[0] + (bounds[1] - bounds[0]) * unit.to(bounds)
    X = X if model.batch_shape else X.squeeze(0)
    with torch.no_grad():
        mean, variance = MarginalPredictor(model)(X)
    z = (function(X) - mean) / variance.sqrt()
    probabilities = torch.as_tensor(levels, dtype=dtype, device=z.device)
    width = torch.special.ndtri((1 + probabilities) / 2)
    return Calibration(
        levels=probabilities,
        coverage=(z.abs().unsqueeze(-1) <= width).to(dtype).mean(dim=-2),
        root_mean_square=z.square().mean(dim=-1).sqrt(),
        error=(function(X) - mean).square().mean(dim=-1).sqrt(),
    )


def _natural(model: SingleTaskGP) -> dict[str, Tensor]:
    parts = read_exact_gp(model.train())
    model.eval()
    return {
        one.name: one.natural.detach().reshape(*parts.batch_shape, -1)
        for one in parts.hyperparameters
    }
