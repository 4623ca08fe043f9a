r"""What a method sees, and what it may leave to the base class."""

from typing import Any

import pytest
import torch
from torch import Tensor

from botorch_risk.strategies import Box, Method, State, Strategy, View
from botorch_risk.strategies.history import ReplicateWithoutOutcomesWarning

BOUNDS = torch.tensor([[0.0], [1.0]], dtype=torch.double)


class Counting(Method):
    r"""Believes in the number of rows and counts how often it was asked to."""

    def __init__(self) -> None:
        self.beliefs, self.proposals = 0, 0

    def start(self, space: Any, num_replicates: int) -> State:
        return {"rounds": torch.zeros(num_replicates, dtype=torch.long)}

    def believe(self, view: View) -> tuple[int, Any]:
        self.beliefs += 1
        return view.X.shape[-2], view.previous

    def propose(self, view: View) -> Tensor:
        self.proposals += 1
        rows, _ = view.belief
        return torch.full((len(view.seeds), 1, 1), rows / 100, dtype=torch.double)

    def learn(self, view: View) -> State:
        return {"rounds": view.state["rounds"] + 1}

    def recommend(self, view: View) -> Tensor:
        return view.decisions[:, view.belief[0] - 1]


def strategy_of(method: Method, seeds: Any = (5, 6, 7)) -> Strategy:
    return Strategy(Box(BOUNDS), method, seeds, num_initial=2)


def test_a_belief_is_worked_out_once_a_round_and_only_when_it_is_needed() -> None:
    method = Counting()
    strategy = strategy_of(method)
    X = strategy.ask()
    strategy.tell(X, X)
    assert method.beliefs == 0
    assert strategy.ask().flatten().tolist() == [0.02] * 3
    assert strategy.recommend().shape == (3, 1)
    assert method.beliefs == 1
    X = strategy.ask()
    strategy.tell(X, X)
    assert strategy.belief == (3, (2, None))  # the belief of before may be used
    assert strategy.state["rounds"].tolist() == [2, 2, 2]


def test_to_tell_is_not_to_ask() -> None:
    r"""What was evaluated already is recorded without choosing anything."""
    method = Counting()
    strategy = strategy_of(method)
    for rows in (2, 1, 1):
        X = torch.rand(3, rows, 1, dtype=torch.double)
        strategy.tell(X, X)
    assert (method.beliefs, method.proposals) == (0, 0)
    assert strategy.ask().flatten().tolist() == [0.04] * 3


def test_replicates_with_other_numbers_of_outcomes_are_batches_of_their_own() -> None:
    strategy = strategy_of(Counting())
    X = strategy.ask()
    Y = X.clone()
    Y[1, 0] = torch.nan
    strategy.tell(X, Y)
    batches = {tuple(replicates): view for replicates, view in strategy.views}
    assert set(batches) == {(0, 2), (1,)}
    assert batches[(1,)].seeds == [6]
    assert torch.equal(batches[(1,)].X, X[1:2, 1:])
    assert strategy.ask().flatten().tolist() == [0.02, 0.01, 0.02]
    with pytest.raises(ValueError, match=r"Got the batches \[\[0, 2\], \[1\]\]"):
        strategy.belief  # noqa: B018


def test_a_view_of_some_replicates_has_their_rows_and_their_state() -> None:
    strategy = strategy_of(Counting())
    X = strategy.ask()
    strategy.tell(X, X)
    ((_, view),) = strategy.views
    some = view.of([2, 0])
    assert some.seeds == [7, 5]
    assert torch.equal(some.X, X[[2, 0]])
    assert some.round == view.round == 1
    assert some.state["rounds"].tolist() == [1, 1]
    assert view.of([1], Counting()).state["rounds"].tolist() == [0]


def test_random_points_where_nothing_is_known() -> None:
    strategy = strategy_of(Counting())
    X = strategy.ask()
    Y = X.clone()
    Y[2] = torch.nan
    strategy.tell(X, Y)
    asked = strategy.ask()
    assert asked[:2].flatten().tolist() == [0.02, 0.02]
    assert 0 <= asked[2].item() <= 1
    assert torch.equal(strategy.ask(), asked)
    with pytest.warns(ReplicateWithoutOutcomesWarning, match=r"seeds=\[7\]"):
        recommended = strategy.recommend()
    assert recommended[2].isnan().all() and recommended[:2].isfinite().all()
    assert strategy.state["rounds"].tolist() == [1, 1, 1]  # it paid for them all the same
