r"""Each command, as it is called from a shell."""

import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from botorch_risk_bench.campaigns import runner
from botorch_risk_bench.campaigns.claims import claim
from botorch_risk_bench.cli import app
from botorch_risk_bench.experiments import get_experiment
from botorch_risk_bench.reports.level_sets import level_set_curves
from botorch_risk_bench.reports.summary import cell
from typer.testing import CliRunner, Result

import botorch_risk
from bench.tests.experiments.noisy_quadratic import EXPERIMENTS
from bench.tests.played import bytes_of, records_in


def test_runs_as_a_module() -> None:
    command = [sys.executable, "-W", "error::RuntimeWarning", "-m", "botorch_risk_bench.cli"]
    result = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
    assert "stopped at any moment" in result.stdout


def test_help_does_not_load_torch() -> None:
    code = """
import sys
from botorch_risk_bench.cli import app
from typer.testing import CliRunner
for arguments in (["--help"], ["run", "--help"], ["plot", "--help"]):
    assert "Usage:" in CliRunner().invoke(app, arguments).stdout, arguments
print("torch" in sys.modules)
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout) == (0, "False\n"), result.stderr


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], obj=EXPERIMENTS)


def run(out: Path, *arguments: str) -> Result:
    return invoke("run", "quadratic", "--out", out, "--seeds", "3", *arguments)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    out = tmp_path / "results.sqlite"
    assert run(out, "--rounds", "2", "--first-seed", "7").exit_code == 0
    return out


def test_list_names_experiments_and_strategies() -> None:
    result = invoke("list")
    assert result.exit_code == 0
    assert "quadratic: A noisy quadratic\n    strategies: neutral, averse" in result.stdout


def test_list_takes_words() -> None:
    result = invoke("list", "noisy", "AVERSE")
    assert result.stdout.startswith("quadratic: A noisy quadratic\n    strategies: neutral, averse")
    assert result.stdout.count("strategies:") == 1
    result = invoke("list", "noisy", "nothing")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "Error: No experiment has all of the words: noisy nothing.\n"


def commands(app: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    r"""Each command, with the words that call it."""
    for name, command in app.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_each_help_has_an_example_of_options_that_there_are(path: tuple[str, ...]) -> None:
    result = invoke(*path, "-h")
    assert result.exit_code == 0
    options = result.stdout.partition("Options:")[2]
    assert "<" not in options  # types in words
    example = " ".join(result.stdout.split()).partition("Example: botorch-risk ")[2]
    assert example.startswith(" ".join(path))
    known = {each for given in COMMANDS[path].params for each in given.opts}
    assert {word for word in example.split() if word.startswith("--")} <= known


def test_seeds_and_workers_are_numbers_everywhere() -> None:
    helps = {
        (option, given.help.partition(",")[0])
        for command in COMMANDS.values()
        for given in command.params
        for option in given.opts
        if option in ("--seeds", "--workers", "--jobs")
    }
    assert {option for option, _ in helps} == {"--seeds", "--workers"}
    assert all(text.startswith("The number of ") for _, text in helps)


def test_version() -> None:
    assert invoke("--version").stdout == f"botorch-risk {botorch_risk.__version__}\n"


def test_the_results_are_named_for_the_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke("run", "quadratic", "--seeds", "1", "--rounds", "1")
    assert "Done: quadratic.sqlite. Next: botorch-risk plot quadratic.sqlite" in result.stdout
    assert (tmp_path / "quadratic.sqlite").exists()


def test_run_takes_seeds_from_s_to_s_plus_r(out: Path) -> None:
    with records_in(out) as store:
        assert store.identity["seeds"] == [7, 8, 9]
        assert store.labels() == ["neutral", "averse"]
        assert store.rounds("averse")[-1].index == 2


def test_run_resumes_extends_and_adds_strategies(out: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole.sqlite"
    assert run(out, "--rounds", "4", "--first-seed", "7").exit_code == 0
    for label in ("neutral", "averse"):
        assert run(whole, "--rounds", "4", "--first-seed", "7", "--strategy", label).exit_code == 0
    assert bytes_of(out) == bytes_of(whole)


def test_status_shows_progress(out: Path) -> None:
    result = invoke("status", out)
    assert result.exit_code == 0
    assert "quadratic: 3 seeds from 7" in result.stdout
    assert "neutral: 2 rounds after the initial design" in result.stdout
    assert "0 failed points" in result.stdout


def test_plot_writes_pictures_and_the_table(out: Path, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "pictures"
    result = invoke("plot", out, "--to", folder, "--log")
    assert result.exit_code == 0
    names = {"cumulative_regret.png", "simple_regret.png", "summary.md"}
    assert {file.name for file in folder.iterdir()} == names
    assert all(file.stat().st_size < 200_000 for file in folder.iterdir())
    assert "Paired differences to neutral" in (folder / "summary.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "sinus"], "not found: 'sinus'. Did you mean 'sine'?"),
        (["run", "quadratic", "--strategy", "bold"], "(neutral, averse). Got ['bold']"),
        (["run", "quadratic", "--rounds", "0"], "num_rounds=0"),
        (["run", "quadratic", "--rounds", "-3"], "num_rounds=-3"),
        (["run", "quadratic", "--seeds", "0"], "num_seeds"),
        (["run", "quadratic", "--seeds", "-1"], "num_seeds"),
        (["run", "quadratic", "--workers", "0"], "num_jobs"),
        (["run", "quadratic", "--device", "cuda:99"], "'cuda:99' is not available; available: cpu"),
        (["run", "quadratic", "--device", "tpu"], "'tpu' is not available"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    result = invoke(*arguments, "--out", tmp_path / "results.sqlite")
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_another_experiment_or_file_is_refused_unchanged(out: Path, tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database, but long enough to be mistaken for one " * 9)
    for path, arguments, message in [
        (
            out,
            ["--first-seed", "8"],
            "quadratic, neutral, default, seeds 7 to 9, with 2 rounds or more",
        ),
        (text, [], "file is not a database"),
        (tmp_path, [], "unable to open"),
        (text / "folder.sqlite", [], "to take a lock file"),
    ]:
        before = path.read_bytes() if path.is_file() else None
        result = run(path, *arguments)
        assert result.exit_code == 2
        assert message in result.stderr
        assert result.stderr.count("\n") == 1
        assert before == (path.read_bytes() if path.is_file() else None)


def test_a_run_names_the_process_that_it_has_waited_for(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "claim", functools.partial(claim, wait_seconds=0.1))
    with claim(out):
        result = run(out, "--rounds", "3", "--first-seed", "7")
    assert result.exit_code == 2
    expected = f"Error: Expected no other process to write to {out}. Got process {os.getpid()}"
    assert expected in result.stderr


@pytest.mark.parametrize("command", ["status", "plot"])
def test_reading_commands_refuse_what_is_no_store(command: str, tmp_path: Path) -> None:
    result = invoke(command, tmp_path / "none.sqlite")
    assert result.exit_code == 2
    assert "File not found: " in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_level_set_is_plotted_as_f1_against_cost(tmp_path: Path) -> None:
    out, folder = tmp_path / "coast.sqlite", tmp_path / "pictures"
    arguments = ["--seeds", "2", "--rounds", "3", "--out", out]
    chosen = ["--strategy", "straddle", "--strategy", "GCHK"]
    assert invoke("run", "coast", *arguments, *chosen).exit_code == 0
    result = invoke("plot", out, "--to", folder)
    assert result.exit_code == 0, result.stderr
    assert {file.name for file in folder.iterdir()} == {"f1.png", "summary.md"}
    assert (folder / "f1.png").stat().st_size < 200_000
    page = (folder / "summary.md").read_text(encoding="utf-8")
    assert page.startswith("# coast: F1 score of the set f >= 0\n")
    assert "| strategy | at cost 1.75 | at cost 2.5 | at cost 4 |" in page
    with records_in(out) as store:
        curves = level_set_curves(store, get_experiment("coast"), "GCHK")
    assert f"| {cell(curves.f1[:, -1])} |\n" in page
    assert "Paired differences to straddle" in page
