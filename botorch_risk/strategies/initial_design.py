r"""Points without a model: the initial design that strategies share, and random ones."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from botorch_risk.arguments import as_floating, check_arguments, check_counts
from botorch_risk.seeding import as_seeds, derive_seed, generators, sobol_points


def initial_design(bounds: Tensor, seeds: int | Sequence[int], num_points: int) -> Tensor:
    r"""Scrambled Sobol points, a pure function of each replicate's seed.

    Args:
        bounds: The lower and the upper bounds of the box, `2 x d`.
        seeds: One seed per replicate.
        num_points: The number of points.

    Returns:
        An `R x num_points x d` tensor in the units, dtype and device of `bounds`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `num_points` is not positive or a seed repeats.

    Example:
        >>> bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
        >>> design = initial_design(bounds, seeds=[0, 1], num_points=4)
        >>> torch.equal(design[1:], initial_design(bounds, seeds=1, num_points=4))
        True
    """
    check_arguments(initial_design, locals())
    check_counts(num_points=num_points)
    bounds = as_floating(bounds, "bounds")
    streams = [derive_seed(seed, "initial design") for seed in as_seeds(seeds)]
    unit = torch.stack([sobol_points(stream, num_points, bounds.shape[-1]) for stream in streams])
    lower, upper = bounds.cpu().double()
    return (lower + (upper - lower) * unit).to(bounds)


def uniform_points(
    bounds: Tensor, seeds: int | Sequence[int], num_points: int, *stream: int | str
) -> Tensor:
    r"""Independent uniform points, a pure function of each replicate's seed and the stream.

    Args:
        bounds: The lower and the upper bounds of the box, `2 x d`.
        seeds: One seed per replicate.
        num_points: The number of points.
        stream: Integers and words that name the draw.

    Returns:
        An `R x num_points x d` tensor in the units, dtype and device of `bounds`.
    """
    shape, dtype = (num_points, bounds.shape[-1]), bounds.dtype
    streams = generators(seeds, *stream)
    unit = torch.stack([torch.rand(shape, dtype=dtype, generator=g) for g in streams])
    lower, upper = bounds
    return lower + (upper - lower) * unit.to(bounds)
