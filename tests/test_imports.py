r"""What importing loads: no extra, no torch before it is needed, no code from a file."""

import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import botorch_risk
from botorch_risk.extras import MissingExtraError, require_extra


def test_a_missing_module_names_the_extra() -> None:
    with pytest.raises(MissingExtraError, match=r"`no_such_module` .* 'botorch_risk\[plots\]'"):
        require_extra("no_such_module")


def test_importing_the_package_needs_no_extra() -> None:
    blocked = ["ax", "botorch_risk_bench", "joblib", "matplotlib", "pandas", "sklearn"]
    blocked += ["tqdm", "typer"]
    names = [each.name for each in pkgutil.walk_packages(botorch_risk.__path__, "botorch_risk.")]
    imported = [
        name
        for name in names
        if not (name.startswith("botorch_risk.ax") or name.endswith(".with_ax"))
    ]
    code = f"import sys; sys.modules.update(dict.fromkeys({blocked!r}))\nimport "
    code += ", ".join(imported)
    # BoTorch's table is loaded after our acquisition functions, and has them.
    code += "\nfrom botorch.acquisition.input_constructors import get_acqf_input_constructor as get"
    code += "\nget(botorch_risk.acquisition.RiskAverseUpperConfidenceBound)"
    subprocess.run([sys.executable, "-c", code], check=True)


README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", botorch_risk.__all__)
def test_it_is_the_one_of_its_folder(name: str) -> None:
    value = getattr(botorch_risk, name)
    folder = importlib.import_module(f"botorch_risk.{value.__module__.split('.')[1]}")
    assert value is getattr(folder, name)
    assert name in dir(botorch_risk)


def test_they_are_the_names_of_the_readme() -> None:
    r"""Its table of risks, except what shares its name with a module or belongs to a strategy."""
    table = README.partition("## Which risk do you have?")[2].partition("\n## ")[0]
    rows = [line.split("|")[2] for line in table.splitlines() if line.startswith("|")]
    named = set(re.findall(r"`(\w+)`", " ".join(rows)))
    assert named - set(botorch_risk.__all__) == {"RandomOrAcquire", "robust"}
    assert set(botorch_risk.__all__) - named == {"DiscreteEnvironment"}


def test_the_package_alone_does_not_load_torch() -> None:
    code = "import sys, botorch_risk; dir(botorch_risk); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_acquisition_functions_do_not_load_the_optimisers_of_scipy() -> None:
    r"""They would be a third of the time of the import, for a distance and a bound of problems."""
    code = "import sys, botorch_risk.acquisition; sys.exit('scipy.optimize' in sys.modules)"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'MeanVarianceGPs'"):
        botorch_risk.MeanVarianceGPs  # noqa: B018


ROOT = Path(__file__).parents[1]
FOLDERS = ("botorch_risk", "bench", "docs", "tutorials", "tests")

FILES = sorted(
    path
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".md", ".ipynb") and "_build" not in path.parts
)

# What loads a file: the first group up to the parenthesis that closes the call, nested once.
LOADS = re.compile(r"torch\.load\(((?:[^()]|\([^()]*\))*)\)")
PICKLES = re.compile(r"\b(pickle|cloudpickle|dill|joblib)\.loads?\(|allow_pickle=True")


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_calls_over_several_lines_and_with_nested_calls_are_found() -> None:
    calls = "torch.load(a)\ntorch.load(\n    io.BytesIO(b),\n    weights_only=True,\n)"
    assert [part.split() for part in LOADS.findall(calls)] == [
        ["a"],
        ["io.BytesIO(b),", "weights_only=True,"],
    ]


def test_torch_loads_weights_only() -> None:
    r"""By default it does so from PyTorch 2.6 on; the oldest that the package takes is 2.4."""
    calls = [
        (str(path.relative_to(ROOT)), call)
        for path in FILES
        if path != Path(__file__)
        for call in LOADS.findall(text_of(path))
    ]
    assert len(calls) > 3
    assert [each for each in calls if not re.search(r"\bweights_only=True\b", each[1])] == []


@pytest.mark.parametrize("folder", [each for each in FOLDERS if each != "tests"])
def test_nothing_is_unpickled(folder: str) -> None:
    r"""Tests and laws unpickle what they have pickled."""
    own = [path for path in FILES if path.is_relative_to(ROOT / folder)]
    own = [path for path in own if not path.is_relative_to(ROOT / "bench" / "tests")]
    found = {path.relative_to(ROOT).as_posix() for path in own if PICKLES.search(text_of(path))}
    assert found - {"testing/botorch_risk_testing/laws.py"} == set()


def test_the_tests_of_the_plugin_import_nothing_of_the_bench() -> None:
    pattern = re.compile(r"^\s*(?:from|import) (?:bench|botorch_risk_bench)\b", re.MULTILINE)
    found = [path for path in (ROOT / "tests").rglob("*.py") if pattern.search(text_of(path))]
    assert found == []
