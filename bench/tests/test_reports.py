r"""No report and no program destroys what it cannot make again."""

import ast
import importlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from botorch_risk_bench.campaigns import Campaign, CampaignStore
from matplotlib.figure import Figure

from bench.reproduction.pictures import finish
from bench.tests.campaign_files import ROOT

PROGRAMS = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path
    for folder in ("reproduction", "studies")
    for path in sorted((ROOT / "bench" / folder).rglob("*.py"))
}
OF_ROUNDS = [name for name, path in PROGRAMS.items() if "Report.of_arguments(" in path.read_text()]
OF_STORED_ROWS = [name for name, path in PROGRAMS.items() if ".jsonl.gz" in path.read_text()]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_every_report_is_held_to_the_laws() -> None:
    reports = {name for name in PROGRAMS if name.endswith(".report")}
    assert len(OF_ROUNDS) > 10 and reports <= {*OF_ROUNDS, *OF_STORED_ROWS}


@pytest.mark.parametrize("store", ["none", "another", "begun"])
@pytest.mark.parametrize("name", OF_ROUNDS)
def test_a_report_without_its_rounds_says_so_and_leaves_the_page(
    name: str, store: str, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, to = tmp_path / "results", tmp_path / "to"
    if store == "another":
        results.mkdir()
        shutil.copy(path, results / "campaign.sqlite")
    if store == "begun":  # and without a round
        results.mkdir()
        campaign = Campaign.read(PROGRAMS[name].with_name("campaign.py"))
        CampaignStore(results / "campaign.sqlite", campaign).close()
    to.mkdir()
    for page in PROGRAMS[name].parent.glob("*.md"):
        shutil.copy(page, to)
    before = contents(to)
    monkeypatch.setattr(sys, "argv", ["report", "--results", str(results), "--to", str(to)])
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(name).main()
    said = str(ended.value.code)  # a text is printed, and the exit code is 1
    assert f"in {results}/*.sqlite. Got none." in said and "\n" not in said
    assert before == contents(to)


def calls_of(tree: ast.AST, *names: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in names:
            yield node


def test_pages_and_pictures_are_written_whole() -> None:
    seen = 0
    for path in sorted((ROOT / "bench").rglob("*.py")):
        if path.is_relative_to(ROOT / "bench" / "tests"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        items = [
            each for node in ast.walk(tree) if isinstance(node, ast.With) for each in node.items
        ]
        whole = {
            ast.unparse(each.optional_vars)
            for each in items
            if each.optional_vars and "replacing(" in ast.unparse(each)
        }
        for call in calls_of(tree, "savefig", "write_bytes", "write_text"):
            seen += 1
            of_path = isinstance(call.func, ast.Attribute) and call.func.attr != "savefig"
            written = call.func.value if of_path else call.args[0]  # type: ignore[attr-defined]
            is_whole = isinstance(call.func, ast.Name) or ast.unparse(written) in whole
            assert is_whole or "/proc/" in ast.unparse(call), f"{path}:{call.lineno}"
    assert seen > 20


def test_a_picture_that_cannot_be_drawn_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(figure: Figure, path: Path, **options: object) -> None:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    (tmp_path / "sine.png").write_bytes(b"old")
    monkeypatch.setattr(Figure, "savefig", cut_off)
    with pytest.raises(KeyboardInterrupt):
        finish(Figure(), tmp_path / "sine")
    assert contents(tmp_path) == {"sine.png": b"old"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_writes_below_results_unless_told_otherwise(name: str) -> None:
    tree = ast.parse(PROGRAMS[name].read_text(encoding="utf-8"))
    for call in calls_of(tree, "writing_parser"):
        assert ast.literal_eval(call.args[1]).startswith("results/")
    for call in calls_of(tree, "add_argument"):
        default = {each.arg: ast.unparse(each.value) for each in call.keywords}.get("default", "")
        assert "__file__" not in default and "HERE" not in default, default
