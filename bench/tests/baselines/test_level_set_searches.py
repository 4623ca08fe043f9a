r"""Heuristics that classify a domain, as TRUVAR does."""

from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch_risk_bench.baselines import gchk, maximum_variance_search, straddle_search
from scipy.stats import norm

from botorch_risk.papers import NoiseLevels
from tests.acquisition.lake import build_model, grid, truth

pytestmark = pytest.mark.filterwarnings(
    "ignore:Expected a threshold within:botorch.exceptions.warnings.InputDataWarning"
)

LEVEL = 0.3
LEVELS = NoiseLevels((1e-6, 1e-3, 0.05), costs=(15.0, 10.0, 2.0))
KNOWN: dict[str, Any] = {"model": build_model, "estimator": None, "noise": 1e-3, "num_initial": 3}


def build(make: Any, **options: Any) -> Any:
    return make(grid(), [0, 1], **{"threshold": LEVEL, **KNOWN, **options})


def play(strategy: Any, rounds: int) -> list[torch.Tensor]:
    asked = []
    for _ in range(rounds):
        X = strategy.ask()
        strategy.tell(X, truth(X[..., :2]))
        asked.append(X)
    return asked


@pytest.mark.parametrize("make", [gchk, straddle_search])
def test_the_sets_share_the_domain_and_the_probabilities_are_of_the_posterior(make: Any) -> None:
    strategy = build(make)
    play(strategy, 8)
    found, posterior = strategy.classify(), strategy.belief.posterior
    parts = torch.stack([found.high, found.low, found.unclassified])
    assert (parts.sum(dim=0) == 1).all()
    assert found.high.any(dim=-1).all() and found.low.any(dim=-1).all()
    expected = norm.sf(LEVEL, posterior.mean.numpy(), posterior.variance.sqrt().numpy())
    np.testing.assert_allclose(found.probability, expected, atol=1e-9)
    assert (found.probability[found.high] > 0.9).all()
    assert (found.probability[found.low] < 0.1).all()


def test_the_straddle_classifies_by_its_present_bounds() -> None:
    strategy = build(straddle_search, beta=4.0)
    play(strategy, 6)
    posterior, found = strategy.belief.posterior, strategy.classify()
    width = 2 * posterior.variance.sqrt()
    assert torch.equal(found.high, posterior.mean - width > LEVEL)
    assert torch.equal(found.low, posterior.mean + width < LEVEL)


def test_heuristics_keep_to_one_level() -> None:
    chosen = build(straddle_search, noise=None, levels=LEVELS, initial_level=1)
    single = build(straddle_search)
    for left, right in zip(play(chosen, 4), play(single, 4), strict=True):
        assert torch.equal(left[..., :2], right)
        assert (left[..., 2] == 1).all()
    assert (chosen.state["cost"] == 6 * 10.0).all()


@pytest.mark.parametrize("make", [straddle_search, gchk])
@pytest.mark.parametrize("rows", [[0], [2], [0, 1]], ids=str)
def test_a_row_without_an_outcome_is_no_sample(make: Any, rows: list[int]) -> None:
    strategy = build(make)
    X = strategy.ask()
    Y = truth(X)
    Y[1, rows] = torch.nan
    strategy.tell(X, Y)
    counts = [view.belief.posterior.num_samples for _, view in strategy.views]
    assert torch.cat([each.flatten() for each in counts]).tolist() == [3, 3 - len(rows)]


def test_what_seeks_no_level_set_says_so() -> None:
    strategy = maximum_variance_search(grid(), [0, 1], **KNOWN)
    play(strategy, 1)
    with pytest.raises(UnsupportedError, match=r"for a level set, such as `truvar\(.*Got Sample"):
        strategy.classify()
