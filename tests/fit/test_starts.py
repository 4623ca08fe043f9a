from __future__ import annotations

import numpy as np
import pytest
import torch
from botorch.models import SingleTaskGP

from botorch_risk.fit.objective import MarginalLikelihoodObjective
from botorch_risk.fit.parameters import read_exact_gp
from botorch_risk.fit.starts import IN_UNITS_OF_TARGETS, ROUGHER, Starts, make_starts

# Some models here see raw outcomes on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")


def starts(scale: list[float], num_restarts: int = 0) -> Starts:
    X = torch.rand(len(scale), 7, 2, dtype=torch.float64)
    Y = (4 * X).sin().sum(-1, keepdim=True)
    Y = (Y - Y.mean(dim=-2, keepdim=True)) / Y.std(dim=-2, correction=0, keepdim=True)
    Y = Y * torch.tensor(scale).view(-1, 1, 1)
    model = SingleTaskGP(X, Y, outcome_transform=None).train()
    generators = [np.random.default_rng(seed) for seed in range(len(scale))]
    loss = MarginalLikelihoodObjective(read_exact_gp(model))
    return make_starts(loss, X.shape[:-2], ROUGHER, num_restarts, generators)


def test_the_rough_start_moves_faster_and_is_known_better() -> None:
    theta, rows, *_ = starts([1.0, 1.0, 1.0])
    assert rows.tolist() == [0, 1, 2, 3, 4, 5]
    shift = np.exp(theta[3:] - theta[:3])
    expected = [ROUGHER["lengthscale"], ROUGHER["lengthscale"], ROUGHER["noise"]]
    np.testing.assert_allclose(shift, np.tile(expected, (3, 1)))


def test_replicates_that_are_not_standard_have_more_starts_in_their_units() -> None:
    theta, rows, *_ = starts([1.0, 1e3, 1.0, 1e-3], num_restarts=1)
    assert rows.tolist() == [*range(12), 13, 15, 17, 19]
    for shares, block in zip(IN_UNITS_OF_TARGETS, (theta[12:14], theta[14:16]), strict=True):
        noise = shares["noise"] * np.array([1e6, 1e-6])
        np.testing.assert_allclose(np.exp(block[:, -1]), noise)
        lengthscales = shares["lengthscale"] * np.exp(theta[[1, 3], :2])
        np.testing.assert_allclose(np.exp(block[:, :2]), lengthscales)


def test_draws_depend_on_the_replicate_alone() -> None:
    theta, *_ = starts([1.0, 1.0], num_restarts=2)
    again, *_ = starts([1.0, 1.0, 1e6], num_restarts=2)
    np.testing.assert_array_equal(theta[4:6], again[6:8])


def test_starts_that_follow_others_count_on() -> None:
    first = starts([1.0, 1.0, 1.0])
    warm = Starts(first.theta[:3], np.arange(3), 3, np.ones((3, 3, 3)))
    both = warm.followed_by(first.of(np.array([True, False, True])))
    assert both.rows.tolist() == [0, 1, 2, 3, 5, 6, 8]
    np.testing.assert_array_equal(both.theta[3:], first.theta[[0, 2, 3, 5]])
    assert both.metric is not None
    assert (both.metric[:3] == 1).all()
    assert np.isnan(both.metric[3:]).all()
