r"""Safe candidates: by hand in one dimension, and their laws."""

import math
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.exceptions.warnings import UserInputWarning
from torch import Tensor

from botorch_risk.acquisition import RiskAverseUpperConfidenceBound, RiskUpperConfidenceBound
from botorch_risk.constraints import (
    ConstrainedUpperConfidenceBound,
    NoiseConstraint,
    NoisyChanceConstraint,
    RiskConstraint,
    safe_candidate,
)
from botorch_risk.engine import fit_exact_gp
from botorch_risk.environments import InputPerturbation
from botorch_risk.models import MeanVarianceGP
from botorch_risk.risk import Expectation

GRID = torch.linspace(0, 1, 41, dtype=torch.double).unsqueeze(-1)


def model_of(num: int = 8, seeds: tuple[int, ...] = (0,), end: float = 0.5) -> MeanVarianceGP:
    r"""A rising mean and a rising noise, known on the left."""
    draws = [torch.Generator().manual_seed(seed) for seed in seeds]
    noise = torch.stack([torch.randn(num, 6, generator=g, dtype=torch.double) for g in draws])
    X = torch.linspace(0, end, num, dtype=torch.double).unsqueeze(-1).expand(len(seeds), -1, -1)
    Y = (4 * X).sin() + 0.1 * (1 + 2 * X) * noise
    model = MeanVarianceGP(X, Y) if len(seeds) > 1 else MeanVarianceGP(X[0], Y[0])
    fit_exact_gp(model)
    return model


MEAN = NoisyChanceConstraint(threshold=0.95, outcome=0, delta=0.5)
NOISE = NoiseConstraint(threshold=0.35)


def bound_of(model: MeanVarianceGP, *constraints: Any, **options: Any) -> Any:
    objective = RiskAverseUpperConfidenceBound(model, beta=4.0, risk_aversion=0.1)
    return ConstrainedUpperConfidenceBound(model, objective, constraints, **options)


def test_bounds_of_the_noise_are_negative_deviations() -> None:
    model = model_of()
    bound = NOISE.bound(model, 9.0)
    lower, upper = (-each.sqrt() for each in model.noise_confidence_bounds(GRID, 9.0))
    torch.testing.assert_close(bound.lower(GRID), upper)
    torch.testing.assert_close(bound.upper(GRID), lower)
    torch.testing.assert_close(bound.mean(GRID), -model.predicted_noise(GRID).squeeze(-1).sqrt())
    with pytest.raises(ValueError, match="`threshold` to be finite and > 0"):
        NoiseConstraint(0.0)


def test_a_threshold_of_the_noise_is_not_compared_with_outcomes() -> None:
    model = MeanVarianceGP(GRID, 50 + torch.tensor([-0.1, 0.2]).expand(41, 2) * (1 + GRID))
    with pytest.warns(UserInputWarning, match="No observation of outcome 0 is at most"):
        bound_of(model, NoisyChanceConstraint(0.35, outcome=0, delta=0.5))
    bound_of(model, NOISE)


def by_hand(bound: Any, X: Tensor, known: Tensor, epsilon: float) -> tuple[int, int]:
    r"""The same choice by loops, from the joint posterior."""
    model, score = bound.model, bound.bound.evaluate(X)
    sides = {side: bound.slacks(X, side) / bound.spreads[:, None] for side in ("lower", "upper")}
    middle = bound.slacks(X, "mean") / bound.spreads[:, None]
    safe = [bool(known[j] or (sides["lower"][:, j] >= 0).all()) for j in range(len(X))]
    best = max((j for j in range(len(X)) if safe[j]), key=lambda j: float(score[j]))
    covariances = [
        (model.noise_model if isinstance(each, NoiseConstraint) else model.mean_model)
        .posterior(X)
        .distribution.covariance_matrix.detach()
        for each in bound.risk_constraints
    ]
    order = sorted((j for j in range(len(X)) if not safe[j]), key=lambda j: -float(score[j]))
    for x in order:
        if score[x] <= score[best] or (sides["upper"][:, x] < 0).any():
            continue
        hopes = {}
        for z in range(len(X)):
            half = (sides["upper"][:, z] - sides["lower"][:, z]) / 2
            if not safe[z] or half.max() <= epsilon:
                continue
            slacks = []
            for i, K in enumerate(covariances):
                r = max(0.0, float(K[x, z] / (K[x, x] * K[z, z]).sqrt()))
                low, high = float(sides["lower"][i, x]), float(sides["upper"][i, x])
                mid = min(max(float(middle[i, x]), low), high)
                slacks.append(mid + r * (high - mid) - math.sqrt(max(0, 1 - r * r)) * (mid - low))
            hopes[z] = min(slacks)
        if hopes and max(hopes.values()) >= 0:
            return max(hopes, key=lambda z: hopes[z]), x
    return best, best


