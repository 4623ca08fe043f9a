r"""Criteria of level sets of a mean, against integrals and the programs that they come from."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm

from bench.studies.level_sets import criteria, of_the_mean
from botorch_risk.posterior import DomainPosterior

GAPS = torch.tensor([-1.3, -0.2, 0.0, 0.05, 0.9], dtype=torch.double)
S = torch.tensor([0.4, 0.1, 0.7, 0.3, 1.1], dtype=torch.double)
R = torch.full_like(S, 0.04)


def integral(gain: Any, gap: float, s: float) -> float:
    r"""E[gain(f - t)] of a normal f, where the gain is 0 beyond a standard deviation of t."""
    value, _ = quad(lambda d: gain(d) * norm.pdf(d, gap, s), -s, s, points=[0.0])
    return float(value)


def test_feasibility_and_improvement_are_their_integrals() -> None:
    for gap, s in zip(GAPS.tolist(), S.tolist(), strict=True):
        arguments = (torch.tensor(each, dtype=torch.double) for each in (gap, s, 0.04))
        gap_, s_, r_ = arguments
        near = integral(lambda d, s=s: s - abs(d), gap, s)
        assert criteria.expected_feasibility(gap_, s_, r_).item() == pytest.approx(near, abs=1e-10)
        near = integral(lambda d, s=s: s**2 - d**2, gap, s)
        assert criteria.contour_improvement(gap_, s_, r_).item() == pytest.approx(near, abs=1e-10)


def test_they_are_those_of_hetgpy() -> None:
    contour = pytest.importorskip("hetgpy.contour")
    moments = {"mean": GAPS.numpy(), "sd2": S.square().numpy(), "cov": np.diag(S.square().numpy())}
    moments["nugs"] = R.numpy()
    model = type("model", (), {"eps": 0.0})()
    for name, theirs in (
        ("empirical error", contour.crit_MEE),
        ("targeted variance", contour.crit_tMSE),
        ("error reduction", contour.crit_cSUR),
    ):
        expected = theirs(GAPS.numpy(), model, preds=moments)
        np.testing.assert_allclose(criteria.OF_A_POINT[name](GAPS, S, R).numpy(), expected)


@pytest.mark.parametrize("name", [*criteria.OF_ALL_POINTS])
def test_a_sum_is_that_of_the_posterior_after_the_sample(name: str) -> None:
    task = of_the_mean.Task.of("branin")
    task = of_the_mean.Task(task.domain[:40], task.values[:40], 0.2)
    strategy = of_the_mean.strategy_of(name, task, [0, 1])
    X = strategy.ask()
    strategy.tell(X, task.observe(X, [0, 1], 0))
    _, view = strategy.views[0]
    posterior: DomainPosterior = view.belief.posterior
    noise = torch.full((2, 40), 0.03, dtype=torch.double)
    found = criteria.Criterion(name, task.level)(view, posterior, noise)
    scale = posterior.prior_variance.sqrt().unsqueeze(-1)
    gap, before = (posterior.mean - task.level) / scale, posterior.variance / scale.square()
    for index in (0, 17):
        after = posterior.copy()
        at = torch.tensor([index, index])
        after.hallucinate(task.domain[at], noise[:, index], index=at)
        s2 = after.variance / scale.square()
        if name == "contour uncertainty":
            expected = -torch.special.ndtr(-gap.abs() / s2.sqrt()).sum(dim=-1)
        else:
            weight = torch.exp(-gap.square() / before / 2) / (2 * math.pi * before).sqrt()
            expected = -(s2 * weight).sum(dim=-1)
        torch.testing.assert_close(found[:, index], expected)


def test_the_table_has_a_row_for_each_criterion(tmp_path: Any) -> None:
    rows = [of_the_mean.play("branin", each, 2, 2) for each in of_the_mean.METHODS]
    f1 = {row["method"]: torch.tensor(row["f1"]) for row in rows}
    assert set(f1) == set(of_the_mean.METHODS)
    assert all(
        each.shape == (3, 2) and (each >= 0).all() and (each <= 1).all() for each in f1.values()
    )
    assert all(torch.equal(each[0], f1["truvar"][0]) for each in f1.values())  # the initial design
