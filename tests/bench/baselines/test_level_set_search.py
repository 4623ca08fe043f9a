r"""Scores for level sets sample the points that their formulas name."""

from __future__ import annotations

from typing import Any

import torch
from botorch_risk_bench.baselines import gchk, maximum_variance_search, straddle_search
from torch import Tensor

from tests.acquisition.lake import build_model, grid, refit, truth

ROWS = [3, 17, 20, 30]
THRESHOLD = 0.7
KNOWN: dict[str, Any] = {"model": build_model, "estimator": None, "noise": 1e-3, "num_initial": 4}


def moments() -> tuple[Tensor, Tensor]:
    X = grid()[ROWS]
    noise = torch.full((4,), 1e-3).double().numpy()
    mean, covariance = refit(X.numpy(), truth(X)[:, 0].numpy(), noise, grid().numpy())
    return torch.from_numpy(mean), torch.from_numpy(covariance).diagonal()


def next_point(make: Any, **options: Any) -> Any:
    strategy = make(grid(), 0, **KNOWN, **options)
    X = grid()[ROWS].unsqueeze(0)
    strategy.tell(X, truth(X))
    return strategy


def test_the_straddle() -> None:
    mean, variance = moments()
    for beta in (1.96**2, 9.0):
        score = (beta * variance).sqrt() - (mean - THRESHOLD).abs()
        strategy = next_point(straddle_search, threshold=THRESHOLD, beta=beta)
        assert torch.equal(strategy.ask()[0, 0], grid()[score.argmax()])


def test_gchk_leaves_out_what_three_deviations_classify() -> None:
    mean, variance = moments()
    reach = 3 * variance.sqrt()
    open_points = (mean - reach <= THRESHOLD) & (mean + reach >= THRESHOLD)
    strategy = next_point(gchk, threshold=THRESHOLD)
    assert torch.equal(strategy.state["unclassified"][0], open_points)
    assert torch.equal(strategy.state["high"][0], mean - reach > THRESHOLD)
    score = (reach - (mean - THRESHOLD).abs()).where(open_points, -torch.inf)
    assert torch.equal(strategy.ask()[0, 0], grid()[score.argmax()])


def test_uncertainty_sampling() -> None:
    _, variance = moments()
    strategy = next_point(maximum_variance_search)
    assert torch.equal(strategy.ask()[0, 0], grid()[variance.argmax()])
