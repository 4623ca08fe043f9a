r"""Worst cases over balls of distributions, against cvxpy with the problem compiled once.

    python -m bench.speed.risk_measures [--which mmd others]

Times are per candidate: ours for a batch of candidates that share points and weights, cvxpy's
(CLARABEL) for one candidate after another, whose values are a parameter, so that only
the solution is timed. The MMD ball is given to cvxpy as `norm(R (q - p)) <= radius` in two forms:
R the whole n_w x n_w root of the kernel matrix, and R without the directions that rounding hides,
as an expert would. The Wasserstein ball is given as a plan of what each point sends to each, and,
for points on a line, by the distribution functions, as an expert would. Squared-exponential kernel
with lengthscale 0.2 on [0, 1], uniform weights; values are smooth draws, of lengthscale 0.15.
"""

import argparse
import math
import warnings
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import NamedTuple
from unittest.mock import patch

import cvxpy as cp
import torch
from gpytorch.kernels import RBFKernel
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
    ) -> None:
        self.rows, self.row = values.numpy(), 0
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
        return self.problem.solve(solver=cp.CLARABEL)


def compare(
    name: str, measure: RiskMeasure, values: Tensor, baselines: dict[str, Compiled]
) -> None:
    r"""One line a batch size; every way takes its turn in every round."""
    weights = torch.full_like(values[0], 1 / values.shape[-1])
    ours = {f"{b}": lambda b=b: measure(values[:b], weights) for b in BATCHES}
    seconds = interleaved({**ours, **baselines}, 21)
    for batch in BATCHES:
        own = seconds[f"{batch}"] / batch
        cells = [name, f"{values.shape[-1]:,}", f"{batch}", f"{1e3 * own:.3f}"]
        cells += [f"{1e3 * seconds[way]:.1f} ({seconds[way] / own:.0f})" for way in baselines]
        print(f"| {' | '.join(cells)} |", flush=True)
    for baseline in baselines.values():
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


def maximum_mean_discrepancy_ball(radius: float, points: Tensor) -> Ball:
    values, even = smooth_values(points, max(BATCHES)), 1 / len(points)
    kernel = RBFKernel()
    kernel.lengthscale = 0.2
    eigenvalues, vectors = torch.linalg.eigh(
        torch.exp(-0.5 * torch.cdist(points, points).square() / 0.2**2)
    )
    root = (vectors * eigenvalues.clamp_min(0).sqrt()).T.numpy()
    visible = root[(eigenvalues > 1e-15 * eigenvalues.max()).numpy()]
    baselines = {
        name: Compiled(values, lambda worst, R=R: cp.norm(R @ (worst - even)) <= radius)
        for name, R in (("cvxpy, whole root", root), ("cvxpy, reduced root", visible))
    }
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
    print("| measure | n_w | candidates | ms | cvxpy, ms (ratio) |\n|---|---|---|---|---|")
    for radius in TV_RADII:
        ball = total_variation_ball(radius)
        compare(f"`{ball.measure}`", *ball)


def maximum_mean_discrepancy() -> None:
    print("\n| measure | n_w | candidates | ms | cvxpy, whole root, ms (ratio) |", end="")
    print(" cvxpy, reduced root, ms (ratio) |\n|---|---|---|---|---|---|")
    for radius in MMD_RADII:
        compare(f"MMD ball, radius {radius}", *maximum_mean_discrepancy_ball(radius, LINE))


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
