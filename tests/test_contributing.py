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
from tests.papers import test_equations
from tests.papers.equations.rows import Paper
from tests.papers.pages import table_of
from tests.strategies import test_contract

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
    def sources(self) -> dict[str, str]:
        r"""The code of the modules that it adds, by their names, a package first."""
        new = [path for path in self.blocks if not path.endswith(EXISTING)]
        new.sort(key=lambda path: ("/test_" in path, not path.endswith("/__init__.py")))
        return {module_of(path): self.blocks[path] for path in new}

    @property
    def added(self) -> list[str]:
        r"""The names of those that are in the package."""
        return [name for name in self.sources if name.startswith("botorch_risk.")]

    @property
    def cases(self) -> tuple[str, str]:
        r"""The module of the cases, and the case."""
        (path,) = (path for path in self.blocks if path.endswith("/cases.py"))
        return module_of(path), self.blocks[path]


EXISTING = ("/cases.py", "tests/oracles.py")  # files to which an example adds lines


def module_of(path: str) -> str:
    r"""The dotted name of a file."""
    in_package = path if "tests/" in path else path.removeprefix("bench/")
    name = in_package.removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__")


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
of_a_contract = [
    title
    for title, example in EXAMPLES.items()
    for path in example.blocks
    if path.endswith("/cases.py") and not path.startswith("tests/strategies/")
]


@pytest.fixture
def added(title: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    r"""The example's modules, as if their files were in the repository."""
    example, found = EXAMPLES[title], {}
    for name in example.sources:
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(name)  # the example is not to be a part of the package
        module = found[name] = ModuleType(name)
        module.__package__ = name if _is_package(example, name) else name.rpartition(".")[0]
        monkeypatch.setitem(sys.modules, name, module)
    for name in sorted(found, key=lambda name: _is_package(example, name)):  # its parts first
        exec(compile(example.sources[name], f"{PAGE.name}: {title}", "exec"), vars(found[name]))
    return found


def _is_package(example: Example, name: str) -> bool:
    return f"{name.replace('.', '/')}/__init__.py" in example.blocks


def namespace_of(example: Example, added: dict[str, ModuleType]) -> dict[str, Any]:
    r"""The names of the file of cases, with those of the example."""
    with_oracle = dict(vars(oracles))
    exec(example.blocks.get("tests/oracles.py", ""), with_oracle)
    names = dict(vars(importlib.import_module(example.cases[0])))
    for module in added.values():
        names |= {name: each for name, each in vars(module).items() if not name.startswith("__")}
    return names | {"oracles": SimpleNamespace(**with_oracle)}


@pytest.mark.parametrize("title", of_a_contract)
def test_passes_the_contract_of_its_area(title: str, added: dict[str, ModuleType]) -> None:
    example = EXAMPLES[title]
    contract = importlib.import_module(example.cases[0].replace(".cases", ".test_contract"))
    case = eval(example.cases[1], namespace_of(example, added))
    assert len(contract.LAWS.check(case).held) > 5


@each
def test_the_docstrings_run(title: str, added: dict[str, ModuleType]) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    found = [
        test
        for name in EXAMPLES[title].added
        for test in doctest.DocTestFinder().find(added[name], name)
    ]
    assert any(test.examples for test in found)
    assert all(runner.run(test).failed == 0 for test in found)


@each
def test_its_own_tests_pass(title: str, added: dict[str, ModuleType]) -> None:
    for module in added.values():
        for name, value in vars(module).items():
            if name.startswith("test_"):
                value()


@each
def test_it_is_within_five_files(title: str) -> None:
    r"""With the page in `docs/`; the `__init__.py` of its folder and CHANGELOG.md get a line."""
    new = [path for path in EXAMPLES[title].blocks if not path.endswith(EXISTING)]
    assert 1 + len(new) <= 5


@pytest.mark.parametrize("title", ["A paper"])
def test_a_paper_is_in_the_tables_and_plays(title: str, added: dict[str, ModuleType]) -> None:
    values = [each for module in added.values() for each in vars(module).values()]
    (paper,) = (each for each in values if isinstance(each, Paper))
    page = added["botorch_risk.papers.patience"]
    assert table_of(paper) in f"{page.__doc__}"
    for row in paper.rows:
        name = (row.function or "").rpartition(".")[2]
        assert not name or f"[{paper.key}]_" in f"{getattr(page, name).__doc__}"
    test_equations.test_the_numbering_of_equations_has_no_gap(paper)
    test_equations.test_all_results_of_the_text_are_there(paper)
    test_equations.test_what_is_not_computed_has_a_reason(paper)
    example = EXAMPLES[title]
    test_contract.test_protocol_and_shapes(eval(example.cases[1], namespace_of(example, added)))


def test_the_folders_and_cases_that_the_page_names_are_there() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for path in re.findall(r"`((?:botorch_risk|tests|docs)/[\w/]*(?:\.\w+)?)`", page):
        new = any(path in example.blocks for example in EXAMPLES.values())
        mirrored = path.startswith("tests/") and "/test_" in path
        assert new or mirrored or (PAGE.parent / path).exists(), path
