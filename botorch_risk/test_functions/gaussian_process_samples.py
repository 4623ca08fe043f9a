r"""Functions drawn from a Gaussian process, one per seed, with their true maxima."""

from collections.abc import Sequence

import numpy as np
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from torch import Tensor

from botorch_risk.arguments import check_counts, check_positive
from botorch_risk.engine import minimize_rows
from botorch_risk.seeding import as_seeds, generators, is_one_seed
from botorch_risk.test_functions.finite_domain import FiniteDomainProblem, unit_grid

LENGTHSCALE = 0.1
JITTER = 1e-6
NUM_STARTS = 16
_SEARCH_SIDE = 161  # sixteen points a lengthscale


class GaussianProcessSample(FiniteDomainProblem):
    r"""A draw from a GP with a squared exponential kernel of variance 1, on a grid of [0, 1]^2.

    It is the function of the experiment on noise levels in Sec. 4 of [Bogunovic2016truvar]_, on 50
    x 50 points with lengthscale 0.1. The kernel is a product over the inputs, so the draw is exact
    up to rounding and fast.

    Args:
        seeds: An integer for one function, `values: |D|`; or one seed for each of `R`
            replicates, `values: R x |D|`.
        noise: As in `FiniteDomainProblem`.
        side: The number of grid points along an input, >= 2.
        lengthscale: The kernel's lengthscale, > 0.

    Raises:
        ValueError: If `side`, `lengthscale` or a noise variance is out of its range, or a seed
            repeats.
    """

    def __init__(
        self,
        seeds: int | Sequence[int],
        noise: float | Sequence[float] = 0.0,
        side: int = 50,
        lengthscale: float = LENGTHSCALE,
    ) -> None:
        check_counts(2, side=side)
        check_positive(lengthscale=lengthscale)
        axis = torch.linspace(0, 1, side, dtype=torch.double)
        eigenvalues, vectors = torch.linalg.eigh(_bumps(axis, axis, lengthscale))
        root = (vectors * eigenvalues.clamp_min(0).sqrt()) @ vectors.T
        draws = [
            root @ torch.randn(side, side, generator=generator, dtype=torch.double) @ root
            for generator in generators(seeds, "gaussian process sample")
        ]
        values = torch.stack(draws).flatten(start_dim=1)  # R x |D|
        super().__init__(unit_grid(side), values[0] if is_one_seed(seeds) else values, noise)


