r"""What the same work costs elsewhere, and beside every time how good the answer is.

    python -m bench.speed.peers [--replicates 32] [--repeats 5]

RAHBO's loop on Branin: ours, BoTorch in batches with its parallel L-BFGS-B, `jit(vmap(loop))` in
JAX, whose compilation is a column of its own, and plain BoTorch, one seed after another. A fit of
one process, also with botorch-rust; of mean and noise together, with hetGPy; and worst cases over
two balls, with cvxpy. CPU time; the ways of a task take turns, except where they take minutes,
which have only the first one. Needs the extras `peers` and `bayesian`.
"""

import argparse
import os
import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import botorch_rs.fit
import botorch_rs.mlls
import botorch_rs.models
import cvxpy
import numpy as np
import torch
from botorch.models import SingleTaskGP
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from gpytorch.kernels import ScaleKernel
from torch import Tensor

# One thread, said before JAX is imported; with two, batches of 32 never came back.
os.environ.setdefault("PJRT_NPROC", "1")

from bench.reproduction.tables import cell, paired, table
from bench.speed import fit_quality, jax_loop, rahbo_loop, risk_measures
from bench.speed.batched_botorch import batched_botorch_loop
from bench.speed.rahbo_loop import NUM_REPEATS, PROBLEM, UNIT
from bench.speed.timing import environment
from bench.studies.learnt_noise.methods import METHODS, Prediction, better_of_hetgpy
from botorch_risk.fit import fit_exact_gp
from botorch_risk.models import MeanVarianceGP
from botorch_risk.models.fixed_noise import mean_kernel
from botorch_risk.seeding import derive_seed, generators, sobol_points
from botorch_risk.strategies import initial_design

NUM_ROUNDS, NUM_INITIAL, NUM_ROWS, NUM_TEST = 30, 10, 40, 500


class Way(NamedTuple):
    r"""One way to do a task.

    Attributes:
        run: Does it; how good the answer is, one number a replicate.
        compilation: CPU seconds before the first run.
        is_slow: It has only the first turn.
    """

    run: Callable[[], Tensor]
    compilation: float | None = None
    is_slow: bool = False


