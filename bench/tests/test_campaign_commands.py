r"""`botorch-risk campaign`, as a user types it."""

import json
import sys
from pathlib import Path

import pytest
from botorch_risk_bench.campaign_commands import one_line_errors
from botorch_risk_bench.cli import app
from typer.testing import CliRunner, Result

from bench.tests.campaigns.small import MODULE, run_here, small
from bench.tests.played import bytes_of, change


def invoke(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["campaign", *map(str, words)])


@pytest.fixture
def description(tmp_path: Path) -> Path:
    path = tmp_path / "small.json"
    path.write_text(json.dumps(small().to_json()))
    return path


def test_run_status_table_and_resume(description: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.sqlite"
    result = invoke("run", description, "--out", out, "--engine", "serial")
    assert result.exit_code == 0 and result.stdout == f"Done: {out}\n"
    run_here(small(), tmp_path / "b.sqlite")
    assert bytes_of(out) == bytes_of(tmp_path / "b.sqlite")
    lines = invoke("status", out).stdout.splitlines()
    assert lines[0] == "small: 12 of 12 blocks done, 0 failed"
    assert "    quadratic, averse, more: 20 of 20 rounds" in lines
    assert invoke("table", out).stdout.count("# quadratic: regret after 3 rounds") == 2
    assert invoke("table", out, "--to", tmp_path / "a.csv").stdout.endswith("a.csv: 80 rounds\n")
    again = invoke("resume", out, "--engine", "serial")
    assert again.stdout == f"Done: {out}\n"
    assert again.stderr.splitlines()[0] == f"Running the modules that {out} names: {MODULE}."


def test_a_trial_of_some_experiments(description: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.sqlite"
    words = ["run", description, "--out", out, "--engine", "serial", "--experiment", "quadratic"]
    assert invoke(*words, "--seeds", "1", "--rounds", "2").exit_code == 0
    assert invoke("table", out, "--to", tmp_path / "a.csv").stdout.endswith("a.csv: 12 rounds\n")
    refused = invoke("run", description, "--experiment", "cubic")
    assert refused.exit_code == 2 and "Got ['cubic']" in refused.stderr


def test_board_as_a_page_and_as_files(description: Path, tmp_path: Path) -> None:
    out, folder = tmp_path / "a.sqlite", tmp_path / "pages"
    invoke("run", description, "--out", out, "--engine", "serial")
    shown = invoke("board", out, "--strategy", "neutral", "--strategy", "averse").stdout
    assert shown.count("\nDifference to neutral, over the seeds (over the experiments):") == 3
    assert "| other | " in invoke("board", out, "--by", "risk").stdout
    written = invoke("board", out, "--to", folder).stdout
    assert written.endswith("board.md, board.png, regrets.json.gz: 2 experiments\n")
    assert (folder / "board.md").read_text().startswith("# small: the board")
    assert (folder / "board.png").read_bytes().startswith(b"\x89PNG")
    again, page = folder / "regrets.json.gz", (folder / "board.md").read_text()
    assert invoke("board", again).stdout.strip() == page.strip()
    assert invoke("board", again, "--strategy", "neutral").exit_code == 0
    written = invoke("board", again, "--to", tmp_path / "again").stdout
    assert written.endswith("again/board.md, board.png: 2 experiments\n")
    assert (tmp_path / "again" / "board.md").read_text() == page
    refused = invoke("board", again, "--baseline", "neutral")
    assert refused.exit_code == 2 and "a baseline of neutral, one of two" in refused.stderr
    refused = invoke("board", again, "--by", "risk", "--without", "tail")
    assert refused.exit_code == 2 and "groups among other. Got ['tail']" in refused.stderr
    twice = invoke("board", again, out)
    assert twice.exit_code == 2 and "Expected every run" in twice.stderr
    refused = invoke("board", out, "--strategy", "best")
    assert refused.exit_code == 2 and "(averse, neutral). Got ['best']" in refused.stderr


def test_failures_are_shown_with_the_way_to_run_them_again(
    description: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "a.sqlite"
    with monkeypatch.context() as patch:
        patch.setattr(f"{MODULE}.NoisyQuadratic._noise_sd", lambda self, X: 1 / 0)
        result = invoke("run", description, "--out", out, "--engine", "serial")
    assert result.exit_code == 1 and "12 blocks failed" in result.stderr
    shown = invoke("status", out).stdout
    assert "default, seeds 3 to 4, round 0: ZeroDivisionError: division by zero" in shown
    assert f"botorch-risk campaign resume {out} --failed" in shown
    result = invoke("resume", out, "--failed", "--engine", "serial")
    assert result.exit_code == 0
    assert invoke("status", out).stdout.startswith("small: 12 of 12 blocks done, 0 failed")


OWN = """
from pathlib import Path
Path(__file__).with_suffix(".ran").touch()
from bench.tests.experiments.noisy_quadratic import EXPERIMENTS
"""


@pytest.fixture
def with_own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    r"""The store of a campaign with a module of its own, and what shows that the module ran."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    path, ran = tmp_path / "a.sqlite", tmp_path / "own.ran"
    description = {**small(strategies=(), num_rounds=2).to_json(), "modules": ["own.py"]}
    (tmp_path / "own.json").write_text(json.dumps(description))
    assert invoke("run", "own.json", "--out", path, "--engine", "serial").exit_code == 0
    ran.unlink()
    return path, ran


@pytest.mark.parametrize(
    "words", [["status"], ["table"], ["table", "--to", "a.csv"], ["board"], ["board", "--to", "b"]]
)
def test_reading_a_store_does_not_run_the_modules_that_it_names(
    words: list[str], with_own_module: tuple[Path, Path]
) -> None:
    path, ran = with_own_module
    looked_in = list(sys.path)
    assert invoke(words[0], path, *words[1:]).exit_code == 0
    assert not ran.exists() and sys.path == looked_in


def test_resume_says_which_modules_it_runs_before_it_runs_them(
    with_own_module: tuple[Path, Path],
) -> None:
    path, ran = with_own_module
    Path("own.py").write_text(OWN + "raise ImportError('stopped')")
    result = invoke("resume", path, "--engine", "serial")
    lines = result.stderr.splitlines()
    assert lines[0] == f"Running the modules that {path} names: {Path('own.py').resolve()}."
    assert result.exit_code == 2 and "Got stopped" in lines[1] and ran.exists()


READERS = {
    "UPDATE rounds SET recommended_objective = '9.0' WHERE round = 2": "table, table --to, board",
    "DELETE FROM rounds WHERE round = 2": "table, table --to, board",
    "DELETE FROM timings WHERE round = 0": "table, table --to, board",
    "UPDATE timings SET tell_seconds = 9.0": "table",
    "UPDATE blocks SET round = 2": "table, table --to, board",
}


@pytest.mark.parametrize(
    ("statement", "words"),
    [(each, words) for each, readers in READERS.items() for words in readers.split(", ")],
)
def test_a_store_that_was_changed_ends_in_one_line_and_leaves_files_alone(
    statement: str, words: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    Path("a.csv").write_text("of last week\n")
    change(path, statement)
    command, *rest = words.split()
    result = invoke(command, path, *rest, *(["a.csv"] if rest else []))
    assert result.exit_code == 2 and len(result.stderr.strip().splitlines()) == 1
    assert result.stderr.startswith("Error: Expected ") and not result.stdout
    assert Path("a.csv").read_text() == "of last week\n"
    assert sorted(Path().iterdir()) == [Path("a.csv"), Path("a.sqlite")]


def test_the_status_names_what_is_damaged_and_resume_plays_it_again(path: Path) -> None:
    whole, page = bytes_of(path), invoke("table", path).stdout.split("\n# ")
    where = "setting = 'more' AND strategy = 'averse' AND seed = 5 AND round"
    change(path, f"UPDATE rounds SET recommended_objective = '-0.0001' WHERE {where} = 1")
    change(path, f"DELETE FROM rounds WHERE {where} = 3")
    blocks = "setting = 'default' AND first_seed = 7"
    change(path, f"UPDATE reports SET cpu_seconds = 9.0 WHERE {blocks}")
    shown = invoke("status", path)
    assert shown.exit_code == 2
    assert shown.stdout.splitlines()[0] == "small: 11 of 12 blocks done, 0 failed"
    assert "    quadratic, neutral, more: 20 of 20 rounds" in shown.stdout
    assert [line for line in shown.stdout.splitlines() if "damaged" in line] == [
        "    damaged: round 1 of quadratic, averse, more, seed 5: it does not fit its checksum",
        "    damaged: round 3 of quadratic, averse, more, seed 5: it is missing",
        *(
            f"    damaged: a report of quadratic, {label}, default, seeds from 7: it does not fit "
            "its checksum"
            for label in ("averse", "neutral")
        ),
    ]
    assert shown.stdout.endswith(f"Play them again: botorch-risk campaign resume {path}\n")
    others = invoke("table", path)  # the setting that is intact keeps its table
    assert others.exit_code == 2 and others.stderr.startswith("Error: Expected round 3 of quad")
    assert others.stdout == page[0] + "\n"
    again = invoke("resume", path, "--engine", "serial")
    assert again.exit_code == 0
    assert "Played again: quadratic, averse, more, seeds 5 to 6.\n" in again.stderr
    assert invoke("status", path).exit_code == 0
    assert bytes_of(path) == whole


def test_a_folder_that_cannot_be_made_is_named_in_one_line(path: Path) -> None:
    for words in (["table", path, "--to", "/dev/null/a.csv"], ["board", path, "--to", "/dev/null"]):
        result = invoke(*words)
        assert result.exit_code == 2 and "/dev/null" in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1


def test_plan_names_a_better_block_size(description: Path) -> None:
    shown = invoke("plan", description, "--workers", "2").stdout
    assert shown.splitlines() == [
        "small: 4 series, 12 blocks of 2",
        "For 2 workers, block_size: 5 would end soonest.",
    ]


def test_more_rounds_are_another_campaign_unless_it_is_extended(
    description: Path, tmp_path: Path
) -> None:
    out, longer = tmp_path / "a.sqlite", tmp_path / "longer.json"
    invoke("run", description, "--out", out, "--engine", "serial")
    longer.write_text(json.dumps(small(num_rounds=4).to_json()))
    refused = invoke("run", longer, "--out", out, "--engine", "serial")
    assert refused.exit_code == 2 and "num_rounds=3 there, 4 here" in refused.stderr
    assert invoke("run", longer, "--out", out, "--engine", "serial", "--extend").exit_code == 0
    assert "100 rounds" in invoke("table", out, "--to", tmp_path / "a.csv").stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--engine", "grid"], "`--engine` to be one of processes, serial, dask, slurm, jobs"),
        (["--workers", "0"], "`num_workers` to be at least 1"),
        (["--engine", "dask", "--address", "tcp://10.0.0.7:1"], "a TLS address"),
        (["--engine", "slurm", "--parameter", "gpu"], "`--parameter NAME=VALUE`. Got 'gpu'"),
    ],
)
def test_errors_are_one_line(
    description: Path, tmp_path: Path, words: list[str], message: str
) -> None:
    result = invoke("run", description, "--out", tmp_path / "a.sqlite", *words)
    assert result.exit_code == 2 and message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "a.sqlite").exists()


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for words in (["status"], ["table"], ["board"], ["resume"], ["run"], ["plan"]):
        result = invoke(*words, tmp_path / "gone")
        assert result.exit_code == 2 and "File not found: " in result.stderr


def test_an_expected_error_is_one_line_and_the_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, one_line_errors(ValueError):
        raise ValueError("Expected a number.\n    Got none.")
    assert ended.value.code == 2
    assert capsys.readouterr().err == "Error: Expected a number. Got none.\n"
    with pytest.raises(KeyError), one_line_errors(ValueError, TypeError):
        raise KeyError("label")
