r"""The names that a loop begins with are in the package itself, which loads torch only for them."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import botorch_risk

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


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'MeanVarianceGPs'"):
        botorch_risk.MeanVarianceGPs  # noqa: B018
