r"""What is recorded on a device, for how long, and what becomes of what cannot be."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from botorch_risk.engine.recorded import RECORDERS, Recorded, SelectedRows, are_recorded
from botorch_risk.steady import steady
from tests.devices import home

pytestmark = pytest.mark.every_device


def tensor(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.double, device=home())


def counting(function: Callable[[Tensor], Tensor]) -> tuple[Callable[[Tensor], Tensor], list[int]]:
    r"""A function that notes each of its calls, and the notes."""
    calls: list[int] = []

    def called(X: Tensor) -> Tensor:
        calls.append(len(X))
        return function(X)

    return called, calls


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    r"""The inputs that were recorded, on whatever device the test runs."""
    made: list[Tensor] = []

    class Replay:
        def __init__(self, function: Callable[[Tensor], Tensor], X: Tensor) -> None:
            if X.sum() < 0:
                raise RuntimeError("operation not permitted when stream is capturing")
            made.append(X)
            self.function, self.out = function, function(X)

        def __call__(self, X: Tensor) -> Tensor:
            return self.out.copy_(self.function(X))

    monkeypatch.setitem(RECORDERS, home().type, Replay)
    return made


def test_a_function_is_recorded_at_its_second_call_in_a_block_and_forgotten_after_it(
    records: list[Tensor],
) -> None:
    square = Recorded(torch.square)
    for _ in range(2):
        with steady():
            first, second, third = (square(tensor(value)) for value in (1.0, 2.0, 3.0))
        assert [first.item(), second.item(), third.item()] == [1.0, 4.0, 9.0]
    assert [each.item() for each in records] == [2.0, 2.0]


def test_outside_of_blocks_nothing_is_recorded(records: list[Tensor]) -> None:
    square = Recorded(torch.square)
    assert [square(tensor(value)).item() for value in (1.0, 2.0, 3.0)] == [1.0, 4.0, 9.0]
    assert not records


def test_each_shape_is_recorded_by_itself(records: list[Tensor]) -> None:
    square = Recorded(torch.square)
    with steady():
        for _ in range(3):
            assert square(tensor(2.0)).tolist() == [4.0]
            assert square(tensor(2.0, 3.0)).tolist() == [4.0, 9.0]
    assert [len(each) for each in records] == [1, 2]


def test_what_cannot_be_recorded_is_called_and_not_tried_again(records: list[Tensor]) -> None:
    function, calls = counting(torch.square)
    square = Recorded(function)
    with steady():
        for value in (-1.0, -2.0, 3.0):
            assert square(tensor(value)).item() == value**2
    assert len(calls) == 3 and not records


def test_a_result_is_kept_when_the_next_one_comes(records: list[Tensor]) -> None:
    square = Recorded(torch.square)
    with steady():
        results = [square(tensor(value)) for value in (1.0, 2.0, 3.0, 4.0)]
    assert [each.item() for each in results] == [1.0, 4.0, 9.0, 16.0]


def test_the_device_itself_records_what_it_may() -> None:
    if (record := RECORDERS.get(home().type)) is None:
        assert home().type == "cpu"
        return
    recording = record(lambda X: (2 * X).exp(), tensor(0.0, 1.0))
    for X in (tensor(0.5, 2.0), tensor(-1.0, 3.0)):
        torch.testing.assert_close(recording(X), (2 * X).exp())
    with pytest.raises(RuntimeError):
        record(lambda X: X * X.sum().item(), tensor(0.0, 1.0))
    torch.testing.assert_close(tensor(1.0) + 1, tensor(2.0))  # the device goes on


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize("size", [2, 5])
def test_selected_rows_give_what_each_row_gives_alone(is_kept: bool, size: int) -> None:
    offsets = tensor(0.0, 10.0, 20.0, 30.0, 40.0).unsqueeze(-1)

    def part(own: Tensor) -> Callable[[Tensor], Tensor]:
        return lambda values: torch.cat([values + own, values * own], dim=-1)

    parts = [part(own) for own in offsets.split(size)]
    rows = np.array([1, 3, 4, 7, 9])
    selected = SelectedRows(rows, parts, size, offsets, is_kept)
    values = np.arange(5.0)[:, None]
    expected = np.concatenate([values + 10 * values, values * 10 * values], axis=1)
    assert selected.has(rows) and not selected.has(np.array([1, 2]))
    np.testing.assert_array_equal(selected(values, rows), expected)
    fewer = np.array([1, 4, 9])
    assert selected.has(fewer) == is_kept
    if is_kept:
        np.testing.assert_array_equal(selected(values[[0, 2, 4]], fewer), expected[[0, 2, 4]])


def test_large_tensors_are_not_recorded() -> None:
    device = torch.device("cuda")
    assert are_recorded(device, 2**20) and not are_recorded(device, 2**30)
    assert not are_recorded(torch.device("cpu"), 1)
