r"""Every tutorial runs in its short form, and is committed with its pictures and nothing else."""

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
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
each_of_all = pytest.mark.parametrize("path", NOTEBOOKS + COMMUNITY, ids=lambda path: path.stem)


def cells_of(path, kind):
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == kind]


def code_cells(path):
    return cells_of(path, "code")


def pictures(cell):
    return [output for output in cell.outputs if "image/png" in output.get("data", {})]


def in_short(path):
    notebook = nbformat.read(path, as_version=4)
    for long, short in SHORT[path.stem[:2]]:
        found = [cell for cell in notebook.cells if long in cell.source]
        assert [cell.source.count(long) for cell in found] == [1], long
        found[0].source = found[0].source.replace(long, short)
    return notebook


def words_of(text):
    r"""The words of prose: without displayed code and formulas, a code span or a link as one."""
    for pattern in (r"```.*?```", r"\$\$.*?\$\$", r"\$[^$]*\$", r"(?<=\])\([^)]*\)"):
        text = re.sub(pattern, " ", text, flags=re.DOTALL)
    return re.findall(r"[A-Za-z0-9][\w'.,%-]*", re.sub(r"`[^`]*`", "code", text))


def test_there_are_tutorials():
    assert NOTEBOOKS
    assert len({path.stem[:2] for path in NOTEBOOKS}) == len(NOTEBOOKS)


@each_notebook
def test_the_index_has_its_picture_its_duration_and_a_download(path):
    index = (ROOT / "docs" / "tutorials.md").read_text(encoding="utf-8")
    (card,) = [card for card in index.split(":::{grid-item-card}") if path.name in card]
    assert f":link: /tutorials/{path.stem}\n" in card
    assert f"{{download}}`Download <../tutorials/{path.name}>`" in card
    assert re.search(r"\. Takes [\w ]+ (minutes?|seconds)\.", card)
    assert f":img-top: thumbnails/{path.stem}.png" in card
    assert (ROOT / "docs" / "thumbnails" / f"{path.stem}.png").stat().st_size < 30_000
    assert f"\n/tutorials/{path.stem}\n" in index


@pytest.mark.slow
@each_notebook
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


@each_of_all
def test_is_committed_with_its_outputs(path):
    cells = code_cells(path)
    assert all(cell.execution_count for cell in cells)
    outputs = [output for cell in cells for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert not [output for output in outputs if output.output_type == "error"]
    assert not [output for output in outputs if output.get("name") == "stderr"]
    assert path.stat().st_size < MAX_BYTES


@each_of_all
def test_every_picture_has_an_alternative_text_of_its_own(path):
    drawing = [cell for cell in code_cells(path) if pictures(cell)]
    assert all(len(pictures(cell)) == 1 for cell in drawing)
    texts = [cell.metadata["mystnb"]["image"]["alt"] for cell in drawing]
    assert all(len(text) > 60 and text.endswith(".") for text in texts)
    assert len(set(texts)) == len(texts)


@each_notebook
def test_begins_with_what_the_reader_will_be_able_to_do(path):
    title, promise, *_ = cells_of(path, "markdown")[0].source.split("\n\n")
    assert title.startswith("# ")
    assert promise.startswith("After this tutorial you can ")


@each_notebook
def test_is_read_in_a_few_minutes(path):
    texts = [cell.source for cell in cells_of(path, "markdown")]
    assert 600 <= len(words_of("\n".join(texts))) <= 900


@each_notebook
def test_begins_with_few_lines_of_code_and_shows_no_machinery(path):
    first, second, *others = code_cells(path)
    assert len(first.source.splitlines()) <= 8
    assert second.metadata["tags"] == ["hide-input"]
    assert second.metadata["jupyter"] == {"source_hidden": True}
    machinery = ("SMOKE_TEST", "rcParams", "set_matplotlib_formats", "simplefilter")
    shown = [cell.source for cell in (first, *others)]
    assert not [word for word in machinery for source in shown if word in source]


@each_of_all
def test_links_lead_somewhere(path):
    links = [link for cell in cells_of(path, "markdown") for link in LINK.findall(cell.source)]
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (path.parent / link).exists()] == []


@each_notebook
def test_says_how_to_install_from_a_clone(path):
    cells = nbformat.read(path, as_version=4).cells
    source = "\n".join(cell.source for cell in cells)
    assert re.search(
        r"from a clone of the repository, with `pip install -e (\.|\"\.\[ax\]\") -e \./bench`",
        source,
    )
    assert "%pip" not in source
    assert re.search(r"pip install (-q )?[\"']?botorch_risk", source) is None


@each_of_all
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


def test_the_last_cell_on_pseudo_data_stands_alone_and_its_loop_goes_on():
    r"""Ask, observe, draw other pseudo-points, fit again; the model predicts from its data."""
    first = {}
    torch.manual_seed(0)
    (path,) = [each for each in NOTEBOOKS if each.stem.startswith("04")]
    exec(compile(code_cells(path)[-1].source, str(path), "exec"), first)
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
