r"""TRUVAR between the points of its domain, and with few candidates."""

import json
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from scipy.optimize import direct
from torch import Tensor

from botorch_risk import papers
from botorch_risk.engine import optimize_acqf_replicates
from botorch_risk.papers import Maximize, NoiseLevels, TruncatedVarianceReduction, top_candidates
from botorch_risk.strategies import Strategy
from botorch_risk.test_functions import PosteriorMeanFunctions, unit_grid
from tests.acquisition.lake import LENGTHSCALE, build_model

SEEDS = [0, 1, 2]
SIDE = 9
FUNCTIONS = PosteriorMeanFunctions(SEEDS, num_centers=20, lengthscale=LENGTHSCALE)
KNOWN: dict[str, Any] = {"model": build_model, "estimator": None, "noise": 1e-6, "num_initial": 3}


def truvar(**options: Any) -> Strategy:
    return papers.truvar(unit_grid(SIDE), SEEDS, goal=Maximize(), **{**KNOWN, **options})


def play(strategy: Strategy, rounds: int) -> Tensor:
    for _ in range(rounds):
        X = strategy.ask()
        Y = FUNCTIONS(X.nan_to_num()).masked_fill(X.isnan().any(dim=-1), torch.nan)
        strategy.tell(X, Y.unsqueeze(-1))
    return strategy.ask()


def acquisition_of(strategy: Strategy) -> TruncatedVarianceReduction:
    state = papers.truvar_state(strategy)
    return TruncatedVarianceReduction(strategy.belief.posterior, state, noise=1e-6)


def on_the_grid(X: Tensor) -> Tensor:
    return (X.unsqueeze(-2) == unit_grid(SIDE)).all(dim=-1).any(dim=-1)


def test_a_sample_between_the_points_is_worth_more_than_one_at_them() -> None:
    strategy = truvar(anywhere=True)
    X = play(strategy, 4)
    acquisition = acquisition_of(strategy)
    of_points, found = acquisition.evaluate_domain().amax(dim=-1), acquisition.evaluate(X)
    assert not on_the_grid(X).all() and ((X >= 0) & (X <= 1)).all()
    assert (found.squeeze(-1) >= of_points * (1 - 1e-9)).all()
    assert (found.squeeze(-1) > 1.001 * of_points).any()


@pytest.mark.slow
def test_it_comes_as_close_as_direct() -> None:
    r"""What the paper maximises its acquisition with."""
    strategy = truvar(anywhere=True)
    X = play(strategy, 3)
    acquisition = acquisition_of(strategy)
    found = acquisition.evaluate(X).squeeze(-1)
    for replicate in range(len(SEEDS)):

        def loss(x: Any, replicate: int = replicate) -> float:
            point = torch.as_tensor(x).expand(len(SEEDS), 1, 2)
            return -float(acquisition.evaluate(point)[replicate])

        best = direct(loss, [(0, 1), (0, 1)], maxfun=400)
        assert found[replicate] >= -best.fun * 0.99


@pytest.mark.slow
def test_the_report_is_the_maximum_of_the_posterior_mean_in_the_box() -> None:
    strategy, on_grid = truvar(anywhere=True), truvar()
    for each in (strategy, on_grid):
        play(each, 10)
    posterior, X = strategy.belief.posterior, strategy.recommend()
    assert not on_the_grid(X).all() and on_the_grid(on_grid.recommend()).all()
    mean = posterior.at(X.unsqueeze(-2)).mean.squeeze(-1)
    assert (mean >= posterior.mean.amax(dim=-1) - 1e-12).all()
    fine = unit_grid(81)
    for replicate in range(len(SEEDS)):
        everywhere = posterior.at(fine.expand(len(SEEDS), -1, -1)).mean[replicate]
        assert mean[replicate] >= everywhere.max() - 1e-9


