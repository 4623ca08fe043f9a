r"""Hyperparameters under the marginal likelihood of the data and of pseudo-data, side by side."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import NamedTuple

from botorch.models import SingleTaskGP
from torch import Tensor

from botorch_risk.fit.exact_gp import fit_exact_gp
from botorch_risk.fit.parameters import read_exact_gp
from botorch_risk.fit.pseudo_data import fit_pseudo_data


class Estimates(NamedTuple):
    r"""One hyperparameter under both losses.

    Args:
        ordinary: Fitted to the data, `batch_shape x k`.
        pseudo_data: Fitted to pseudo-data, `batch_shape x k`.

    Example:
        >>> import torch
        >>> X = torch.linspace(0, 1, 8, dtype=torch.double).unsqueeze(-1) ** 3  # most near 0
        >>> bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> table = compare_losses(SingleTaskGP(X, (9 * X).sin()), bounds, seeds=0)
        >>> ordinary, pseudo_data = table["lengthscale"]
        >>> bool(ordinary > pseudo_data)  # outcomes of the nearest data make steps
        True
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

    The loss of pseudo-data is in Eq. (2) of [Ha2023uhe]_.

    Args:
        model: A model that the closed form knows; it is not changed.
        bounds: The bounds of its inputs, `2 x d`.
        num_pseudo: The number of pseudo-points; twice the number of inputs if omitted.
        seeds: One seed for each replicate, the batch flattened.

    Returns:
        From the names of the hyperparameters, such as `lengthscale` and `noise`, to their estimates
        in the units that the model sees.

    Raises:
        UnsupportedError: In `torch.inference_mode`, or if the closed form does not know the model.
        ValueError: If there are fewer pseudo-points than inputs that differ, `bounds` is no box, or
            there are not as many seeds as replicates.

    Example:
        >>> import torch
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


def _natural(model: SingleTaskGP) -> dict[str, Tensor]:
    parts = read_exact_gp(model.train())
    model.eval()
    return {
        one.name: one.natural.detach().reshape(*parts.batch_shape, -1)
        for one in parts.hyperparameters
    }
