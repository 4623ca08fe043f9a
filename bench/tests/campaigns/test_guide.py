r"""docs/campaigns.md runs as it stands, and leaves nothing out."""

import dataclasses
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from botorch_risk_bench.campaign_commands import ENGINES, app
from botorch_risk_bench.campaigns import Campaign, Series

GUIDE = (Path(__file__).parents[3] / "docs" / "campaigns.md").read_text(encoding="utf-8")


def block(language: str, containing: str = "") -> str:
    found = re.findall(rf"```{language}\n(.*?)```", GUIDE, flags=re.DOTALL)
    (only,) = [each for each in found if containing in each]
    return only


def first_column(title: str) -> set[str]:
    r"""The names in the first column of the table under a heading."""
    section = GUIDE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (.*?) \|", section, flags=re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_the_description_is_a_campaign(tmp_path: Path) -> None:
    (tmp_path / "first.yaml").write_text(block("yaml"))
    blocks = Campaign.read(tmp_path / "first.yaml").blocks()
    assert len(blocks) == 2 * 2 * 2 * 2


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
