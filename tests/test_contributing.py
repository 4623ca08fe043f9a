r"""The worked examples of CONTRIBUTING.md run as they stand and pass their area's contract."""

import doctest
import importlib
import itertools
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from tests import oracles

ContractTest = Callable[..., None]


def contract_tests(contract: ModuleType) -> dict[str, ContractTest]:
    r"""The tests over the cases of an area.

    Args:
        contract: Its `test_contract` module.
    """
    return {
        name: test
        for name, test in vars(contract).items()
        if name.startswith("test_") and any("case" in axis[0] for axis in _axes(test))
    }


def calls(test: ContractTest, case: Any) -> Iterator[dict[str, Any]]:
    r"""The arguments of a test for one case, over all that it is parametrised with.

    Args:
        test: With `pytest.mark.parametrize` of `case` and further arguments.
        case: What takes the place of the listed cases.
    """
    largest = getattr(case, "batch_dims", None)
    rows = []
    for axis in _axes(test):
        given: list[dict[str, Any]] = []
        for row in axis:
            replaced = {**row, "case": case} if "case" in row else row
            if replaced not in given:
                given.append(replaced)
        rows.append(given)
    for parts in itertools.product(*rows):
        arguments = {name: value for part in parts for name, value in part.items()}
        if largest is None or len(arguments.get("batch_shape", ())) <= largest:
            yield arguments


def _axes(test: ContractTest) -> list[list[dict[str, Any]]]:
    r"""For each `parametrize` of a test, what it gives, by name."""
    axes = []
    for mark in getattr(test, "pytestmark", []):
        if mark.name == "parametrize":
            names, values = mark.args
            names = [names] if isinstance(names, str) else list(names)
            rows = [_row(value, len(names)) for value in values]
            axes.append([dict(zip(names, row, strict=True)) for row in rows])
    return axes


def _row(value: Any, length: int) -> Any:
    r"""One row of a `parametrize`, which may be a `pytest.param`."""
    if isinstance(value, type(pytest.param())):
        return value.values
    return value if length > 1 else (value,)


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
        (path,) = (path for path in self.blocks if not path.startswith("tests/"))
        path_in_package = path.removeprefix("bench/")
        return path_in_package.removesuffix(".py").replace("/", "."), self.blocks[path]

    @property
    def cases(self) -> tuple[str, str]:
        r"""The module of the cases, and the case."""
        (path,) = (path for path in self.blocks if path.endswith("/cases.py"))
        return path.removesuffix(".py").replace("/", "."), self.blocks[path]


def examples() -> Iterator[Example]:
    page = PAGE.read_text(encoding="utf-8")
    for section in re.split(r"^### ", page, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        found = re.findall(r"```python\n# (\S+?\.py)[^\n]*\n(.*?)```", body, flags=re.DOTALL)
        assert len(found) == body.count("```python"), "each block begins with the path of its file"
        yield Example(title, dict(found))


EXAMPLES = {example.title: example for example in examples()}
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
def test_passes_the_contract_of_its_area(
    title: str, module: ModuleType, request: pytest.FixtureRequest
) -> None:
    example = EXAMPLES[title]
    case = case_of(example, module)
    contract = importlib.import_module(example.cases[0].replace(".cases", ".test_contract"))
    if hasattr(contract, "LAWS"):
        assert len(contract.LAWS.check(case).held) > 5
        return
    checks = contract_tests(contract)
    assert len(checks) > 5
    for name, check in checks.items():
        for arguments in calls(check, case):
            fixtures = signature(check).parameters.keys() - arguments.keys()
            dtype = torch.get_default_dtype()
            try:
                check(**arguments, **{each: request.getfixturevalue(each) for each in fixtures})
            except BaseException as error:
                error.add_note(f"{title}: {name}, {arguments}")
                raise
            finally:
                torch.set_default_dtype(dtype)


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