@pytest.mark.parametrize(
    "constraints",
    [
        pytest.param((MEAN,), marks=pytest.mark.slow),
        pytest.param((NOISE,), marks=pytest.mark.slow),
        (MEAN, NOISE),
    ],
)
def test_the_choice_equals_one_by_loops(constraints: Any) -> None:
    known = torch.zeros(41, dtype=torch.bool)
    known[0] = True
    seen = set()
    for seed in range(6):
        bound = bound_of(model_of(seeds=(seed,)), *constraints, beta=4.0)
        row, target = safe_candidate(bound, GRID, known)
        assert (row.item(), target.item()) == by_hand(bound, GRID, known, 0.1)
        assert known[row] or bound.feasible(GRID)[row]
        seen.add(bool(row == target))
    assert False in seen  # some ask for a point that proves another


def test_a_reading_at_its_upper_bound_gives_the_hoped_for_lower_bound() -> None:
    r"""The formula of the docstring is the posterior after that reading, without noise."""
    model, beta = model_of(), 4.0
    posterior = model.mean_model.posterior(GRID).distribution
    K, mean, s = posterior.covariance_matrix, posterior.mean, posterior.variance.sqrt()
    x, z = 28, 22
    r = K[x, z] / (s[x] * s[z])
    assert 0 < r < 1
    after = mean[x] + K[x, z] / K[z, z] * (math.sqrt(beta) * s[z])
    left = (K[x, x] - K[x, z].square() / K[z, z]).sqrt()
    lower, upper = mean[x] - math.sqrt(beta) * s[x], mean[x] + math.sqrt(beta) * s[x]
    hoped = mean[x] + r * (upper - mean[x]) - (1 - r**2).sqrt() * (mean[x] - lower)
    torch.testing.assert_close(after - math.sqrt(beta) * left, hoped)


def test_where_every_candidate_is_safe_the_best_is_chosen() -> None:
    bound = bound_of(model_of(end=1.0), NoisyChanceConstraint(90.0, outcome=0, delta=0.5))
    row, target = safe_candidate(bound, GRID)
    assert row == target == bound.bound.evaluate(GRID).argmax()


def test_well_known_safe_candidates_prove_nothing() -> None:
    bound = bound_of(model_of(), MEAN, beta=4.0)
    row, target = safe_candidate(bound, GRID, epsilon=1e3)
    score = bound.bound.evaluate(GRID).masked_fill(~bound.feasible(GRID), -torch.inf)
    assert row == target == score.argmax()


def test_a_batch_of_replicates_is_each_alone() -> None:
    seeds = (0, 1, 2)
    whole = model_of(seeds=seeds)
    rows, targets = safe_candidate(bound_of(whole, MEAN, NOISE, beta=4.0), GRID.expand(3, -1, -1))
    for index, seed in enumerate(seeds):
        alone = bound_of(model_of(seeds=(seed,)), MEAN, NOISE, beta=4.0)
        row, target = safe_candidate(alone, GRID)
        assert (row, target) == (rows[index], targets[index])


def test_known_noise_is_safe_or_not_from_the_start() -> None:
    X = torch.linspace(0, 0.5, 8, dtype=torch.double).unsqueeze(-1)
    model = MeanVarianceGP(X, (4 * X).sin().expand(-1, 3), known_noise=lambda X: 0.01 + X.square())
    row, target = safe_candidate(bound_of(model, NOISE), GRID)
    assert row == target
    assert 0.01 + GRID[row].square() <= 0.35**2


def test_bad_arguments() -> None:
    model = model_of()
    bound = bound_of(model, MEAN, beta=4.0)
    with pytest.raises(InputDataError, match=r"a candidate that is safe with confidence\. Got"):
        safe_candidate(bound, GRID[-1:])
    batch = bound_of(model_of(seeds=(0, 1)), MEAN, beta=4.0)
    assert safe_candidate(batch, GRID.expand(2, -1, -1))[0].shape == (2,)
    with pytest.raises(InputDataError, match=r"a candidate that is safe with confidence\. Got"):
        safe_candidate(batch, torch.stack([GRID[:9], GRID[-1:].expand(9, -1)]))
    with pytest.raises(BotorchTensorDimensionError, match=r"booleans of shape \(41,\)\. Got"):
        safe_candidate(bound, GRID, torch.ones(40, dtype=torch.bool))
    with pytest.raises(ValueError, match="`epsilon`"):
        safe_candidate(bound, GRID, epsilon=-1.0)
    with pytest.raises(TypeError, match=r"`bound` to be .*ConstrainedUpper.*\. Got"):
        safe_candidate(bound.bound, GRID)
    with pytest.raises(ValueError, match=r"`side` to be one of .*'upper'.*\. Got 'above'"):
        bound.feasible(GRID, "above")
    here = InputPerturbation(torch.zeros(1, 1, dtype=torch.double))
    objective = RiskUpperConfidenceBound(model.mean_model, here, Expectation(), beta=4.0)
    constraint = RiskConstraint(here, Expectation(), 0.5, outcome=0, at_most=True)
    of_risk = ConstrainedUpperConfidenceBound(model.mean_model, objective, [constraint])
    with pytest.raises(UnsupportedError, match="Got the bound RiskUpperConfidenceBound"):
        safe_candidate(of_risk, GRID)
