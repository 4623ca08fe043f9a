r"""Fits the surrogate of `PortfolioOptimization` to the back-tests of this folder.

    python -m bench.reproduction.portfolio.surrogate  # some minutes on one core

Writes `results/portfolio/portfolio_surrogate.json`, or into the folder of `--to`, if the log
posterior rises. The problem reads the copy in `bench/botorch_risk_bench/problems`. A
Gaussian process with a scaled Matern-5/2 kernel, a constant mean and BoTorch's gamma priors, as the
surrogate of the papers, on standardised returns; maximum a posteriori by `fit_exact_gp` from the
stored hyperparameters and five other starts.
"""

import json
from pathlib import Path

import numpy as np
import torch
from botorch.models import SingleTaskGP
from botorch.models.utils.gpytorch_modules import (
    get_gaussian_likelihood_with_gamma_prior,
    get_matern_kernel_with_gamma_prior,
)
from botorch_risk_bench import problems
from botorch_risk_bench.campaigns.whole_files import write_text
from gpytorch.mlls import ExactMarginalLogLikelihood

from bench.reproduction.results import writing_parser
from botorch_risk.engine import fit_exact_gp

FOLDER = Path(problems.__file__).parent
STORED = FOLDER / "portfolio_surrogate.json"
# By how much the log posterior per back-test has to rise to be worth another file.
RISE = 1e-9


def build() -> SingleTaskGP:
    r"""The model with its default hyperparameters."""
    rows = np.loadtxt(FOLDER / "portfolio_backtests.csv", delimiter=",", skiprows=1)
    X, Y = torch.from_numpy(rows[:, :5]), torch.from_numpy(rows[:, 5:])
    return SingleTaskGP(
        X,
        (Y - Y.mean()) / Y.std(),
        covar_module=get_matern_kernel_with_gamma_prior(5),
        likelihood=get_gaussian_likelihood_with_gamma_prior(),
        outcome_transform=None,
    ).double()


def set_to_stored(model: SingleTaskGP) -> float:
    r"""Give a model the stored hyperparameters; its log posterior per back-test."""
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    model.covar_module.base_kernel.lengthscale = torch.tensor(stored["lengthscale"])
    model.covar_module.outputscale = stored["outputscale"]
    model.likelihood.noise = stored["noise"]
    model.mean_module.constant = stored["constant"]
    mll = ExactMarginalLogLikelihood(model.likelihood, model).train()
    with torch.no_grad():
        return mll(model(*model.train_inputs), model.train_targets).item()


def main() -> None:
    to: Path = writing_parser(__doc__, "results/portfolio").parse_args().to
    rows = np.loadtxt(FOLDER / "portfolio_backtests.csv", delimiter=",", skiprows=1)
    returns = torch.from_numpy(rows[:, 5:])
    model = build()
    before = set_to_stored(model)
    result = fit_exact_gp(model, num_restarts=4, seeds=0)
    if result.status != ("converged",):
        raise RuntimeError(f"The fit has not converged: {result}.")
    after = result.objective.item()
    print(f"log posterior per back-test: {before:.9f} stored, {after:.9f} found")
    if after < before + RISE:
        print(f"{STORED.name} stays as it is.")
        return
    kernel = model.covar_module
    surrogate = {
        "lengthscale": kernel.base_kernel.lengthscale.flatten().tolist(),
        "outputscale": kernel.outputscale.item(),
        "noise": model.likelihood.noise.item(),
        "constant": model.mean_module.constant.item(),
        "outcome_mean": returns.mean().item(),
        "outcome_std": returns.std().item(),
    }
    text = json.dumps(surrogate, indent=1) + "\n"
    write_text(to / STORED.name, text)
    print(text)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
