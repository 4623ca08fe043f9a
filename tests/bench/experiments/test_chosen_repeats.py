r"""Problems whose number of readings is chosen."""

from __future__ import annotations

import pytest
import torch
from botorch_risk_bench.experiments.chosen_repeats import ChosenRepeats

from botorch_risk.seeding import generators
from botorch_risk.test_functions import HeteroscedasticSine

PROBLEM = HeteroscedasticSine()
X = torch.tensor([[[0.2, 1.0], [0.7, 4.0]], [[1.5, 3.0], [torch.nan, torch.nan]]]).double()


def test_readings_that_are_not_asked_for_are_missing_and_change_no_other() -> None:
    chosen = ChosenRepeats(PROBLEM, 4)
    Y = chosen.sample_repeats(X, 4, generators([0, 1], "observations", 0))
    assert Y.isfinite().sum(dim=-1).tolist() == [[1, 4], [3, 0]]
    full = PROBLEM.sample_repeats(X[:1, :, :-1], 4, generators([0], "observations", 0))
    asked = Y[0].isfinite()
    assert torch.equal(Y[0][asked], full[0][asked])
    more = X.clone()
    more[..., -1] = 4
    again = chosen.sample_repeats(more, 4, generators([0, 1], "observations", 0))
    assert torch.equal(again[1, 0, :3], Y[1, 0, :3])


def test_objective_is_of_the_decision() -> None:
    chosen = ChosenRepeats(PROBLEM, 4)
    values = chosen.objective(X)
    assert torch.equal(values[0], PROBLEM.objective(X[0, :, :1]))
    assert torch.equal(values[0], chosen.objective(X[0, :, :1]))
    assert values[1].isnan().tolist() == [False, True]
    assert chosen.bounds.tolist() == [[0.0, 1.0], [2.0, 4.0]]


def test_bad_input() -> None:
    with pytest.raises(ValueError, match=r"`max_repeats` to be at least 1. Got 0"):
        ChosenRepeats(PROBLEM, 0)
    with pytest.raises(ValueError, match=r"at most 3 readings of a point. Got 4"):
        ChosenRepeats(PROBLEM, 4).sample_repeats(X, 3, generators([0, 1], "observations", 0))
