r"""Points of the unit cube from which distributions are built, and nodes of a quadrature."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Generator, Tensor

from botorch_risk.arguments import check_counts
from botorch_risk.seeding import Draws, as_seeds, is_one_seed, sobol_points_of_each, streams

SOBOL_RESOLUTION = 2.0**-30  # of torch's engine
UNRESOLVED = 1e-3  # how far from 1 a quadrature may find the whole probability


def draw_uniforms(shape: tuple[int, ...], generator: Generator | Sequence[Generator]) -> Tensor:
    r"""Independent uniform numbers in (0, 1), in float64 on the CPU.

    The result has the given `shape`, or `R x shape` with one generator for each replicate.
    """
    if isinstance(generator, Generator):
        tiny = torch.finfo(torch.double).eps / 4  # rand draws [0, 1)
        return torch.rand(shape, generator=generator, dtype=torch.double).clamp_min(tiny)
    return torch.stack([draw_uniforms(shape, each) for each in generator])


def seeded_uniforms(
    n: int, dim: int, seeds: int | Sequence[int], stream: str, quasi: bool = True
) -> Tensor:
    r"""Uniform points in the open unit cube, each replicate's a function of its own seed.

    Scrambled Sobol points, best a power of 2, or independent ones: `n x dim`, or `R x n x dim` for
    a sequence of seeds; float64 on the CPU. `stream` names the purpose of the points.
    """
    check_counts(n=n)
    listed = as_seeds(seeds)
    if quasi:  # off 0, where quantiles may be infinite
        drawn = sobol_points_of_each(streams(listed, stream), n, dim) + SOBOL_RESOLUTION / 2
    else:
        drawn = torch.as_tensor(Draws(listed, stream).uniforms(n, dim))
    return drawn[0] if is_one_seed(seeds) else drawn


def tensor_grid(axes: Sequence[Tensor]) -> Tensor:
    r"""Every combination of the entries of `d` vectors, one per row, the last varying fastest."""
    return torch.cartesian_prod(*axes).reshape(-1, len(axes))


def points_per_axis(n: int, dim: int) -> int:
    r"""The points per axis of a grid of `n` points, which must be a `dim`-th power."""
    check_counts(n=n)
    size = round(n ** (1 / dim))
    if size**dim != n:
        raise ValueError(
            f"Expected a number of points that fills a grid of {dim} axes. "
            f"Got {n}; {size**dim} would."
        )
    return size


@lru_cache
def _legendre(n: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Nodes and weights on [-1, 1]; a thousand take a tenth of a second."""
    return np.polynomial.legendre.leggauss(n)


def legendre_axes(bounds: Tensor, n: int) -> tuple[Tensor, Tensor]:
    r"""Nodes and weights of Gauss and Legendre in each dimension of a box, `n x d_w` each.

    They are in float64. The weights of an axis sum to its length.
    """
    check_counts(n=n)
    nodes, weights = (torch.tensor(array).to(bounds.device).unsqueeze(-1) for array in _legendre(n))
    lower, upper = bounds.double()
    return lower + (upper - lower) * (nodes + 1) / 2, (upper - lower) * weights / 2


def normalized(masses: Tensor) -> Tensor:
    r"""Masses divided by their sum over the last dimension, which has to be near 1."""
    total = masses.sum(dim=-1, keepdim=True)
    if not ((total - 1).abs() < UNRESOLVED).all():
        worst = total.flatten()[(total - 1).abs().argmax()].item()
        raise ValueError(
            "Expected enough nodes for the quadrature to resolve the density. "
            f"Got {masses.shape[-1]} nodes with a sum of {worst}; use more nodes or another rule."
        )
    return masses / total


def box_points(bounds: Tensor, n: int, seeds: int | Sequence[int]) -> Tensor:
    r"""Scrambled Sobol points over a box, `(R x) n x d_w`: where a ball may put mass."""
    uniforms = seeded_uniforms(n, bounds.shape[-1], seeds, "ball").to(bounds)
    return bounds[0] + (bounds[1] - bounds[0]) * uniforms


def checked_seeds(seeds: int | Sequence[int] | None, purpose: str) -> int | Sequence[int]:
    r"""The seeds; raises ValueError if they are None although something is to be drawn."""
    if seeds is None:
        raise ValueError(f"Expected `seeds` for {purpose}. Got {seeds=}.")
    return seeds
