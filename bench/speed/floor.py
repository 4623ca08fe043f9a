r"""How far from the machine's floor each part is.

    python -m bench.speed.floor [--quick]

The floor of a part is what its mathematics needs (`bench/speed/floor_counts.py`) at the rates that
this machine has for matrix products, factorisations, exp, sorts and copies of the very shapes. The
rates are measured in turns with the part itself, in CPU seconds, so that other programs slow both.
A kernel is measured in a batch, so that no floor holds the cost of a call. That cost stands in a
column of its own: `calls` is the number of torch operations of one run, views included, times the
CPU time of an addition of two numbers. It does not count what Python does between them; for that
the sentences compare with the same code on two data and one point.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.models import SingleTaskGP
from gpytorch.kernels import MaternKernel, RBFKernel
from torch import Generator, Tensor
from torch.autograd.profiler import profile
from torch.utils._python_dispatch import TorchDispatchMode

from bench.speed import floor_counts as counts
from bench.speed.floor_counts import Count
from bench.speed.machine_rates import PROBES, cpu_seconds
from bench.speed.marginals import PASSES
from bench.speed.multistart import BETA, BOUNDS, fitted_model
from bench.speed.risk_measures import smooth_values
from bench.speed.timing import environment
from bench.speed.truncated_variance import NOISE, grid, posterior, state
from botorch_risk.acquisition import TruncatedVarianceReduction
from botorch_risk.fit import Hyperparameters, fit_exact_gp, log_marginal_likelihood
from botorch_risk.fit.objective import MarginalLikelihoodObjective
from botorch_risk.optim import optimize_acqf_replicates
from botorch_risk.optim.pointwise import PointwiseEvaluator
from botorch_risk.posterior import MarginalPredictor
from botorch_risk.risk import MaximumMeanDiscrepancyBall, TotalVariationBall
from botorch_risk.risk.mmd_interior_point import BallRows

REPLICATES = (1, 32, 128)
SIZES = ((40, 2), (100, 6))  # n and d of a fit
KERNELS = {"RBF": RBFKernel, "Matern-5/2": partial(MaternKernel, nu=2.5)}
DIMENSION = 2
MOST_ROWS = 4096  # of values in one call of a ball, as memory allows
LOW = 0.5  # a share below it is explained


@dataclass
class Part:
    r"""A part, what it needs, and what is known of one run of it."""

    name: str
    replicates: int
    shape: str
    run: Callable[[], object]
    needs: Sequence[tuple[float, Count]]  # how often each
    note: str = ""
    smallest: Callable[[], object] | None = None  # the same code with next to no arithmetic


@dataclass
class Row:
    r"""Microseconds of a part: floor, measured, of its calls alone, of the smallest problem."""

    part: Part
    floor: float
    measured: float
    calls: float
    num_calls: int
    smallest: float

    @property
    def share(self) -> float:
        return self.floor / self.measured


@dataclass
class Traced:
    r"""The calls of a method: the number of rows of each, and the CPU seconds in all of them."""

    sizes: list[int] = field(default_factory=list)
    seconds: float = 0.0


@contextmanager
def traced(owner: type, method: str, size: Callable[..., int]) -> Iterator[Traced]:
    r"""Records calls of a method; `size` gives the rows of one from its arguments."""
    record, original = Traced(), getattr(owner, method)

    def wrapper(self: Any, *args: Any) -> Any:
        start = time.process_time()
        result = original(self, *args)
        record.seconds += time.process_time() - start
        record.sizes.append(size(*args))
        return result

    with patch.object(owner, method, wrapper):
        yield record


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=Generator().manual_seed(seed), dtype=torch.float64)


def outcomes(X: Tensor) -> Tensor:
    return (4 * X.sum(dim=-1, keepdim=True)).sin() + 0.1 * draw(*X.shape[:-1], 1, seed=1)


def predictions(kernel: str, R: int, n: int, m: int) -> tuple[MarginalPredictor, Tensor]:
    r"""The marginals of R models of n points, and m points for each."""
    batch = [] if R == 1 else [R]
    X = draw(*batch, n, DIMENSION)
    covariance = KERNELS[kernel](ard_num_dims=DIMENSION, batch_shape=torch.Size(batch))
    model = SingleTaskGP(X, outcomes(X), covar_module=covariance).eval()
    covariance.lengthscale, model.likelihood.noise = 0.4, 1e-3
    return MarginalPredictor(model), draw(*batch, m, DIMENSION, seed=2)


def marginals() -> Iterator[Part]:
    for kernel, n, name in product(KERNELS, (40, 200), PASSES):
        for R, m in ((1, 10), (1, 1024), (32, 10), (128, 10)):
            run, least = (
                partial(PASSES[name], *predictions(kernel, R, *sizes)) for sizes in ((n, m), (2, 1))
            )
            need = counts.marginals(R, n, DIMENSION, m, kernel != "RBF", name != "forward")
            shape = f"{kernel}, n = {n}, m = {m:,}"
            yield Part(f"marginals, {name}", R, shape, run, [(1, need)], smallest=least)


def evidence(R: int, n: int, d: int) -> Callable[[], object]:
    r"""An evaluation of the likelihood of R data sets."""
    X = draw(R, n, d)
    Y, one = outcomes(X).squeeze(-1), X.new_ones(R)
    theta = Hyperparameters(X.new_full((R, d), 0.5), X.new_full((R, 1), 0.01), one, 0 * one)
    return partial(log_marginal_likelihood, X, Y, theta)


def likelihoods() -> Iterator[Part]:
    for (n, d), R in product(SIZES, REPLICATES):
        run, least = evidence(R, n, d), evidence(R, 2, d)
        need = [(1, counts.likelihood(R, n, d))]
        yield Part("likelihood and gradient", R, f"n = {n}, d = {d}", run, need, smallest=least)


def fits() -> Iterator[Part]:
    for (n, d), R in product(SIZES, REPLICATES):
        X = draw(R, n, d)
        model = SingleTaskGP(X, outcomes(X))
        initial = [parameter.detach().clone() for parameter in model.parameters()]

        def run(model: SingleTaskGP = model, initial: list[Tensor] = initial) -> Tensor:
            for parameter, value in zip(model.parameters(), initial, strict=True):
                parameter.data.copy_(value)
            return fit_exact_gp(model).num_evaluations

        run()
        start = time.process_time()
        with traced(MarginalLikelihoodObjective, "__call__", lambda x, _: len(x)) as record:
            evaluations = int(run().sum())
        share = record.seconds / (time.process_time() - start)
        note = f"{evaluations / R:.0f} evaluations a replicate take {share:.0%} of the fit"
        needs = [(evaluations / R, counts.likelihood(R, n, d))]
        yield Part("fit", R, f"n = {n}, d = {d}", run, needs, note)


def multistarts() -> Iterator[Part]:
    for R in REPLICATES:
        seeds = list(range(R))
        model = fitted_model(seeds)
        acqf = UpperConfidenceBound(model, beta=BETA)
        run = partial(optimize_acqf_replicates, acqf, BOUNDS, seeds=seeds)
        run()
        start = time.process_time()
        with (
            traced(PointwiseEvaluator, "values", lambda X: X.shape[-2]) as raw,
            traced(PointwiseEvaluator, "value_and_gradient", lambda x, _: len(x)) as steps,
        ):
            run()
        share = (raw.seconds + steps.seconds) / (time.process_time() - start)
        n, d = model.train_inputs[0].shape[-2:]
        needs = [(1, counts.marginals(R, n, d, m, False, False)) for m in raw.sizes]
        ascent = counts.marginals(R, n, d, 10, False, True)
        needs.append((sum(steps.sizes) / R / 10, ascent))
        note = (
            f"{len(steps.sizes)} gradients, of {sum(steps.sizes) / R:.0f} points a replicate; "
            f"all evaluations take {share:.0%} of it"
        )
        yield Part("multi-start of UCB", R, f"RBF, n = {n}, 256 raw, 10 starts", run, needs, note)


def line_of_points(n_w: int) -> Tensor:
    return torch.linspace(0, 1, n_w, dtype=torch.float64).unsqueeze(-1)


def candidates_of(R: int) -> int:
    return min(256, MOST_ROWS // R)


def total_variation_balls() -> Iterator[Part]:
    for n_w, R in product((100, 1024), REPLICATES):
        m = candidates_of(R)
        values = smooth_values(line_of_points(n_w), R * m).view(R, m, n_w)
        run = partial(TotalVariationBall(0.1), values, torch.full_like(values[0, 0], 1 / n_w))
        need = counts.total_variation(R * m, n_w)
        shape = f"n_w = {n_w:,}, {m} candidates"
        yield Part("worst case, total variation", R, shape, run, [(1, need)])


def discrepancy_balls() -> Iterator[Part]:
    kernel, points = RBFKernel(), line_of_points(100)
    kernel.lengthscale = 0.2
    for R in REPLICATES:
        m = candidates_of(R)
        values = smooth_values(points, R * m).view(R, m, 100)
        measure = MaximumMeanDiscrepancyBall(0.1, kernel).bind(SimpleNamespace(points=points))
        run = partial(measure, values, torch.full_like(values[0, 0], 1 / 100))
        with traced(BallRows, "gram", len) as record:
            run()
        (ball,) = measure._balls._balls
        need = counts.discrepancy(sum(record.sizes), R * m, 100, len(ball._shared[1].G))
        note = f"{sum(record.sizes) / R / m:.1f} steps a candidate, {len(record.sizes)} in turn"
        yield Part("worst case, MMD", R, f"n_w = 100, {m} candidates", run, [(1, need)], note)


def truncated_variance() -> Iterator[Part]:
    domain = grid("cpu")
    given = posterior(domain, 200, dense=True)
    sets = state(given)

    def run() -> None:
        step = TruncatedVarianceReduction(given, sets, noise=NOISE)
        given.observe(step.select().row, 0.5, NOISE)

    need = counts.truncated_variance(len(domain))
    with torch.no_grad():
        yield Part("step of TRUVAR", 1, "2,500 points, t = 200", run, [(1, need)])


class _Calls(TorchDispatchMode):
    r"""Counts torch operations."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def measure(part: Part, budget: float) -> Row:
    r"""Times a part in turns with all kernels of its floor."""
    terms = [term for _, need in part.needs for term in (*need.terms, need.memory)]
    probes = {(term.probe, term.shape): PROBES[term.probe](*term.shape) for term in terms}
    ways = {"part": part.run, "call": PROBES["call"]()[0], "smallest": part.smallest or int}
    ways |= {f"{key}": probe[0] for key, probe in probes.items()}
    seconds = cpu_seconds(ways, budget)
    rates = {key: work / seconds[f"{key}"] for key, (_, work) in probes.items()}

    def needed(term: counts.Term) -> float:
        return term.operations / rates[term.probe, term.shape]

    floor = sum(
        often * max(sum(map(needed, need.terms)), needed(need.memory)) for often, need in part.needs
    )
    with _Calls() as calls:
        part.run()
    times = (floor, seconds["part"], calls.count * seconds["call"], seconds["smallest"])
    floor, measured, overhead, smallest = (1e6 * value for value in times)
    return Row(part, floor, measured, overhead, calls.count, smallest)


