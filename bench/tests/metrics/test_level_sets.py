r"""Reporting of level sets."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch_risk_bench.metrics import (
    accuracy,
    classify_by_confidence,
    classify_by_mean,
    level_set_scores,
)

from botorch_risk.papers import LevelSet, Maximize, RelativeLevelSet, TruncatedVarianceState
from tests.acquisition.lake import build_posterior, grid


def mask(*rows: int) -> torch.Tensor:
    return torch.zeros(5, dtype=torch.bool).index_fill(0, torch.tensor(rows).long(), True)


EDGES = [
    (mask(), mask(), (1.0, 1.0, 1.0, 0.0)),  # nothing is high, nothing is called so
    (mask(), mask(0), (0.0, 1.0, 0.0, 0.2)),
    (mask(0), mask(), (0.0, 0.0, 1.0, 0.2)),
    (mask(0), mask(1), (0.0, 0.0, 0.0, 0.4)),
    (mask(0, 1), mask(0, 1), (1.0, 1.0, 1.0, 0.0)),
    (mask(0, 1, 2), mask(2, 3), (0.4, 1 / 3, 0.5, 0.6)),
]


@pytest.mark.parametrize(("called", "truth", "expected"), EDGES)
def test_scores(called: torch.Tensor, truth: torch.Tensor, expected: tuple[float, ...]) -> None:
    np.testing.assert_allclose(
        [score.item() for score in level_set_scores(called, truth)], expected
    )


def test_scores_of_replicates_and_weights() -> None:
    called, truth = torch.stack([mask(0, 1), mask(2)]), mask(0)
    scores = level_set_scores(called, truth, weights=torch.tensor([1.0, 2.0, 3.0, 0.0, 2.0]))
    torch.testing.assert_close(scores.f1, torch.tensor([2 / 3, 0.0]).double())
    torch.testing.assert_close(scores.misclassified_volume, torch.tensor([0.25, 0.5]).double())
    with pytest.raises(BotorchTensorDimensionError, match="boolean `high` and `truth`"):
        level_set_scores(called, torch.ones(5))


def test_classes() -> None:
    posterior = build_posterior(torch.tensor([[3, 13, 30], [0, 8, 35]]))
    mean, deviation = posterior.mean, posterior.variance.sqrt()
    by_mean = classify_by_mean(posterior, LevelSet(0.4))
    assert torch.equal(by_mean.high, mean >= 0.4)
    assert torch.equal(by_mean.low, mean < 0.4) and not by_mean.unclassified.any()
    fraction = classify_by_mean(posterior, RelativeLevelSet(0.5, baseline=-1.0))
    level = -1 + 0.5 * (mean.amax(dim=-1, keepdim=True) + 1)
    assert torch.equal(fraction.high, mean >= level)
    sure = classify_by_confidence(posterior, LevelSet(0.4), beta=4.0)
    assert torch.equal(sure.high, mean - 2 * deviation > 0.4)
    assert torch.equal(sure.low, mean + 2 * deviation < 0.4)
    assert (sure.high.any() or sure.low.any()) and (sure.high ^ sure.low ^ sure.unclassified).all()


def test_accuracy_of_definition_3_1() -> None:
    domain, values = grid(), torch.linspace(0, 3.5, 36, dtype=torch.float64)
    best = TruncatedVarianceState.initial(domain, Maximize())
    assert accuracy(best, values) == 3.5
    some = replace(best, unclassified=values > 3.0)
    torch.testing.assert_close(accuracy(some, values), torch.tensor(0.4).double())
    assert accuracy(replace(best, unclassified=values < 3.0), values) == torch.inf
    level = TruncatedVarianceState.initial(domain, LevelSet(2.0))
    right = replace(
        level, high=values > 2.15, low=values < 1.85, unclassified=(values - 2).abs() <= 0.15
    )
    torch.testing.assert_close(accuracy(right, values), torch.tensor(0.2).double())
    assert accuracy(replace(right, high=values > 1.85), values) == torch.inf
    assert accuracy(replace(right, low=values < 2.15), values) == torch.inf
    empty = replace(right, unclassified=values > 10)
    assert accuracy(empty, values) == 0
