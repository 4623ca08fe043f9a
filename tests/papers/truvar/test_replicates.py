r"""Batches of replicates in the greedy covering of a finite domain."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from torch import Tensor

from botorch_risk.engine import DomainPosterior
from botorch_risk.papers import (
    LevelSet,
    Maximize,
    RelativeLevelSet,
    TruncatedVarianceReduction,
    TruncatedVarianceState,
)
from botorch_risk.papers.truvar.gain import anticipated_set
from botorch_risk.papers.truvar.goals import Goal
from tests.acquisition.lake import NOISE, build_model, build_posterior, grid, refit

ROWS = torch.tensor([[3, 17, 30], [0, 8, 22], [5, 14, 33]])


def together(
    dense: bool = True, goal: Goal | None = None, **options: Any
) -> tuple[DomainPosterior, TruncatedVarianceState]:
    posterior = build_posterior(ROWS, dense=dense)
    goal = goal or Maximize()
    state = TruncatedVarianceState.initial(grid(), goal, batch_shape=(3,), **options)
    return posterior, state.update(posterior)


def alone(state: TruncatedVarianceState, row: int, dense: bool = True) -> Any:
    r"""The posterior and the state of one replicate, without a batch dimension."""
    tensors = {each.name: getattr(state, each.name) for each in fields(state)}
    own = {name: part[row] for name, part in tensors.items() if isinstance(part, Tensor)}
    return build_posterior(ROWS[row], dense=dense), replace(state, **own)


@pytest.mark.parametrize("anticipate", [False, True])
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize(
    "goal", [Maximize(), LevelSet(0.0), RelativeLevelSet(0.5, baseline=-2.0)], ids=str
)
def test_replicates_equal_the_loop(goal: Goal, monotone: bool, anticipate: bool) -> None:
    posterior, state = together(goal=goal, eta=0.5, monotone=monotone)
    whole = TruncatedVarianceReduction(posterior, state, noise=NOISE, anticipate=anticipate)
    for row in range(3):
        single = TruncatedVarianceReduction(*alone(state, row), noise=NOISE, anticipate=anticipate)
        torch.testing.assert_close(whole.evaluate_domain()[row], single.evaluate_domain())


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "on demand"])
def test_more_replicates_than_points_that_matter(dense: bool) -> None:
    posterior, state = together(dense, eta=0.3)
    few = torch.zeros_like(state.unclassified)
    few[:, 11] = True
    few[0, 20] = True
    state = replace(state, unclassified=few)
    values = TruncatedVarianceReduction(posterior, state, noise=NOISE).evaluate_domain()
    for row in range(3):
        single = TruncatedVarianceReduction(*alone(state, row, dense), noise=NOISE)
        torch.testing.assert_close(values[row], single.evaluate_domain())


def test_a_point_that_is_not_chosen_has_no_value() -> None:
    posterior, state = together()
    beyond = torch.full_like(state.eta, 50.0)  # the target is reached before the second sample
    state = replace(state, eta=torch.where(torch.arange(3) == 1, beyond, state.eta))
    chosen = TruncatedVarianceReduction(posterior, state, noise=NOISE).select(3)
    assert (chosen.row[1] == -1).all() and chosen.X[1].isnan().all()
    assert (chosen.value[1] == 0).all()
    assert (chosen.value[chosen.row < 0] == 0).all()
    assert (chosen.value[chosen.row >= 0] > 0).all()


def test_weights_of_domains_of_their_own() -> None:
    r"""One weight for each point of the domain, whichever replicate it is of."""
    domain = torch.stack([grid(), grid().flip(0)])
    data = torch.stack([grid()[ROWS[0]], grid()[ROWS[1]]])
    posterior = DomainPosterior(build_model(data), domain)
    state = TruncatedVarianceState.initial(domain, Maximize(), eta=0.0, batch_shape=(2,))
    state = state.update(posterior)
    weights = torch.linspace(0.5, 2.0, len(grid()), dtype=torch.double)
    acqf = TruncatedVarianceReduction(posterior, state, noise=NOISE, weights=weights)
    values = acqf.evaluate_domain()
    assert values.shape == (2, 36)
    for row in range(2):  # Eq. (3), eta = 0, from scratch
        X, points = data[row].numpy(), domain[row].numpy()
        _, covariance = refit(X, np.zeros(len(X)), np.full(len(X), NOISE), points)
        fall = covariance**2 / (np.diag(covariance)[:, None] + NOISE)
        within = state.unclassified[row].numpy()
        expected = fall[:, within] @ weights.numpy()[within] * state.beta[row].item()
        np.testing.assert_allclose(values[row], expected, rtol=1e-6)
    with pytest.raises(BotorchTensorDimensionError, match="`weights` of 36 points"):
        TruncatedVarianceReduction(posterior, state, noise=NOISE, weights=weights[:2])


def test_monotone_sets_anticipate_nothing_that_was_ruled_out() -> None:
    posterior, state = together(eta=0.5)
    few = torch.zeros_like(state.unclassified)
    few[:, [4, 11, 20]] = True  # the bounds leave more points open
    assert torch.equal(anticipated_set(posterior, replace(state, unclassified=few)), few)
    again = replace(state, unclassified=few, monotone=False)
    assert (anticipated_set(posterior, again).sum(dim=-1) > 3).all()
