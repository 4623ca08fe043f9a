r"""Worst cases over balls of distributions, against cvxpy with the problem compiled once.

    python -m bench.speed.risk_measures

Times are per candidate: ours for a batch of candidates that share points and weights, cvxpy's
(CLARABEL) for one candidate after another, whose values are a parameter, so that only
the solution is timed. The MMD ball is given to cvxpy as `norm(R (q - p)) <= radius` in two forms:
R the whole n_w x n_w root of the kernel matrix, and R without the directions that rounding hides,
as an expert would. Squared-exponential kernel with lengthscale 0.2 on [0, 1], uniform weights;
values are smooth draws, of lengthscale 0.15.
"""

import argparse
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import NamedTuple

import cvxpy as cp
import torch
from gpytorch.kernels import RBFKernel
from torch import Tensor

from bench.speed.timing import environment, interleaved
from botorch_risk.risk import MaximumMeanDiscrepancyBall, RiskMeasure, TotalVariationBall

MMD_POINTS, MMD_RADII = 100, (0.02, 0.1, 0.2)
TV_POINTS, TV_RADII = 1024, (0.1, 0.5)
BATCHES = (1, 32, 256)


def smooth_values(points: Tensor, count: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    kernel = torch.exp(-0.5 * torch.cdist(points, points).square() / 0.15**2)
    root = torch.linalg.cholesky(kernel + 1e-8 * torch.eye(len(points)).to(kernel))
    return torch.randn(count, len(points), generator=generator).to(root) @ root.T


class Compiled:
    r"""The smallest expectation in cvxpy, solved for one row of values after another."""

    def __init__(self, values: Tensor, constraint: Callable[[cp.Variable], cp.Constraint]) -> None:
        self.rows, self.row = values.numpy(), 0
        worst = cp.Variable(values.shape[-1], nonneg=True)
        self.parameter = cp.Parameter(values.shape[-1])
        objective = cp.Minimize(self.parameter @ worst)
        self.problem = cp.Problem(objective, [cp.sum(worst) == 1, constraint(worst)])

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


def maximum_mean_discrepancy_ball(radius: float) -> Ball:
    points = torch.linspace(0, 1, MMD_POINTS, dtype=torch.float64).unsqueeze(-1)
    values, even = smooth_values(points, max(BATCHES)), 1 / MMD_POINTS
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


def total_variation() -> None:
    print("| measure | n_w | candidates | ms | cvxpy, ms (ratio) |\n|---|---|---|---|---|")
    for radius in TV_RADII:
        ball = total_variation_ball(radius)
        compare(f"`{ball.measure}`", *ball)


def maximum_mean_discrepancy() -> None:
    print("\n| measure | n_w | candidates | ms | cvxpy, whole root, ms (ratio) |", end="")
    print(" cvxpy, reduced root, ms (ratio) |\n|---|---|---|---|---|---|")
    for radius in MMD_RADII:
        compare(f"MMD ball, radius {radius}", *maximum_mean_discrepancy_ball(radius))


def main() -> None:
    print("\n## Worst cases over balls of distributions\n")
    print(f"{environment('cpu')}, cvxpy {cp.__version__}.\n")
    total_variation()
    maximum_mean_discrepancy()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main()
