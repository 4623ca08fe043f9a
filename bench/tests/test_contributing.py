r"""The worked example of a baseline in CONTRIBUTING.md runs as it stands, and keeps the laws."""

import importlib
import sys
from types import ModuleType
from typing import Any

import pytest

from bench.tests.baselines.test_contract import LAWS
from tests.one_more_case import run_on
from tests.test_contributing import Example, examples, namespace_of

(BASELINE,) = [
    each for each in examples() if any(path.startswith("bench/") for path in each.blocks)
]


@pytest.fixture(scope="module")
def example() -> Any:
    ((name, code),) = BASELINE.sources.items()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(name)  # the example is not to be a part of the bench
    module = ModuleType(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, name, module)
        exec(compile(code, BASELINE.title, "exec"), vars(module))
        yield BASELINE, module


@pytest.mark.parametrize("law", LAWS)
def test_keeps_the_laws_of_strategies(
    example: tuple[Example, ModuleType], law: str, request: pytest.FixtureRequest
) -> None:
    baseline, module = example
    case = eval(baseline.cases[1], namespace_of(baseline, {module.__name__: module}))
    run_on(LAWS[law], case, request)
