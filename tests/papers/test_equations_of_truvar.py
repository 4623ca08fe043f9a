r"""Equations of TRUVAR against a refit from scratch, tails of the normal distribution and loops."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm

from botorch_risk.acquisition import bayesian_beta
from botorch_risk.engine import DomainPosterior
from botorch_risk.papers import LevelSet, Maximize
from tests.acquisition.lake import NOISE, build_posterior, grid, refit, truth

ROWS = [3, 13, 30]


@pytest.mark.parametrize("dense", [True, False])
def test_moments_of_a_domain_equal_a_refit(dense: bool) -> None:
    r"""Eqs. (1), (2), (19) and (20), after samples of different noise, one point twice."""
    posterior: DomainPosterior = build_posterior(torch.tensor(ROWS), dense=dense)
    domain, values = grid().numpy(), truth(grid()).numpy()[:, 0]
    rows, noise = [*ROWS, 20, 7, 20], [NOISE] * 3 + [0.05, 0.2, 0.01]
    for row, variance in zip(rows[3:], noise[3:], strict=True):
        posterior.observe(row, float(values[row]), variance)
    mean, covariance = refit(domain[rows], values[rows], np.array(noise), domain)
    np.testing.assert_allclose(posterior.mean, mean, atol=1e-8)
    np.testing.assert_allclose(posterior.variance, np.diag(covariance), atol=1e-8)
    points, candidates = (posterior.points(torch.tensor([rows])) for rows in (range(36), [4, 20]))
    columns = posterior.cross_covariance(points, candidates).squeeze(0)
    np.testing.assert_allclose(columns, covariance[:, [4, 20]], atol=1e-8)


@pytest.mark.parametrize(("size", "delta"), [(1, 0.1), (36, 0.1), (100, 0.5)])
def test_all_tails_together_are_within_delta(size: int, delta: float) -> None:
    r"""Lemma C.1: the tails beyond the width, over all points and times, by exp(-beta_t / 2)."""
    times = range(1, 10_001)
    betas = [bayesian_beta(t, delta, size) for t in times]
    bounds = [size * math.exp(-beta / 2) for beta in betas]
    # P(|N(0, 1)| > width) is below each, and they add up to delta. The rest behaves as 1 / t^2.
    assert all(
        2 * size * norm.sf(beta**0.5) < most for beta, most in zip(betas, bounds, strict=True)
    )
    rest = bounds[-1] * times[-1] ** 2 / (times[-1] + 0.5)
    assert sum(bounds) + rest == pytest.approx(delta, rel=1e-9)


def within(
    epsilon: float, f: list[float], sets: tuple[list[bool], ...], level: float | None
) -> bool:
    r"""Definition 3.1, word by word."""
    undecided, high, low = sets
    if level is None:
        maxima = [x for x, value in enumerate(f) if value == max(f)]
        kept = all(undecided[x] for x in maxima)
        return kept and all(max(f) - f[x] <= epsilon for x in range(len(f)) if undecided[x])
    return (
        all(f[x] > level for x in range(len(f)) if high[x])
        and all(f[x] < level for x in range(len(f)) if low[x])
        and all(abs(f[x] - level) <= epsilon / 2 for x in range(len(f)) if undecided[x])
    )


@pytest.mark.parametrize("level", [None, 0.4])
def test_accuracy_is_the_least_epsilon_of_the_definition(level: float | None) -> None:
    rng = np.random.default_rng(0)
    goal = Maximize() if level is None else LevelSet(level)
    finite = 0
    for _ in range(200):
        f = rng.random(5).round(2).tolist()
        right = rng.random() < 0.7  # sets that are right, or any
        kinds = rng.integers(3, size=5).tolist()
        if right and level is not None:
            kinds = [k if k == 0 else 1 if f[x] > level else 2 for x, k in enumerate(kinds)]
        sets = tuple([bool(kind == each) for kind in kinds] for each in range(3))
        if right and level is None:
            sets = ([a or value == max(f) for a, value in zip(sets[0], f, strict=True)], *sets[1:])
        accuracy = goal.accuracy(
            tuple(torch.tensor(each) for each in sets),  # type: ignore[arg-type]
            torch.tensor(f, dtype=torch.double),
        ).item()
        finite += np.isfinite(accuracy)
        if np.isfinite(accuracy):
            assert within(accuracy + 1e-9, f, sets, level)
            assert accuracy == 0 or not within(accuracy - 1e-9, f, sets, level)
        else:
            assert not within(1e9, f, sets, level)
    assert 20 < finite < 200
