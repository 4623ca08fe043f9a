r"""The true optimum of a smooth function on a box, for problems of few inputs."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

GRID_SIZE = 2**18  # points of the grid, whatever the dimension
NUM_STARTS = 16
START_DISTANCE = 0.05  # between two starts in any one input, as a fraction of its range


def local_maxima(
    function: Callable[[Tensor], Tensor], bounds: Sequence[tuple[float, float]]
) -> tuple[Tensor, Tensor]:
    r"""Climb with L-BFGS-B from the best points of a dense grid that lie apart.

    Deterministic and in float64. The grid resolves up to three inputs well.

    Args:
        function: Differentiable, from points `n x d` to values `n`.
        bounds: Lower and upper bound of each of the `d` inputs.

    Returns:
        The points, `n x d`, and their values, `n`, best first. Several starts may have
        reached the same point.
    """
    X = torch.stack([_climb(function, start, bounds) for start in _starts(function, bounds)])
    values = function(X)
    order = values.argsort(descending=True, stable=True)
    return X[order], values[order]


def _starts(
    function: Callable[[Tensor], Tensor], bounds: Sequence[tuple[float, float]]
) -> list[Tensor]:
    r"""The best point of a grid, the best one apart from it, and so on; each a `d`-tensor."""
    size = round(GRID_SIZE ** (1 / len(bounds)))
    axes = [torch.linspace(lower, upper, size, dtype=torch.double) for lower, upper in bounds]
    grid = torch.cartesian_prod(*axes).view(-1, len(bounds))
    reach = START_DISTANCE * (grid.amax(dim=0) - grid.amin(dim=0))
    values = function(grid)
    starts: list[Tensor] = []
    while len(starts) < NUM_STARTS and values.max() > -torch.inf:
        starts.append(grid[values.argmax()])
        values[((grid - starts[-1]).abs() < reach).all(dim=-1)] = -torch.inf
    return starts


def _climb(
    function: Callable[[Tensor], Tensor], start: Tensor, bounds: Sequence[tuple[float, float]]
) -> Tensor:
    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        X = torch.from_numpy(x).unsqueeze(0).requires_grad_()  # 1 x d
        value = -function(X).sum()
        (gradient,) = torch.autograd.grad(value, X)
        return value.item(), gradient.squeeze(0).numpy()

    options = {"ftol": 1e-16, "gtol": 1e-10}
    found = minimize(
        loss, start.numpy(), jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    return torch.from_numpy(found.x)
