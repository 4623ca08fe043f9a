r"""qLogNEI of a CVaR over 32 values of w: with `robust`, with BoTorch's measure, and of x alone.

CPU seconds to build the acquisition function and to maximise it once, 10 restarts and 256 raw
samples, by BoTorch's default and by `gen_candidates_quasi_newton`; the data sets take turns, and so
do the ways. Then how far a few chosen values of w are from the truth, and what sample paths cost.
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.acquisition.risk_measures import CVaR
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import AppendFeatures
from botorch.optim import optimize_acqf
from botorch.sampling.pathwise import get_matheron_path_model
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor
from torch.distributions import Normal

from bench.speed.timing import environment, interleaved
from botorch_risk.engine import gen_candidates_quasi_newton
from botorch_risk.environments import ContinuousEnvironment, DiscreteEnvironment
from botorch_risk.risk import ConditionalValueAtRisk, Expectation, RiskMeasure
from botorch_risk.robust import robust

N_W = 32
POINTS = torch.linspace(0.02, 0.98, N_W, dtype=torch.float64).unsqueeze(-1)
MEASURE = ConditionalValueAtRisk(4 / N_W)  # the 4 lowest values: BoTorch's CVaR(0.9, 32)
BOX = torch.tensor([[0.0], [1.0]], dtype=torch.float64)


def data(n: int, d: int, seed: int) -> tuple[Tensor, Tensor]:
    r"""Noisy values of a smooth function of d decision variables and w."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(n, d + 1, generator=generator, dtype=torch.float64)
    Y = (4 * X).sin().sum(dim=-1, keepdim=True) + 0.5 * (6 * X[:, :1] * X[:, -1:]).cos()
    return X, Y + 0.05 * torch.randn(n, 1, generator=generator, dtype=torch.float64)


def fitted(X: Tensor, Y: Tensor) -> SingleTaskGP:
    model = SingleTaskGP(X, Y)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model.eval()


def maximise(acqf: Any, d: int, q: int, device: str, **options: Any) -> float:
    r"""The largest value found."""
    bounds = torch.tensor([[0.0] * d, [1.0] * d], dtype=torch.float64, device=device)
    _, value = optimize_acqf(acqf, bounds, q=q, num_restarts=10, raw_samples=256, **options)
    return value.item()


QUICK = {"gen_candidates": gen_candidates_quasi_newton}


def ways(n: int, d: int, q: int, seed: int, device: str = "cpu") -> dict[str, Callable[[], float]]:
    r"""The ways on one data set, with the same hyperparameters of (x, w)."""
    X, Y = (each.to(device) for each in data(n, d, seed))
    w = POINTS.to(device)
    model, of_x = fitted(X, Y), fitted(X[:, :d], Y)
    appended = SingleTaskGP(X, Y, input_transform=AppendFeatures(w))
    appended.load_state_dict(model.state_dict(), strict=False)
    appended.eval()
    decisions = X[:, :d]

    def plain(**options: Any) -> float:
        return maximise(qLogNoisyExpectedImprovement(of_x, decisions), d, q, device, **options)

    def botorch() -> float:
        objective = CVaR(0.9, N_W)
        acqf = qLogNoisyExpectedImprovement(appended, decisions, objective=objective)
        return maximise(acqf, d, q, device)

    def ours(**options: Any) -> float:
        reduced, parts = robust(model, DiscreteEnvironment(w), MEASURE)
        acqf = qLogNoisyExpectedImprovement(reduced, decisions, **parts)
        return maximise(acqf, d, q, device, **options)

    return {
        "plain": plain,
        "botorch": botorch,
        "ours": ours,
        "plain, quick": partial(plain, **QUICK),
        "ours, quick": partial(ours, **QUICK),
    }


