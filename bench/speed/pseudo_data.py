r"""What a fit to pseudo-data costs beside an ordinary one, and beside MCMC.

    python -m bench.speed.pseudo_data [--repeats 9]

|D| = 100 clustered points as a loop leaves them, M = 200 pseudo-points, the default model and the
paper's scaled Matern kernel; `fit_exact_gp`, `fit_pseudo_data` and the same loss in BoTorch's
`fit_gpytorch_mll`, interleaved. MCMC is BoTorch's `FullyBayesianSingleTaskGP` with the paper's
budget, 200 steps of warm-up and 10 samples, run once where NumPyro is installed.
"""

import argparse
import importlib.util
import time
import warnings
from functools import partial

import torch
from botorch.fit import fit_fully_bayesian_model_nuts, fit_gpytorch_mll
from botorch.models.fully_bayesian import FullyBayesianSingleTaskGP
from torch import Tensor

from bench.speed.fit_quality import Case, build, data
from bench.speed.timing import environment, interleaved
from botorch_risk.fit import PseudoDataMarginalLogLikelihood, fit_exact_gp, fit_pseudo_data

NUM_DATA = 100
MODELS = ("rbf", "scaled matern")
DIMENSIONS = (2, 6)
REPLICATES = (1, 8)


def batch(d: int, replicates: int) -> tuple[Tensor, Tensor]:
    sets = [data(Case(d, NUM_DATA, True, "smooth", "rbf", seed)) for seed in range(replicates)]
    X, Y = (torch.stack(tensors) for tensors in zip(*sets, strict=True))
    return (X, Y) if replicates > 1 else (X[0], Y[0])


def fit_map(kind: str, X: Tensor, Y: Tensor) -> None:
    fit_exact_gp(build(kind, X, Y))


def unit_cube(X: Tensor) -> Tensor:
    return torch.tensor([[0.0], [1.0]]).to(X).expand(2, X.shape[-1])


def fit_ours(kind: str, X: Tensor, Y: Tensor, design: str) -> None:
    seeds = list(range(X.shape[:-2].numel()))
    fit_pseudo_data(build(kind, X, Y), unit_cube(X), seeds=seeds, points=design)


def fit_botorch(kind: str, X: Tensor, Y: Tensor) -> None:
    model = build(kind, X, Y)
    fit_gpytorch_mll(
        PseudoDataMarginalLogLikelihood(model.likelihood, model, unit_cube(X), seeds=0)
    )


def fit_mcmc(X: Tensor, Y: Tensor) -> float:
    model = FullyBayesianSingleTaskGP(X, (Y - Y.mean()) / Y.std())
    start = time.perf_counter()
    fit_fully_bayesian_model_nuts(
        model, warmup_steps=200, num_samples=10, thinning=1, disable_progbar=True
    )
    return time.perf_counter() - start


def main(repeats: int = 9) -> None:
    print(f"\n## Fits to pseudo-data\n\n{environment('cpu')}; |D| = {NUM_DATA}, M = 2 |D|.\n")
    print("| model | d | R | MAP, ms | pseudo-data, ms (ratio) | Sobol, ms (ratio) |", end="")
    print(" BoTorch's fit of it, ms |\n|---|---|---|---|---|---|---|")
    for kind in MODELS:
        for d in DIMENSIONS:
            for replicates in REPLICATES:
                X, Y = batch(d, replicates)
                ways = {
                    "map": partial(fit_map, kind, X, Y),
                    "uniform": partial(fit_ours, kind, X, Y, "uniform"),
                    "sobol": partial(fit_ours, kind, X, Y, "sobol"),
                }
                if replicates == 1:
                    ways["botorch"] = partial(fit_botorch, kind, X, Y)
                ms = {name: 1e3 * s for name, s in interleaved(ways, repeats).items()}
                cells = [kind, str(d), str(replicates), f"{ms['map']:.1f}"]
                cells += [f"{ms[n]:.1f} ({ms[n] / ms['map']:.1f})" for n in ("uniform", "sobol")]
                cells.append(f"{ms['botorch']:.0f}" if replicates == 1 else "")
                print(f"| {' | '.join(cells)} |", flush=True)
    if importlib.util.find_spec("numpyro") is None:
        print("\nMCMC: NumPyro is not installed.")
        return
    for d in DIMENSIONS:
        print(f"\nMCMC, d = {d}, R = 1: {fit_mcmc(*batch(d, 1)):.1f} s.", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main(**vars(parser.parse_args()))
