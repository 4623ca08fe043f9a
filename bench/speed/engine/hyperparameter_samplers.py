r"""Effective draws per second of four samplers of hyperparameters, on development data.

    python -m bench.speed.engine.hyperparameter_samplers

The data are readings at random on functions that no pair of the study has. All samplers evaluate
the same density in batches over 16 data sets, and begin at the same modes. The effective number of
draws is `1 / mean(((mean - reference) / deviation)^2)` over data sets, hyperparameters and three
runs; the reference is a run of importance sampling with 64 times as many draws.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from numpy.random import Generator

from bench.reproduction.tables import table
from botorch_risk.engine.sample import importance
from botorch_risk.engine.sample.hyperparameters import ExactLogPosterior
from botorch_risk.engine.sample.log_posterior import _at_modes
from botorch_risk.models import scaled_gp

NUM_DATA_SETS, RUNS = 16, 3
Sampler = Callable[[ExactLogPosterior, importance.Proposal, Generator], ndarray]


def data(d: int, n: int) -> ExactLogPosterior:
    r"""The density of readings of a wave and a saddle, with noise of 0.1."""
    generator = torch.Generator().manual_seed(d)
    X = torch.rand(NUM_DATA_SETS, n, d, generator=generator, dtype=torch.double)
    Y = (7 * X[..., :1]).sin() + 2 * X[..., -1:] * (X[..., :1] - 0.5)
    Y = Y + 0.1 * torch.randn(Y.shape, generator=generator, dtype=torch.double)
    model = scaled_gp(X.unsqueeze(0), Y.unsqueeze(0))
    model.train()
    return ExactLogPosterior.of_first_sample(model)


def by_importance(
    density: ExactLogPosterior, start: importance.Proposal, rng: Generator
) -> ndarray:
    r"""The weighted mean of 384 draws: the samples spread evenly over the weighted draws."""
    found = importance.sample_density(density.log_density, copied(start), 16, rng.spawn(16))
    return found.proposal.location


def by_evolution(density: ExactLogPosterior, start: importance.Proposal, rng: Generator) -> ndarray:
    r"""Differential evolution [TerBraak2006de]_ of 24 walkers, 160 steps; the last 60 count."""
    rows, half = np.arange(NUM_DATA_SETS), 12
    theta = started(start, 2 * half, rng)
    value, kept = density.log_density(theta, rows), []
    p = theta.shape[-1]
    for step in range(160):
        for first in (0, half):
            mine, other = slice(first, first + half), theta[half - first : 2 * half - first]
            a = rng.integers(half, size=(half, NUM_DATA_SETS))
            b = (a + rng.integers(1, half, size=a.shape)) % half
            scale = 1.0 if step % 10 == 9 else 2.38 / math.sqrt(2 * p)
            jump = np.take_along_axis(other, a[..., None], 0)
            jump = jump - np.take_along_axis(other, b[..., None], 0)
            moved = theta[mine] + scale * jump + 1e-3 * rng.standard_normal(jump.shape)
            accept(density, theta, value, mine, moved, rng)
        if step >= 100:
            kept.append(theta.copy())
    return np.concatenate(kept).mean(axis=0)


def by_slices(density: ExactLogPosterior, start: importance.Proposal, rng: Generator) -> ndarray:
    r"""Slices along each coordinate [Neal2003slice]_, 8 chains, 12 sweeps; the last 9 count."""
    rows, theta, kept = np.arange(NUM_DATA_SETS), started(start, 8, rng), []
    for sweep in range(12):
        for column in range(theta.shape[-1]):
            level = density.log_density(theta, rows) - rng.exponential(size=theta.shape[:2])
            width = 2 * np.sqrt(start.covariance[:, column, column])
            low = theta[..., column] - width * rng.random(theta.shape[:2])
            high = low + width
            for _ in range(12):  # shrink until all chains are inside
                moved = theta.copy()
                moved[..., column] = low + (high - low) * rng.random(low.shape)
                inside = density.log_density(moved, rows) >= level
                below = moved[..., column] < theta[..., column]
                low = np.where(~inside & below, moved[..., column], low)
                high = np.where(~inside & ~below, moved[..., column], high)
                theta = np.where(inside[..., None], moved, theta)
                low = np.where(inside, theta[..., column], low)
                high = np.where(inside, theta[..., column], high)
                if inside.all():
                    break
        if sweep >= 3:
            kept.append(theta.copy())
    return np.concatenate(kept).mean(axis=0)


def by_dynamics(density: ExactLogPosterior, start: importance.Proposal, rng: Generator) -> ndarray:
    r"""Hamiltonian steps of 8 chains, 8 leapfrogs each, 24 steps; the last 18 count."""
    rows, theta, kept = np.arange(NUM_DATA_SETS), started(start, 8, rng), []
    root = np.linalg.cholesky(start.covariance)
    count = density.num_observed[0]

    def slope(at: ndarray) -> ndarray:  # of the log density at the best constant
        flat = at.reshape(-1, at.shape[-1])
        _, gradient = density(flat, np.arange(len(flat)))
        found: ndarray = -count * np.nan_to_num(gradient).reshape(at.shape)
        return found

    for step in range(24):
        momentum, at = rng.standard_normal(theta.shape), theta.copy()
        size = 0.35 * rng.uniform(0.8, 1.2)
        before = density.log_density(theta, rows) - 0.5 * np.square(momentum).sum(-1)
        for _ in range(8):
            momentum = momentum + size / 2 * (slope(at)[..., None, :] @ root)[..., 0, :]
            at = at + size * (root @ momentum[..., None])[..., 0]
            momentum = momentum + size / 2 * (slope(at)[..., None, :] @ root)[..., 0, :]
        after = density.log_density(at, rows) - 0.5 * np.square(momentum).sum(-1)
        accepted = np.log(rng.random(after.shape)) < after - before
        theta = np.where(accepted[..., None], at, theta)
        if step >= 6:
            kept.append(theta.copy())
    return np.concatenate(kept).mean(axis=0)


def accept(
    density: ExactLogPosterior,
    theta: ndarray,
    value: ndarray,
    mine: slice,
    moved: ndarray,
    rng: Generator,
) -> None:
    new = density.log_density(moved, np.arange(NUM_DATA_SETS))
    accepted = np.log(rng.random(new.shape)) < new - value[mine]
    theta[mine] = np.where(accepted[..., None], moved, theta[mine])
    value[mine] = np.where(accepted, new, value[mine])


def copied(start: importance.Proposal) -> importance.Proposal:
    return importance.Proposal(*(each.copy() for each in start))


def started(start: importance.Proposal, count: int, rng: Generator) -> ndarray:
    r"""Draws around the modes, `count x R x p`."""
    root = np.linalg.cholesky(start.covariance)
    normal = rng.standard_normal((count, *start.location.shape))
    found: ndarray = start.location + (root @ normal[..., None])[..., 0]
    return found


SAMPLERS: dict[str, Sampler] = {
    "importance": by_importance,
    "differential evolution": by_evolution,
    "slices": by_slices,
    "Hamiltonian": by_dynamics,
}


def reference(density: ExactLogPosterior, start: importance.Proposal) -> tuple[ndarray, ndarray]:
    r"""The mean and the deviations of a long run."""
    rngs = [np.random.default_rng(1000 + r) for r in range(NUM_DATA_SETS)]
    found = importance.sample_density(density.log_density, copied(start), 16, rngs, 256)
    return found.proposal.location, found.proposal.covariance.diagonal(axis1=1, axis2=2) ** 0.5


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.set_num_threads(1)
    cells: list[list[str]] = []
    for d, n in ((2, 20), (3, 40), (6, 40)):
        density = data(d, n)
        start = _at_modes(density, density.starts())
        mean, deviation = reference(density, start)
        for name, sampler in SAMPLERS.items():
            errors, seconds = [], []
            for run in range(RUNS):
                begin = time.process_time()
                found = sampler(density, start, np.random.default_rng(run))
                seconds.append(time.process_time() - begin)
                errors.append(np.square((found - mean) / deviation).mean())
            effective, cost = 1 / float(np.mean(errors)), float(np.median(seconds))
            rate: Any = effective / cost * NUM_DATA_SETS
            cells.append([f"{d}, {n}", name, f"{effective:.0f}", f"{cost:.2f}", f"{rate:.0f}"])
    header = ["d, n", "sampler", "effective draws", "s, 16 data sets", "draws per s and data set"]
    print(table(header, cells))


if __name__ == "__main__":
    main()
