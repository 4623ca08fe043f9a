r"""The experiments of UHE-BO start alike, and use the kernel and the priors that they claim."""

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from botorch.exceptions.warnings import BotorchWarning
from botorch_risk_bench.experiments import get_experiment
from botorch_risk_bench.experiments.papers.models import matern_process
from botorch_risk_bench.reports.summary import regret_curves

from bench.tests.played import play, records_in
from botorch_risk.papers import RandomOrAcquire

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
def test_the_initial_design_has_three_points_per_input(name: str) -> None:
    definition = get_experiment(f"uhe-{name}")
    assert definition.problem().bounds.shape[-1] == DIMS[name]
    assert definition.num_initial == 3 * DIMS[name]


@pytest.mark.parametrize("name", ["branin", "deceptive", "h1", "hartmann3", "hartmann6"])
def test_the_optimum_is_that_of_the_function(name: str) -> None:
    problem = get_experiment(f"uhe-{name}").problem()
    optimum = problem._optimizers[0]
    value = problem.objective(torch.tensor([[optimum]], dtype=torch.double))
    assert value.item() == pytest.approx(problem.optimal_value, abs=1e-4)
    assert get_experiment(f"uhe-{name}").optimal_value(problem) == problem.optimal_value


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("deceptive", "UHE-BO"),
        pytest.param("logistic", "RA-BO", marks=pytest.mark.slow),
        ("h1", "Wang-de-Freitas"),
        ("branin", "UHE-BO-gain"),
        ("hartmann3", "A-GP-UCB-one-step"),
    ],
)
def test_two_rounds(tmp_path: Path, name: str, label: str) -> None:
    definition, path = get_experiment(f"uhe-{name}"), tmp_path / "results.sqlite"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BotorchWarning)
        play(definition, path, 2, [label], num_rounds=2)
    with records_in(path) as store:
        simple = regret_curves(store)[label].simple
        assert simple.shape == (2, 3)
        assert (simple >= 0).all()
        assert (simple.diff(dim=-1) <= 0).all()  # without noise the best point is known


def test_all_but_random_points_and_mcmc_fit_the_model_of_the_paper() -> None:
    definition = get_experiment("uhe-deceptive")
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double()
    for label in definition.strategies:
        strategy: Any = definition.build(label, bounds, [0])
        if label in ("Random", "MCMC"):
            continue
        method = getattr(strategy.method, "report", strategy.method)
        method = getattr(method, "inner", method)
        assert method.model is matern_process
        assert method.acquisition.keywords["beta"] == pytest.approx(1.96**2)
    assert isinstance(definition.build("UHE-BO", bounds, [0]).method, RandomOrAcquire)
