r"""docs/campaigns.md runs as it stands, and leaves nothing out."""

import dataclasses
import re
import runpy
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from botorch_risk_bench.campaign_commands import ENGINES, app
from botorch_risk_bench.campaigns import Campaign, Series
from botorch_risk_bench.cli import app as command_line
from typer.testing import CliRunner

from bench.tests.campaigns.processes import count_rounds, until
from bench.tests.played import bytes_of
from tests.documented_commands import ROOT, commands_of, files_of

PAGE = ROOT / "docs" / "campaigns.md"
GUIDE = PAGE.read_text(encoding="utf-8")


def block(language: str, containing: str = "") -> str:
    found = re.findall(rf"```{language}\n(.*?)```", GUIDE, flags=re.DOTALL)
    (only,) = [each for each in found if containing in each]
    return only


def first_column(title: str) -> set[str]:
    r"""The names in the first column of the table under a heading."""
    section = GUIDE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (.*?) \|", section, flags=re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def write_files(folder: Path) -> None:
    files = dict(files_of(PAGE))
    assert list(files) == ["weld.py", "first.yaml"]
    for name, text in files.items():
        (folder / name).write_text(text)


ALL = [*commands_of(PAGE)]
COMMANDS = [each.text for each in ALL if each.line == ALL[0].line]  # of the first block
RUN, ON_DASK = (each for each in COMMANDS if each.startswith("botorch-risk campaign run"))


def invoke(command: str) -> str:
    result = CliRunner().invoke(command_line, shlex.split(command)[1:])
    assert result.exit_code == 0, (command, result.stderr)
    return result.stdout


def test_the_commands_run_as_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    said = {each: invoke(each) for each in COMMANDS if each != ON_DASK}
    assert said[COMMANDS[0]].endswith("For 2 workers, block_size: 64 would end soonest.\n")
    assert "2 of 2 blocks done, 0 failed" in said["botorch-risk campaign status first.sqlite"]
    table = said["botorch-risk campaign table first.sqlite"]
    assert table.startswith("# weld: regret against the best seen after 10 rounds\n")
    assert "64 replicates" in table
    lead = re.search(r"simple \|\n.*\n\| GP-UCB \| .* \| ([\d.]+) ± ([\d.]+) \|", table)
    assert lead and float(lead[1]) > float(lead[2])  # RAHBO finds the quiet optimum
    names = {"board.md", "board.png", "regrets.json.gz", "summary.md"}
    names |= {"cumulative_regret.png", "simple_regret.png"}
    assert {each.name for each in Path("pages").iterdir()} == names
    with Path("weld.py").open("a") as file:
        file.write(BETTER)
    invoke(f"{RUN} --engine serial")
    table = invoke("botorch-risk campaign table first.sqlite")
    assert table.startswith("# weld: regret after 10 rounds\n")


BETTER = """
from dataclasses import replace
EXPERIMENTS = [replace(weld, optimal_value=lambda problem: 2.98)]
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", [RUN, ON_DASK], ids=["processes", "dask"])
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_was_interrupted_gives_the_same_table(
    command: str, sign: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed" if command == ON_DASK else "torch")
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    invoke(f"{RUN} --engine serial --out whole.sqlite")
    module = [sys.executable, "-m", "botorch_risk_bench.cli"]
    words = [*module, *shlex.split(command)[1:], "--report-seconds", "0.1", "--out", "cut.sqlite"]
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    assert until(lambda: count_rounds(Path("cut.sqlite")) > 3 or process.poll() is not None)
    process.send_signal(sign)
    process.wait(timeout=60)
    played = count_rounds(Path("cut.sqlite"))
    assert 3 < played < 22
    subprocess.run(words, stderr=subprocess.DEVNULL, check=True)
    assert bytes_of(Path("cut.sqlite")) == bytes_of(Path("whole.sqlite"))
    of_both = [invoke(f"botorch-risk campaign table {name}.sqlite") for name in ("cut", "whole")]
    assert of_both[0] == of_both[1]


def test_the_python_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "small.py").write_text(block("python", "Campaign("))
    monkeypatch.chdir(tmp_path)
    runpy.run_path("small.py", run_name="__main__")
    assert "# sine: regret after 2 rounds" in capsys.readouterr().out


def test_a_method_of_another_package_runs() -> None:
    found: dict[str, Any] = {}
    exec(block("python", "ask_tell("), found)
    strategy = found["strategy"]
    X = strategy.ask()
    strategy.tell(X, -(X - 0.3).square())
    assert strategy.ask().shape == (2, 1, 1) and strategy.recommend().shape == (2, 1)


def test_every_key_engine_and_command_is_there() -> None:
    keys = {field.name for kind in (Campaign, Series) for field in dataclasses.fields(kind)}
    assert first_column("The description") == keys - {"own"}  # which no file can have
    assert first_column("Where it runs") == set(ENGINES)
    commands = {command.callback.__name__ for command in app.registered_commands}
    assert set(re.findall(r"botorch-risk campaign (\w+)", block("sh"))) | {"resume"} == commands
