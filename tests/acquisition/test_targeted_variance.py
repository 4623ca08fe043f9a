r"""Targeted integrated variance against refitting at every candidate."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from scipy.stats import norm

from botorch_risk.acquisition import TargetedIntegratedVariance
from tests.acquisition.lake import NOISE, build_model, grid, refit, truth

ROWS = torch.tensor([3, 13, 30])
POINTS = grid(5)


def build(**options: object) -> TargetedIntegratedVariance:
    return TargetedIntegratedVariance(
        build_model(grid()[ROWS]), 0.7, POINTS, **{"noise": NOISE, **options}
    )


def expected(X: torch.Tensor, pending: torch.Tensor | None = None) -> np.ndarray:
    r"""`sum_j w_j W(u_j) (variance now - variance with the candidate)`."""
    points, seen = POINTS.numpy(), grid()[ROWS].numpy()
    y, weights = truth(grid()[ROWS]).numpy()[:, 0], np.linspace(1, 2, 25)
    if pending is not None:
        mean = refit(seen, y, np.full(3, NOISE), pending.numpy())[0]
        seen, y = np.append(seen, pending.numpy(), axis=0), np.append(y, mean)
    noise = np.full(len(seen), NOISE)
    mean, covariance = refit(seen, y, noise, points)
    variance = np.diag(covariance)
    density = norm.pdf(mean, 0.7, np.sqrt(variance + 0.1**2))
    values = []
    for x in X.numpy():
        more = np.append(seen, x[None], axis=0), np.append(y, 0.0), np.append(noise, NOISE)
        after = np.diag(refit(*more, points)[1])
        values.append((weights * density * (variance - after)).sum())
    return np.array(values)


def test_equals_refitting() -> None:
    weights = torch.linspace(1, 2, 25, dtype=torch.float64)
    acqf = build(weights=weights, bandwidth=0.1)
    X = torch.rand(6, 2, dtype=torch.float64)
    np.testing.assert_allclose(acqf.evaluate(X), expected(X), rtol=1e-8)
    np.testing.assert_allclose(acqf(X.unsqueeze(-2)), expected(X), rtol=1e-8)
    pending = torch.tensor([[0.4, 0.6], [0.9, 0.1]], dtype=torch.float64)
    acqf.set_X_pending(pending)
    np.testing.assert_allclose(acqf.evaluate(X), expected(X, pending), rtol=1e-8)
    acqf.set_X_pending(None)
    np.testing.assert_allclose(acqf.evaluate(X), expected(X), rtol=1e-8)
    assert torch.equal(pickle.loads(pickle.dumps(acqf)).evaluate(X), acqf.evaluate(X))


def test_a_point_that_is_known_counts_for_nothing_whatever_the_level() -> None:
    r"""Its density at the level would be 1 / 0; its variance cannot fall."""
    model, weights = build_model(grid()[ROWS]), torch.ones(25, dtype=torch.float64)
    known, X = POINTS[12:13], torch.rand(6, 2, dtype=torch.float64)
    level = model.posterior(known).mean.item()
    every, others = (
        TargetedIntegratedVariance(model, level, POINTS, w, noise=0.0, X_pending=known)
        for w in (weights, weights.index_fill(0, torch.tensor([12]), 0.0))
    )
    torch.testing.assert_close(every.evaluate(X), others.evaluate(X), rtol=1e-9, atol=0)
    assert (others.evaluate(X) > 0).all()


def test_replicates_equal_the_loop() -> None:
    rows = torch.tensor([[3, 13, 30], [0, 8, 35]])
    both = TargetedIntegratedVariance(build_model(grid()[rows]), 0.7, POINTS, noise=NOISE)
    X = torch.rand(4, 2, dtype=torch.float64)
    for r in range(2):
        one = TargetedIntegratedVariance(build_model(grid()[rows[r]]), 0.7, POINTS, noise=NOISE)
        torch.testing.assert_close(both.evaluate(X)[r], one.evaluate(X))
    assert both(X.reshape(4, 1, 1, 2).expand(4, 2, 1, 2)).shape == (4, 2)


def test_gradient_and_optimiser() -> None:
    acqf = build()
    X = torch.rand(3, 1, 2, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(acqf, X)
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    X, value = optimize_acqf(acqf, bounds, q=2, num_restarts=2, raw_samples=16, sequential=True)
    assert X.shape == (2, 2) and torch.pdist(X) > 1e-6 and acqf.X_pending is None
    assert value[0] > acqf.evaluate(grid()).max() * 0.9


def test_input_constructor_and_bad_arguments() -> None:
    construct = get_acqf_input_constructor(TargetedIntegratedVariance)
    arguments = construct(
        model=build().model, threshold=0.7, points=POINTS, noise=NOISE, X_pending=None
    )
    X = torch.rand(3, 2, dtype=torch.float64)
    built = TargetedIntegratedVariance(**arguments)
    assert torch.equal(built.evaluate(X), build().evaluate(X))
    with pytest.raises(BotorchTensorDimensionError, match="one weight for each of 25 points"):
        build(weights=torch.ones(3))
    with pytest.raises(ValueError, match="Expected `weights` to be finite and >= 0"):
        build(weights=-torch.ones(25))
    with pytest.raises(ValueError, match="Expected `bandwidth` to be finite and >= 0"):
        build(bandwidth=-1.0)
    with pytest.raises(ValueError, match="noise of the model is fixed"):
        build(noise=None)
    with pytest.raises(ValueError, match="finite `threshold`"):
        TargetedIntegratedVariance(build().model, torch.nan, POINTS, noise=NOISE)
    two = SingleTaskGP(POINTS, torch.cat([POINTS.sin(), POINTS[:, :1]], dim=-1))
    with pytest.raises(UnsupportedError, match="one output"):
        TargetedIntegratedVariance(two, 0.7, POINTS)


def test_whole_numbers_no_points_and_other_columns() -> None:
    acqf, X = build(noise=lambda X: 0.1 + X[..., 0]), torch.tensor([[0, 1], [1, 0]])
    torch.testing.assert_close(acqf.evaluate(X), acqf.evaluate(X.double()))
    torch.testing.assert_close(acqf(X.unsqueeze(-2)), acqf.evaluate(X.double()))
    assert acqf.evaluate(X[:0].double()).shape == (0,)
    for columns in (1, 3):
        with pytest.raises(BotorchTensorDimensionError, match=r"2 columns"):
            acqf.evaluate(torch.rand(3, columns, dtype=torch.float64))
