r"""What the tests of truncated variance reduction build, and the printed gain."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from botorch_risk.engine import DomainPosterior
from botorch_risk.papers import LevelSet, Maximize, NoiseLevels, TruncatedVarianceState
from botorch_risk.papers.truvar.goals import Goal
from tests.acquisition.lake import NOISE, build_posterior, grid, printed_gain

ROWS = torch.tensor([3, 13, 30])
LEVELS = NoiseLevels((1e-6, 1e-3, 0.05), costs=(15.0, 10.0, 2.0))
GOALS: dict[str, Goal] = {"maximize": Maximize(), "level_set": LevelSet(0.7)}
goals = pytest.mark.parametrize("goal", GOALS.values(), ids=GOALS.keys())


def build(
    rows: Tensor = ROWS,
    eta: float = 1.0,
    dense: bool = True,
    goal: Goal = GOALS["level_set"],
    **options: Any,
) -> tuple[DomainPosterior, TruncatedVarianceState]:
    posterior = build_posterior(rows, dense=dense)
    state = TruncatedVarianceState.initial(
        posterior.domain, goal, eta=eta, **options, batch_shape=posterior.batch_shape
    )
    return posterior, state.update(posterior)


def printed(
    state: TruncatedVarianceState, noise: np.ndarray | float, candidates: Tensor | None = None
) -> np.ndarray:
    r"""Eq. (3) at candidates, all of the grid by default."""
    domain = grid().numpy()
    X = domain[ROWS]
    own = np.full(len(X), NOISE)
    points = domain if candidates is None else candidates.numpy()
    noise = np.broadcast_to(noise, len(points))
    within = domain[state.unclassified.numpy()]
    beta, eta = state.beta.item(), state.eta.item()
    return np.array(
        [
            printed_gain(X, own, point, variance, within, beta, eta)
            for point, variance in zip(points, noise, strict=True)
        ]
    )


def assert_close(values: Tensor, expected: np.ndarray) -> None:
    np.testing.assert_allclose(values.numpy(), expected, rtol=0, atol=1e-6 * expected.max())


def travel(X: Tensor, previous: Tensor | None, level: int | None) -> Tensor:
    depth = 4 * (X[..., 1].abs() + 1) * (1 if level is None else level + 1)
    return depth if previous is None else depth + 0.25 * (X[..., 0] - previous[..., 0]).abs()
