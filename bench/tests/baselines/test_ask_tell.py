r"""What all strategies share is in `strategies/test_contract.py`."""

from functools import partial
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch_risk_bench.baselines import ask_tell, random_decisions
from torch import Tensor

from botorch_risk.environments import DiscreteEnvironment, InputPerturbation
from botorch_risk.risk import Expectation
from botorch_risk.seeding import streams
from botorch_risk.strategies import Box

UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.double)
KNOWN = {"environment": DiscreteEnvironment(UNIT), "risk_measure": Expectation()}


class Recorder:
    r"""Asks for what it is given, and remembers what it was told."""

    def __init__(self, log: list[Any], answer: Any, box: Box, seed: int) -> None:
        self.log, self.answer = log, answer
        log.append(("made", box, seed))

    def tell(self, X: Tensor, Y: Tensor) -> None:
        self.log.append(("told", X, Y))

    def ask(self, num_points: int) -> Any:
        self.log.append(("asked", num_points))
        return self.answer


def outcomes(X: Tensor, w: Tensor) -> Tensor:
    return (4 * X).sin() + 0.3 * w


def test_each_replicate_is_told_its_own_data_once_a_round() -> None:
    log: list[Any] = []
    optimizer = partial(Recorder, log, [[0.25], [0.5]])
    strategy = ask_tell(UNIT, [3, 5], optimizer=optimizer, num_initial=2, batch_size=2, **KNOWN)
    X, w = strategy.ask(), UNIT.expand(2, 2, 1)
    pairs = torch.cat([X, w], dim=-1)
    Y = outcomes(X, w).expand(2, 2, 3).clone()
    Y[0, 0, 1] = torch.nan
    strategy.tell(pairs, Y)
    assert log == []  # nothing before it is needed
    assert strategy.ask().tolist() == [[[0.25], [0.5]]] * 2
    assert [each[0] for each in log] == ["made", "told", "asked"] * 2
    for replicate, (made, told, asked) in enumerate([log[:3], log[3:]]):
        assert torch.equal(made[1].bounds, UNIT)
        assert made[2] == streams([3, 5], "ask/tell", 1)[replicate]
        assert torch.equal(told[1], pairs[replicate])
        torch.testing.assert_close(told[2], Y[replicate], equal_nan=True)
        assert asked == ("asked", 2)


def test_it_recommends_what_random_decisions_would_of_the_same_data() -> None:
    class Random:
        def __init__(self, box: Box, seed: int) -> None: ...
        def tell(self, X: Tensor, Y: Tensor) -> None: ...
        def ask(self, num_points: int) -> Tensor:
            return torch.full((num_points, 1), 0.7)

    ours = ask_tell(UNIT, [0, 1], optimizer=Random, num_initial=6, **KNOWN)
    other = random_decisions(UNIT, [0, 1], num_initial=6, **KNOWN)
    for _ in range(2):
        X = ours.ask()
        w = torch.rand(X.shape, generator=torch.manual_seed(X.shape[1]), dtype=torch.double).round()
        for strategy in (ours, other):
            strategy.tell(torch.cat([X, w], dim=-1), outcomes(X, w))
        assert torch.equal(ours.recommend(), other.recommend())


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ([0.5, 0.5], BotorchTensorDimensionError, r"Recorder to ask for `1 x 2` .*\[2\]"),
        ([[1.5, 2.0]], InputDataError, r"within \[\[0.0, 1.0\].* Got \[\[1.5, 2.0\]\]"),
        ([[torch.nan, 2.0]], InputDataError, r"Got \[\[nan, 2.0\]\]"),
        ([[0.5, 3.5]], InputDataError, r"whole numbers in the columns \[1\]"),
    ],
)
def test_bad_answers_are_refused(answer: Any, error: type[Exception], message: str) -> None:
    box = Box(torch.tensor([[0.0, 1.0], [1.0, 5.0]], dtype=torch.double), integers=(1,))
    optimizer = partial(Recorder, [], answer)
    strategy = ask_tell(box, 0, optimizer=optimizer, num_initial=2)
    X = strategy.ask()
    strategy.tell(X, X.sum(dim=-1, keepdim=True))
    with pytest.raises(error, match=message):
        strategy.ask()
    assert strategy.recommend().shape == (1, 2)


def test_a_chosen_w_is_the_nearest_value() -> None:
    points = torch.tensor([[[0.0, 10.0], [1.0, 50.0]], [[0.0, 10.0], [0.5, 20.0]]])
    environment = DiscreteEnvironment(points.double())
    log: list[Any] = []
    strategy = ask_tell(
        UNIT,
        [3, 5],
        optimizer=partial(Recorder, log, [[0.25, 0.6, 20.0]]),
        num_initial=2,
        w_is_chosen=True,
        environment=environment,
        risk_measure=Expectation(),
    )
    pairs = strategy.ask()
    strategy.tell(pairs, pairs.sum(dim=-1, keepdim=True))
    # By shares of the ranges: of 1 and 40, then of 0.5 and 10.
    assert strategy.ask().tolist() == [[[0.25, 0.0, 10.0]], [[0.25, 0.5, 20.0]]]
    assert log[0][1].bounds.tolist() == [[0.0, 0.0, 10.0], [1.0, 1.0, 50.0]]
    assert torch.equal(log[1][1], pairs[0])


def test_a_perturbation_cannot_be_chosen() -> None:
    perturbed = InputPerturbation(torch.tensor([[-0.1], [0.1]], dtype=torch.double))
    known = {"environment": perturbed, "risk_measure": Expectation(), "w_is_chosen": True}
    with pytest.raises(UnsupportedError, match=r"IndependentEnvironment.*Got InputPerturbation"):
        ask_tell(UNIT, 0, optimizer=partial(Recorder, [], []), **known)


def test_an_environment_needs_a_risk() -> None:
    for name, value in KNOWN.items():
        with pytest.raises(ValueError, match="an environment with a risk measure, or neither"):
            ask_tell(UNIT, 0, optimizer=partial(Recorder, [], []), **{name: value})
