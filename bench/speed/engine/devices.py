r"""The same work on a GPU, on one thread of its CPU, and by BoTorch on the same GPU.

    python -m bench.speed.engine.devices [--device cuda]

A decision is the `ask` of a strategy after a few rounds, its fits included: milliseconds for all
replicates at once, and of BoTorch for as many seeds one after another. Decisions and fits are timed
on one device after the other, a fit once; all else takes turns. A GPU pays from the size at which
it is faster than the CPU. The first table is what a recording saves: one likelihood and one bound,
with their gradients, as calls of PyTorch and as a CUDA graph.
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from botorch.acquisition.analytic import UpperConfidenceBound
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from bench.speed.rahbo_loop import PlainBound, plain_models
from bench.speed.robust_acquisition import ways as ways_of_risk
from bench.speed.timing import environment, interleaved
from botorch_risk import papers
from botorch_risk.acquisition import gp_ucb
from botorch_risk.engine import (
    MarginalLikelihoodObjective,
    fit_exact_gp,
    gen_candidates_quasi_newton,
)
from botorch_risk.engine.optim.pointwise import PointwiseEvaluator
from botorch_risk.engine.recorded import RECORDERS, Recorded
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.steady import steady

NUM_INITIAL, ROUNDS, NUM_REPEATS = 14, 4, 5
OTHER_WAYS = 2_000  # the points up to which the slower ways of a fit are measured


def waves(X: Tensor) -> Tensor:
    return (5 * X).sin().sum(dim=-1, keepdim=True)


def unit(d: int, device: str) -> Tensor:
    return torch.tensor([[0.0] * d, [1.0] * d], dtype=torch.float64, device=device)


def rahbo(R: int, device: str) -> tuple[Any, Callable[[Tensor], tuple[Tensor, Tensor]]]:
    options = {"num_repeats": NUM_REPEATS, "risk_aversion": 1.0, "num_initial": NUM_INITIAL}
    generator = torch.Generator().manual_seed(0)

    def observe(X: Tensor) -> tuple[Tensor, Tensor]:
        shape = *X.shape[:-1], NUM_REPEATS
        return X, waves(X) + 0.3 * torch.randn(shape, generator=generator, dtype=X.dtype).to(X)

    return papers.rahbo(unit(2, device), list(range(R)), **options), observe


def sbo_kde(R: int, device: str) -> tuple[Any, Callable[[Tensor], tuple[Tensor, Tensor]]]:
    options = {"context_bounds": unit(1, device), "num_initial": NUM_INITIAL}
    generator = torch.Generator().manual_seed(0)

    def observe(X: Tensor) -> tuple[Tensor, Tensor]:
        w = torch.rand(*X.shape[:-1], 1, generator=generator, dtype=X.dtype).to(X)
        pairs = torch.cat([X, w], dim=-1)
        return pairs, waves(pairs)

    return papers.sbo_kde(unit(1, device), list(range(R)), **options), observe


def v_ucb(R: int, device: str) -> tuple[Any, Callable[[Tensor], tuple[Tensor, Tensor]]]:
    w = torch.linspace(0, 1, 100, dtype=torch.float64, device=device).unsqueeze(-1)
    options = {"environment": DiscreteEnvironment(w), "risk_level": 0.1}
    strategy = papers.v_ucb(unit(1, device), list(range(R)), num_initial=NUM_INITIAL, **options)
    return strategy, lambda pairs: (pairs, waves(pairs))


def decision_seconds(make: Callable[..., Any], R: int, device: str) -> float:
    r"""Median seconds of the last decisions of a short run."""
    strategy, observe = make(R, device)
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        X = strategy.ask()
        synchronise(device)
        seconds.append(time.perf_counter() - start)
        strategy.tell(*observe(X))
    return statistics.median(seconds[2:])


def plain_decision_seconds(device: str) -> float:
    r"""Of one seed of RAHBO in plain BoTorch, with as many points."""
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(NUM_INITIAL + ROUNDS, 2, generator=generator, dtype=torch.float64)
    noise = torch.randn(len(X), NUM_REPEATS, generator=generator, dtype=X.dtype)
    X, Y = X.to(device), (waves(X) + 0.3 * noise).to(device)

    def decide() -> None:
        bound = PlainBound(*plain_models(X, Y))
        optimize_acqf(bound, unit(2, device), q=1, num_restarts=10, raw_samples=256)

    return interleaved({"plain": decide}, 3, device)["plain"]


def synchronise(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def row(name: str, here: float, cpu: float | None, theirs: float | None) -> None:
    cells = [name, f"{1e3 * here:,.0f}"]
    for other in (cpu, theirs):
        cells += ["", ""] if other is None else [f"{1e3 * other:,.0f}", f"{other / here:.1f}"]
    print(f"| {' | '.join(cells)} |", flush=True)


def heading(first: str) -> None:
    print(f"\n| {first} | GPU, ms | one CPU thread, ms | ratio | BoTorch on the GPU, ms | ratio |")
    print("|---|---|---|---|---|---|")


def decisions(device: str, counts: Sequence[int]) -> None:
    heading("a decision")
    plain = plain_decision_seconds(device)
    for R in counts:
        here, cpu = (decision_seconds(rahbo, R, each) for each in (device, "cpu"))
        row(f"RAHBO, R = {R:,}", here, cpu, plain * R)
    for name, make in (("SBO-KDE", sbo_kde), ("V-UCB, 100 values of W", v_ucb)):
        for R in counts[:4]:
            here, cpu = (decision_seconds(make, R, each) for each in (device, "cpu"))
            row(f"{name}, R = {R:,}", here, cpu, None)


def large_data(n: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(n, 4, generator=generator, dtype=torch.float64)
    return X, waves(X) + 0.1 * torch.randn(n, 1, generator=generator, dtype=X.dtype)


def fits(device: str, sizes: Sequence[int]) -> None:
    heading("a fit, d = 4")
    for n in sizes:
        seconds, losses = [], []
        for each in [device, *(["cpu"] if n <= OTHER_WAYS else [])]:
            model = SingleTaskGP(*(part.to(each) for part in large_data(n)))
            start = time.perf_counter()
            losses.append(float(fit_exact_gp(model).objective))
            synchronise(each)
            seconds.append(time.perf_counter() - start)
        theirs = None
        if n <= OTHER_WAYS:
            model = SingleTaskGP(*(part.to(device) for part in large_data(n)))
            mll = ExactMarginalLogLikelihood(model.likelihood, model)
            start = time.perf_counter()
            fit_gpytorch_mll(mll)
            synchronise(device)
            theirs = time.perf_counter() - start
            losses.append(loss_of(model))
        cpu = seconds[1] if len(seconds) > 1 else None
        row(
            f"n = {n:,}; ends {', '.join(f'{loss:.4f}' for loss in losses)}",
            seconds[0],
            cpu,
            theirs,
        )


def loss_of(model: SingleTaskGP) -> float:
    r"""The log marginal likelihood with the priors, per point, where a fit has ended."""
    return float(fit_exact_gp(model, rough_start=False, max_iterations=0).objective)


def robust_maxima(device: str) -> None:
    heading("CVaR in qLogNEI, maximised")
    for q in (1, 4):
        here, there = ways_of_risk(50, 2, q, 0, device), ways_of_risk(50, 2, q, 0, "cpu")
        turns = {"here": here["ours"], "cpu": there["ours"], "theirs": here["botorch"]}
        seconds = interleaved(turns, 1, device, warm=q == 1)  # minutes otherwise
        row(f"n = 50, d = 2, q = {q}", seconds["here"], seconds["cpu"], seconds["theirs"])


def bounds_in_optimize_acqf(device: str) -> None:
    heading("`optimize_acqf` of a bound, d = 4")
    for n in (40, 500):
        turns = {}
        for name, each in (("here", device), ("cpu", "cpu")):
            model = SingleTaskGP(*(part.to(each) for part in large_data(n))).eval()
            ours = partial(
                optimize_acqf, gp_ucb(model, 1, beta=4.0), unit(4, each), 1, 10, 256,
                gen_candidates=gen_candidates_quasi_newton,
            )  # fmt: skip
            turns[name] = ours
            if name == "here":
                theirs = UpperConfidenceBound(model, beta=4.0)
                turns["theirs"] = partial(optimize_acqf, theirs, unit(4, each), 1, 10, 256)
        seconds = interleaved(turns, 3, device)
        row(f"n = {n}", seconds["here"], seconds["cpu"], seconds["theirs"])


def recordings(device: str) -> None:
    print(
        "\n| with its gradient | calls, ms | recorded, ms | one CPU thread, ms |\n|---|---|---|---|"
    )
    for R in (1, 512):
        for name, function in (("likelihood", likelihood), ("bound at 10 points", bound)):
            turns = {"calls": function(R, device, False), "cpu": function(R, "cpu", False)}
            turns |= {"recorded": function(R, device, True)} if device in RECORDERS else {}
            with steady(), torch.no_grad():
                for _ in range(2):  # it is recorded at its second call
                    turns.get("recorded", turns["calls"])()
                seconds = interleaved(turns, 15, device)
            cells = (1e3 * seconds.get(way, torch.nan) for way in ("calls", "recorded", "cpu"))
            print(f"| {name}, n = 40, R = {R} | {' | '.join(f'{each:.2f}' for each in cells)} |")


def models(R: int, device: str) -> SingleTaskGP:
    X = torch.rand(R, 40, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return SingleTaskGP(X.to(device), waves(X).to(device))


def likelihood(R: int, device: str, is_recorded: bool) -> Callable[[], Tensor]:
    objective = MarginalLikelihoodObjective.of(models(R, device).train())
    values = torch.full((R, objective.num_parameters), 0.3, dtype=torch.float64, device=device)
    function = partial(objective._likelihood, objective._data)
    return partial(Recorded(function) if is_recorded else function, values)


def bound(R: int, device: str, is_recorded: bool) -> Callable[[], Tensor]:
    acqf = gp_ucb(models(R, device).eval(), 1, beta=4.0)
    evaluator = PointwiseEvaluator(acqf, unit(2, device), R, None)
    points = torch.rand(R, 10, 2, dtype=torch.float64).to(device)
    function = evaluator._differentiated
    return partial(Recorded(function) if is_recorded else function, points)


def main(device: str = "cuda", quick: bool = False) -> None:
    print(f"\n## On a GPU\n\n{environment(device)}.")
    recordings(device)
    decisions(device, (1, 32) if quick else (1, 32, 128, 512, 2048))
    bounds_in_optimize_acqf(device)
    robust_maxima(device)
    fits(device, (300,) if quick else (1_000, 2_000, 5_000, 10_000))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main(arguments.device, arguments.quick)
