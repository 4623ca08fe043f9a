r"""How near the best value-at-risk of an upper confidence bound two optimisers come.

    python -m benchmarks.value_at_risk

The continuous problems of V-UCB, a Gaussian process of 15 random observations for each of 8
seeds, risk level 0.1, beta = 6. Points of the law with gradients (`optimize_acqf_replicates`),
against the local neural surrogate on draws of W; 10 starts of 256 raw points each. The gap is what
is missing to the best that any way found, by 4,096 midpoints, in units of the outcome.
"""

from __future__ import annotations

import time
import warnings

import torch
from botorch.models import SingleTaskGP
from torch import Tensor

from botorch_risk.acquisition import RiskUpperConfidenceBound
from botorch_risk.environments import ContinuousEnvironment
from botorch_risk.fit import fit_exact_gp
from botorch_risk.models import MarginalPredictor
from botorch_risk.optim import maximize_value_at_risk, optimize_acqf_replicates
from botorch_risk.risk import ValueAtRisk
from botorch_risk.test_functions import ValueAtRiskBranin, ValueAtRiskHartmann

SEEDS, LEVEL, BETA = list(range(8)), 0.1, 6.0
PROBLEMS = {
    "Branin-Hoo (1, 1)": lambda: ValueAtRiskBranin("continuous"),
    "Hartmann (2, 1)": lambda: ValueAtRiskHartmann(2, "continuous"),
    "Hartmann (1, 2)": lambda: ValueAtRiskHartmann(1, "continuous"),
}
POINTS = [(64, "monte_carlo"), (64, "midpoints"), (256, "midpoints"), (64, "sobol"), (256, "sobol")]


def fitted(problem: ValueAtRiskBranin | ValueAtRiskHartmann) -> SingleTaskGP:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(len(SEEDS), 15, problem.dim, generator=generator).double()
    X[..., problem.num_decision :] = 0.25 + 0.5 * X[..., problem.num_decision :]
    model = SingleTaskGP(X, problem(X, noise=False).unsqueeze(-1))
    fit_exact_gp(model)
    return model


def compare(name: str) -> None:
    problem = PROBLEMS[name]()
    model, law = fitted(problem), problem.environment.density
    bounds = problem.bounds[:, : problem.num_decision]

    def bound(n_w: int, rule: str) -> RiskUpperConfidenceBound:
        environment = ContinuousEnvironment(law.marginals, law.bounds, n_w, seeds=0, rule=rule)
        return RiskUpperConfidenceBound(model, environment, ValueAtRisk(LEVEL), BETA)

    predictor = MarginalPredictor(model)

    def upper(queries: Tensor) -> Tensor:
        mean, variance = predictor(queries)
        return mean + (BETA * variance).sqrt()

    ways = {
        f"{n_w} points, {rule}": lambda n_w=n_w, rule=rule: optimize_acqf_replicates(
            bound(n_w, rule), bounds, seeds=SEEDS
        )[0].squeeze(-2)
        for n_w, rule in POINTS
    }
    ways["neural surrogate"] = lambda: maximize_value_at_risk(
        upper, problem.environment.sample, bounds, LEVEL, seeds=SEEDS
    )[0]
    exact = bound(4096, "midpoints")
    found, seconds = {}, {}
    for way, run in ways.items():
        start = time.perf_counter()
        decisions = run()
        seconds[way] = time.perf_counter() - start
        with torch.no_grad():
            found[way] = exact.upper(decisions.unsqueeze(-2)).squeeze(-1)
    start_values = optimize_acqf_replicates(exact, bounds, seeds=SEEDS)[1]
    best = torch.stack([*found.values(), start_values]).amax(dim=0)
    for way, values in found.items():
        gap = best - values
        print(f"| {name} | {way} | {gap.mean():.4f} | {gap.max():.4f} | {seconds[way]:.2f} |")


def main() -> None:
    print("| problem | optimiser | mean gap | largest gap | seconds for 8 seeds |")
    print("|---|---|---|---|---|")
    for name in PROBLEMS:
        compare(name)


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main()
