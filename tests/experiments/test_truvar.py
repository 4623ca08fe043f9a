r"""The experiments of TRUVAR start, and use the hyperparameters that they claim."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.warnings import BotorchWarning
from botorch.models import SingleTaskGP
from botorch.settings import validate_input_scaling
from gpytorch.kernels import MaternKernel, ScaleKernel

from botorch_risk.experiments import Campaign, ExperimentStore, get_experiment
from botorch_risk.experiments import truvar as experiments
from botorch_risk.experiments.replay import level_set_curves
from botorch_risk.fit import fit_exact_gp
from botorch_risk.test_functions import CoastalTerrain

NAMES = ("coast", "coast-travel", "noise-levels", "synthetic-maximum", "svm")


@pytest.mark.parametrize("name", NAMES)
def test_every_strategy_starts_from_the_same_points(name: str) -> None:
    definition = get_experiment(name)
    bounds = definition.problem().bounds
    starts = [
        build(bounds, [0, 5], definition.num_initial).ask()
        for build in definition.strategies.values()
    ]
    for X in starts:
        assert torch.equal(X[..., : starts[0].shape[-1]][..., :2], starts[0][..., :2])


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("coast-travel", ["TRUVAR", "GCHK"]),
        ("noise-levels", ["TRUVAR", "GCHK-0.05"]),
        ("svm", ["TRUVAR", "EI"]),
    ],
)
def test_two_rounds(tmp_path: Path, name: str, labels: list[str]) -> None:
    definition, path = get_experiment(name), tmp_path / "results.sqlite"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BotorchWarning)
        Campaign(definition, path, [0, 1], labels, num_rounds=2).run(progress=False)
    with ExperimentStore(path) as store:
        for label in labels:
            assert len(store.rounds(label)) == 3
            if name != "svm":
                curves = level_set_curves(store, definition, label)
                assert (curves.cost.diff(dim=-1) > 0).all()
                assert ((curves.f1 >= 0) & (curves.f1 <= 1)).all()


def test_known_processes_have_the_kernels_of_the_paper() -> None:
    rng = np.random.default_rng(0)
    X = torch.from_numpy(rng.random((2, 4, 2)))
    model = experiments.squared_exponential()(X, X[..., :1], torch.full((2, 4, 1), 1e-4).double())
    squares = (X[1].unsqueeze(-2) - X[1]).square().sum(dim=-1)
    expected = torch.exp(-0.5 * squares / 0.1**2)
    torch.testing.assert_close(model.covar_module(X).to_dense()[1], expected)
    assert (model.mean_module(X) == 0).all()
    model = experiments.coastal_process()(40 * X, X[..., :1], torch.full((2, 4, 1), 1e-4).double())
    scaled = 40 * X[1] / torch.tensor(experiments.COAST_LENGTHSCALE).double()
    r = (scaled.unsqueeze(-2) - scaled).square().sum(dim=-1).sqrt()
    expected = 0.2008 * (1 + 5**0.5 * r + 5 / 3 * r**2) * torch.exp(-(5**0.5) * r)
    torch.testing.assert_close(model.covar_module(40 * X).to_dense()[1], expected)
    assert model.mean_module(X).unique().item() == pytest.approx(experiments.COAST_MEAN)


@pytest.mark.slow
def test_hyperparameters_of_the_coast_are_those_of_its_other_half() -> None:
    east = CoastalTerrain("east")
    X, Y = east.domain[::4], east.values[::4].unsqueeze(-1)
    kernel: Any = ScaleKernel(MaternKernel(2.5, ard_num_dims=2))
    with validate_input_scaling(False):
        noise = torch.full_like(Y, experiments.NEXT_TO_NOTHING)
        model = SingleTaskGP(X, Y, noise, covar_module=kernel, outcome_transform=None)
    kernel.base_kernel.lengthscale = torch.tensor([20.0, 20.0]).double()
    fit_exact_gp(model)
    found = kernel.base_kernel.lengthscale.squeeze(0).tolist()
    assert found == pytest.approx(experiments.COAST_LENGTHSCALE, rel=1e-2)
    assert kernel.outputscale.item() == pytest.approx(experiments.COAST_OUTPUTSCALE, rel=2e-2)
    assert model.mean_module.constant.item() == pytest.approx(experiments.COAST_MEAN, rel=2e-2)


def test_the_function_of_the_noise_levels_is_the_first_that_is_high_enough() -> None:
    chosen = experiments.noise_function()
    assert (chosen.values >= experiments.NOISE_THRESHOLD).double().mean() >= 0.025
    for seed in range(experiments.NOISE_FUNCTION_SEED):
        other = experiments.GaussianProcessSample(seed)
        assert (other.values >= experiments.NOISE_THRESHOLD).double().mean() < 0.025
