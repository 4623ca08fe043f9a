r"""Adaptive importance sampling of densities whose moments are known."""

import numpy as np
import pytest
from numpy import ndarray

from botorch_risk.engine.sample.importance import Proposal, sample_density


def test_a_normal_density_far_from_the_start_is_found() -> None:
    mean, root = np.array([1.0, -2.0]), np.array([[0.5, 0.0], [0.4, 0.2]])

    def log_density(theta: ndarray, rows: ndarray) -> ndarray:
        z = np.linalg.solve(root, (theta - mean)[..., None])[..., 0]
        found: ndarray = -0.5 * np.square(z).sum(axis=-1)
        return found

    start = Proposal(np.zeros((2, 2)), np.tile(np.eye(2), (2, 1, 1)))
    found = sample_density(log_density, start, 64, [0, 1])
    assert (found.effective > 150).all()
    np.testing.assert_allclose(found.proposal.location, np.tile(mean, (2, 1)), atol=0.1)
    np.testing.assert_allclose(found.values.mean(axis=0), np.tile(mean, (2, 1)), atol=0.12)
    evidence = np.log(2 * np.pi * 0.5 * 0.2)  # of a normal density without its factor
    np.testing.assert_allclose(found.log_evidence, evidence, atol=0.1)
    spread = found.values.std(axis=0)
    np.testing.assert_allclose(spread, np.tile([0.5, 0.4472], (2, 1)), rtol=0.2)


def test_both_of_two_modes_are_sampled() -> None:
    def log_density(theta: ndarray, rows: ndarray) -> ndarray:
        modes = [-0.5 * np.square((theta[..., 0] - at) / 0.3) for at in (-1.0, 1.0)]
        found: ndarray = np.logaddexp(np.log(0.3) + modes[0], np.log(0.7) + modes[1])
        return found

    start = Proposal(np.full((8, 1), 1.0), np.full((8, 1, 1), 0.09))  # of one of them
    found = sample_density(log_density, start, 50, list(range(8)))
    share = (found.values > 0).mean()
    assert share == pytest.approx(0.7, abs=0.05)


def test_a_row_with_few_effective_draws_has_more_stages_and_no_other_row() -> None:
    calls: list[list[int]] = []

    def log_density(theta: ndarray, rows: ndarray) -> ndarray:
        calls.append(rows.tolist())
        scale = np.where(rows == 0, 1.0, 0.003)
        found: ndarray = -0.5 * np.square(theta[..., 0] / scale)
        return found

    start = Proposal(np.zeros((2, 1)), np.ones((2, 1, 1)))
    sample_density(log_density, start, 32, [0, 1])
    assert calls[:4] == [[0, 1]] * 4 and calls[4:] and all(each == [1] for each in calls[4:])


def test_where_no_draw_has_a_density_the_draws_of_the_start_remain() -> None:
    start = Proposal(np.zeros((1, 1)), np.ones((1, 1, 1)))
    found = sample_density(lambda theta, rows: np.full(theta.shape[:2], np.nan), start, 8, [0])
    assert np.isfinite(found.values).all() and found.effective.tolist() == [0.0]