def compare(task: str, quality: str, ways: Mapping[str, Way], repeats: int) -> None:
    r"""Prints the table of a task; the first way is ours."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    found: dict[str, Tensor] = {}
    for turn in range(repeats):
        for name, way in ways.items():
            if turn == 0 or not way.is_slow:
                start = time.process_time()
                found[name] = way.run()
                seconds[name].append(time.process_time() - start)
    ours, shortest = next(iter(found.values())), statistics.median(next(iter(seconds.values())))
    rows = []
    for name, way in ways.items():
        median = statistics.median(seconds[name])
        compilation = "" if way.compilation is None else f"{way.compilation:.1f}"
        apart = "" if found[name] is ours else paired(found[name], ours)
        times = [f"{median:.3g}", f"{median / shortest:.1f}", compilation]
        rows.append([name, *times, cell(found[name]), apart])
    header = [task, "CPU, s", "of ours", "compilation, s", quality, "minus ours"]
    print(table(header, rows), flush=True)


def in_turn(run: Callable[[int], float], count: int) -> Way:
    r"""One replicate after another."""
    return Way(lambda: torch.tensor([run(each) for each in range(count)]).double(), is_slow=True)


# RAHBO's loop.


def jax_way(replicates: int) -> Way:
    r"""`jit(vmap(loop))`, compiled; designs and observation noise are of the other loops."""
    seeds = list(range(replicates))
    lower, upper = PROBLEM.bounds
    X = initial_design(PROBLEM.bounds, seeds, NUM_INITIAL)
    Y = PROBLEM.sample_repeats(X, NUM_REPEATS, generators(seeds, "observations", 0))
    raw, draws = [], []
    middle = ((lower + upper) / 2).expand(replicates, 1, -1)
    value, level = PROBLEM(middle, noise=False), PROBLEM.noise_variance(middle).sqrt()
    for index in range(1, NUM_ROUNDS + 1):
        streams = [derive_seed(seed, "raw", index) for seed in seeds]
        raw.append(torch.stack([sobol_points(stream, rahbo_loop.RAW, 2) for stream in streams]))
        readings = PROBLEM.sample_repeats(
            middle, NUM_REPEATS, generators(seeds, "observations", index)
        )
        draws.append(((readings - value.unsqueeze(-1)) / level.unsqueeze(-1)).squeeze(-2))
    arrays = [
        each.numpy()
        for each in ((X - lower) / (upper - lower), Y, torch.stack(raw, 1), torch.stack(draws, 1))
    ]
    start = time.process_time()
    compiled = jax_loop.compiled(
        jax_loop.rahbo,
        arrays,
        num_restarts=rahbo_loop.RESTARTS,
        risk_aversion=rahbo_loop.RISK_AVERSION,
    )
    compilation = time.process_time() - start

    def run() -> Tensor:
        decisions = lower + (upper - lower) * torch.from_numpy(np.array(compiled(*arrays)))
        return torch.tensor([rahbo_loop.regret(x) for x in decisions]).double()

    return Way(run, compilation)


def compare_loops(replicates: int, repeats: int) -> None:
    def ours() -> Tensor:
        return torch.tensor(rahbo_loop.batched_loop(replicates, NUM_ROUNDS, "cpu")).double()

    def batched() -> Tensor:
        decisions = batched_botorch_loop(replicates, NUM_ROUNDS)
        return torch.tensor([rahbo_loop.regret(x) for x in decisions]).double()

    rahbo_loop.batched_loop(2, 2, "cpu")
    ways = {
        "ours, one batch": Way(ours),
        "JAX, `jit(vmap(loop))`": jax_way(replicates),
        "BoTorch in batches": Way(batched),
        "BoTorch, one by one": in_turn(
            lambda seed: rahbo_loop.plain_loop(seed, NUM_ROUNDS), replicates
        ),
    }
    task = f"RAHBO on Branin, {replicates} seeds, {NUM_ROUNDS} rounds"
    compare(task, "final regret", ways, repeats)


# A fit of one process with given noise.


def compare_fits(replicates: int, repeats: int) -> None:
    cases = [
        fit_quality.Case(2, NUM_ROWS, True, "smooth", "fixed noise", seed)
        for seed in range(replicates)
    ]
    sets = [fit_quality.data(case) for case in cases]
    X, Y = (torch.stack(tensors) for tensors in zip(*sets, strict=True))
    noise = 1e-2 * Y.var(dim=-2, keepdim=True).expand_as(Y)
    arrays = [each.numpy() for each in (X, Y[..., 0], noise[..., 0], torch.ones_like(Y[..., 0]))]
    start = time.process_time()
    compiled = jax_loop.compiled(jax_loop.best_likelihood, arrays)
    compilation = time.process_time() - start

    def batched(fit: Callable[[SingleTaskGP], object]) -> Way:
        def run() -> Tensor:
            model = SingleTaskGP(X, Y, noise)
            fit(model)
            return fit_quality.objective(model)

        return Way(run)

    def one_by_one(fit: Callable[[SingleTaskGP], object]) -> Way:
        def one(index: int) -> float:
            model = SingleTaskGP(X[index], Y[index], noise[index])
            fit(model)
            return fit_quality.objective(model).item()

        return in_turn(one, replicates)

    def native(index: int) -> float:
        r"""The same model in Rust; its end is valued by the formula of the others."""
        fitted: Any = botorch_rs.models.SingleTaskGP(X[index], Y[index], noise[index])
        mll = botorch_rs.mlls.ExactMarginalLogLikelihood(fitted.likelihood, fitted)
        botorch_rs.fit.fit_gpytorch_mll(mll)
        model: Any = SingleTaskGP(X[index], Y[index], noise[index])
        model.covar_module.lengthscale = fitted.covar_module.lengthscale.detach()
        model.mean_module.constant = fitted.mean_module.constant.detach()
        return fit_quality.objective(model).item()

    ways = {
        "ours, one batch, two starts": batched(fit_exact_gp),
        "ours, one start": batched(fit_quality.fit_one_start),
        "JAX, `jit(vmap(fit))`": Way(
            lambda: torch.from_numpy(np.array(compiled(*arrays))), compilation
        ),
        "BoTorch, one batch": batched(fit_quality.fit_botorch),
        "ours, one by one, two starts": one_by_one(fit_exact_gp),
        "BoTorch, one by one": one_by_one(fit_quality.fit_botorch),
        "botorch-rust, one by one": in_turn(native, replicates),
    }
    task = f"Fit with given noise, {replicates} data sets, n = {NUM_ROWS}, d = 2"
    compare(task, "log likelihood a datum", ways, repeats)


# Mean and noise from repeats.


def log_density(found: Prediction, Y: Tensor) -> Tensor:
    r"""Mean log density of new readings, one a replicate."""
    of_reading = (found.variance + found.noise).sqrt()
    return torch.distributions.Normal(found.mean, of_reading).log_prob(Y).mean(dim=-1)


def gaussian_kernel(X: Tensor) -> ScaleKernel:
    r"""Ours with a Gaussian in place of the Matern kernel, as hetGPy's default has it."""
    kernel = mean_kernel(X)
    kernel.base_kernel = get_covar_module_with_dim_scaled_prior(X.shape[-1], X.shape[:-2])
    return kernel


