r"""The answer of a level-set strategy, against the definitions and the normal distribution."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from scipy.stats import norm

from botorch_risk import papers
from botorch_risk.frames import SingleExperiment
from botorch_risk.papers import LevelSet, Maximize, RelativeLevelSet, truvar_state
from botorch_risk.papers.truvar.domain_belief import classes_of
from botorch_risk.strategies import Classification
from tests.acquisition.lake import build_model, grid, truth

pytestmark = pytest.mark.filterwarnings(
    "ignore:Expected a threshold within:botorch.exceptions.warnings.InputDataWarning"
)

KNOWN: dict[str, Any] = {"model": build_model, "estimator": None, "noise": 1e-3, "num_initial": 3}
LEVEL = 0.3


def truvar(**options: Any) -> Any:
    return papers.truvar(grid(), [0, 1], **{"goal": LevelSet(LEVEL), **KNOWN, **options})


def play(strategy: Any, rounds: int) -> Any:
    for _ in range(rounds):
        X = strategy.ask()
        strategy.tell(X, truth(X))
    return strategy


def test_the_sets_share_the_domain_and_the_probabilities_are_of_the_posterior() -> None:
    strategy = play(truvar(), 8)
    found = strategy.classify()
    parts = torch.stack([found.high, found.low, found.unclassified])
    assert (parts.sum(dim=0) == 1).all()
    assert found.high.any(dim=-1).all() and found.low.any(dim=-1).all()
    mean, variance = (
        part.numpy()
        for part in (strategy.belief.posterior.mean, strategy.belief.posterior.variance)
    )
    np.testing.assert_allclose(
        found.probability, norm.sf(LEVEL, mean, np.sqrt(variance)), atol=1e-9
    )
    assert (found.probability[found.high] > 0.9).all()
    assert (found.probability[found.low] < 0.1).all()


def test_sets_of_truvar_are_those_of_algorithm_2() -> None:
    strategy = play(truvar(), 6)
    state, found = truvar_state(strategy), strategy.classify()
    for name in ("high", "low", "unclassified"):
        assert torch.equal(getattr(found, name), getattr(state, name))


def test_a_share_of_the_maximum_is_that_share_of_the_largest_mean() -> None:
    strategy = play(truvar(goal=RelativeLevelSet(0.5, baseline=-3.0)), 8)
    found, posterior = strategy.classify(), strategy.belief.posterior
    level = -3 + 0.5 * (posterior.mean.amax(dim=-1, keepdim=True) + 3)
    expected = norm.cdf((posterior.mean - level) / posterior.variance.sqrt())
    np.testing.assert_allclose(found.probability, expected, atol=1e-9)
    # A point that is high may still be the maximum, on which the level depends: M has it, too.
    state = truvar_state(strategy)
    assert torch.equal(found.unclassified, state.unclassified & ~state.high & ~state.low)


def test_a_point_without_variance_is_on_its_side() -> None:
    mean = torch.tensor([[0.2, 0.3, 0.4, 0.2]], dtype=torch.double)
    variance = torch.tensor([[0.0, 0.0, -1e-18, 1.0]], dtype=torch.double)
    known = SimpleNamespace(mean=mean, variance=variance, resolution=variance.new_full((1,), 1e-12))
    nothing = torch.zeros(1, 4, dtype=torch.bool)
    found = classes_of(LevelSet(LEVEL), (~nothing, nothing, nothing), known)
    assert found.probability[0, :3].tolist() == [0.0, 1.0, 1.0]
    assert found.probability[0, 3].item() == pytest.approx(norm.cdf(-0.1))


def test_a_replicate_without_an_outcome_knows_nothing() -> None:
    strategy = truvar()
    X = strategy.ask()
    Y = truth(X)
    Y[1] = torch.nan
    strategy.tell(X, Y)
    found = strategy.classify()
    assert found.probability[0].isfinite().all() and found.probability[1].isnan().all()
    assert found.unclassified[1].all() and not (found.high | found.low)[1].any()


def test_one_experiment_gives_one_row() -> None:
    strategy = papers.truvar(grid(), 0, goal=LevelSet(LEVEL), **KNOWN)
    experiment = SingleExperiment(strategy)
    X = experiment.ask()
    experiment.tell(X, truth(X))
    found = experiment.classify()
    assert isinstance(found, Classification)
    assert torch.equal(found.high, strategy.classify().high[0])
    assert found.probability.shape == (len(grid()),)


def test_what_seeks_no_level_set_says_so() -> None:
    strategy = truvar(goal=Maximize())
    with pytest.raises(ValueError, match="Expected outcomes before"):
        strategy.classify()
    with pytest.raises(UnsupportedError, match=r"for a level set, such as `truvar\(.*Got Sample"):
        play(strategy, 1).classify()
