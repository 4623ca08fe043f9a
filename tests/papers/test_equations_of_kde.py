r"""Equations of SBO-KDE and DRBO-KDE against linear programs, quadrature and plain averages."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.optimize import linprog
from scipy.stats import norm
from torch import Tensor

from botorch_risk.papers import drbo_kde, learnt_context_beta, sbo_kde
from botorch_risk.risk import Expectation, total_variation_worst_case
from botorch_risk.strategies import Strategy

UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.double)
BETA = 2.25


def dual(values: np.ndarray, weights: np.ndarray, radius: float) -> float:
    r"""max over (alpha, beta) in S of E[-beta - radius alpha + min(values + beta, alpha)].

    A linear program in alpha, beta and one s_i <= values_i + beta, s_i <= alpha per point.
    """
    n = len(values)
    cost = -np.concatenate([[-radius, -1.0], weights])
    eye, zero, one = np.eye(n), np.zeros((n, 1)), np.ones((n, 1))
    rows = np.block([[zero, -one, eye], [-one, zero, eye]])
    limits = np.concatenate([values, np.zeros(n)])
    rows = np.vstack([rows, [-1.0, -1.0, *np.zeros(n)]])  # alpha + beta >= -inf f
    limits = np.append(limits, values.min())
    bounds = [(0, None), *[(None, None)] * (n + 1)]
    found = linprog(cost, A_ub=rows, b_ub=limits, bounds=bounds)
    assert found.status == 0
    return -float(found.fun)


@pytest.mark.parametrize("radius", [0.0, 0.3, 1.0, 2.0, 2.5])
def test_the_worst_case_is_the_dual_program(radius: float) -> None:
    r"""Eqs. (5) and (17), Propositions 2 and 4, on points some of which have weight 0."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        values, weights = rng.normal(size=7), rng.random(7)
        weights[rng.integers(7, size=2)] = 0.0
        weights /= weights.sum()
        found = total_variation_worst_case(
            torch.from_numpy(values), torch.from_numpy(weights), radius
        )
        assert found.item() == pytest.approx(dual(values, weights, radius), abs=1e-9)


def test_the_objective_is_an_integral() -> None:
    r"""Eq. (1): E[f(x, c)], over the middles of 400 equally likely cells of a normal c."""
    contexts = norm.ppf((np.arange(400) + 0.5) / 400)
    weights = torch.full((400,), 1 / 400, dtype=torch.double)
    for x in (-0.5, 0.0, 1.2):
        found = Expectation()(torch.from_numpy(np.cos(2 * x + contexts)), weights)
        expected, _ = quad(lambda c, x=x: np.cos(2 * x + c) * norm.pdf(c), -9, 9)
        assert found.item() == pytest.approx(expected, abs=1e-3)


def played(make: Any, seeds: list[int], **options: Any) -> Strategy:
    r"""A strategy after its initial design and one round."""
    strategy = make(
        UNIT,
        seeds,
        context_bounds=UNIT,
        n_w=16,
        num_initial=5,
        num_restarts=8,
        raw_samples=128,
        beta=BETA,
        **options,
    )
    draws = np.random.default_rng(0)
    for _ in range(2):
        decisions = strategy.ask()
        contexts = torch.from_numpy(draws.beta(2, 4, (*decisions.shape[:-1], 1)))
        points = torch.cat([decisions, contexts], dim=-1)
        strategy.tell(points, (5 * points).sin().sum(dim=-1, keepdim=True))
    return strategy


def upper_bounds(belief: Any, x: float, W: Tensor) -> np.ndarray:
    r"""mean + sqrt(beta) sigma at (x, c_i), one pair at a time, `R x n`."""
    columns = []
    for i in range(W.shape[-2]):
        pair = torch.cat([torch.full_like(W[..., i : i + 1, :], x), W[..., i : i + 1, :]], dim=-1)
        posterior = belief.model.posterior(pair)
        columns.append((posterior.mean + math.sqrt(BETA) * posterior.variance.sqrt())[..., 0, 0])
    bounds: np.ndarray = torch.stack(columns, dim=-1).detach().numpy()
    return bounds


def test_sbo_kde_maximises_the_sample_average() -> None:
    r"""Algorithm 1, lines 3 to 5: draws of the density of all contexts so far, equally weighted."""
    strategy = played(sbo_kde, [0, 1])
    X = strategy.ask()
    belief: Any = strategy.belief
    environment = belief.environment
    assert torch.equal(environment.density.observed, strategy.history.X[..., 1:])
    line = torch.linspace(0, 1, 41, dtype=torch.double)
    average = np.stack(
        [upper_bounds(belief, x, environment.points).mean(axis=-1) for x in line.tolist()], axis=-1
    )
    found = belief.upper(line[:, None].expand(2, -1, 1)).detach().numpy()
    np.testing.assert_allclose(found, average, rtol=1e-7)
    for r in range(2):
        own = upper_bounds(belief, X[r, 0].item(), environment.points)[r].mean()
        assert own >= average[r].max() - 1e-5


def test_drbo_kde_maximises_the_sampled_dual() -> None:
    r"""Eq. (6), Algorithm 2: the dual over draws, with the infimum over the whole box."""
    strategy = played(drbo_kde, [0, 1])
    X = strategy.ask()
    belief: Any = strategy.belief
    environment, radius = belief.environment, 7 ** (-2 / 5)  # the seventh evaluation, d_w = 1
    weights = environment.weights.expand(environment.points.shape[:-1]).numpy()
    assert (weights == 0).sum() == (weights > 0).sum()  # points of the box, and draws

    def worst(x: float) -> list[float]:
        bounds = upper_bounds(belief, x, environment.points)
        return [dual(*each, radius) for each in zip(bounds, weights, strict=True)]

    line = torch.linspace(0, 1, 41, dtype=torch.double)
    expected = np.array([worst(x) for x in line.tolist()]).T
    found = belief.upper(line[:, None].expand(2, -1, 1)).detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-7)
    for r in range(2):
        assert worst(X[r, 0].item())[r] >= expected[r].max() - 1e-5


@pytest.mark.parametrize("t", [2, 5, 30])
@pytest.mark.parametrize("d_x", [1, 3])
def test_the_expected_excess_over_the_bound_is_small(t: int, d_x: int) -> None:
    r"""Lemma 6: E (f - ucb)_+ <= 1 / (t^2 tau^d_x), at the largest deviation of 1."""
    slopes = {"side_length": 2.0, "slope_factor": 1.5, "slope_scale": 0.8}
    tau = t**2 * d_x * 1.5 * 0.8 * 2.0 * math.sqrt(math.pi) / 2
    width = math.sqrt(learnt_context_beta(t, d_x, **slopes))
    excess = quad(lambda z: (z - width) * norm.pdf(z), width, math.inf)[0]
    assert 0 < excess <= 1 / (t**2 * tau**d_x)