def acquisition(data_sets: int) -> None:
    print(
        "| n | d | q | of x alone, s | BoTorch's CVaR, s (ratio) | `robust`, s (ratio) | share "
        "| of x alone, quasi-Newton, s | `robust`, quasi-Newton, s (ratio) | its maximum less |"
    )
    print("|---" * 10 + "|")
    for q in (1, 4):
        for n in (20, 50):
            for d in (2, 5):
                seconds: dict[str, list[float]] = {}
                ends: dict[str, list[float]] = {}
                for seed in range(data_sets):
                    for name, way in ways(n, d, q, seed).items():
                        torch.manual_seed(seed)
                        start = time.process_time()
                        ends.setdefault(name, []).append(way())
                        seconds.setdefault(name, []).append(time.process_time() - start)
                median = {name: statistics.median(each) for name, each in seconds.items()}
                pairs = zip(seconds["ours"], seconds["botorch"], strict=True)
                share = statistics.median(ours / theirs for ours, theirs in pairs)
                cells = {
                    name: f"{value:.2f} ({value / median['plain']:.1f})"
                    for name, value in median.items()
                }
                less = statistics.mean(ends["ours, quick"]) - statistics.mean(ends["ours"])
                print(
                    f"| {n} | {d} | {q} | {median['plain']:.2f} | {cells['botorch']} "
                    f"| {cells['ours']} | {share:.2f} | {median['plain, quick']:.2f} "
                    f"| {cells['ours, quick']} | {less:+.3f} |",
                    flush=True,
                )


def chosen_points(decisions: int = 64) -> None:
    r"""Risk of a posterior mean over a density of w, against a grid of 20,000 quantiles."""
    X, Y = data(50, 2, 0)
    model = fitted(X, Y)
    density = Normal(0.5, 0.15)
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(decisions, 2, generator=generator, dtype=torch.float64)
    truth = ContinuousEnvironment(density, BOX, n_w=20_000, rule="midpoints")

    def risk(distribution: Any, measure: RiskMeasure) -> Tensor:
        with torch.no_grad():
            inputs, weights = distribution.expand(x)
            mean = torch.stack(
                [model.posterior(rows.unsqueeze(1)).mean.flatten() for rows in inputs]
            )
            return measure(mean, weights)

    print("\n| measure | 1,024 random values | 32 Sobol points | 32 midpoints | quadrature |")
    print("|---|---|---|---|---|")
    for measure in (Expectation(), ConditionalValueAtRisk(0.1)):
        exact = risk(truth, measure)
        random = [
            (risk(ContinuousEnvironment(density, BOX, 1024, seed, "monte_carlo"), measure) - exact)
            for seed in range(20)
        ]
        sobol = [
            risk(ContinuousEnvironment(density, BOX, 32, seed), measure) - exact
            for seed in range(20)
        ]
        midpoints = risk(ContinuousEnvironment(density, BOX, 32, rule="midpoints"), measure) - exact
        nodes = risk(ContinuousEnvironment(density, BOX, 32, rule="quadrature"), measure) - exact
        errors = [torch.stack(random), torch.stack(sobol), midpoints, nodes]
        cells = [f"{each.square().mean().sqrt():.1e}" for each in errors]
        print(f"| `{measure}` | {' | '.join(cells)} |", flush=True)


def paths(repeats: int) -> None:
    r"""One joint sample of the risks of 16 decisions, and one path at these decisions."""
    X, Y = data(50, 2, 0)
    model = fitted(X, Y)
    x = torch.rand(16, 2, dtype=torch.float64).requires_grad_()
    print("\n| n_w | joint, ms | path, ms |\n|---|---|---|")
    for n_w in (32, 64, 128, 256):
        distribution = ContinuousEnvironment(Normal(0.5, 0.15), BOX, n_w, rule="midpoints")
        reduced, _ = robust(model, distribution, MEASURE)
        with torch.no_grad():  # the hyperparameters take no gradient
            path = get_matheron_path_model(reduced)
        seconds = interleaved(
            {
                "joint": lambda r=reduced: r.posterior(x).rsample().sum().backward(),
                "path": lambda p=path: p(x).sum().backward(),
            },
            repeats,
            clock=time.process_time,
        )
        print(f"| {n_w} | {1e3 * seconds['joint']:.1f} | {1e3 * seconds['path']:.1f} |", flush=True)


def main(data_sets: int = 5) -> None:
    print(f"\n## Risk in qLogNEI\n\n{environment('cpu')}. CPU times.\n")
    acquisition(data_sets)
    chosen_points()
    paths(repeats=5)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-sets", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main(arguments.data_sets)
