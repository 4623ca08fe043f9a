r"""Every environment, one line each; `test_contract.py` tests what they share."""

from typing import Any

import numpy as np
import torch
from botorch_risk_testing.environments import EnvironmentCase
from torch import Tensor

from botorch_risk.environments import (
    ContinuousEnvironment,
    DiscreteEnvironment,
    EmpiricalGrid,
    Environment,
    InputPerturbation,
    KernelDensityEnvironment,
    StandardDeviationBox,
    regular_grid,
    restricted,
)
from tests import oracles
from tests.contracts import BOUNDS

NORMAL = torch.distributions.Normal(torch.tensor([0.5, 0.3]), torch.tensor([0.125, 0.2]))
_SEVEN = [0.1, 0.0, 0.3, 0.2, 0.15, 0.05, 0.2]


def unit_square(like: Tensor) -> Tensor:
    return torch.tensor(BOUNDS).to(like)


def continuous(observed: Tensor, seeds: list[int], **options: Any) -> ContinuousEnvironment:
    r"""One distribution for each replicate; a single one, shared, for other batch shapes."""
    return ContinuousEnvironment(
        NORMAL, unit_square(observed), seeds=seeds if observed.dim() == 3 else 0, **options
    )


def kernel_density(observed: Tensor, seeds: list[int], **options: Any) -> Environment:
    return KernelDensityEnvironment(observed, unit_square(observed), seeds=seeds, **options)


def first_of_seven(n_w: int) -> Tensor:
    r"""The probabilities of the first values, of which the second is not in the support."""
    return torch.tensor(_SEVEN[:n_w], dtype=torch.float64) / sum(_SEVEN[:n_w])


def below_the_diagonal(W: Tensor) -> Tensor:
    return W[..., 0] + W[..., 1] <= 1.2


def restricted_wave(w: np.ndarray, rates: np.ndarray) -> complex:
    r"""Of seven values, those above the diagonal are impossible."""
    probabilities = np.array(_SEVEN) * (w.sum(axis=-1) <= 1.2)
    return oracles.discrete_wave(w, list(probabilities / probabilities.sum()), rates)


def environment(name: str, build: Any, oracle: Any, **options: Any) -> EnvironmentCase:
    return EnvironmentCase(name=name, build=build, oracle=oracle, **options)


ENVIRONMENTS = [
    environment(
        "discrete",
        lambda observed, seeds, n_w: DiscreteEnvironment(
            observed[..., :n_w, :], first_of_seven(n_w)
        ),
        lambda w, rates: oracles.discrete_wave(w, _SEVEN, rates),
        size=7,
        few=7,
        density="none",
    ),
    environment(
        "restricted",
        lambda observed, seeds, n_w: restricted(
            DiscreteEnvironment(observed[..., :n_w, :], first_of_seven(n_w)), below_the_diagonal
        ),
        restricted_wave,
        size=7,
        few=7,
        density="none",
        follows_one_value=None,  # which may be impossible
    ),
    environment(
        "continuous_sobol",
        lambda observed, seeds, n_w: continuous(observed, seeds, n_w=n_w, n_ball=n_w // 8),
        lambda w, rates: oracles.normal_wave(NORMAL.loc, NORMAL.scale, rates),
        tolerance=5e-3,
        follows_one_value=None,
    ),
    environment(
        "continuous_midpoints",
        lambda observed, seeds, n_w: continuous(observed, seeds, n_w=n_w, rule="midpoints"),
        lambda w, rates: oracles.normal_wave(NORMAL.loc, NORMAL.scale, rates),
        tolerance=5e-3,
        size=32**2,
        few=4**2,
        follows_one_value=None,
    ),
    environment(
        "continuous_clipped_quadrature",
        lambda observed, seeds, n_w: continuous(
            observed, seeds, n_w=n_w, rule="quadrature", beyond="clip"
        ),
        lambda w, rates: oracles.normal_wave(NORMAL.loc, NORMAL.scale, rates, clipped=True),
        tolerance=1e-7,  # of the parameters, which are given in float32
        size=26**2,
        few=11**2,
        density="refused",
        follows_one_value=None,
    ),
    environment(
        "kernel_density_sobol",
        lambda observed, seeds, n_w: kernel_density(observed, seeds, n_w=n_w, n_ball=n_w // 8),
        oracles.kernel_density_wave,
        tolerance=4e-2,
    ),
    environment(
        "kernel_density_monte_carlo",
        lambda observed, seeds, n_w: kernel_density(observed, seeds, n_w=n_w, rule="monte_carlo"),
        oracles.kernel_density_wave,
        tolerance=1e-1,
        size=1024,
    ),
    environment(
        "kernel_density_quadrature",
        lambda observed, seeds, n_w: kernel_density(observed, seeds, n_w=n_w, rule="quadrature"),
        oracles.kernel_density_wave,
        tolerance=1e-7,
        size=32**2,
        few=8**2,
        follows_one_value=None,  # too narrow for the nodes
    ),
    environment(
        "empirical_grid",
        lambda observed, seeds, n_w: EmpiricalGrid(
            observed, regular_grid(unit_square(observed), n_w)
        ),
        lambda w, rates: oracles.discrete_wave(np.round(4 * w) / 4, [1 / 7] * 7, rates),
        size=5**2,
        few=4**2,
        density="none",
        follows_one_value=0.17,
    ),
    environment(
        "standard_deviation_box",
        lambda observed, seeds, n_w: StandardDeviationBox(observed, n_w, seeds),
        oracles.box_wave,
        tolerance=1e-2,
        density="none",
    ),
]

PERTURBATIONS = environment(
    "input_perturbation",
    lambda observed, seeds, n_w: InputPerturbation(observed[..., :n_w, :], first_of_seven(n_w)),
    lambda w, rates: oracles.discrete_wave(w, _SEVEN, rates),
    size=7,
    few=7,
    perturbs=True,
)
