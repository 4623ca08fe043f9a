r"""Equations of V-UCB against solves, fractions and the pinball loss."""

import itertools
import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from botorch.models import SingleTaskGP
from gpytorch.kernels import RBFKernel

from botorch_risk.acquisition import RiskUpperConfidenceBound, certified_regret, select_lacing_value
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.papers import v_ucb
from botorch_risk.risk import ValueAtRisk, WorstCase
from tests import oracles

LEVEL, BETA = 0.3, 2.25
LENGTHSCALE = np.array([0.3, 0.5])
W = torch.linspace(0, 1, 7, dtype=torch.double).unsqueeze(-1)
WEIGHTS = torch.tensor([0.05, 0.1, 0.2, 0.3, 0.2, 0.1, 0.05], dtype=torch.double)


def bound() -> tuple[RiskUpperConfidenceBound, np.ndarray, np.ndarray, np.ndarray]:
    r"""V-UCB's bound on a model with given hyperparameters, with its data and their noise."""
    rng = np.random.default_rng(0)
    X, noise = rng.random((9, 2)), np.full(9, 0.01)
    y = np.sin(5 * X[:, 0]) + np.cos(4 * X[:, 1])
    rows, outcomes = torch.from_numpy(X), torch.from_numpy(y).unsqueeze(-1)
    kernel = RBFKernel(ard_num_dims=2)
    model = SingleTaskGP(
        rows, outcomes, torch.full_like(outcomes, 0.01), covar_module=kernel, outcome_transform=None
    ).double()
    kernel.lengthscale = torch.from_numpy(LENGTHSCALE)
    model.mean_module.constant.data.fill_(0.2)
    environment = DiscreteEnvironment(W, WEIGHTS)
    return RiskUpperConfidenceBound(model, environment, ValueAtRisk(LEVEL), BETA), X, y, noise


