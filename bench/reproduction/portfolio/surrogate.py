r"""Fits the surrogate of `PortfolioOptimization` to the back-tests of this folder.

    python -m bench.reproduction.portfolio.surrogate  # some minutes on one core

Writes bench/botorch_risk_bench/problems/portfolio_surrogate.json. A Gaussian process with a scaled
Matern-5/2 kernel, a constant mean and BoTorch's gamma priors, as the surrogate of the papers, on
standardised returns; maximum a posteriori by `fit_exact_gp` from six starts.
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

from botorch_risk.fit import FitStatus, fit_exact_gp

FOLDER = Path(problems.__file__).parent


def main() -> None:
    rows = np.loadtxt(FOLDER / "portfolio_backtests.csv", delimiter=",", skiprows=1)
    X, Y = torch.from_numpy(rows[:, :5]), torch.from_numpy(rows[:, 5:])
    mean, std = Y.mean(), Y.std()
    model = SingleTaskGP(
        X,
        (Y - mean) / std,
        covar_module=get_matern_kernel_with_gamma_prior(5),
        likelihood=get_gaussian_likelihood_with_gamma_prior(),
        outcome_transform=None,
    )
    result = fit_exact_gp(model, num_restarts=4, seeds=0)
    if result.status != (FitStatus.CONVERGED,):
        raise RuntimeError(f"The fit has not converged: {result}.")
    kernel = model.covar_module
    surrogate = {
        "lengthscale": kernel.base_kernel.lengthscale.flatten().tolist(),
        "outputscale": kernel.outputscale.item(),
        "noise": model.likelihood.noise.item(),
        "constant": model.mean_module.constant.item(),
        "outcome_mean": mean.item(),
        "outcome_std": std.item(),
    }
    text = json.dumps(surrogate, indent=1) + "\n"
    (FOLDER / "portfolio_surrogate.json").write_text(text, encoding="utf-8")
    print(f"log posterior per back-test: {result.objective.item():.6f}\n{text}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
