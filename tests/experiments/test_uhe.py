r"""The experiments of UHE-BO start alike, and use the kernel and the priors that they claim."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from botorch.exceptions.warnings import BotorchWarning
from gpytorch.kernels import MaternKernel
from torch import Tensor

from botorch_risk.experiments import Campaign, ExperimentStore, get_experiment
from botorch_risk.experiments.summary import regret_curves
from botorch_risk.experiments.uhe import NoiselessProblem, matern_process
from botorch_risk.strategies import UHEBO, initial_design
from botorch_risk.strategies.uhebo import GPUCB

DIMS = {
    "branin": 2,
    "deceptive": 2,
    "h1": 2,
    "hartmann3": 3,
    "hartmann6": 6,
    "logistic": 2,
    "boosting": 4,
    "lunar": 12,
}


@pytest.mark.parametrize("name", DIMS)
def test_every_strategy_starts_from_the_same_points(name: str) -> None:
    definition = get_experiment(f"uhe-{name}")
    bounds = definition.problem().bounds
    expected = initial_design(bounds, [0, 5], 3 * DIMS[name])
    for build in definition.strategies.values():
        assert torch.equal(build(bounds, [0, 5], definition.num_initial).ask(), expected)


@pytest.mark.parametrize("name", ["branin", "deceptive", "h1", "hartmann3", "hartmann6"])
def test_the_optimum_is_that_of_the_function(name: str) -> None:
    problem = get_experiment(f"uhe-{name}").problem()
    optimum = problem.problem._optimizers[0]
    value = problem.objective(torch.tensor([[optimum]], dtype=torch.double))
    assert value.item() == pytest.approx(problem.optimal_value, abs=1e-4)
    assert get_experiment(f"uhe-{name}").optimal_value(problem) == problem.optimal_value


@pytest.mark.parametrize(
    ("name", "label"), [("deceptive", "UHE-BO"), ("logistic", "RA-BO"), ("h1", "Wang-de-Freitas")]
)
def test_two_rounds(tmp_path: Path, name: str, label: str) -> None:
    definition, path = get_experiment(f"uhe-{name}"), tmp_path / "results.sqlite"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BotorchWarning)
        Campaign(definition, path, [0, 1], [label], num_rounds=2).run(progress=False)
    with ExperimentStore(path) as store:
        simple = regret_curves(store)[label].simple
        assert simple.shape == (2, 3)
        assert (simple >= 0).all()
        assert (simple.diff(dim=-1) <= 0).all()  # without noise the best point is known


def test_all_but_random_points_and_mcmc_fit_the_model_of_the_paper() -> None:
    strategies = get_experiment("uhe-deceptive").strategies
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double()
    for label in strategies:
        strategy: Any = strategies[label](bounds, [0], 6)
        if label in ("Random", "MCMC"):
            continue
        assert isinstance(strategy, GPUCB)
        assert strategy.model is matern_process
        assert strategy.beta == pytest.approx(1.96**2)
    assert isinstance(strategies["UHE-BO"](bounds, [0], 6), UHEBO)


@pytest.mark.parametrize("reading", ["rate", "scale"])
def test_the_model_has_the_kernel_and_the_priors_of_the_paper(reading: Any) -> None:
    X = torch.rand(2, 5, 3, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    model = matern_process(X, X.sum(dim=-1, keepdim=True), reading)
    correlation = model.covar_module.base_kernel
    assert isinstance(correlation, MaternKernel)
    assert correlation.nu == 2.5
    assert correlation.lengthscale.shape == (2, 1, 3)
    owners = (correlation, "lengthscale"), (model.covar_module, "outputscale")
    for module, name in (*owners, (model.likelihood.noise_covar, "noise")):
        prior = getattr(module, f"{name}_prior")
        assert prior.concentration.item() == pytest.approx(1e-3 + 1)  # of the logarithm
        assert prior.rate.item() == pytest.approx(10.0 if reading == "rate" else 0.1)


def test_no_point_is_evaluated_twice() -> None:
    seen: list[Tensor] = []

    class Watched:
        bounds = torch.tensor([[0.0], [1.0]])

        def __call__(self, X: Tensor, noise: bool) -> Tensor:
            assert not noise
            seen.append(X)
            return X.squeeze(-1).square()

    problem = NoiselessProblem(Watched())
    X = torch.tensor([[[0.5], [0.25]], [[0.5], [1.0]]]).double()
    expected = torch.tensor([[0.25, 0.0625], [0.25, 1.0]]).double()
    evaluate = partial(problem.sample_repeats, num_repeats=2, generators=[])
    assert torch.equal(evaluate(X), expected.unsqueeze(-1).expand(2, 2, 2))
    assert torch.equal(problem.objective(X[:, :1]), expected[:, :1])
    assert len(seen) == 1
    assert seen[0].shape == (3, 1)
