r"""A step of TRUVAR on a finite domain, against what a user would write over the covariance.

    python -m bench.speed.truncated_variance

|D| = |M| = 2,500 (a 50 x 50 grid), t = 200, a squared exponential of lengthscale 0.1, noise 1e-3.
A competent user keeps the posterior covariance of the domain and values all candidates in four
vectorised lines (`four_lines`), or some rows at a time (`by_rows`), with a rank-one update for an
observation. The other two ways are
Eqs. (18) to (20) for each candidate, as the paper proposes: with a cached Cholesky factor, and with
one triangular solve for the whole domain. "Read" streams the |D| x |D| covariance once through
memory (its sum). A step selects and observes: the rank-one update of its observation is made as the
next step reads the rows. Then one step at |D| = 10^5 without a |D| x |D| matrix, where M is all of
D, and the candidates are those with the best upper bounds, or all (--full, minutes). Times are CPU
seconds on a CPU, so that other programs count for less.
"""

import argparse
import time
import warnings
from collections.abc import Callable

import torch
from botorch.models import SingleTaskGP
from gpytorch.kernels import RBFKernel
from torch import Tensor

from bench.speed.marginals import _peak_resident_set
from bench.speed.timing import environment, interleaved
from botorch_risk.engine import DomainPosterior
from botorch_risk.papers import (
    Maximize,
    TruncatedVarianceReduction,
    TruncatedVarianceState,
    top_candidates,
)

NOISE, LENGTHSCALE = 1e-3, 0.1


def posterior(domain: Tensor, t: int, dense: bool) -> DomainPosterior:
    generator = torch.Generator().manual_seed(0)
    indices = torch.randperm(len(domain), generator=generator)[:t].to(domain.device)
    X = domain[indices]
    Y = (5 * X).sin().sum(dim=-1, keepdim=True)
    kernel = RBFKernel()
    kernel.lengthscale = LENGTHSCALE
    noise = torch.full_like(Y, NOISE)
    model = SingleTaskGP(X, Y, noise, covar_module=kernel, outcome_transform=None).to(X)
    return DomainPosterior(model.requires_grad_(False), domain, dense=dense)


def state(given: DomainPosterior) -> TruncatedVarianceState:
    r"""All points unclassified and above the target, so that none drops out of the sum."""
    return TruncatedVarianceState.initial(given.domain, Maximize(), eta=1e-3)


def grid(device: str, side: int = 50) -> Tensor:
    line = torch.linspace(0, 1, side, dtype=torch.float64, device=device)
    return torch.cartesian_prod(line, line)


def cpu_clock(device: str) -> Callable[[], float]:
    return time.process_time if device == "cpu" else time.perf_counter


def candidate_by_candidate(given: DomainPosterior, sets: TruncatedVarianceState) -> Tensor:
    r"""Eqs. (18) to (20) and (3) as printed, from one Cholesky factor."""
    (X,) = given.model.train_inputs
    kernel, domain = given.model.covar_module, given.domain
    gram = kernel(X).to_dense() + NOISE * torch.eye(len(X)).to(X)
    factor, cross = torch.linalg.cholesky(gram), kernel(X, domain).to_dense()
    variance, beta, eta = given.variance, sets.beta, sets.eta
    before = torch.maximum(beta * variance, eta**2).sum()
    gains = []
    for i in range(len(domain)):
        solved = torch.cholesky_solve(cross[:, i : i + 1], factor)  # O(t^2)
        covariance = kernel(domain, domain[i : i + 1]).to_dense() - cross.T @ solved  # Eq. (20)
        fall = covariance.square().squeeze(-1) / (NOISE + variance[i])  # Eq. (18)
        gains.append(before - torch.maximum(beta * (variance - fall), eta**2).sum())  # Eq. (3)
    return torch.stack(gains)


def with_one_solve(given: DomainPosterior, sets: TruncatedVarianceState) -> Tensor:
    r"""The same, from one triangular solve for all points and one kernel matrix of the domain."""
    (X,) = given.model.train_inputs
    kernel, domain = given.model.covar_module, given.domain
    gram = kernel(X).to_dense() + NOISE * torch.eye(len(X)).to(X)
    factor, prior = torch.linalg.cholesky(gram), kernel(domain).to_dense()
    whitened = torch.linalg.solve_triangular(factor, kernel(X, domain).to_dense(), upper=False)
    variance, beta, eta = given.variance, sets.beta, sets.eta
    before = torch.maximum(beta * variance, eta**2).sum()
    gains = []
    for i in range(len(domain)):
        covariance = prior[:, i] - whitened.T @ whitened[:, i]  # Eq. (20)
        fall = covariance.square() / (NOISE + variance[i])  # Eq. (18)
        gains.append(before - torch.maximum(beta * (variance - fall), eta**2).sum())  # Eq. (3)
    return torch.stack(gains)