class PosteriorMeanFunctions:
    r"""Smooth functions on [0, 1]^2: posterior means of a GP given 200 of its values.

    These are the synthetic functions for optimisation in Sec. 4 of [Bogunovic2016truvar]_: 200
    uniformly random points, with values drawn from a GP with a squared exponential kernel of
    lengthscale 0.1 and variance 1. The experiment's noise variance, 1e-6, is added to the diagonal
    of the kernel matrix, which would otherwise be singular for close points. The maxima are found
    by a dense grid and ascent from it.

    Attributes:
        centers: `R x n x 2` points.
        weights: `R x n`; `f(x) = sum_i weights_i k(x, centers_i)`.
        maximum: `R` global maxima over the square.
        maximizer: `R x 2`, the points of the maxima.

    Raises:
        ValueError: If a seed is not an integer or is repeated, or a number is out of its range.
    """

    def __init__(
        self, seeds: int | Sequence[int], num_centers: int = 200, lengthscale: float = LENGTHSCALE
    ) -> None:
        check_counts(num_centers=num_centers)
        check_positive(lengthscale=lengthscale)
        self.lengthscale, listed = lengthscale, as_seeds(seeds)
        streams = generators(listed, "posterior mean function")
        self.centers = torch.stack(
            [torch.rand(num_centers, 2, generator=each, dtype=torch.double) for each in streams]
        )
        draws = torch.stack(
            [torch.randn(num_centers, 1, generator=each, dtype=torch.double) for each in streams]
        )
        gram = _kernel(self.centers, self.centers, lengthscale)
        gram.diagonal(dim1=-2, dim2=-1).add_(JITTER)
        factor = torch.linalg.cholesky(gram)
        # The values are L z, so that K^-1 L z = L^-T z.
        weights = torch.linalg.solve_triangular(factor.mT, draws, upper=True)
        self.weights = weights.squeeze(-1)
        self.maximizer, self.maximum = self._maxima()

    def __call__(self, X: Tensor) -> Tensor:
        r"""The values at `R x m x 2` points, `R x m`.

        Raises:
            BotorchTensorDimensionError: If `X` has another shape.
        """
        if X.dim() != 3 or len(X) != len(self.weights) or X.shape[-1] != 2:
            raise BotorchTensorDimensionError(
                f"Expected `X` to have shape `{len(self.weights)} x m x 2`. Got {X.shape=}."
            )
        kernel = _kernel(X, self.centers.to(X), self.lengthscale)
        return (kernel @ self.weights.to(X).unsqueeze(-1)).squeeze(-1)

    def on_grid(
        self, side: int = 50, noise: float | Sequence[float] = JITTER
    ) -> FiniteDomainProblem:
        r"""The functions' values on a uniform grid, the largest of which is below `maximum`."""
        return FiniteDomainProblem(unit_grid(side), self._grid_values(side), noise)

    def _grid_values(self, side: int) -> Tensor:
        r"""`R x side^2` values; the kernel is a product over the inputs."""
        axis = torch.linspace(0, 1, side, dtype=torch.double)
        first, second = (
            _bumps(axis, self.centers[..., i], self.lengthscale) for i in range(2)
        )  # R x side x n
        return ((first * self.weights.unsqueeze(-2)) @ second.mT).flatten(start_dim=-2)

    def _maxima(self) -> tuple[Tensor, Tensor]:
        r"""Ascend from the highest local maxima of a grid, all at once."""
        height = self._grid_values(_SEARCH_SIDE).unflatten(-1, (_SEARCH_SIDE, _SEARCH_SIDE))
        around = torch.nn.functional.max_pool2d(height, kernel_size=3, stride=1, padding=1)
        peaks = height.where(height == around, -torch.inf).flatten(start_dim=-2)
        starts = unit_grid(_SEARCH_SIDE)[peaks.topk(NUM_STARTS).indices]  # R x s x 2
        owner = np.arange(len(starts)).repeat(NUM_STARTS)

        def loss(x: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            points, mine = torch.from_numpy(x), torch.from_numpy(owner[rows])
            offset = points.unsqueeze(-2) - self.centers[mine]  # rows x n x 2
            bump = torch.exp(-0.5 * (offset / self.lengthscale).square().sum(-1))
            bump = bump * self.weights[mine]
            slope = (bump.unsqueeze(-1) * offset).sum(dim=-2) / self.lengthscale**2
            return -bump.sum(dim=-1).numpy(), slope.numpy()

        found = minimize_rows(
            loss,
            starts.flatten(end_dim=-2).numpy(),
            np.zeros(2),
            np.ones(2),
            gradient_tolerance=1e-9,
            relative_tolerance=1e-15,
            max_step=0.02,
        )
        maxima = torch.from_numpy(found.x).reshape(starts.shape)
        value, best = torch.from_numpy(-found.value).reshape(starts.shape[:-1]).max(dim=-1)
        return maxima[torch.arange(len(starts)), best], value


def _bumps(a: Tensor, b: Tensor, lengthscale: float) -> Tensor:
    r"""The kernel of one input, `... x m x n`."""
    return torch.exp(-0.5 * ((a.unsqueeze(-1) - b.unsqueeze(-2)) / lengthscale).square())


def _kernel(X: Tensor, centers: Tensor, lengthscale: float) -> Tensor:
    return _bumps(X[..., 0], centers[..., 0], lengthscale) * _bumps(
        X[..., 1], centers[..., 1], lengthscale
    )
