r"""Compares the ends of our ascent with the ends of BoTorch's, from equal starts.

    python -m bench.speed.multistart_quality

`optimize_acqf` (10 restarts, 256 raw points) of LogEI and UCB on fitted models of data sets that
differ in size, dimension, kernel, noise and function, by BoTorch's L-BFGS-B and by our ascent, with
starts given up and with all of them climbed to their ends. Values are in nats for LogEI and in
standard deviations of the outcomes for UCB. CPU times of one thread, the three ways in turns.
"""

import argparse
import math
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from botorch.acquisition import LogExpectedImprovement, UpperConfidenceBound
from botorch.fit import fit_gpytorch_mll
from botorch.generation import gen_candidates_scipy
from botorch.models import SingleTaskGP
from botorch.models.utils.gpytorch_modules import get_matern_kernel_with_gamma_prior
from botorch.optim import optimize_acqf
from gpytorch.kernels import MaternKernel, ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Generator, Tensor

from bench.speed.timing import environment
from botorch_risk.faster import fit_gpytorch_mll_closed_form, gen_candidates_quasi_newton
from botorch_risk.models import FastMarginals

SIZES, DIMENSIONS, NOISES = (10, 40, 200), (1, 2, 4, 6, 10), (1e-3, 0.05, 0.3)
KERNELS: dict[str, Callable[[int], Any]] = {
    "RBF": lambda d: None,  # BoTorch's default
    "Matern 5/2": get_matern_kernel_with_gamma_prior,
    "Matern 3/2": lambda d: ScaleKernel(MaternKernel(nu=1.5, ard_num_dims=d)),
}
WAYS = {
    "BoTorch": gen_candidates_scipy,
    "ours": gen_candidates_quasi_newton,
    "ours, all starts": partial(gen_candidates_quasi_newton, best_only=False),
}
LOST = 1e-3  # what counts as another end


def waves(X: Tensor, generator: Generator) -> Tensor:
    r"""Sums of sines, with rates and phases of their own in each dimension."""
    d = X.shape[-1]
    draw = partial(torch.rand, d, generator=generator, dtype=torch.float64)
    return ((2 + 8 * draw()) * X + 6 * draw()).sin() @ draw()


def paths(X: Tensor, generator: Generator) -> Tensor:
    r"""Sample paths of a Gaussian process, by 500 random cosines."""
    rates = torch.randn(500, X.shape[-1], generator=generator, dtype=torch.float64)
    phases = 2 * math.pi * torch.rand(500, generator=generator, dtype=torch.float64)
    weights = torch.randn(500, generator=generator, dtype=torch.float64)
    return (X @ (3 / X.shape[-1] ** 0.5 * rates).mT + phases).cos() @ weights / 16


def valley(X: Tensor, generator: Generator) -> Tensor:
    r"""A bent valley, narrow across and flat along."""
    centre = torch.rand(X.shape[-1], generator=generator, dtype=torch.float64)
    u = 2 * (X - centre)
    bend = (u[..., 1:] - u[..., :-1].square()).square().sum(dim=-1)
    return -(5 * bend + u.square().sum(dim=-1)).sqrt()


FUNCTIONS = (waves, paths, valley)


@dataclass(frozen=True)
class DataSet:
    r"""One fitted model, and what it is."""

    kind: tuple[int, int, str]
    model: Any
    best: Tensor
    scale: float
    seed: int


def data_sets(first: int, count: int) -> Iterator[DataSet]:
    r"""Data sets by seeds, over all combinations in turn."""
    for seed in range(first, first + count):
        generator = Generator().manual_seed(seed)
        n, d = SIZES[seed % 3], DIMENSIONS[seed % 5]
        kernel = list(KERNELS)[seed // 3 % 3]
        X = torch.rand(n, d, generator=generator, dtype=torch.float64)
        Y = FUNCTIONS[seed // 5 % 3](X, generator).unsqueeze(-1)
        noise = torch.randn(n, 1, generator=generator, dtype=torch.float64)
        Y = Y + NOISES[seed // 9 % 3] * Y.std() * noise
        model = SingleTaskGP(X, Y, covar_module=KERNELS[kernel](d))
        mll = ExactMarginalLogLikelihood(model.likelihood, model)
        fit_gpytorch_mll(mll, optimizer=fit_gpytorch_mll_closed_form)
        yield DataSet((n, d, kernel), FastMarginals(model), Y.max(), float(Y.std()), seed)


def maximise(acqf: Any, d: int, seed: int, gen_candidates: Any) -> tuple[float, float]:
    r"""The value of the end, and the CPU seconds."""
    bounds = torch.stack([torch.zeros(d), torch.ones(d)]).double()
    # The option draws the raw points, and the global state picks the starts among them.
    torch.manual_seed(seed)
    began = time.process_time()
    _, value = optimize_acqf(
        acqf, bounds, 1, 10, 256, {"seed": seed}, gen_candidates=gen_candidates
    )
    return float(value), time.process_time() - began


def main(first: int = 1000, count: int = 100, verbose: bool = False) -> None:
    values: dict[str, list[dict[str, float]]] = defaultdict(list)
    seconds: dict[str, list[dict[str, float]]] = defaultdict(list)
    for data in data_sets(first, count):
        acquisitions = {
            "LogEI": (LogExpectedImprovement(data.model, best_f=data.best), 1.0),
            "UCB": (UpperConfidenceBound(data.model, beta=4.0), data.scale),
        }
        for name, (acqf, scale) in acquisitions.items():
            ended, spent = {}, {}
            for way, gen_candidates in WAYS.items():
                value, spent[way] = maximise(acqf, data.kind[1], data.seed, gen_candidates)
                ended[way] = value / scale
            values[name].append(ended)
            seconds[name].append(spent)
            if verbose:
                print(name, data.seed, data.kind, ended, spent, flush=True)
    print(f"\n## Ends of a multi-start\n\n{environment('cpu')}; seeds {first} to ", end="")
    print(f"{first + count - 1}.\n")
    print("| acquisition | way | lower than BoTorch | higher | mean | least | CPU time |")
    print("|---|---|---|---|---|---|---|")
    for name in values:
        for way in list(WAYS)[1:]:
            gained = torch.tensor([each[way] - each["BoTorch"] for each in values[name]])
            ratios = torch.tensor([each["BoTorch"] / each[way] for each in seconds[name]])
            print(
                f"| {name} | {way} | {int((gained < -LOST).sum())} of {count} | "
                f"{int((gained > LOST).sum())} | {gained.mean():+.3f} | {gained.min():+.2f} | "
                f"{ratios.median():.1f} times as fast |"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=1000, help="the seed of the first data set")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--verbose", action="store_true")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main(**vars(parser.parse_args()))
