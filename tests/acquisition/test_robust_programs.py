r"""Reductions with weights and over balls equal linear and convex programs and integrals."""

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import torch
from botorch.sampling.normal import SobolQMCNormalSampler
from scipy.optimize import linprog
from torch import Tensor

from botorch_risk.environments import ContinuousEnvironment, DiscreteEnvironment
from botorch_risk.risk import (
    ConditionalValueAtRisk,
    Expectation,
    MaximumMeanDiscrepancyBall,
    TotalVariationBall,
)
from botorch_risk.robust import robust
from tests.models.risks import DISTRIBUTION, ENVIRONMENT, W, decisions, gp


def sampler() -> SobolQMCNormalSampler:
    return SobolQMCNormalSampler(torch.Size([8]), seed=3)


KERNEL_MATRIX = np.exp(-0.5 * (W - W.T).numpy() ** 2 / 0.3**2)


def worst_expectation(values: np.ndarray, ball: Any) -> float:
    r"""The smallest expectation over a convex set of distributions."""
    distribution = cp.Variable(len(values), nonneg=True)
    problem = cp.Problem(
        cp.Minimize(values @ distribution),
        [cp.sum(distribution) == 1, ball(distribution - DISTRIBUTION.numpy())],
    )
    tight = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}
    return problem.solve(solver=cp.CLARABEL, **tight)


def linear_program(values: np.ndarray, radius: float) -> float:
    r"""The smallest expectation of a q with |q - p| <= s and sum s <= radius."""
    n, p = len(values), DISTRIBUTION.numpy()
    eye, zero = np.eye(n), np.zeros((1, n))
    above = np.vstack(
        [np.hstack([eye, -eye]), np.hstack([-eye, -eye]), np.hstack([zero, zero + 1])]
    )
    limits = np.concatenate([p, -p, [radius]])
    total = np.hstack([zero + 1, zero])
    answer = linprog(np.concatenate([values, 0 * p]), above, limits, total, [1.0], method="highs")
    return float(answer.fun)


def average_of_the_lowest(values: np.ndarray, level: float) -> float:
    r"""A linear program over the densities of the tail."""
    p = DISTRIBUTION.numpy()
    bounds = [(0, weight / level) for weight in p]
    return float(linprog(values, A_eq=np.ones((1, len(p))), b_eq=[1.0], bounds=bounds).fun)


def rbf(v: Tensor, w: Tensor) -> Tensor:
    return torch.exp(-0.5 * (v - w.mT).square() / 0.3**2)


ROOT = np.linalg.cholesky(KERNEL_MATRIX).T
ORACLES = {
    "expectation": (Expectation(), lambda values: float(values @ DISTRIBUTION.numpy())),
    "cvar": (ConditionalValueAtRisk(0.35), lambda values: average_of_the_lowest(values, 0.35)),
    "total_variation": (TotalVariationBall(0.3), lambda values: linear_program(values, 0.3)),
    "mmd": (
        MaximumMeanDiscrepancyBall(0.1, rbf),
        lambda values: worst_expectation(values, lambda d: cp.norm(ROOT @ d) <= 0.1),
    ),
}


@pytest.mark.parametrize("name", ORACLES)
def test_weighted_reductions_equal_programs(name: str) -> None:
    measure, oracle = ORACLES[name]
    model, X = gp(), decisions(2, 2)
    raw = sampler()(model.posterior(ENVIRONMENT.expand(X)[0].flatten(-3, -2)))
    values = raw.squeeze(-1).unflatten(-1, (2, 4)).detach()
    expected = [oracle(row.numpy()) for row in values.reshape(-1, 4)]
    samples = sampler()(robust(model, ENVIRONMENT, measure).model.posterior(X))
    torch.testing.assert_close(
        samples.flatten(), torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-8
    )


def test_a_quadrature_is_the_integral() -> None:
    r"""The mean of the expectation under a density, against a fine sum."""
    model, X = gp(scale=1.0), decisions(3, 1)
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    normal = torch.distributions.Normal(0.4, 0.2)
    environment = ContinuousEnvironment(normal, bounds, n_w=24, rule="quadrature")
    reduced, _ = robust(model, environment, Expectation())
    fine = (torch.arange(20000, dtype=torch.float64) + 0.5) / 20000
    density = normal.log_prob(fine).exp()
    grid = DiscreteEnvironment(fine.unsqueeze(-1), density / density.sum())
    for x in X:
        mean = model.posterior(grid.expand(x)[0][0].unsqueeze(1)).mean.flatten()
        expected = (mean * grid.weights).sum()
        torch.testing.assert_close(reduced.posterior(x).mean.squeeze(), expected, rtol=0, atol=1e-6)