def longest_operations(row: Row) -> str:
    r"""The four operations that take longest, with their shares of the time of all."""
    with profile(use_kineto=False) as record:
        for _ in range(min(200, 1 + int(2e5 / row.measured))):  # the first one is cold
            row.part.run()
    times = {
        event.key.removeprefix("aten::"): event.self_cpu_time_total
        for event in record.key_averages()
    }
    total = sum(times.values())
    longest = sorted(times, key=times.__getitem__, reverse=True)[:4]
    return ", ".join(f"`{name}` {times[name] / total:.0%}" for name in longest)


def sentence(row: Row) -> str:
    r"""What takes the time of a part at one shape."""
    part = row.part
    text = f"{row.num_calls:,} calls take about {row.calls / row.measured:.0%} of the time"
    if part.smallest is not None:
        text += f", two data and one point {row.smallest / row.measured:.0%}"
    text += f"; longest are {longest_operations(row)}"
    return f"R = {part.replicates}, {part.shape}: {text}{'; ' if part.note else ''}{part.note}"


def other_ways() -> str:
    r"""What would make the worst case over a total-variation ball faster."""
    values = smooth_values(line_of_points(1024), MOST_ROWS)
    ball, weights = TotalVariationBall(0.1), torch.full_like(values[0], 1 / 1024)
    ways = {
        "sort": partial(values[:256].sort, dim=-1),
        "select": partial(values[:256].topk, 52, dim=-1),
        "whole": partial(ball, values, weights),
        "blocks": lambda: torch.cat([ball(block, weights) for block in values.split(256)]),
    }
    ms = {name: f"{1e3 * seconds:.1f} ms" for name, seconds in cpu_seconds(ways, 1.0).items()}
    return (
        f"A sort of 256 x 1,024 values takes {ms['sort']}; to select the largest 5 %, which is "
        f"enough where weights are equal, takes {ms['select']}. The worst cases of {MOST_ROWS:,} "
        f"rows take {ms['whole']} in one call and {ms['blocks']} in blocks of 256 rows."
    )


