r"""Baselines on a finite domain that sample between its points."""

from typing import Any

import pytest
import torch
from botorch.exceptions.errors import OptimizationGradientError, UnsupportedError
from botorch_risk_bench.baselines import (
    entropy_search,
    expected_improvement_search,
    minimum_regret_search,
    predictive_entropy_search,
    straddle_search,
    upper_confidence_bound_search,
)
from torch import Tensor

from botorch_risk.test_functions import unit_grid
from tests.strategies.test_anywhere import FUNCTIONS, KNOWN, SEEDS, SIDE, on_the_grid, play


@pytest.mark.parametrize(
    "search",
    [
        expected_improvement_search,
        upper_confidence_bound_search,
        minimum_regret_search,
        pytest.param(predictive_entropy_search, marks=pytest.mark.slow),
    ],
)
def test_a_baseline_samples_anywhere_at_least_as_well_as_on_the_grid(search: Any) -> None:
    strategy = search(unit_grid(SIDE), SEEDS, anywhere=True, **KNOWN)
    X = play(strategy, 3)
    assert X.shape == (3, 1, 2) and ((X >= 0) & (X <= 1)).all() and not on_the_grid(X).all()
    method: Any = strategy.method
    ((_, view),) = strategy.views
    posterior = view.belief.posterior
    noise = torch.full_like(posterior.mean, 1e-6)
    score = method.sampler.score
    if search is predictive_entropy_search:  # of its own draws: asked again, it says the same
        assert torch.equal(score.best_anywhere(view, posterior, noise), X)
        return
    of_points = score(view, posterior, noise).amax(dim=-1)
    found = score.anywhere(view, posterior, noise).evaluate(X).squeeze(-1)
    assert (found >= of_points - 1e-9).all() and (found > of_points + 1e-6).any()


def test_where_a_gradient_is_nan_the_best_point_of_the_grid_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(acqf: Any, bounds: Tensor, **options: Any) -> Any:
        raise OptimizationGradientError("NaN", current_x=bounds.numpy())

    strategy = predictive_entropy_search(unit_grid(SIDE), [0], anywhere=True, **KNOWN)
    X = strategy.ask()
    strategy.tell(X, FUNCTIONS(X.expand(3, -1, -1))[:1].reshape(1, -1, 1))
    monkeypatch.setattr(entropy_search, "optimize_acqf", fails)
    ((_, view),) = strategy.views
    score: Any = strategy.method.sampler.score  # type: ignore[attr-defined]
    scores = score(view, view.belief.posterior, torch.full((1, SIDE**2), 1e-6).double())
    assert torch.equal(strategy.ask()[0, 0], unit_grid(SIDE)[scores[0].argmax()])


def test_scores_anywhere_agree_with_those_of_the_domain() -> None:
    for search in (upper_confidence_bound_search, minimum_regret_search):
        strategy = search(unit_grid(SIDE), SEEDS, anywhere=True, **KNOWN)
        play(strategy, 3)
        ((_, view),) = strategy.views
        score: Any = strategy.method.sampler.score  # type: ignore[attr-defined]
        noise = torch.full((3, SIDE**2), 1e-6, dtype=torch.double)
        args = view, view.belief.posterior, noise
        points = unit_grid(SIDE).expand(3, -1, -1)
        torch.testing.assert_close(
            score.anywhere(*args).evaluate(points), score(*args), atol=1e-6, rtol=1e-5
        )


def test_raises() -> None:
    straddle = straddle_search(unit_grid(SIDE), SEEDS, threshold=0.1, anywhere=True, **KNOWN)
    with pytest.raises(UnsupportedError, match="of the domain alone"):
        play(straddle, 1)
    two = expected_improvement_search(unit_grid(SIDE), SEEDS, anywhere=True, batch_size=2, **KNOWN)
    with pytest.raises(UnsupportedError, match="Expected one point a round"):
        play(two, 1)
