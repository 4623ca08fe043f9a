r"""Begin the fit of a large data set on a subset of its points.

An evaluation takes n^3 operations, and a fit spends most of its evaluations on the way from a start
that ignores the data to the neighbourhood of an optimum. For that, 400 points are enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from botorch_risk.engine.fit.objective import MarginalLikelihoodObjective
from botorch_risk.engine.fit.parameters import ExactGPParts, Units
from botorch_risk.engine.fit.starts import Starts
from botorch_risk.engine.projected_bfgs.minima import Minima, RowStatus
from botorch_risk.matrices import squared_differences
from botorch_risk.seeding import derive_seed

# The points of the first fit, and the fewest of which some are fitted first. With 300, not 400, two
# of 44 fits to 1,000 points ended lower than from all points at once, with 400 none did, in 15 %
# more time.
FEWEST, LEAST_TO_DIVIDE = 400, 800
# The most by which the number of points grows from one fit to the next.
LARGEST_GROWTH = 4.0
# Minima that are this near each other, in every coordinate, are one.
SAME = 0.1
# How much larger a noise may be than the variance between neighbours, whose standard error is 6 %
# with 800 points.
DOUBTFUL = 1.1
# A noise whose logarithm is this near its lower bound is as good as 0. Few points often end there
# although all points have noise: few of them are close neighbours, which tell the noise. From such
# an end an ascent on the portfolio's 1,024 back-tests did not come back.
NO_NOISE = math.log(10.0)
# Rows of a matrix of distances.
_ROWS = 64


def begun_on_fewer_points(
    parts: ExactGPParts,
    units: Units,
    first: Starts,
    minimize: Callable[[MarginalLikelihoodObjective, Starts], Minima],
) -> Starts:
    r"""The starts of a fit to many points: the optima of fits to subsets of them."""
    sizes, starts = sizes_of_first_fits(parts.X), first
    if sizes:
        between = variance_between_neighbours(in_unit_ranges(parts.X, units.extent), parts.Y)
    for size in sizes:
        fewer = on_fewer_points(parts, units.extent, size)
        objective = MarginalLikelihoodObjective(fewer, units=units)
        minima = minimize(objective, starts)
        doubtful = takes_function_for_noise(objective, starts, minima, between)
        starts = distinct(starts, minima)
        if doubtful.any():
            starts = starts.followed_by(first.of(doubtful))
        unknown = with_noise_of_the_start(objective, starts, first)
        if unknown is not None:
            starts = starts.followed_by(unknown)
    return starts


def sizes_of_first_fits(X: Tensor) -> list[int]:
    r"""The numbers of the points `R x n x d` in the fits before the last one."""
    n = X.shape[-2]
    # Not measured on a GPU, where an evaluation of few points takes about as long as of many.
    if X.device.type != "cpu" or n < LEAST_TO_DIVIDE:
        return []
    count = math.ceil(math.log(n / FEWEST, LARGEST_GROWTH))
    return [round(FEWEST * (n / FEWEST) ** (k / count)) for k in range(count)]


def on_fewer_points(parts: ExactGPParts, extent: ndarray, size: int) -> ExactGPParts:
    r"""The parts of a model with a subset of its points, chosen by the inputs alone."""
    index = choose(in_unit_ranges(parts.X, extent), size)
    noise = parts.fixed_noise
    return replace(
        parts,
        X=parts.X.gather(-2, index.unsqueeze(-1).expand(*index.shape, parts.X.shape[-1])),
        Y=parts.Y.gather(-1, index),
        fixed_noise=None if noise is None else noise.gather(-1, index),
    )


def in_unit_ranges(X: Tensor, extent: ndarray) -> Tensor:
    r"""Inputs `R x n x d` divided by their ranges, `R x d`."""
    return X / torch.as_tensor(extent).to(X).unsqueeze(-2)


def choose(X: Tensor, size: int) -> Tensor:
    r"""Choose points of `R x n x d`: half are neighbours of one of them, and half are random.

    Random points lie far apart, so a fast-varying function looks like noise. Neighbours are as
    close to each other as in the full data, but say little about long lengthscales. Returns the
    rows of the chosen points, `R x size`, each once.
    """
    n = X.shape[-2]
    order = np.random.default_rng(derive_seed(0, "points of a first fit")).permutation(n)
    shuffled = X[..., order, :]
    distance = (shuffled - shuffled[..., :1, :]).square().sum(-1)
    # Stable, so that points at one distance are chosen by their rows.
    near = distance.argsort(dim=-1, stable=True)[..., : size // 2]
    is_near = torch.zeros_like(distance, dtype=torch.bool).scatter_(-1, near, True)
    others = is_near.to(torch.uint8).argsort(dim=-1, stable=True)[..., : size - size // 2]
    return torch.as_tensor(order, device=X.device)[torch.cat([near, others], dim=-1)]


def distinct(starts: Starts, minima: Minima) -> Starts:
    r"""The distinct minima of a fit, as the starts of the next one."""
    kept = minima.status != RowStatus.OVERTAKEN
    replicates = starts.rows % starts.num_replicates
    for row in np.argsort(minima.value, kind="stable"):  # NaN last
        if kept[row]:
            near = np.abs(minima.x - minima.x[row]).max(axis=1, initial=0.0) <= SAME
            near &= replicates == replicates[row]
            near[row] = False
            kept &= ~near
    return starts._replace(theta=minima.x[kept], rows=starts.rows[kept], metric=minima.metric[kept])


def with_noise_of_the_start(
    objective: MarginalLikelihoodObjective, starts: Starts, first: Starts
) -> Starts | None:
    r"""Copies of those starts that have no noise, with the noise of the first start; or None."""
    lower, _ = objective.bounds(starts.rows)  # minus infinity where there is no bound
    for one, slice_ in zip(objective.moved, objective.slices, strict=True):
        if one.name == "noise":
            near = (starts.theta[:, slice_] - lower[:, slice_] <= NO_NOISE).all(axis=1)
            if near.any():
                theta = starts.theta[near]
                replicates = starts.rows[near] % starts.num_replicates
                theta[:, slice_] = first.theta[replicates, slice_]
                return Starts(theta, starts.rows[near], starts.num_replicates)
    return None


def variance_between_neighbours(X: Tensor, Y: Tensor) -> ndarray:
    r"""Half the mean squared difference between targets `R x n` and nearest ones, `R`.

    It is the variance of the noise plus the variance of the function between neighbours.
    """
    nearest = []
    for first in range(0, X.shape[-2], _ROWS):
        rows = X[..., first : first + _ROWS, :]
        distance = squared_differences(rows, X)
        distance.diagonal(first, dim1=-2, dim2=-1).fill_(torch.inf)  # of a point to itself
        nearest.append(distance.argmin(dim=-1))
    apart = Y - Y.gather(-1, torch.cat(nearest, dim=-1))
    found: ndarray = apart.square().mean(dim=-1).div(2).double().cpu().numpy()
    return found


def takes_function_for_noise(
    objective: MarginalLikelihoodObjective, starts: Starts, minima: Minima, between: ndarray
) -> ndarray:
    r"""The replicates whose noise at the best minimum is too large, a mask `R`.

    On few points, a fast-varying function looks like noise. The fit to all points then has to start
    elsewhere. `between` is the variance between neighbours.
    """
    doubtful = np.zeros(starts.num_replicates, dtype=bool)
    replicates = starts.rows % starts.num_replicates
    natural, _ = objective.natural(minima.x, replicates)
    for one, slice_ in zip(objective.moved, objective.slices, strict=True):
        if one.name == "noise":
            # From the highest value to the lowest, so that this is what remains.
            order = np.argsort(-minima.value, kind="stable")
            noise = natural[order, slice_.start]
            doubtful[replicates[order]] = noise > DOUBTFUL * between[replicates[order]]
    return doubtful
