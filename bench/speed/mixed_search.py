r"""Maximising a bound of mixed decisions for 8 replicates at once, against BoTorch one by one.

The bound of the conditional value-at-risk of `MixedNewsvendor` (a price, an integer, a category and
33 values of w), n = 40, categories one-hot, 10 restarts of 256 raw points. BoTorch's
`optimize_acqf_mixed_alternating` has the same bound on models of their own, with the same
hyperparameters. The gap is to the best of all 24 combinations at 2,001 prices, in standard
deviations of the outcomes. Run `python -m bench.speed.mixed_search`.
"""

import argparse
import time
import warnings
from typing import Any

import torch
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf_mixed_alternating
from botorch.utils.sampling import manual_seed
from botorch_risk_bench.problems import MixedNewsvendor
from torch import Tensor

from bench.speed.timing import environment, interleaved
from botorch_risk.acquisition import RiskUpperConfidenceBound
from botorch_risk.engine import fit_exact_gp, optimize_acqf_replicates
from botorch_risk.models import one_hot_inputs
from botorch_risk.risk import ConditionalValueAtRisk
from botorch_risk.strategies import Box

PROBLEM = MixedNewsvendor()
BOX = Box(PROBLEM.decision_bounds, [1], [2])
DIMS: dict[str, Any] = {"discrete_dims": BOX.discrete_dims, "cat_dims": BOX.cat_dims}
BUDGET: dict[str, Any] = {"num_restarts": 10, "raw_samples": 256}


def bound_of(model: SingleTaskGP) -> RiskUpperConfidenceBound:
    measure = ConditionalValueAtRisk(PROBLEM.risk_level)
    return RiskUpperConfidenceBound(model.eval(), PROBLEM.environment, measure, beta=4.0)


def model_of(X: Tensor) -> SingleTaskGP:
    return SingleTaskGP(
        X, PROBLEM(X).unsqueeze(-1), input_transform=one_hot_inputs(PROBLEM.bounds, [2])
    )


def pairs_of(seeds: range, num_points: int) -> Tensor:
    points = PROBLEM.environment.points
    W = points[torch.arange(num_points) % len(points)].expand(len(seeds), -1, -1)
    return torch.cat([BOX.initial(seeds, num_points), W], dim=-1)


def bounds_of(seeds: range) -> tuple[RiskUpperConfidenceBound, list[RiskUpperConfidenceBound]]:
    r"""The bound of all replicates, and of each by itself."""
    X = pairs_of(seeds, 40)
    together = model_of(X)
    fit_exact_gp(together)
    alone = []
    for row, pairs in enumerate(X):
        model = model_of(pairs)
        values = {
            name: value[row] if value.dim() > model.state_dict()[name].dim() else value
            for name, value in together.state_dict().items()
        }
        model.load_state_dict(values)
        alone.append(bound_of(model))
    return bound_of(together), alone


def best_of_all(bound: RiskUpperConfidenceBound, count: int) -> Tensor:
    axes = [torch.linspace(*BOX.bounds[:, 0].tolist(), 2001, dtype=torch.double)]
    axes += [torch.tensor(values).double() for part in DIMS.values() for values in part.values()]
    grid = torch.cartesian_prod(*axes)
    with torch.no_grad():
        values = [bound.evaluate(part.expand(count, -1, -1)) for part in grid.split(2048)]
    return torch.cat(values, dim=-1).amax(dim=-1)


def main(repeats: int = 5, count: int = 8) -> None:
    seeds = range(count)
    together, alone = bounds_of(seeds)
    found: dict[str, list[Tensor]] = {"batched": [], "one by one": []}

    def batched() -> None:
        draws = [1000 * len(found["batched"]) + seed for seed in seeds]
        _, values = optimize_acqf_replicates(together, BOX.bounds, seeds=draws, **DIMS, **BUDGET)
        found["batched"].append(values)

    def one_by_one() -> None:
        with manual_seed(len(found["one by one"])):
            values = [
                optimize_acqf_mixed_alternating(bound, BOX.bounds, **DIMS, **BUDGET)[1]
                for bound in alone
            ]
        found["one by one"].append(torch.stack(values).flatten())

    ways = {"batched": batched, "one by one": one_by_one}
    seconds = interleaved(ways, repeats, clock=time.process_time)
    best, scale = best_of_all(together, count), PROBLEM(pairs_of(range(1), 512)).std()
    print(f"\n## Mixed spaces\n\n{environment('cpu')}.\n")
    print("| R | way | CPU ms | ratio | median gap | gap > 1e-2 |")
    print("|---|---|---|---|---|---|")
    for name, value in seconds.items():
        gap = ((best - torch.stack(found[name])) / scale).clamp_min(0)  # the grid may be below
        print(
            f"| {count} | {name} | {1e3 * value:.0f} | {seconds['one by one'] / value:.1f} | "
            f"{gap.median():.0e} | {(gap > 1e-2).sum()} of {gap.numel()} |"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main(**vars(parser.parse_args()))