def test_pointwise_bounds_equal_a_solve() -> None:
    r"""Eqs. (2) and (3)."""
    acqf, X, y, noise = bound()
    decisions = torch.tensor([[0.15], [0.7]], dtype=torch.double)
    lower, upper, _ = acqf.pointwise_bounds(decisions)
    for row, x in enumerate(decisions[:, 0].tolist()):
        pairs = np.array([[x, w] for w in W[:, 0].tolist()])
        mean, variance = oracles.gp_posterior(pairs, X, y, noise, LENGTHSCALE, 0.2)
        width = math.sqrt(BETA) * np.sqrt(variance)
        np.testing.assert_allclose(lower[row].detach(), mean - width, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(upper[row].detach(), mean + width, rtol=1e-8, atol=1e-10)


def test_the_band_of_the_value_at_risk_bounds_the_regret() -> None:
    r"""Eq. (4): VaR(u) - VaR(l) at the maximiser of VaR(u), and the query's width is no less."""
    acqf, X, y, noise = bound()
    line = np.linspace(0, 1, 51)
    lower, upper = [], []
    for x in line:
        pairs = np.array([[x, w] for w in W[:, 0].tolist()])
        mean, variance = oracles.gp_posterior(pairs, X, y, noise, LENGTHSCALE, 0.2)
        lower.append(mean - math.sqrt(BETA) * np.sqrt(variance))
        upper.append(mean + math.sqrt(BETA) * np.sqrt(variance))
    p = WEIGHTS.numpy()
    tops = [oracles.value_at_risk(row, p, LEVEL) for row in upper]
    best = int(np.argmax(tops))
    band = tops[best] - oracles.value_at_risk(lower[best], p, LEVEL)

    rng = np.random.default_rng(1)
    for _ in range(100):  # functions between the bounds
        share = rng.random((51, 7)) if rng.random() < 0.5 else rng.integers(2, size=(51, 7))
        f = np.array(lower) + share * (np.array(upper) - np.array(lower))
        risks = [oracles.value_at_risk(row, p, LEVEL) for row in f]
        assert max(risks) - risks[best] <= band + 1e-12

    at = torch.tensor([[line[best]]], dtype=torch.double)
    assert (acqf.upper(at) - acqf.lower(at)).item() == pytest.approx(band, rel=1e-8)
    query = select_lacing_value(acqf, at, seeds=0)
    assert certified_regret(acqf, query).item() >= band - 1e-12


def test_one_round_by_hand() -> None:
    r"""Algorithm 1, lines 3 and 4: x by a grid, the most probable lacing value by enumeration."""
    strategy = v_ucb(
        torch.tensor([[0.0], [1.0]], dtype=torch.double),
        [0, 1, 2],
        environment=DiscreteEnvironment(W, WEIGHTS),
        risk_level=LEVEL,
        num_initial=5,
        num_restarts=8,
        raw_samples=128,
    )
    for _ in range(2):
        pairs = strategy.ask()
        strategy.tell(pairs, (5 * pairs).sin().sum(dim=-1, keepdim=True))
    pairs = strategy.ask()
    belief: Any = strategy.belief
    width = math.sqrt(2 * math.log(2**2 * math.pi**2 / 0.6))  # the second round
    weights = WEIGHTS.numpy()

    def bounds_at(x: float, r: int) -> tuple[np.ndarray, np.ndarray]:
        at = torch.cat([torch.full_like(W, x), W], dim=-1).expand(3, -1, -1)
        posterior = belief.model.posterior(at)
        mean = posterior.mean[r, :, 0].detach().numpy()
        deviation = posterior.variance[r, :, 0].sqrt().detach().numpy()
        return mean - width * deviation, mean + width * deviation

    for r in range(3):
        x, w = pairs[r, 0].tolist()
        best = max(
            oracles.value_at_risk(bounds_at(each, r)[1], weights, LEVEL)
            for each in np.linspace(0, 1, 201)
        )
        lower, upper = bounds_at(x, r)
        low, high = (oracles.value_at_risk(each, weights, LEVEL) for each in (lower, upper))
        assert high >= best - 1e-5
        lacing = [j for j in range(7) if lower[j] <= low + 1e-9 and upper[j] >= high - 1e-9]
        chosen = W[:, 0].tolist().index(w)
        assert chosen in lacing
        assert weights[chosen] == max(weights[j] for j in lacing)


def pinball(v: int, values: list[int], shares: list[int], level: Fraction) -> Fraction:
    r"""The sum of rho_alpha(u - v), with the shares as weights."""
    pairs = zip(values, shares, strict=True)
    return sum((p * max(level * (u - v), (level - 1) * (u - v)) for u, p in pairs), Fraction(0))


def test_value_at_risk_minimises_the_pinball_loss() -> None:
    r"""Eq. (6): the smallest of all minimisers, in fractions."""
    rng = random.Random(0)
    for _ in range(200):
        values = [rng.randint(-5, 5) for _ in range(6)]
        cuts = sorted(rng.randint(0, 20) for _ in range(5))
        shares = [after - before for before, after in itertools.pairwise([0, *cuts, 20])]
        level = Fraction(rng.randint(1, 19), 20)
        # The loss is convex, and linear between the values: one of them minimises it.
        support = [u for u, p in zip(values, shares, strict=True) if p]
        losses = {v: pinball(v, values, shares, level) for v in support}
        expected = min(v for v in support if losses[v] == min(losses.values()))
        weights = torch.tensor([p / 20 for p in shares], dtype=torch.double)
        assert ValueAtRisk(float(level))(torch.tensor(values).double(), weights) == expected


def test_value_at_risk_falls_to_the_smallest_value() -> None:
    r"""Theorem 2: it falls with its level, and ends at the smallest value of the support."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        values, weights = torch.from_numpy(rng.normal(size=9)), torch.from_numpy(rng.random(9))
        weights[rng.integers(9)] = 0.0
        weights /= weights.sum()
        smallest = min(v for v, p in zip(values.tolist(), weights.tolist(), strict=True) if p > 0)
        levels = [0.9, 0.5, 0.1, 1e-2, 1e-4, 1e-12]
        risks = [ValueAtRisk(level)(values, weights).item() for level in levels]
        assert risks == sorted(risks, reverse=True)
        assert min(risks) >= smallest
        assert risks[-1] == smallest == WorstCase()(values, weights).item()
