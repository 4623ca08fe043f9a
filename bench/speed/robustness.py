r"""The price of robustness: a round of SBO-KDE, DRBO-KDE and DRBO-MMD against one of GP-UCB.

    python -m bench.speed.robustness

Ackley (2+1), n = 60, everybody with 50 restarts and 1,024 raw samples. The reference is a GP-UCB
round on x alone in plain BoTorch: `fit_gpytorch_mll`, `UpperConfidenceBound`, `optimize_acqf`. The
paper's Table 1: SBO-KDE 2.7x, DRBO-KDE 15.9x, DRBO-MMD 463x, the last two with a tenth of the
restarts. The error of an environment is that of the acquisition value against 2^16 quadrature
points, root mean square over 256 decisions, in units of the prior standard deviation.
"""

import argparse
import gc
import warnings
from collections.abc import Callable
from functools import partial

import cvxpy
import numpy as np
import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.test_functions import Ackley
from gpytorch.kernels import RBFKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from bench.speed.marginals import _peak_resident_set
from bench.speed.timing import environment, interleaved
from botorch_risk.acquisition import RiskUpperConfidenceBound
from botorch_risk.environments import (
    DiscreteEnvironment,
    EmpiricalGrid,
    Environment,
    KernelDensityEnvironment,
    regular_grid,
)
from botorch_risk.fit import fit_exact_gp
from botorch_risk.optim import optimize_acqf_replicates
from botorch_risk.risk import (
    Expectation,
    MaximumMeanDiscrepancyBall,
    RiskMeasure,
    TotalVariationBall,
)

BETA, RADIUS = 2.25, 0.3
BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
CONTEXT_BOUNDS = BOUNDS[:, :1]
KERNEL = RBFKernel()
KERNEL.lengthscale = 0.2


def data(n: int = 60) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(n, 3, generator=generator, dtype=torch.float64)
    noise = torch.randn(n, generator=generator, dtype=torch.float64)
    X[:, 2] = (0.5 + 0.15 * noise).clamp(0, 1)
    return X, Ackley(dim=3, negate=True)(2 * X - 1).unsqueeze(-1)


def density(n_w: int, n_ball: int = 0, rule: str = "sobol", seed: int = 0) -> Environment:
    X, _ = data()
    options = {"n_w": n_w, "n_ball": n_ball, "rule": rule, "seeds": seed}
    return KernelDensityEnvironment(X[:, 2:], CONTEXT_BOUNDS, **options)


def grid() -> Environment:
    return EmpiricalGrid(data()[0][:, 2:], regular_grid(CONTEXT_BOUNDS, 100))


def plain_round() -> None:
    X, Y = data()
    model = SingleTaskGP(X[:, :2], Y)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    acqf = UpperConfidenceBound(model, beta=BETA)
    optimize_acqf(acqf, BOUNDS, q=1, num_restarts=50, raw_samples=1024)


def robust_round(build: Callable[[], Environment], measure: RiskMeasure) -> None:
    model = SingleTaskGP(*data())
    fit_exact_gp(model)
    acqf = RiskUpperConfidenceBound(model, build(), measure, beta=BETA)
    optimize_acqf_replicates(acqf, BOUNDS, seeds=0, num_restarts=50, raw_samples=1024)


ROBUST: dict[str, tuple[Callable[..., Environment], RiskMeasure]] = {
    "SBO-KDE, 32 quadrature points": (partial(density, 32, rule="quadrature"), Expectation()),
    "SBO-KDE, 64 Sobol points": (partial(density, 64), Expectation()),
    "SBO-KDE, 1,024 Monte-Carlo points": (
        partial(density, 1024, rule="monte_carlo"),
        Expectation(),
    ),
    "DRBO-KDE, 64 Sobol + 64 for the ball": (partial(density, 64, 64), TotalVariationBall(RADIUS)),
    "DRBO-KDE, 1,024 Monte-Carlo + 1,024": (
        partial(density, 1024, 1024, rule="monte_carlo"),
        TotalVariationBall(RADIUS),
    ),
    "DRBO-MMD, 100 points": (grid, MaximumMeanDiscrepancyBall(0.1, KERNEL)),
}


