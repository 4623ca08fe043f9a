r"""Expectations over a clipped distribution, for a function whose expectation is known."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import norm
from torch import Tensor
from torch.distributions import Distribution, Normal

from botorch_risk.test_functions import ExpectationTestProblem


class Product(ExpectationTestProblem):
    r"""`x w`, so that the expectation is `x E[W]`; a third of W is clipped to 0."""

    num_decision = num_environment = 1
    optimal_expectation = 0.5
    _optimal_decision = (1.0,)

    @property
    def marginals(self) -> Distribution:
        return Normal(torch.tensor(0.2, dtype=torch.double), 0.4)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return X.prod(dim=-1)


def mean_of_w() -> float:
    distribution = norm(0.2, 0.4)
    return distribution.expect(lambda w: w, lb=0, ub=1) + distribution.sf(1.0)


def test_expectation_is_that_of_the_clipped_distribution() -> None:
    x = torch.tensor([[0.0], [0.25], [1.0]], dtype=torch.double)
    expected = [0.0, 0.25 * mean_of_w(), mean_of_w()]
    assert Product().objective(x).tolist() == pytest.approx(expected, abs=1e-9)
    assert Product().objective(x.reshape(3, 1, 1)).shape == (3, 1)


def test_another_risk_is_taken_over_the_points() -> None:
    x = torch.tensor([[0.5]], dtype=torch.double)
    worst = Product().objective(x, risk=lambda values, weights: values.amin(dim=-1))
    assert worst.tolist() == [0.0]


def test_samples_are_clipped_or_raw() -> None:
    draws = Product().sample_environment(4000, torch.Generator().manual_seed(0))
    assert (draws == 0).double().mean().item() == pytest.approx(norm(0.2, 0.4).cdf(0), abs=0.02)
    raw = Product().sample_environment(4000, torch.Generator().manual_seed(0), clipped=False)
    assert raw.min() < 0
    torch.testing.assert_close(raw.clamp(0, 1), draws, rtol=0, atol=1e-9)


def test_the_best_decision_is_in_the_dtype_of_the_bounds() -> None:
    problem = Product(dtype=torch.float32)
    assert problem.optimal_decision.dtype == torch.float32
    assert problem.objective(problem.optimal_decision).dtype == torch.float32
