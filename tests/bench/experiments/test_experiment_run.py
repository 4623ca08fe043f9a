from __future__ import annotations

from pathlib import Path

import pytest
from botorch_risk_bench.experiments import ExperimentRun, ExperimentStore

from tests.bench.experiments.noisy_quadratic import QUADRATIC
from tests.bench.experiments.table import table


def test_strategies_are_paired_by_seed(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    ExperimentRun(QUADRATIC, path, seeds=range(3), num_rounds=1).run(progress=False)
    with ExperimentStore(path) as store:
        neutral, averse = (store.rounds(label)[0] for label in ("neutral", "averse"))
    assert neutral.X.equal(averse.X)
    assert neutral.Y.equal(averse.Y)


def test_two_processes_write_what_one_writes(tmp_path: Path) -> None:
    one, two = tmp_path / "one.sqlite", tmp_path / "two.sqlite"
    ExperimentRun(QUADRATIC, one, seeds=range(3)).run(progress=False)
    ExperimentRun(QUADRATIC, two, seeds=range(3)).run(num_jobs=2, progress=False)
    assert table(one) == table(two)


def test_strategies_can_be_added_and_rounds_extended(tmp_path: Path) -> None:
    one, two = tmp_path / "one.sqlite", tmp_path / "two.sqlite"
    ExperimentRun(QUADRATIC, one, seeds=range(3)).run(progress=False)
    ExperimentRun(QUADRATIC, two, range(3), labels=["neutral"], num_rounds=2).run(progress=False)
    ExperimentRun(QUADRATIC, two, range(3), labels=["averse"]).run(progress=False)
    ExperimentRun(QUADRATIC, two, range(3)).run(progress=False)
    assert table(one) == table(two)


def test_the_bar_starts_where_the_store_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.sqlite"
    ExperimentRun(QUADRATIC, path, range(2), labels=["averse"], num_rounds=2).run(progress=False)
    assert capsys.readouterr().err == ""
    ExperimentRun(QUADRATIC, path, range(2), labels=["averse"]).run()
    bar = capsys.readouterr().err
    assert "averse:  43%" in bar  # the initial design and 2 of 6 rounds
    assert "| 3/7 [" in bar
    assert "| 7/7 [" in bar


def test_errors(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with pytest.raises(ValueError, match=r"\(neutral, averse\)\. Got labels=\['bold'\]"):
        ExperimentRun(QUADRATIC, path, range(3), labels=["bold"])
    with pytest.raises(ValueError, match="replicates=0"):
        ExperimentRun(QUADRATIC, path, range(0))
    with pytest.raises(ValueError, match="one distinct seed"):
        ExperimentRun(QUADRATIC, path, [1, 1]).prepare()
    with pytest.raises(ValueError, match="rounds=0"):
        ExperimentRun(QUADRATIC, path, range(3), num_rounds=0)
    with pytest.raises(ValueError, match=r"to be there \(cpu.*Got device='cuda:99'"):
        ExperimentRun(QUADRATIC, path, range(3), device="cuda:99")
    with pytest.raises(ValueError, match="num_jobs=0"):
        ExperimentRun(QUADRATIC, path, range(3)).run(num_jobs=0)
    assert not path.exists()
