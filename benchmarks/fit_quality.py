r"""Is the closed-form fit as good as `fit_gpytorch_mll`, and how much faster?

Two hundred data sets: d = 1 to 10, n = 10 to 300, uniform designs and designs clustered as a
loop leaves them, smooth, rough and noisy functions, four kinds of model. Both fits start at the
model's default values; they alternate, so that neither has the quieter machine. A second table
fits replicates as one batch. Run `python -m benchmarks.fit_quality [--count 200]`.
"""

from __future__ import annotations

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

from botorch_risk.fit import fit_exact_gp

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


def cases(count: int) -> list[Case]:
    rng = np.random.default_rng(0)
    return [
        Case(
            d=int(rng.choice(DIMENSIONS)),
            n=int(rng.choice(SIZES)),
            clustered=bool(seed % 2),
            kind=KINDS[seed % 3],
            model=MODELS[int(rng.integers(len(MODELS)))],
            seed=seed,
        )
        for seed in range(count)
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


def compare(count: int) -> None:
    fit_exact_gp(build("rbf", *data(Case(1, 10, False, "smooth", "rbf", 0))))
    fit_botorch(build("rbf", *data(Case(1, 10, False, "smooth", "rbf", 0))))
    rows = []
    for case in cases(count):
        X, Y = data(case)
        ours, theirs = build(case.model, X, Y), build(case.model, X, Y)
        seconds = timed(fit_exact_gp, ours), timed(fit_botorch, theirs)
        gain = float(objective(ours) - objective(theirs))
        rows.append((case, gain, *seconds))
        if gain < -1e-6:
            print(f"behind by {-gain:.1e}: {case}")
    gains = np.array([row[1] for row in rows])
    ratios = np.array([row[3] / row[2] for row in rows])
    print(
        f"{len(rows)} data sets: within 1e-6 per datum or better on {np.mean(gains >= -1e-6):.1%}, "
        f"better by more than 1e-6 on {np.mean(gains > 1e-6):.1%}; mean gain {gains.mean():.1e}, "
        f"worst {gains.min():.1e}, best {gains.max():.1e}"
    )
    print(
        "\n| group | data sets | ours, ms | BoTorch, ms | ratio (median) |\n|---|---|---|---|---|"
    )
    groups = [(f"n = {n}", [r[0].n == n for r in rows]) for n in SIZES]
    groups += [(f"d = {d}", [r[0].d == d for r in rows]) for d in DIMENSIONS]
    groups += [(model, [r[0].model == model for r in rows]) for model in MODELS]
    groups += [("all", [True] * len(rows))]
    for name, members in groups:
        mask = np.array(members)
        if mask.any():
            ours, theirs = (
                1e3 * np.median([r[k] for r, inside in zip(rows, mask, strict=True) if inside])
                for k in (2, 3)
            )
            ratio = np.median(ratios[mask])
            print(f"| {name} | {mask.sum()} | {ours:.1f} | {theirs:.1f} | {ratio:.1f} |")


def compare_batches(repeats: int = 3) -> None:
    print("\n| R | d, n | ours, ms | BoTorch batched, ms | BoTorch looped, ms |")
    print("|---|---|---|---|---|")
    for R, d, n in ((8, 2, 40), (32, 2, 40), (8, 6, 100), (32, 6, 100), (8, 6, 200)):
        sets = [data(Case(d, n, True, "smooth", "rbf", seed)) for seed in range(R)]
        X, Y = (torch.stack(tensors) for tensors in zip(*sets, strict=True))
        seconds = []
        for _ in range(repeats):
            batched = [timed(fit, build("rbf", X, Y)) for fit in (fit_exact_gp, fit_botorch)]
            looped = sum(timed(fit_botorch, build("rbf", *one)) for one in sets)
            seconds.append((*batched, looped))
        medians = " | ".join(f"{1e3 * value:.0f}" for value in np.median(seconds, axis=0))
        print(f"| {R} | {d}, {n} | {medians} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    compare(arguments.count)
    compare_batches()
