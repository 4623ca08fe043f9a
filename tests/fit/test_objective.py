from __future__ import annotations

import numpy as np
import torch
from botorch.models import SingleTaskGP
from scipy.optimize import check_grad

from botorch_risk.fit.objective import MarginalLikelihoodObjective
from botorch_risk.fit.parameters import read_exact_gp
from botorch_risk.fit.starts import ROUGHER, make_starts


def objective(n: int = 7) -> MarginalLikelihoodObjective:
    X = torch.rand(3, n, 2, dtype=torch.float64)
    model = SingleTaskGP(X, (4 * X).sin().sum(-1, keepdim=True))
    return MarginalLikelihoodObjective(read_exact_gp(model.train()))


def test_gradient_equals_differences() -> None:
    loss = objective()
    theta = make_starts(loss, torch.Size([3]), ROUGHER, 0, []).theta

    for row in range(len(theta)):

        def value(x: np.ndarray, row: int = row) -> float:
            return loss(x[None], np.array([row]))[0][0]

        def gradient(x: np.ndarray, row: int = row) -> np.ndarray:
            return loss(x[None], np.array([row]))[1][0]

        assert check_grad(value, gradient, theta[row]) < 1e-6


def test_any_selection_of_rows_in_any_chunks_gives_the_same() -> None:
    loss = objective()
    generators = [np.random.default_rng(seed) for seed in range(3)]
    theta = make_starts(loss, torch.Size([3]), ROUGHER, 1, generators).theta
    assert theta.shape == (9, 3)  # the constant is no parameter
    value, gradient = loss(theta, np.arange(9))
    some = np.array([1, 4, 5, 8])
    loss._chunk, loss._selected = 3, None
    np.testing.assert_allclose(loss(theta[some], some)[0], value[some], atol=1e-13)
    np.testing.assert_allclose(loss(theta[some], some)[1], gradient[some], atol=1e-12)
