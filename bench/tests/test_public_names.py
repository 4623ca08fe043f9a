r"""The public names of the bench keep the laws of the plugin's."""

import dataclasses
import inspect
import re
from pathlib import Path

import botorch_risk_bench
import pytest
from botorch_risk_bench import baselines

from tests.calls import first_call
from tests.defaults import modules
from tests.limits import area_of, present_limits
from tests.public_objects import entries, parameters_of, public_objects, text_of, without_shape
from tests.strategies.test_wrong_arguments import badly_refused
from tests.test_flags import taken_text

PUBLIC = public_objects(botorch_risk_bench)
AREAS = sorted({area_of(name) for name in PUBLIC})
# Its example's folder is gone; `Options` checks its flags.
WITHOUT_FOLDER = "campaigns.run_experiment"


def test_docstrings_have_a_title_and_say_what_is_true() -> None:
    assert len(PUBLIC) > 100
    for name, value in PUBLIC.items():
        text = text_of(value)
        assert text.strip(), name
        if isinstance(value, type) and issubclass(value, Exception):
            continue
        assert set(entries(inspect.cleandoc(value.__doc__ or ""), "Args")) <= parameters_of(value)
        assert without_shape(value) == [], name


def test_every_public_function_is_in_some_test() -> None:
    paths = [path for path in Path(__file__).parent.rglob("*.py") if path != Path(__file__)]
    words = set(re.findall(r"\w+", "\n".join(path.read_text("utf-8") for path in paths)))
    functions = {
        name.rpartition(".")[2] for name, value in PUBLIC.items() if inspect.isfunction(value)
    }
    assert functions - words == set()


def test_public_names_are_there_once() -> None:
    for module in modules(botorch_risk_bench):
        names = getattr(module, "__all__", ())
        assert len(set(names)) == len(names)
        assert set(names) <= set(dir(module))


def test_public_dataclasses_are_frozen() -> None:
    kinds = [each for each in PUBLIC.values() if dataclasses.is_dataclass(each)]
    assert [each for each in kinds if not each.__dataclass_params__.frozen] == []


@pytest.mark.parametrize("area", AREAS)
def test_nan_and_parts_of_integers_are_refused(area: str) -> None:
    for line in present_limits(area, botorch_risk_bench):
        taken = set(line.replace(";", " ").replace(")", " ").split())
        assert not {"nan", "2.5"} & taken and "!" not in line, line


def test_text_is_no_flag_and_no_number() -> None:
    public = {name: value for name, value in PUBLIC.items() if name != WITHOUT_FOLDER}
    assert taken_text(public, at_least=40) == []


@pytest.mark.parametrize("name", baselines.__all__)
def test_every_argument_of_a_wrong_kind_is_refused_by_its_name(name: str) -> None:
    value = getattr(baselines, name)
    if first_call(value):
        assert badly_refused(value) == []
