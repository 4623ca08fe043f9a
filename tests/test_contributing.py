r"""The worked examples of CONTRIBUTING.md run as they stand and pass their area's contract."""

import doctest
import importlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests import oracles

PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"


@dataclass(frozen=True)
class Example:
    r"""A section of the page.

    Args:
        title: Its heading.
        blocks: The Python of each file that it writes to, by the path.
    """

    title: str
    blocks: dict[str, str]

    @property
    def source(self) -> tuple[str, str]:
        r"""The name of the module that it adds to the package, and its code."""
        (path,) = (path for path in self.blocks if "tests/" not in path)
        path_in_package = path.removeprefix("bench/")
        return path_in_package.removesuffix(".py").replace("/", "."), self.blocks[path]

    @property
    def cases(self) -> tuple[str, str]:
        r"""The module of the cases, and the case."""
        (path,) = (path for path in self.blocks if path.endswith("/cases.py"))
        return path.removesuffix(".py").replace("/", "."), self.blocks[path]


def examples() -> Iterator[Example]:
    r"""The worked examples of the page, those of the bench included."""
    page = PAGE.read_text(encoding="utf-8")
    for section in re.split(r"^### ", page, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        found = re.findall(r"```python\n# (\S+?\.py)[^\n]*\n(.*?)```", body, flags=re.DOTALL)
        assert len(found) == body.count("```python"), "each block begins with the path of its file"
        yield Example(title, dict(found))


EXAMPLES = {
    example.title: example
    for example in examples()
    if not any(path.startswith("bench/") for path in example.blocks)
}
each = pytest.mark.parametrize("title", EXAMPLES)


@pytest.fixture
def module(title: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    r"""The example's module, as if its file were in the package."""
    name, code = EXAMPLES[title].source
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(name)  # the example is not to be a part of the package
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    exec(compile(code, f"{PAGE.name}: {title}", "exec"), vars(module))
    return module


def case_of(example: Example, module: ModuleType) -> Any:
    r"""The case, built where it would stand."""
    with_oracle = dict(vars(oracles))
    exec(example.blocks.get("tests/oracles.py", ""), with_oracle)
    name, line = example.cases
    namespace = {**vars(importlib.import_module(name)), **vars(module)}
    namespace["oracles"] = SimpleNamespace(**with_oracle)
    return eval(line, namespace)


@each
def test_passes_the_contract_of_its_area(title: str, module: ModuleType) -> None:
    example = EXAMPLES[title]
    contract = importlib.import_module(example.cases[0].replace(".cases", ".test_contract"))
    assert len(contract.LAWS.check(case_of(example, module)).held) > 5


@each
def test_the_docstring_runs(title: str, module: ModuleType) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    found = doctest.DocTestFinder().find(module, module.__name__)
    assert any(test.examples for test in found)
    assert all(runner.run(test).failed == 0 for test in found)


def test_the_folders_and_cases_that_the_page_names_are_there() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for path in re.findall(r"`((?:botorch_risk|tests|docs)/[\w/]*(?:\.\w+)?)`", page):
        new = any(path in example.blocks for example in EXAMPLES.values())
        mirrored = path.startswith("tests/") and "/test_" in path
        assert new or mirrored or (PAGE.parent / path).exists(), path
