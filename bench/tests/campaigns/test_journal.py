from pathlib import Path

import pytest
import torch
from botorch_risk_bench.campaigns import StoreError
from botorch_risk_bench.campaigns.journal import Journal, Outcomes, RoundRecord

STATE = {"weights": [0.1, float("inf")]}


def play(journal: Journal, index: int, completed: bool = True) -> None:
    generator = torch.Generator().manual_seed(index)
    X = torch.rand(2, 3, 1, dtype=torch.double, generator=generator)
    Y = torch.full((2, 3, 2), torch.nan).index_fill(2, torch.tensor([0]), 0.1)  # float32
    journal.record_outcomes(index, X, Y, X[..., 0], (1.0, 2.0))
    if completed:
        journal.record_tell(index, X[:, 0], None, {**STATE, "round": index}, 3.0)


def equal(left: Outcomes | RoundRecord, right: Outcomes | RoundRecord) -> bool:
    for name, value in vars(left).items():
        other = getattr(right, name)
        if isinstance(value, torch.Tensor):
            same = value.dtype == other.dtype and torch.equal(value.isnan(), other.isnan())
            if not (same and value.nan_to_num().equal(other.nan_to_num())):
                return False
        elif value != other:
            return False
    return True


def test_rounds_are_taken_once() -> None:
    journal = Journal(4, STATE)
    assert (journal.last_round, journal.state) == (4, STATE)
    play(journal, 5)
    play(journal, 6, completed=False)
    assert [record.index for record in journal.take()] == [5]
    assert journal.take() == []
    assert journal.last_round == 5
    assert journal.pending is not None and journal.pending.index == 6


def test_tell_needs_outcomes() -> None:
    journal = Journal(-1, None)
    play(journal, 0)
    with pytest.raises(StoreError, match="outcomes of round 1 before `tell`"):
        journal.record_tell(1, torch.zeros(2, 1), None, STATE, 0.0)


def test_another_worker_finds_the_rounds_to_the_last_bit(tmp_path: Path) -> None:
    first = Journal(-1, None, tmp_path)
    first.kind = "Kind"
    for index in range(3):
        play(first, index)
    play(first, 3, completed=False)
    pending = first.pending
    second = Journal(0, STATE, tmp_path)  # the store has round 0
    assert (second.last_round, second.state) == (2, {**STATE, "round": 2})
    assert second.kind == "Kind"
    assert all(equal(*pair) for pair in zip(second.take(), first.take()[1:], strict=True))
    assert pending is not None and second.pending is not None
    assert equal(second.pending, pending)
    play(second, 3)
    assert Journal(-1, None, tmp_path).last_round == 3  # of the two files together


@pytest.mark.parametrize("suffix", ["jsonl", "state"])
def test_what_was_cut_off_or_changed_is_not_read(tmp_path: Path, suffix: str) -> None:
    journal = Journal(-1, None, tmp_path)
    for index in range(3):
        play(journal, index)
    (path,) = tmp_path.glob(f"*.{suffix}")
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    last = Journal(-1, None, tmp_path).last_round
    # Without the last round's line its state is of no use; without its state it is played again.
    assert last == -1
    path.write_bytes(whole.replace(b"0.1", b"0.2") if suffix == "state" else b"junk\n" + whole)
    assert Journal(-1, None, tmp_path).last_round == -1
    path.write_bytes(whole)
    assert Journal(-1, None, tmp_path).last_round == 2


def test_a_state_without_its_rounds_is_of_no_use(tmp_path: Path) -> None:
    journal = Journal(4, STATE, tmp_path)
    play(journal, 5)
    assert Journal(2, STATE, tmp_path).last_round == 2  # rounds 3 and 4 are nowhere
    assert Journal(5, STATE, tmp_path).last_round == 5
    assert Journal(5, STATE, tmp_path).take() == []


def test_outcomes_of_other_shapes_are_not_recorded() -> None:
    X, journal = torch.rand(2, 3, 1), Journal()
    for Y, objective in ((X[:, :2], None), (X[0], None), (X, X[0])):
        with pytest.raises(StoreError, match="round 3 to have `X: R x q x d`"):
            journal.record_outcomes(3, X, Y, objective, (0.1, 0.2))
    with pytest.raises(StoreError, match="round 3 to have `X: R x q x d`"):
        journal.record_outcomes(3, X[0], X[0], None, (0.1, 0.2))
    assert journal.pending is None
