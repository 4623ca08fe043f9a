r"""What docstrings say of citations, arguments and shapes is true; `pytest` runs the examples."""

import doctest
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import botorch_risk
from tests.defaults import modules
from tests.public_objects import entries, is_written, parameters_of, public_objects, without_shape

ROOT = Path(__file__).parents[1]
PUBLIC = public_objects()
BIBLIOGRAPHY = (ROOT / "docs" / "references.bib").read_text(encoding="utf-8")
ENTRIES = dict(re.findall(r"^@\w+\{(\w+),\n((?:  .*\n)+)\}$", BIBLIOGRAPHY, flags=re.MULTILINE))


def documented(module: ModuleType) -> Iterator[tuple[str, Any]]:
    r"""The functions, classes and methods that a module defines."""
    for name, value in vars(module).items():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if isinstance(value, type):
            yield name, value
            for own, method in vars(value).items():
                function = getattr(method, "__func__", method)
                if is_written(function):
                    yield f"{name}.{own}", function
        elif is_written(value):
            yield name, value


def runs_something(value: Any) -> bool:
    r"""Whether it has an example that shows a value."""
    found = doctest.DocTestParser().get_examples(inspect.cleandoc(value.__doc__ or ""))
    return any(each.want and doctest.SKIP not in each.options for each in found)


def named_on(*pages: str) -> set[str]:
    r"""The words in backticks of some pages."""
    text = "".join((ROOT / page).read_text(encoding="utf-8") for page in pages)
    return set(re.findall(r"`(?:\w+\.)?(\w+)`", text))


def test_names_that_a_user_begins_with_have_an_example() -> None:
    r"""The names of the README, and those that the page of the papers gives for each of them."""
    first = named_on("README.md", "docs/papers.md") | set(botorch_risk.__all__)
    sought = {name: each for name, each in PUBLIC.items() if name.rpartition(".")[2] in first}
    assert len(sought) > 30
    assert [name for name, value in sought.items() if not runs_something(value)] == []


def test_arguments_of_a_docstring_are_parameters() -> None:
    unknown = {}
    for place, value in (each for module in modules() for each in documented(module)):
        listed = set(entries(inspect.cleandoc(value.__doc__ or ""), "Args"))
        if listed and not listed <= parameters_of(value):
            unknown[place] = listed - parameters_of(value)
    assert unknown == {}


def test_tensors_that_are_described_have_shapes() -> None:
    missing = {name: without_shape(value) for name, value in PUBLIC.items()}
    assert {name: tensors for name, tensors in missing.items() if tensors} == {}


def test_every_citation_has_an_entry_and_every_entry_is_cited() -> None:
    paths = [
        path
        for folder in ("botorch_risk", "bench", "tests")
        for path in (ROOT / folder).rglob("*.py")
    ]
    citation = re.compile(r"(?<!\w)\[([A-Z]\w+\d{4}\w+)\](?=_| |$)", re.MULTILINE)
    cited = {key for path in paths for key in citation.findall(path.read_text("utf-8"))}
    assert cited == ENTRIES.keys()
