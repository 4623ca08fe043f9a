r"""Is the closed-form fit as good as `fit_gpytorch_mll`, and how much faster?

Two hundred data sets: d = 1 to 10, n = 10 to 300, uniform designs and designs clustered as a
loop leaves them, smooth, rough and noisy functions, four kinds of model. Both fits start at the
model's default values; they alternate, so that none has the quieter machine. Ours runs with its
second start and without. A second table fits replicates as one batch.
The second start was chosen on the data sets from seed 0 on; those from 1000 on are fresh.
Run `python -m bench.speed.fit_quality [--count 200] [--first 0]`.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.utils.gpytorch_modules import (
    get_covar_module_with_dim_scaled_prior,
    get_gaussian_likelihood_with_gamma_prior,
    get_matern_kernel_with_gamma_prior,
)
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Generator, Tensor

from bench.speed.timing import environment
from botorch_risk.engine import fit_exact_gp

DIMENSIONS = (1, 2, 3, 4, 6, 8, 10)
SIZES = (10, 20, 40, 80, 150, 300)
KINDS = ("smooth", "rough", "noisy")
MODELS = ("rbf", "matern", "scaled matern", "fixed noise")


@dataclass(frozen=True)
class Case:
    d: int
    n: int
    clustered: bool
    kind: str
    model: str
    seed: int


def cases(count: int, first: int = 0) -> list[Case]:
    rng = np.random.default_rng(first)
    return [
        Case(
            d=int(rng.choice(DIMENSIONS)),
            n=int(rng.choice(SIZES)),
            clustered=bool(seed % 2),
            kind=KINDS[seed % 3],
            model=MODELS[int(rng.integers(len(MODELS)))],
            seed=seed,
        )
        for seed in range(first, first + count)
    ]


def data(case: Case) -> tuple[Tensor, Tensor]:
    generator = Generator().manual_seed(case.seed)
    draw = {"generator": generator, "dtype": torch.float64}
    X = torch.rand(case.n, case.d, **draw)
    if case.clustered:  # half of the points around an incumbent, closer and closer
        half = case.n // 2
        radius = torch.logspace(-0.5, -4, half, dtype=torch.float64).unsqueeze(-1)
        X[-half:] = (X[0] + radius * torch.randn(half, case.d, **draw)).clamp(0, 1)
    slope = torch.rand(case.d, **draw) * 4 + 1
    Y = (X * slope).sin().sum(-1) + 0.5 * (X.square() @ slope.flip(0)).cos()
    if case.kind == "rough":
        Y = Y + (X * 9).frac().sub(0.5).abs().sum(-1)
    noise = {"smooth": 1e-3, "rough": 1e-2, "noisy": 0.5}[case.kind]
    return X, (Y + noise * torch.randn(case.n, **draw)).unsqueeze(-1)


def build(model: str, X: Tensor, Y: Tensor) -> SingleTaskGP:
    batch_shape, d = X.shape[:-2], X.shape[-1]
    if model == "matern":
        kernel = get_covar_module_with_dim_scaled_prior(d, batch_shape, use_rbf_kernel=False)
        return SingleTaskGP(X, Y, covar_module=kernel)
    if model == "scaled matern":
        kernel = get_matern_kernel_with_gamma_prior(d, batch_shape)
        likelihood = get_gaussian_likelihood_with_gamma_prior(batch_shape)
        return SingleTaskGP(X, Y, covar_module=kernel, likelihood=likelihood)
    if model == "fixed noise":
        return SingleTaskGP(X, Y, torch.full_like(Y, 1e-2) * Y.var(dim=-2, keepdim=True))
    return SingleTaskGP(X, Y)


def objective(model: SingleTaskGP) -> Tensor:
    mll = ExactMarginalLogLikelihood(model.likelihood, model).train()
    with torch.no_grad():
        return mll(model(*model.train_inputs), model.train_targets)


def fit_botorch(model: SingleTaskGP) -> None:
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))


def timed(fit: Callable[[SingleTaskGP], object], model: SingleTaskGP) -> float:
    start = time.perf_counter()
    fit(model)
    return time.perf_counter() - start


def fit_one_start(model: SingleTaskGP) -> None:
    fit_exact_gp(model, rough_start=False)


FITS = {"two starts": fit_exact_gp, "one start": fit_one_start, "BoTorch": fit_botorch}


def compare(count: int, first: int) -> None:
    listed = cases(count, first)
    for fit in FITS.values():
        fit(build("rbf", *data(listed[0])))
    values, seconds = np.zeros((2, len(listed), len(FITS)))
    for row, case in enumerate(listed):
        X, Y = data(case)
        for column, fit in enumerate(FITS.values()):
            model = build(case.model, X, Y)
            seconds[row, column] = timed(fit, model)
            values[row, column] = objective(model)
    for column, name in enumerate(list(FITS)[:-1]):
        gains = values[:, column] - values[:, -1]
        print(
            f"{name}: within 1e-6 per datum of BoTorch or better on {np.mean(gains >= -1e-6):.1%} "
            f"of {len(listed)} data sets, better by more on {np.mean(gains > 1e-6):.1%}; "
            f"mean gain {gains.mean():.1e}, worst {gains.min():.1e}, best {gains.max():.1e}"
        )
        for row in np.flatnonzero(gains < -1e-6):
            print(f"  behind by {-gains[row]:.1e}: {listed[row]}")
    print("\n| group | data sets | two starts, ms | one start, ms | BoTorch, ms | ratios |")
    print("|---|---|---|---|---|---|")
    groups = {f"n = {n}": [case.n == n for case in listed] for n in SIZES}
    groups |= {f"d = {d}": [case.d == d for case in listed] for d in DIMENSIONS}
    groups |= {model: [case.model == model for case in listed] for model in MODELS}
    groups["all"] = [True] * len(listed)
    for name, members in groups.items():
        chosen = seconds[np.array(members)]
        medians = " | ".join(f"{1e3 * value:.1f}" for value in np.median(chosen, axis=0))
        ratios = ", ".join(
            f"{value:.1f}" for value in np.median(chosen[:, -1:] / chosen[:, :-1], axis=0)
        )
        print(f"| {name} | {len(chosen)} | {medians} | {ratios} |")


def compare_batches(repeats: int = 3) -> None:
    names = ", ms | ".join(FITS)
    print(f"\n| R | d, n | {names}, ms | BoTorch looped, ms |\n|---|---|---|---|---|---|")
    for R, d, n in ((8, 2, 40), (32, 2, 40), (8, 6, 100), (32, 6, 100), (8, 6, 200)):
        sets = [data(Case(d, n, True, "smooth", "rbf", seed)) for seed in range(R)]
        X, Y = (torch.stack(tensors) for tensors in zip(*sets, strict=True))
        seconds = []
        for _ in range(repeats):
            batched = [timed(fit, build("rbf", X, Y)) for fit in FITS.values()]
            looped = sum(timed(fit_botorch, build("rbf", *one)) for one in sets)
            seconds.append((*batched, looped))
        medians = " | ".join(f"{1e3 * value:.0f}" for value in np.median(seconds, axis=0))
        print(f"| {R} | {d}, {n} | {medians} |")


def main(count: int = 200, first: int = 0) -> None:
    print(f"\n## Fits\n\n{environment('cpu')}.\n")
    compare(count, first)
    compare_batches()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first data set")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main(**vars(parser.parse_args()))
