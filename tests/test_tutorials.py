r"""Every tutorial runs in its short form, and is committed with its pictures and nothing else."""

import ast
import importlib
import os
import re
from pathlib import Path

import nbformat
import pytest
import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from nbclient import NotebookClient

from botorch_risk.fit import PseudoDataMarginalLogLikelihood
from tests.tutorials_in_short import SHORT

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "tutorials").glob("*.ipynb"))
COMMUNITY = sorted((ROOT / "docs" / "community").glob("*.ipynb"))  # for BoTorch's own pages
MAX_BYTES = 1_000_000
PLACES = re.compile(r"[/\\](home|root|Users)[/\\]|site-packages")

LINK = re.compile(r"\]\(([^)#]+)")


def in_short(path):
    notebook = nbformat.read(path, as_version=4)
    for long, short in SHORT[path.stem[:2]]:
        found = [cell for cell in notebook.cells if long in cell.source]
        assert [cell.source.count(long) for cell in found] == [1], long
        found[0].source = found[0].source.replace(long, short)
    return notebook


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_in_its_short_form(path, tmp_path, monkeypatch):
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    notebook = in_short(path)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources).execute()


def printed(notebook):
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [output.text for output in outputs if "text" in output]


@pytest.mark.slow
@pytest.mark.parametrize("path", COMMUNITY, ids=lambda path: path.stem)
def test_a_notebook_for_the_community_prints_what_is_stored(path):
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    assert printed(notebook) == printed(nbformat.read(path, as_version=4))


@pytest.mark.parametrize("path", NOTEBOOKS + COMMUNITY, ids=lambda path: path.stem)
def test_is_committed_with_its_outputs_and_nothing_of_the_machine_it_ran_on(path):
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in cells)
    outputs = [output for cell in cells for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert not [output for output in outputs if output.output_type == "error"]
    assert not [output for output in outputs if output.get("name") == "stderr"]
    assert path.stat().st_size < MAX_BYTES
    assert notebook.metadata.kernelspec.name == "python3"
    assert notebook.metadata.language_info == {"name": "python"}
    assert not [cell for cell in notebook.cells if "execution" in cell.metadata]
    texts = [output.get("text", "") for output in outputs]
    texts += [output.get("data", {}).get("text/plain", "") for output in outputs]
    assert PLACES.search(" ".join(texts)) is None
    prose = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    links = [link for text in prose for link in LINK.findall(text) if "://" not in link]
    assert [link for link in links if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("path", NOTEBOOKS + COMMUNITY, ids=lambda path: path.stem)
def test_imports_names_that_exist(path):
    cells = [each.source for each in nbformat.read(path, as_version=4).cells]
    code = "\n".join(each for each in cells if re.search(r"^from botorch_risk", each, re.MULTILINE))
    for each in ast.walk(ast.parse(code)):
        if isinstance(each, ast.ImportFrom) and each.module.startswith("botorch_risk"):
            module = importlib.import_module(each.module)
            assert [name.name for name in each.names if not hasattr(module, name.name)] == []


def test_the_last_cell_on_pseudo_data_stands_alone_and_its_loop_goes_on():
    r"""Ask, observe, draw other pseudo-points, fit again; the model predicts from its data."""
    first = {}
    torch.manual_seed(0)
    (path,) = [each for each in NOTEBOOKS if each.stem.startswith("04")]
    code = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    exec(compile(code[-1].source, str(path), "exec"), first)
    options = {"q": 1, "num_restarts": 2, "raw_samples": 16}
    acqf = UpperConfidenceBound(first["model"], beta=4.0)
    candidate, _ = optimize_acqf(acqf, first["bounds"], **options)
    X = torch.cat([first["train_X"], candidate])
    Y = (4 * X).sin().sum(dim=-1, keepdim=True)
    model = SingleTaskGP(X, Y)
    loss = PseudoDataMarginalLogLikelihood(model.likelihood, model, first["bounds"], seeds=1)
    before = model.covar_module.lengthscale.detach().clone()
    fit_gpytorch_mll(loss)
    assert not torch.equal(model.covar_module.lengthscale, before)
    torch.testing.assert_close(model.posterior(X).mean, Y, atol=0.3, rtol=0)
    candidate, _ = optimize_acqf(UpperConfidenceBound(model, beta=4.0), first["bounds"], **options)
    assert ((first["bounds"][0] <= candidate) & (candidate <= first["bounds"][1])).all()
