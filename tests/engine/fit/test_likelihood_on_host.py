r"""The likelihood in NumPy against the one in PyTorch."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from botorch.models import SingleTaskGP
from numpy import ndarray

from botorch_risk.engine.fit.likelihood_on_host import MOST_POINTS, LikelihoodOnHost
from botorch_risk.engine.fit.marginal_likelihood import (
    BestConstant,
    Hyperparameters,
    Targets,
    likelihood_of,
)
from botorch_risk.engine.fit.objective import MarginalLikelihoodObjective

NUS = (0.5, 1.5, 2.5, math.inf)


def problem(seed: int) -> tuple[dict[str, Any], ndarray, ndarray]:
    r"""Data of 25 rows, their hyperparameters, and the same results by PyTorch."""
    draw = np.random.default_rng(seed)
    rows, n, d = 25, int(draw.integers(1, 40)), int(draw.integers(1, 5))
    X, Y = draw.random((rows, n, d)) - 0.5, draw.standard_normal((rows, n))
    is_shared, has_scale, is_fixed, has_best = draw.random(4) < 0.5
    nu = NUS[seed % 4]
    values = {"lengthscale": 10 ** draw.uniform(-1, 1, (rows, 1 if is_shared else d))}
    noise = 10 ** draw.uniform(-6, 0, (rows, n if is_fixed else 1))
    if not is_fixed:
        values["noise"] = noise
    if has_scale:
        values["outputscale"] = 10 ** draw.uniform(-1, 1, (rows, 1))
    best = None
    if has_best:
        ends = np.sort(draw.standard_normal((rows, 2)), axis=1)
        best = np.c_[ends, draw.standard_normal(rows), draw.random(rows)]
    else:
        values["constant"] = draw.standard_normal((rows, 1))
    stops = np.cumsum([each.shape[1] for each in values.values()]).tolist()
    slices = dict(zip(values, map(slice, [0, *stops[:-1]], stops), strict=True))
    both = np.stack([np.ones_like(Y), Y], axis=-1)
    observed = draw.random((rows, n)) < (0.7 if seed % 2 else 2.0)
    observed[:, 0] = True
    host = {"X": X, "both": both, "observed": observed}
    host["fixed_noise"] = noise if is_fixed else None
    host |= {"best_constant": best, "nu": nu, "slices": slices}
    named = {name: torch.tensor(each) for name, each in values.items()}
    for name in ("outputscale", "constant"):
        named[name] = named[name].squeeze(-1) if name in named else None  # type: ignore[assignment]
    if has_best:
        named["constant"] = torch.zeros(rows, dtype=torch.double)
    known = None if best is None else BestConstant(*torch.tensor(best.T))
    targets = Targets.of(torch.tensor(Y), None if observed.all() else torch.tensor(observed))
    expected = likelihood_of(
        torch.tensor(X),
        targets,
        Hyperparameters(**{**named, "noise": torch.tensor(noise)}),
        nu,
        known,
    )
    slopes = [getattr(expected.gradient, name).reshape(rows, -1) for name in values]
    joint = [expected.value[:, None], expected.constant[:, None], *slopes]
    return host, np.concatenate([*values.values()], axis=1), torch.cat(joint, dim=1).numpy()


def test_it_is_the_likelihood_of_pytorch_on_a_thousand_problems() -> None:
    errors = []
    for seed in range(40):
        host, values, expected = problem(seed)
        found = LikelihoodOnHost.of(**host)(values, np.arange(len(values)))
        errors += [distance(*pair) for pair in zip(found[:, None], expected[:, None], strict=True)]
    # At a noise of 1e-6 the condition number is 1e7, and PyTorch's gradient is a difference of
    # squares: where the two differ most, extended precision shows PyTorch to be off.
    assert np.mean(np.array(errors) < 1e-9) > 0.995 and max(errors) < 1e-8


def distance(found: ndarray, expected: ndarray) -> float:
    r"""The largest difference, in units of the largest number of its row."""
    size = np.abs(expected).max(axis=1, keepdims=True)
    return float((np.abs(found - expected) / size).max())


def test_a_row_that_fails_is_not_finite_and_leaves_others_alone() -> None:
    host, values, expected = problem(3)
    broken = values.copy()
    broken[2] = np.nan
    found = LikelihoodOnHost.of(**host)(broken, np.arange(len(values)))
    assert np.isnan(found[2, 0])
    kept = np.arange(len(values)) != 2
    assert distance(found[kept], expected[kept]) < 1e-8


@pytest.mark.parametrize("n", [12, MOST_POINTS + 1])
@pytest.mark.parametrize("batch", [(), (2,), (6,)], ids=str)
def test_a_fit_uses_it_for_few_replicates_and_points(batch: tuple[int, ...], n: int) -> None:
    X = torch.rand(*batch, n, 2, dtype=torch.double)
    objective = MarginalLikelihoodObjective.of(SingleTaskGP(X, X.sum(dim=-1, keepdim=True).sin()))
    assert (objective._on_host is not None) == (n <= MOST_POINTS and batch != (6,))
    theta, rows = objective.own(), np.arange(max(1, *batch) if batch else 1)
    value, gradient = objective(theta, rows)
    moved = np.zeros_like(theta)
    moved[:, 0] = 1e-5
    rise = objective(theta + moved, rows)[0] - objective(theta - moved, rows)[0]
    np.testing.assert_allclose(rise / 2e-5, gradient[:, 0], rtol=1e-5, atol=1e-8)
    assert np.isfinite(value).all()
