from __future__ import annotations

from pathlib import Path

import pytest
from botorch_risk_bench.campaigns import StoreError
from botorch_risk_bench.campaigns.completeness import check_no_gaps

PATH = Path("a.sqlite")
ONE = ("sine", "RAHBO", "default")
BEGUN = [(*ONE, 0, 2, 1), (*ONE, 5, 1, 0)]  # seeds 0 and 1 up to round 1, seed 5 up to round 0
ROUNDS = [(*ONE, 0, 0), (*ONE, 0, 1), (*ONE, 1, 0), (*ONE, 1, 1), (*ONE, 5, 0)]
TIMINGS = [(*ONE, 0, 0), (*ONE, 0, 1), (*ONE, 5, 0)]


def test_whole_tables_pass() -> None:
    check_no_gaps("rounds", BEGUN, ROUNDS, PATH)
    check_no_gaps("timings", BEGUN, TIMINGS, PATH)
    check_no_gaps("rounds", [], [], PATH)


@pytest.mark.parametrize(("table", "whole"), [("rounds", ROUNDS), ("timings", TIMINGS)])
def test_each_row_that_is_missing_or_of_no_block_is_named(
    table: str, whole: list[tuple[str | int, ...]]
) -> None:
    for position, (*_, seed, index) in enumerate(whole):
        name = f"round {index} of sine, RAHBO, default, seeds? (from )?{seed}"
        with pytest.raises(StoreError, match=rf"Expected (the times of )?{name} in a\.sqlite"):
            check_no_gaps(table, BEGUN, whole[:position] + whole[position + 1 :], PATH)
    for extra, name in (((*ONE, 5, 1), "seeds? (from )?5"), ((*ONE, 9, 1), "seeds? (from )?9")):
        with pytest.raises(StoreError, match=rf"block that has played .*{name} in a\.sqlite"):
            check_no_gaps(table, BEGUN, [*whole, extra], PATH)


def test_of_many_gaps_the_first_are_named() -> None:
    with pytest.raises(StoreError) as error:
        check_no_gaps("rounds", [(*ONE, 0, 1, 8)], [], PATH)
    assert str(error.value).count("round ") == 4
    assert str(error.value).endswith("seed 0; 5 more in a.sqlite. Got none.")


@pytest.mark.parametrize("key", [(*ONE, "0", 0), (*ONE, 0, None), (b"sine", *ONE[1:], 0, 0)])
def test_a_key_of_another_type_is_no_key(key: tuple[object, ...]) -> None:
    with pytest.raises(StoreError, match=r"an intact store\. Got a row with the key"):
        check_no_gaps("rounds", BEGUN, [key, *ROUNDS], PATH)