def of_our_batch(
    X: Tensor, Y: Tensor, test_X: Tensor, kernel: ScaleKernel | None = None
) -> Prediction:
    model = MeanVarianceGP(X, Y, covar_module=kernel)
    model.fit_processes()
    model.eval()
    with torch.no_grad():
        return Prediction(*model.mean_marginals(test_X), model.predicted_noise(test_X).squeeze(-1))


def of_two_processes(X: Tensor, Y: Tensor, test_X: Tensor) -> Prediction:
    r"""A plain process of the means and one of the log variances, whose mean is the noise."""
    model, noise_model = (each.eval() for each in rahbo_loop.plain_models(X, Y))
    with torch.no_grad():
        f, log_noise = (each.posterior(test_X.unsqueeze(-2)) for each in (model, noise_model))
        noise = (log_noise.mean + log_noise.variance / 2).exp()
        return Prediction(*(each.flatten() for each in (f.mean, f.variance, noise)))


def compare_noise_models(replicates: int, repeats: int) -> None:
    lower, upper = PROBLEM.bounds
    seeds = list(range(replicates))
    X, test_X = (
        initial_design(UNIT, [s + 1000 * part for s in seeds], count)
        for part, count in enumerate((NUM_ROWS, NUM_TEST))
    )
    Y, test_Y = (
        PROBLEM.sample_repeats(lower + (upper - lower) * x, k, generators(seeds, "peers", k))
        for x, k in ((X, NUM_REPEATS), (test_X, 1))
    )
    test_Y = test_Y.squeeze(-1)

    def one_by_one(method: Callable[[Tensor, Tensor, Tensor], Prediction]) -> Way:
        def one(index: int) -> float:
            found = method(X[index], Y[index], test_X[index])
            return log_density(found, test_Y[index]).item()

        return in_turn(one, replicates)

    ways = {
        "ours, one batch": Way(lambda: log_density(of_our_batch(X, Y, test_X), test_Y)),
        "ours, Gaussian kernel": Way(
            lambda: log_density(of_our_batch(X, Y, test_X, gaussian_kernel(X)), test_Y)
        ),
        "ours, one by one": one_by_one(METHODS["ours"]),
        "BoTorch, two processes, one by one": one_by_one(of_two_processes),
        "hetGPy, Gaussian kernel": one_by_one(METHODS["hetGPy"]),
        "hetGPy, the better of two kernels": one_by_one(better_of_hetgpy),
    }
    task = f"Mean and noise, {replicates} data sets, n = {NUM_ROWS}, d = 2, k = {NUM_REPEATS}"
    compare(task, "log density of a new reading", ways, repeats)


# Worst cases.


def compare_ball(name: str, ball: risk_measures.Ball, repeats: int) -> None:
    rows, num_points = ball.values.shape
    weights = torch.full_like(ball.values[0], 1 / num_points)
    ways = {"ours, one batch": Way(lambda: ball.measure(ball.values, weights))}
    for label, solver in ball.baselines.items():
        ways[label] = in_turn(lambda _, solver=solver: solver(), rows)
    task = f"{name}, {rows} candidates, n_w = {num_points:,}"
    compare(task, "smallest expectation", ways, repeats)


def main(replicates: int = 32, repeats: int = 5) -> None:
    packages = f"cvxpy {cvxpy.__version__}, {jax_loop.VERSION}"
    print(f"\n## The same work elsewhere\n\n{environment('cpu')}, {packages}.\n")
    compare_loops(replicates, repeats)
    compare_fits(replicates, repeats)
    compare_noise_models(replicates, repeats)
    compare_ball("Total variation, radius 0.1", risk_measures.total_variation_ball(0.1), repeats)
    mmd_ball = risk_measures.maximum_mean_discrepancy_ball(0.1, risk_measures.LINE)
    compare_ball("MMD, radius 0.1", mmd_ball, repeats)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicates", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=5)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main(**vars(parser.parse_args()))
