r"""Nothing that is read from a file may run code: no pickles, and tensors alone of `torch.save`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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
    r"""Tests unpickle what they have pickled."""
    own = [path for path in FILES if path.is_relative_to(ROOT / folder)]
    assert [str(path) for path in own if PICKLES.search(text_of(path))] == []
