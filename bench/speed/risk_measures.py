r"""Worst cases over balls of distributions, against what a user would write or install.

    python -m bench.speed.risk_measures [--which mmd others]

Times are per candidate: ours for a batch of candidates that share points and weights, cvxpy's for
one candidate after another, whose values are a parameter, so that only the solution is timed. A
total-variation ball needs no solver: `by_sorting` has six lines of NumPy for a whole batch. The MMD
ball is also solved by SCS, to its default accuracy; CLARABEL solves all others. The MMD ball is
given to cvxpy as `norm(R (q - p)) <= radius` in two forms: R the whole n_w x n_w root of the kernel
matrix, and R without the directions that rounding hides, as an expert would. The Wasserstein ball
is given as a plan of what each point sends to each, and, for points on a line, by the distribution
functions, as an expert would. The kernels of the MMD ball, on [0, 1] with lengthscale 0.2, are the
smooth squared exponential and the rough exponential one; weights are uniform, and values are smooth
draws of lengthscale 0.15.
"""

import argparse
import math
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple
from unittest.mock import patch

import cvxpy as cp
import numpy as np
import torch
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel
from numpy import ndarray
from torch import Tensor

from bench.speed.timing import environment, interleaved
from botorch_risk.risk import (
    ChiSquareBall,
    KullbackLeiblerBall,
    MaximumMeanDiscrepancyBall,
    RiskMeasure,
    TotalVariationBall,
    WassersteinBall,
    mmd,
)

MMD_POINTS, MMD_RADII = 100, (0.02, 0.1, 0.2)
LINE = torch.linspace(0, 1, MMD_POINTS, dtype=torch.float64).unsqueeze(-1)
GRID_RADII, GRID_CANDIDATES = (0.6, 0.4, 0.2), 32
TV_POINTS, TV_RADII = 1024, (0.1, 0.5)
DIVERGENCE_RADIUS, WASSERSTEIN_RADIUS = 0.1, 0.05
BATCHES = (1, 32, 256)