def four_lines(covariance: Tensor, sets: TruncatedVarianceState) -> Tensor:
    r"""All gains over the posterior covariance of the domain."""
    variance, beta, eta = covariance.diagonal(), sets.beta, sets.eta
    left = variance.unsqueeze(-1) - covariance.square() / (NOISE + variance)
    before = torch.maximum(beta * variance, eta**2).sum()
    return before - torch.maximum(beta * left, eta**2).sum(dim=0)


def by_rows(covariance: Tensor, sets: TruncatedVarianceState, rows: int = 64) -> Tensor:
    r"""The same, some rows at a time, whose intermediate values stay in the cache."""
    variance, beta, eta = covariance.diagonal(), sets.beta, sets.eta
    left = torch.zeros_like(variance)
    for part, own in zip(covariance.split(rows), variance.split(rows), strict=True):
        fallen = own.unsqueeze(-1) - part.square() / (NOISE + variance)
        left += torch.maximum(beta * fallen, eta**2).sum(dim=0)
    return torch.maximum(beta * variance, eta**2).sum() - left


def by_rows_and_update(covariance: Tensor, sets: TruncatedVarianceState) -> None:
    row = by_rows(covariance, sets).argmax()
    column = covariance[:, row].clone()
    covariance.addr_(column, column, alpha=-1 / float(NOISE + column[row]))


def step(device: str, repeats: int) -> None:
    given = posterior(grid(device), 200, dense=True)
    made = posterior(grid(device), 200, dense=False)
    sets = state(given)
    acqf = TruncatedVarianceReduction(given, sets, noise=NOISE)
    on_demand = TruncatedVarianceReduction(made, sets, noise=NOISE)
    printed = candidate_by_candidate(given, sets)
    others = acqf.evaluate_domain(), with_one_solve(given, sets), by_rows(given.covariance, sets)
    error = max((printed - each).abs().max().item() for each in others)
    covariance, trial = given.covariance, given.copy()
    own = covariance.clone()

    def sample() -> None:
        step = TruncatedVarianceReduction(trial, sets, noise=NOISE)
        trial.observe(step.select().row, 0.5, NOISE)

    ways: dict[str, Callable[[], object]] = {
        "Eqs. (18)-(20), candidate by candidate": lambda: candidate_by_candidate(given, sets),
        "Eqs. (18)-(20), one triangular solve": lambda: with_one_solve(given, sets),
        "four vectorised lines": lambda: four_lines(covariance, sets),
        "the same, 64 rows at a time": lambda: by_rows(covariance, sets),
        "64 rows at a time, and a rank-one update": lambda: by_rows_and_update(own, sets),
        "read the covariance once": covariance.sum,
        "value all candidates": acqf.evaluate_domain,
        "value all candidates, rows on demand": on_demand.evaluate_domain,
        "select and update": sample,
    }
    slow = {name: ways.pop(name) for name in list(ways)[:2]}
    clock = cpu_clock(device)
    with torch.no_grad():
        seconds = interleaved(slow, max(1, repeats // 5), device, clock)
        seconds |= interleaved(ways, 5 * repeats, device, clock)
    read, valued = seconds["read the covariance once"], seconds["value all candidates"]
    head = (
        "| a step at 2,500 points, t = 200 | ms | times `value all candidates` | times the read |"
    )
    print(f"{head}\n|---|---|---|---|")
    for name, value in seconds.items():
        print(f"| {name} | {1e3 * value:.1f} | {value / valued:.2f} | {value / read:.1f} |")
    print(f"\nLargest difference from the printed form: {error:.1e}.")


def large(device: str, size: int, num_candidates: int | None) -> None:
    domain = torch.rand(size, 2, dtype=torch.float64).to(device)
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")
    before, clock = _peak_resident_set(), cpu_clock(device)
    start = clock()
    given = posterior(domain, 200, dense=False)
    sets = state(given)
    mask = torch.ones(size, dtype=torch.bool, device=device)
    if num_candidates is not None:
        mask = top_candidates(given, num_candidates, beta=sets.beta)
    acqf = TruncatedVarianceReduction(given, sets, noise=NOISE, candidates=mask)
    built = clock()
    index = acqf.select().row
    given.observe(index, 0.5, NOISE)
    seconds = clock() - built
    extra = (_peak_resident_set() - before) / 1024
    print(
        f"| {size:,} | {int(mask.sum()):,} | {built - start:.1f} | {seconds:.1f} | {extra:.0f} |",
        flush=True,
    )


def main(device: str = "cpu", repeats: int = 5, full: bool = False) -> None:
    print(f"\n## Truncated variance reduction\n\n{environment(device)}.\n")
    step(device, repeats)
    print(
        "\n| points | candidates | build, s | a step, s | peak memory, MB |\n|---|---|---|---|---|"
    )
    for count in (1_000, 10_000, *([None] if full else [])):
        large(device, 100_000, count)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--full", action="store_true", help="all 10^5 points as candidates")
    parser.add_argument("--threads", type=int, default=1)
    arguments = vars(parser.parse_args())
    torch.set_num_threads(arguments.pop("threads"))
    warnings.simplefilter("ignore")
    main(**arguments)