ALL = (
    marginals,
    likelihoods,
    fits,
    multistarts,
    total_variation_balls,
    discrepancy_balls,
    truncated_variance,
)


def main(quick: bool = False) -> None:
    print(f"\n## Shares of the floor\n\n{environment('cpu')}. CPU time.\n")
    print("| part | R | shape | floor, us | measured, us | share | calls, us |")
    print("|---|---|---|---|---|---|---|", flush=True)
    low: dict[str, list[Row]] = {}
    for part in (part for parts in ALL for part in parts()):
        if quick and part.replicates == max(REPLICATES):
            continue
        row = measure(part, 0.1 if quick else 0.25)
        cells = [part.name, f"{part.replicates}", part.shape, f"{row.floor:,.1f}"]
        cells += [f"{row.measured:,.0f}", f"{row.share:.0%}", f"{row.calls:,.0f}"]
        print(f"| {' | '.join(cells)} |", flush=True)
        if row.share < LOW:
            low.setdefault(part.name, []).append(row)
    for name, rows in low.items():
        least, most = (
            min(rows, key=lambda row: row.share),
            max(rows, key=lambda row: row.measured),
        )
        ends = [least] if least is most else [least, most]
        print(f"\n- {name[0].upper()}{name[1:]}. {'. '.join(map(sentence, ends))}.")
    print(f"\n{other_ways()}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="without the largest batch")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main(**vars(parser.parse_args()))