def smooth_values(points: Tensor, count: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    kernel = torch.exp(-0.5 * torch.cdist(points, points).square() / 0.15**2)
    root = torch.linalg.cholesky(kernel + 1e-8 * torch.eye(len(points)).to(kernel))
    return torch.randn(count, len(points), generator=generator).to(root) @ root.T


class Compiled:
    r"""The smallest expectation in cvxpy, solved for one row of values after another."""

    def __init__(
        self,
        values: Tensor,
        constraint: Callable[[cp.Variable], cp.Constraint],
        pairs: bool = False,
        solver: str = cp.CLARABEL,
    ) -> None:
        self.rows, self.row, self.solver = values.numpy(), 0, solver
        n_w = values.shape[-1]
        self.parameter = cp.Parameter(n_w)
        if pairs:  # what each point sends to each
            plan = cp.Variable((n_w, n_w), nonneg=True)
            worst, sums = cp.sum(plan, axis=0), cp.sum(plan, axis=1) == 1 / n_w
            constraints = [sums, constraint(plan)]
        else:
            worst = cp.Variable(n_w, nonneg=True)
            constraints = [cp.sum(worst) == 1, constraint(worst)]
        self.problem = cp.Problem(cp.Minimize(self.parameter @ worst), constraints)

    def __call__(self) -> float:
        self.parameter.value = self.rows[self.row % len(self.rows)]
        self.row += 1
        return self.problem.solve(solver=self.solver)


def by_sorting(values: ndarray, weights: ndarray, radius: float) -> ndarray:
    r"""The worst expectation over a total-variation ball, for a batch of values."""
    order = np.argsort(-values, axis=-1)
    given, values = weights[order], np.take_along_axis(values, order, axis=-1)
    above = np.cumsum(given, axis=-1) - given
    taken = np.minimum(np.maximum(radius / 2 - above, 0), given)
    return ((given - taken) * values).sum(axis=-1) + taken.sum(axis=-1) * values[:, -1]


OfBatch = Callable[[ndarray, ndarray], ndarray]


def compare(
    name: str,
    measure: RiskMeasure,
    values: Tensor,
    baselines: dict[str, Compiled],
    by_hand: OfBatch | None = None,
) -> None:
    r"""One line a batch size; every way takes its turn in every round."""
    weights = torch.full_like(values[0], 1 / values.shape[-1])
    ways = {f"{b}": lambda b=b: measure(values[:b], weights) for b in BATCHES}
    if by_hand is not None:
        V, w = values.numpy(), weights.numpy()
        ways |= {f"by hand {b}": lambda b=b: by_hand(V[:b], w) for b in BATCHES}
        torch.testing.assert_close(torch.from_numpy(by_hand(V, w)), measure(values, weights))
    seconds = interleaved({**ways, **baselines}, 21)
    for batch in BATCHES:
        own = seconds[f"{batch}"] / batch
        cells = [name, f"{values.shape[-1]:,}", f"{batch}", f"{1e3 * own:.3f}"]
        if by_hand is not None:
            hand = seconds[f"by hand {batch}"] / batch
            cells.append(f"{1e3 * hand:.3f} ({hand / own:.1f})")
        cells += [f"{1e3 * seconds[way]:.1f} ({seconds[way] / own:.1f})" for way in baselines]
        print(f"| {' | '.join(cells)} |", flush=True)
    for baseline in baselines.values():
        if baseline.solver == cp.SCS:  # to an accuracy of 1e-4 of its own
            continue
        baseline.row = 0
        theirs = torch.tensor([baseline() for _ in range(5)])
        apart = (measure(values[:5], weights) - theirs).abs() / (
            values[:5].amax(dim=-1) - values[:5].amin(dim=-1)
        )
        assert apart.max() <= 1e-4, apart  # CLARABEL's answers lie a little outside of the ball


class Ball(NamedTuple):
    r"""A risk measure, values for it, one row a candidate, and the same in cvxpy."""

    measure: RiskMeasure
    values: Tensor
    baselines: dict[str, Compiled]


def total_variation_ball(radius: float) -> Ball:
    points = torch.linspace(0, 1, TV_POINTS, dtype=torch.float64).unsqueeze(-1)
    values, even = smooth_values(points, max(BATCHES)), 1 / TV_POINTS
    baseline = Compiled(values, lambda worst: cp.norm1(worst - even) <= radius)
    return Ball(TotalVariationBall(radius), values, {"cvxpy": baseline})


def maximum_mean_discrepancy_ball(
    radius: float, points: Tensor, kind: Callable[[], Kernel] = RBFKernel
) -> Ball:
    values, even = smooth_values(points, max(BATCHES)), 1 / len(points)
    kernel = kind().double()
    kernel.lengthscale = 0.2
    eigenvalues, vectors = torch.linalg.eigh(kernel(points).to_dense().detach())
    root = (vectors * eigenvalues.clamp_min(0).sqrt()).T.numpy()
    visible = root[(eigenvalues > 1e-15 * eigenvalues.max()).numpy()]
    baselines = {
        name: Compiled(values, lambda worst, R=R: cp.norm(R @ (worst - even)) <= radius)
        for name, R in (("cvxpy, whole root", root), ("cvxpy, reduced root", visible))
    }
    baselines["cvxpy with SCS, reduced root"] = Compiled(
        values, lambda worst: cp.norm(visible @ (worst - even)) <= radius, solver=cp.SCS
    )
    measure = MaximumMeanDiscrepancyBall(radius, kernel).bind(SimpleNamespace(points=points))
    return Ball(measure, values, baselines)


def divergence_balls() -> dict[str, Ball]:
    points = torch.linspace(0, 1, TV_POINTS, dtype=torch.float64).unsqueeze(-1)
    values, even, radius = smooth_values(points, max(BATCHES)), 1 / TV_POINTS, DIVERGENCE_RADIUS
    entropy = Compiled(values, lambda worst: cp.sum(cp.rel_entr(worst, even)) <= radius)
    square = Compiled(values, lambda worst: cp.norm(worst - even) <= (radius * even) ** 0.5)
    return {
        f"KL ball, radius {radius}": Ball(KullbackLeiblerBall(radius), values, {"": entropy}),
        f"chi-square ball, radius {radius}": Ball(ChiSquareBall(radius), values, {"": square}),
    }


def wasserstein_balls() -> dict[str, Ball]:
    values, radius = smooth_values(LINE, max(BATCHES)), WASSERSTEIN_RADIUS
    distances, step, even = (LINE - LINE.T).abs().numpy(), 1 / (MMD_POINTS - 1), 1 / MMD_POINTS
    every = {
        "plan": Compiled(values, lambda plan: cp.vdot(distances, plan) <= radius, pairs=True),
        "distribution functions": Compiled(
            values, lambda worst: step * cp.norm1(cp.cumsum(worst - even)) <= radius
        ),
    }
    environment = SimpleNamespace(points=LINE)
    line = WassersteinBall(radius).bind(environment)
    pairs = WassersteinBall(radius, metric=lambda v, w: (v - w.mT).abs()).bind(environment)
    return {
        f"Wasserstein ball, radius {radius}, on a line": Ball(line, values, every),
        f"Wasserstein ball, radius {radius}, by pairs": Ball(pairs, values, every),
    }


def other_balls() -> None:
    print("\n| measure | n_w | candidates | ms | cvxpy, ms (ratio) |\n|---|---|---|---|---|")
    for name, ball in divergence_balls().items():
        compare(name, *ball)
    print("\n| measure | n_w | candidates | ms | cvxpy, plan, ms (ratio) |", end="")
    print(" cvxpy, distribution functions, ms (ratio) |\n|---|---|---|---|---|---|")
    for name, ball in wasserstein_balls().items():
        compare(name, *ball)


def total_variation() -> None:
    print("| measure | n_w | candidates | ms | sorted by hand, ms (ratio) |", end="")
    print(" cvxpy, ms (ratio) |\n|---|---|---|---|---|---|")
    for radius in TV_RADII:
        ball = total_variation_ball(radius)
        compare(f"`{ball.measure}`", *ball, by_hand=partial(by_sorting, radius=radius))


def maximum_mean_discrepancy() -> None:
    print("\n| measure | n_w | candidates | ms | cvxpy, whole root, ms (ratio) |", end="")
    print(" cvxpy, reduced root, ms (ratio) | SCS, reduced root, ms (ratio) |", end="")
    print("\n|---|---|---|---|---|---|---|")
    kinds = {"squared exponential": RBFKernel, "exponential": partial(MaternKernel, nu=0.5)}
    for name, kind in kinds.items():
        for radius in MMD_RADII:
            ball = maximum_mean_discrepancy_ball(radius, LINE, kind)
            compare(f"MMD ball, {name}, radius {radius}", *ball)


def few_points() -> None:
    r"""A kernel of many rows: few points first, against the whole program alone."""
    axis = torch.linspace(0, 1, 4, dtype=torch.float64)
    points = torch.cartesian_prod(axis, axis, axis, axis)
    weights = torch.full_like(points[:, 0], 1 / len(points))
    print("\n| MMD ball, a grid of 4^4 | points of the answer, largest | ms |", end="")
    print(" whole program, ms (ratio) | cvxpy, ms (ratio) |\n|---|---|---|---|---|")
    for radius in GRID_RADII:
        measure, values, baselines = maximum_mean_discrepancy_ball(radius, points)
        values = values[:GRID_CANDIDATES]

        def whole(measure: RiskMeasure = measure, values: Tensor = values) -> Tensor:
            with patch.object(mmd, "MANY_ROWS", math.inf):
                return measure(values, weights)

        ways = {
            "ours": lambda measure=measure, values=values: measure(values, weights),
            "whole": whole,
            "cvxpy": baselines["cvxpy, reduced root"],
        }
        seconds = interleaved(ways, 5)
        own, theirs = seconds["ours"] / len(values), seconds["whole"] / len(values)
        atoms = (measure.worst_distribution(values, weights) > 1e-6).sum(dim=-1).max()
        cells = [f"radius {radius}", f"{atoms}", f"{1e3 * own:.2f}"]
        cells += [f"{1e3 * each:.1f} ({each / own:.1f})" for each in (theirs, seconds["cvxpy"])]
        print(f"| {' | '.join(cells)} |", flush=True)


def main(which: Sequence[str] = ("mmd", "others")) -> None:
    print("\n## Worst cases over balls of distributions\n")
    print(f"{environment('cpu')}, cvxpy {cp.__version__}.\n")
    if "mmd" in which:
        total_variation()
        maximum_mean_discrepancy()
        few_points()
    if "others" in which:
        other_balls()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--which", nargs="*", default=("mmd", "others"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main(arguments.which)