@pytest.mark.slow
def test_a_batch_sees_its_own_points_and_ends_with_the_search() -> None:
    strategy = truvar(anywhere=True, batch_size=2)
    X = play(strategy, 2)
    assert X.shape == (3, 2, 2) and (X[:, 0] - X[:, 1]).norm(dim=-1).min() > 1e-2
    X = play(truvar(anywhere=True, initial={"a": 0.01}), 40)  # too narrow: the sets are soon empty
    assert X.isnan().all(dim=-1).any()


@pytest.mark.slow
def test_a_state_continues_and_a_replicate_does_not_depend_on_its_company() -> None:
    r"""As `test_contract.py` asks on a domain, whose problem knows no other point."""
    strategy, resumed = truvar(anywhere=True), truvar(anywhere=True)
    play(strategy, 4)
    resumed.load_state_dict(json.loads(json.dumps(strategy.state_dict())))
    assert torch.equal(strategy.ask(), resumed.ask())
    assert torch.equal(strategy.recommend(), resumed.recommend())
    options: Any = {"goal": Maximize(), "anywhere": True, **KNOWN}
    alone = papers.truvar(unit_grid(SIDE), SEEDS[1], **options)
    for round in range(4):
        rows = strategy.history.rounds == round
        X, Y = (part[1:2, rows] for part in (strategy.history.X, strategy.history.Y))
        torch.testing.assert_close(alone.ask(), X, atol=1e-6, rtol=0)
        alone.tell(X, Y)


def test_few_candidates_are_those_of_the_largest_upper_bound() -> None:
    few, every = truvar(prefilter=5), truvar()
    for each in (few, every):
        play(each, 3)
    posterior, state = few.belief.posterior, papers.truvar_state(few)
    mask = top_candidates(posterior, 5, beta=state.beta)
    X = few.ask()
    same = (unit_grid(SIDE) == X).all(dim=-1)  # R x |D|
    assert (mask & same).any(dim=-1).all()
    acquisition = TruncatedVarianceReduction(posterior, state, noise=1e-6, candidates=mask)
    assert torch.equal(acquisition.select().X, X)
    all_of_them = truvar(prefilter=10_000)
    assert torch.equal(play(all_of_them, 3), every.ask())


def test_candidates_of_the_set_are_filtered_too() -> None:
    strategy = truvar(prefilter=3, candidates="unclassified")
    X = play(strategy, 6)
    state = papers.truvar_state(strategy)
    same = (unit_grid(SIDE) == X).all(dim=-1)
    going = ~state.finished
    assert (state.unclassified & same).any(dim=-1)[going].all()


def test_the_optimiser_starts_from_given_points() -> None:
    class Peaks:
        def evaluate(self, X: Tensor) -> Tensor:
            return (12 * X).sin().sum(dim=-1) + X.sum(dim=-1)

    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    raw = torch.tensor([[[0.1]], [[0.6]]], dtype=torch.double)
    options: Any = {"seeds": [0, 1], "num_restarts": 1}
    X, _ = optimize_acqf_replicates(Peaks(), bounds, raw_points=raw, **options)
    torch.testing.assert_close(
        X.flatten(), torch.tensor([0.1378, 0.6614]).double(), atol=1e-3, rtol=0
    )
    with pytest.raises(BotorchTensorDimensionError, match="Expected `raw_points` to have shape"):
        optimize_acqf_replicates(Peaks(), bounds, raw_points=raw[:1], **options)
    with pytest.raises(ValueError, match="within the bounds"):
        optimize_acqf_replicates(Peaks(), bounds, raw_points=raw + 1, **options)
    with pytest.raises(ValueError, match="as many raw points as starts"):
        optimize_acqf_replicates(Peaks(), bounds, raw_points=raw, seeds=[0, 1], num_restarts=2)


def test_raises() -> None:
    levels = NoiseLevels((1e-6, 0.1), costs=(2.0, 1.0))
    with pytest.raises(UnsupportedError, match="one noise level for samples between"):
        truvar(anywhere=True, levels=levels, noise=None)
    with pytest.raises(ValueError, match="prefilter"):
        truvar(prefilter=0)
