r"""The value-at-risk under both distributions of W, for a function whose quantiles are known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import truncnorm
from torch import Tensor

from botorch_risk.test_functions import ValueAtRiskTestProblem
from botorch_risk.test_functions.value_at_risk import equidistant_grid


class Shifted(ValueAtRiskTestProblem):
    r"""`w - (x - 0.3)^2`, whose quantiles are those of W, shifted."""

    num_decision = num_environment = 1
    _optima = {"discrete": (0.0, (0.3,)), "continuous": (0.0, (0.3,))}  # noqa: RUF012

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return X[..., 1] - (X[..., 0] - 0.3).square()


class ShiftedSum(Shifted):
    r"""`w_1 + w_2 - (x - 0.3)^2`."""

    num_environment = 2

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return X[..., 1:].sum(dim=-1) - (X[..., 0] - 0.3).square()


X = torch.tensor([[0.3], [0.8]], dtype=torch.double)


def test_of_a_discrete_distribution_it_is_one_of_its_points() -> None:
    points = np.arange(100) / 99
    masses = np.exp(-(((points - 0.5) / 0.1) ** 2))
    quantile = points[np.cumsum(masses) / masses.sum() >= 0.1][0]
    expected = [quantile, quantile - 0.25]
    assert Shifted().objective(X).tolist() == pytest.approx(expected, abs=1e-12)


def test_of_a_continuous_distribution_it_is_the_quantile() -> None:
    quantile = truncnorm(-2, 2, 0.5, 0.125).ppf(0.1)
    found = Shifted("continuous").objective(X)
    assert found.tolist() == pytest.approx([quantile, quantile - 0.25], abs=1e-6)


def test_of_two_variables_it_has_its_level() -> None:
    draws = truncnorm(-2, 2, 0.5, 0.125).rvs((400_000, 2), random_state=0).sum(axis=1)
    found = ShiftedSum("continuous").objective(X[:1])
    assert found.item() == pytest.approx(np.quantile(draws, 0.1), abs=2e-3)


def test_grids_hold_the_corners() -> None:
    grid = equidistant_grid(torch.zeros(2, 2), 3)
    assert grid.tolist()[0] == [0.0, 0.0]
    assert grid.tolist()[-1] == [1.0, 1.0]
    assert grid.shape == (9, 2)


def test_refuses_an_unknown_distribution() -> None:
    with pytest.raises(ValueError, match="Expected `distribution` to be one of"):
        Shifted("uniform")
