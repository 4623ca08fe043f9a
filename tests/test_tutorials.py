r"""Every tutorial runs in its short form, and is committed with its pictures and nothing else."""

from __future__ import annotations

import os
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "tutorials").glob("*.ipynb"))
MAX_BYTES = 1_000_000
PLACES = re.compile(r"[/\\](home|root|Users)[/\\]|site-packages")

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code_cells(path):
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def test_there_are_tutorials():
    assert NOTEBOOKS


@each_notebook
def test_runs_in_its_short_form(path, tmp_path, monkeypatch):
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    monkeypatch.setenv("SMOKE_TEST", "1")
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources).execute()


@each_notebook
def test_is_committed_with_its_outputs(path):
    cells = code_cells(path)
    assert all(cell.execution_count for cell in cells)
    outputs = [output for cell in cells for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert not [output for output in outputs if output.output_type == "error"]
    assert not [output for output in outputs if output.get("name") == "stderr"]
    assert path.stat().st_size < MAX_BYTES


@each_notebook
def test_says_nothing_about_the_machine_it_ran_on(path):
    notebook = nbformat.read(path, as_version=4)
    assert notebook.metadata.kernelspec.name == "python3"
    assert notebook.metadata.language_info == {"name": "python"}
    assert not [cell for cell in notebook.cells if "execution" in cell.metadata]
    outputs = [output for cell in code_cells(path) for output in cell.outputs]
    text = " ".join(
        output.get("text", "") + output.get("data", {}).get("text/plain", "") for output in outputs
    )
    assert PLACES.search(text) is None
