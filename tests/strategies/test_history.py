r"""Rows of replicates in the order of their evaluation."""

from dataclasses import replace

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from torch import Tensor

from botorch_risk.seeding import streams
from botorch_risk.strategies import History

NAN = torch.nan


def empty(num_initial: int = 2) -> History:
    return History.empty([4, 7], num_initial, 1, torch.zeros(1, dtype=torch.double))


def rows(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.double).reshape(1, -1, 1).expand(2, -1, 1)


def outcomes(first: list[list[float]], second: list[list[float]]) -> Tensor:
    return torch.tensor([first, second], dtype=torch.double).unsqueeze(-1)


def test_rounds_start_when_the_initial_design_is_complete() -> None:
    history = empty(num_initial=3)
    assert history.round == 0
    history = history.append(rows(0.1, 0.2), outcomes([[1.0], [2.0]], [[3.0], [4.0]]))
    assert history.round == 0
    history = history.append(rows(0.3), outcomes([[1.0]], [[2.0]]))
    assert history.round == 1
    history = history.append(rows(0.4, 0.5), outcomes([[1.0], [2.0]], [[3.0], [4.0]]))
    assert history.round == 2
    assert history.rounds.tolist() == [0, 0, 0, 1, 1]
    assert history.before(1).num_rows == 3
    assert history.streams("noise", 1) == streams([4, 7], "noise", 2, 1)


def test_appending_leaves_the_history_as_it_was() -> None:
    before = empty()
    before.append(rows(0.1), outcomes([[1.0]], [[2.0]]))
    assert before.num_rows == 0


def test_the_number_of_repeats_may_change() -> None:
    history = empty().append(rows(0.1), outcomes([[1.0, 3.0]], [[2.0, NAN]]))
    history = history.append(rows(0.2), outcomes([[5.0]], [[NAN]]))
    history = history.append(rows(0.3), outcomes([[1.0, 2.0, 6.0]], [[NAN, NAN, 4.0]]))
    assert history.Y.shape == (2, 3, 3, 1)
    assert history.mean[0].tolist() == [2.0, 5.0, 3.0]
    assert history.has_outcome.tolist() == [[True, True, True], [True, False, True]]
    X, Y = history.of([1]).complete()
    assert X.flatten().tolist() == pytest.approx([0.1, 0.3])
    assert Y.nanmean(dim=-1).tolist() == [[2.0, 4.0]]
    with pytest.raises(ValueError, match=r"equally many rows in every replicate. Got \[3, 2\]"):
        history.complete()


def test_two_outcomes_have_a_place() -> None:
    Y = torch.tensor([[[[1.0, 9.0]]], [[[NAN, 8.0]]]], dtype=torch.double)  # R x q x k x m
    history = History.empty([0, 1], 1, 1, Y)
    history = replace(history, Y=Y.new_empty(2, 0, 0, 2)).append(rows(0.5), Y)
    assert history.Y.shape == (2, 1, 1, 2)
    assert history.has_outcome.tolist() == [[True], [True]]


def test_one_reading_of_each_outcome_needs_no_repeats() -> None:
    Y = torch.arange(8, dtype=torch.double).reshape(2, 2, 2)  # R x q x m
    history = History.empty([0, 1], 1, 1, Y, num_outcomes=2)
    _, told = history.checked(rows(0.1, 0.2), Y)
    assert torch.equal(told, Y.unsqueeze(-2))
    with pytest.raises(BotorchTensorDimensionError, match="`2 x q x 2` or `2 x q x k x 2`"):
        history.checked(rows(0.1, 0.2), Y[..., :1])


def test_further_readings_join_those_of_their_row() -> None:
    history = empty().append(rows(0.1, 0.2), outcomes([[1.0, NAN], [2.0, 3.0]], [[4.0, 5.0]] * 2))
    more = history.with_readings([0], outcomes([[6.0]], [[NAN]]))
    assert more.Y[0, ..., 0].tolist() == [[1.0, 6.0], [2.0, 3.0]]  # no wider than it has to be
    assert torch.equal(more.Y[1], history.Y[1])
    more = more.with_readings([1, 0], outcomes([[7.0], [NAN]], [[8.0], [9.0]]))
    found = more.Y[..., 0].nan_to_num(nan=0.0).tolist()
    assert found == [[[1.0, 6.0, 0.0], [2.0, 3.0, 7.0]], [[4.0, 5.0, 9.0], [4.0, 5.0, 8.0]]]
    assert (more.round, more.num_rows) == (history.round, history.num_rows)
