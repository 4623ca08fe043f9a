from __future__ import annotations

import gzip
import math
from pathlib import Path

import pytest
from botorch_risk_bench.experiments import StoreError
from botorch_risk_bench.experiments.campaigns import (
    CampaignStore,
    ExperimentRegrets,
    Regrets,
    board_markdown,
    read_board,
)


def of(experiment: str, **runs: dict[int, list[float]]) -> Regrets:
    each = ExperimentRegrets(experiment, "default", {"risk": "mean"}, runs)
    return Regrets(f"with {experiment}", tuple(runs), (each,))


def test_they_are_written_and_read_to_the_last_bit(path: Path, tmp_path: Path) -> None:
    with CampaignStore(path) as store:
        regrets, page = Regrets.of(store), board_markdown(read_board(store))
    regrets.write(tmp_path / "one.json.gz")
    regrets.write(tmp_path / "two.json.gz")
    assert (tmp_path / "one.json.gz").read_bytes() == (tmp_path / "two.json.gz").read_bytes()
    assert Regrets.read(tmp_path / "one.json.gz") == regrets
    assert board_markdown(read_board(Regrets.read(tmp_path / "one.json.gz"))) == page
    of("a", ours={0: [1.0, math.nan]}).write(tmp_path / "nan.json.gz")
    assert math.isnan(Regrets.read(tmp_path / "nan.json.gz").experiments[0].runs["ours"][0][1])


def test_those_of_two_campaigns_are_put_together() -> None:
    first = of("sine", ours={0: [1.0, 0.5]}, random={0: [1.0, 0.9]})
    other = of("sine", ours={1: [1.0, 0.4]}, random={1: [1.0, 0.8]})
    third = of("branin", ours={0: [9.0, 1.0], 1: [9.0, 2.0]})
    both = first + other + third
    assert both.name == "with sine, with branin"
    assert both.strategies == ("ours", "random")
    assert both.experiments[0].runs["ours"] == {0: [1.0, 0.5], 1: [1.0, 0.4]}
    assert [each.name for each in read_board(both, strategies=["ours"]).entries] == [
        "sine",
        "branin",
    ]
    board = read_board(both, by="risk")
    assert board.left_out == ("branin: not run by random",) and board.seeds == (0, 1)
    assert list(board.groups) == ["all", "mean"]
    with pytest.raises(StoreError, match=r"every run of sine, ours once. Got seeds \[0\]"):
        first + first


def test_what_holds_no_regrets_is_refused(path: Path, tmp_path: Path) -> None:
    (tmp_path / "other.json.gz").write_bytes(gzip.compress(b'{"experiments": [1]}'))
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(b"{}")[:-4])
    for name in ("other.json.gz", "cut.json.gz", "none.json.gz", path.name):
        with pytest.raises(StoreError, match=r"Expected .* to hold regrets. Got"):
            Regrets.read(tmp_path / name)
