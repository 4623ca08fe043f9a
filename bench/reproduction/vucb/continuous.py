r"""Writes continuous.md: the paper's neural surrogate against points of W's distribution.

python -m bench.reproduction.vucb.continuous [--to results/vucb]
"""

import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from botorch.models import SingleTaskGP
from botorch_risk_bench.campaigns.whole_files import write_text
from torch import Tensor

from bench.reproduction.results import writing_parser
from bench.reproduction.tables import cell, paired, table
from botorch_risk.acquisition import RiskUpperConfidenceBound
from botorch_risk.acquisition.widths import bayesian_beta
from botorch_risk.engine import Belief, fit_exact_gp, optimize_acqf_replicates
from botorch_risk.environments import ContinuousEnvironment
from botorch_risk.papers import maximize_value_at_risk
from botorch_risk.risk import ValueAtRisk
from botorch_risk.test_functions import (
    ValueAtRiskBranin,
    ValueAtRiskGoldsteinPrice,
    ValueAtRiskHartmann,
    ValueAtRiskTestProblem,
)

SEEDS = list(range(10))
NUM_STARTS, RAW_SAMPLES, NUM_EXACT = 10, 256, 100_000
PROBLEMS: dict[str, Callable[[], ValueAtRiskTestProblem]] = {
    "Branin-Hoo (1, 1)": partial(ValueAtRiskBranin, "continuous"),
    "Goldstein-Price (1, 1)": partial(ValueAtRiskGoldsteinPrice, "continuous"),
    "Hartmann (1, 2)": partial(ValueAtRiskHartmann, 1, "continuous"),
    "Hartmann (2, 1)": partial(ValueAtRiskHartmann, 2, "continuous"),
}
POINTS = [(n_w, rule) for rule in ("midpoints", "sobol") for n_w in (16, 64, 256)]
LNSO = "LNSO"
HEAD = f"""\
# Continuous W: local neural surrogate or points of the distribution

The decision of largest value-at-risk of the upper bound, by one call of each optimiser. For each
of {len(SEEDS)} seeds a Gaussian process of n observations, x uniform and w from its distribution,
with noise of standard deviation 0.1; beta is for round n. All ways have {NUM_STARTS} starts,
chosen from {RAW_SAMPLES} Sobol points. LNSO has the paper's settings (a ball of 0.1, 2 x 30 units,
50 decisions by 10 draws of W a step). The value at what is found is by {NUM_EXACT:,} quasi-random
points, the gap what it lacks to the best of all ways; mean ± half-width of the 95 % Student-t
interval over seeds, in units of the outcome. CPU seconds are of one thread for all seeds, run as
one batch.
"""


def fitted(problem: ValueAtRiskTestProblem, num_observations: int) -> SingleTaskGP:
    streams = [torch.Generator().manual_seed(seed) for seed in SEEDS]
    size = (num_observations, problem.num_decision)
    X = torch.stack([torch.rand(size, generator=each, dtype=torch.double) for each in streams])
    lower, upper = problem.bounds[:, : problem.num_decision]
    W = problem.environment.sample(num_observations, streams)
    X = torch.cat([lower + (upper - lower) * X, W.to(X)], dim=-1)
    draws = [torch.randn(len(X[0]), 1, generator=each, dtype=torch.double) for each in streams]
    model = SingleTaskGP(X, problem(X, noise=False).unsqueeze(-1) + 0.1 * torch.stack(draws))
    fit_exact_gp(model)
    return model


def compare(name: str, num_observations: int) -> list[list[str]]:
    problem = PROBLEMS[name]()
    level, beta = problem.risk_level, bayesian_beta(num_observations)
    model, density = fitted(problem, num_observations), problem.environment.density
    bounds, predictor = problem.bounds[:, : problem.num_decision], Belief(model)

    def bound(n_w: int, rule: str) -> RiskUpperConfidenceBound:
        environment = ContinuousEnvironment(
            density.marginals, density.bounds, n_w, seeds=0, rule=rule
        )
        return RiskUpperConfidenceBound(model, environment, ValueAtRisk(level), beta)

    def upper(queries: Tensor) -> Tensor:
        mean, variance = predictor(queries)
        return mean + (beta * variance).sqrt()

    def by_points(n_w: int, rule: str) -> Tensor:
        options = {"num_restarts": NUM_STARTS, "raw_samples": RAW_SAMPLES}
        return optimize_acqf_replicates(bound(n_w, rule), bounds, seeds=SEEDS, **options)[0]

    def by_surrogate() -> Tensor:
        sampler, options = problem.environment.sample, {"raw_samples": RAW_SAMPLES}
        found, _ = maximize_value_at_risk(
            upper, sampler, bounds, level, seeds=SEEDS, num_starts=NUM_STARTS, **options
        )
        return found.unsqueeze(-2)

    ways: dict[str, Callable[[], Tensor]] = {LNSO: by_surrogate}
    ways |= {f"{n_w} {rule}": partial(by_points, n_w, rule) for n_w, rule in POINTS}
    exact = bound(NUM_EXACT, "sobol")
    values, seconds = {}, {}
    for way, run in ways.items():
        start = time.process_time()
        decisions = run()
        seconds[way] = time.process_time() - start
        with torch.no_grad():
            values[way] = exact.upper(decisions).squeeze(-1)
    best = torch.stack([*values.values()]).amax(dim=0)
    gaps = {way: best - value for way, value in values.items()}
    return [
        [
            f"{name}, n = {num_observations}",
            way,
            cell(gap),
            f"{gap.max():.2g}",
            "" if way == LNSO else paired(values[way], values[LNSO]),
            f"{seconds[way]:.1f}",
        ]
        for way, gap in gaps.items()
    ]


def main() -> None:
    to: Path = writing_parser(__doc__, "results/vucb").parse_args().to
    header = ["posterior", "way", "gap", "largest gap", f"value minus {LNSO}'s, paired", "CPU, s"]
    rows: list[list[str]] = []
    for name in PROBLEMS:
        for num_observations in (20, 60):
            rows += compare(name, num_observations)
            print(f"{name}, n = {num_observations}: {time.process_time():.0f} s CPU", flush=True)
    write_text(to / "continuous.md", HEAD + "\n" + table(header, rows))


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main()