def rounds(repeats: int) -> None:
    turns: dict[str, Callable[[], object]] = {"GP-UCB, plain BoTorch": plain_round}
    turns |= {name: partial(robust_round, *parts) for name, parts in ROBUST.items()}
    seconds = interleaved(turns, repeats)
    reference = seconds["GP-UCB, plain BoTorch"]
    print("| round | ms | ratio to GP-UCB | error of the environment |\n|---|---|---|---|")
    for name, value in seconds.items():
        error = f"{environment_error(name):.1e}" if "KDE" in name else ""
        print(f"| {name} | {1e3 * value:.0f} | {value / reference:.2f} | {error} |", flush=True)


def environment_error(name: str) -> float:
    r"""Of the acquisition value, averaged over seeds where the points are drawn."""
    build, measure = ROBUST[name]
    model = SingleTaskGP(*data())
    fit_exact_gp(model)
    X = torch.rand(256, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    n_ball = 1024 if isinstance(measure, TotalVariationBall) else 0
    exact = RiskUpperConfidenceBound(
        model, density(2**12, n_ball, rule="quadrature"), measure, beta=BETA
    ).evaluate(X)
    errors = []
    for seed in range(8):
        acqf = RiskUpperConfidenceBound(model, build(seed=seed), measure, beta=BETA)
        errors.append((acqf.evaluate(X) - exact).square().mean())
    scale = model.outcome_transform.stdvs.item()
    return torch.stack(errors).mean().sqrt().item() / scale


def against_cvxpy(repeats: int) -> None:
    r"""DRBO-MMD's acquisition value, candidate by candidate, as a user would write it."""
    model = SingleTaskGP(*data())
    fit_exact_gp(model)
    contexts = grid()
    points, weights = contexts.points, contexts.weights.numpy()
    kernel = KERNEL(points).to_dense().detach().numpy()
    root = np.linalg.cholesky(kernel + 1e-10 * np.eye(100)).T
    q, values = cvxpy.Variable(100, nonneg=True), cvxpy.Parameter(100)
    ball = [cvxpy.sum(q) == 1, cvxpy.norm(root @ (q - weights)) <= 0.1]
    problem = cvxpy.Problem(cvxpy.Minimize(values @ q), ball)

    def plain(X: Tensor) -> None:
        for x in X:
            pairs = torch.cat([x.expand(100, 2), points], dim=-1)
            posterior = model.posterior(pairs.unsqueeze(-2))
            upper = posterior.mean + (BETA * posterior.variance).sqrt()
            values.value = upper.detach().flatten().numpy()
            problem.solve(solver=cvxpy.CLARABEL)

    acqf = RiskUpperConfidenceBound(model, contexts, ROBUST["DRBO-MMD, 100 points"][1], beta=BETA)
    X = torch.rand(256, 2, dtype=torch.float64)

    def ours() -> None:
        with torch.no_grad():
            acqf.evaluate(X)

    def ours_with_gradient() -> None:
        acqf.evaluate(X.clone().requires_grad_()).sum().backward()

    turns = {
        "plain": partial(plain, X[:8]),
        "value": ours,
        "value and gradient": ours_with_gradient,
    }
    seconds = interleaved(turns, repeats)
    each = {"plain": seconds["plain"] / 8} | {
        k: v / 256 for k, v in seconds.items() if k != "plain"
    }
    print("\n| DRBO-MMD's acquisition, a candidate of 256 | ms | ratio |\n|---|---|---|")
    for name, value in each.items():
        print(f"| {name} | {1e3 * value:.3f} | {each['plain'] / value:.0f} |")


def memory() -> None:
    r"""16 candidates, forward and backward, at a million points of the environment."""
    X, Y = data(100)
    model = SingleTaskGP(X, Y)
    contexts = DiscreteEnvironment(torch.linspace(0, 1, 10**6, dtype=torch.float64).unsqueeze(-1))
    gc.collect()
    for name, measure in (("expectation", Expectation()), ("TV ball", TotalVariationBall(RADIUS))):
        acqf = RiskUpperConfidenceBound(model, contexts, measure, beta=BETA)
        with open("/proc/self/clear_refs", "w") as peak:
            peak.write("5")
        before = _peak_resident_set()
        candidates = torch.rand(16, 2, dtype=torch.float64, requires_grad=True)
        acqf.evaluate(candidates).sum().backward()
        extra = (_peak_resident_set() - before) / 1024
        print(
            f"\n16 candidates, forward and backward, n_w = 10^6, n = 100, {name}: {extra:.0f} MB."
        )


def main(repeats: int = 5) -> None:
    print(f"\n## The price of robustness\n\n{environment('cpu')}.\n")
    rounds(repeats)
    against_cvxpy(repeats)
    memory()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main(**vars(parser.parse_args()))
