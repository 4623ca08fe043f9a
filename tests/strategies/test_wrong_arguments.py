r"""Whatever a strategy cannot use is refused when it is built, before anything is measured."""

import inspect
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import pytest
from botorch.exceptions.errors import BotorchError
from torch import Tensor

from botorch_risk.strategies import risk_search
from tests.calls import called, first_call
from tests.public_objects import Public, hints_of, public_objects


def wrong_values(hint: Any) -> list[Any]:
    r"""What an argument of this type cannot be."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    kinds = [get_origin(part) or part for part in parts]
    if Any in kinds:
        return []
    wrong: list[Any] = [object()]
    if not {str, Literal} & {*kinds}:
        wrong.append("foo")
    if Literal in kinds:
        wrong += ["foo"] if Tensor in kinds else ["foo", 3]
    if not {int, float, Literal, bool} & {*kinds}:
        wrong.append(3)
    if any(kind in (Sequence, tuple) for kind in kinds):
        wrong.append([object()])
    return wrong


def refusals(value: Public) -> Iterator[tuple[str, Any, str]]:
    r"""Each argument with a wrong value, and what is wrong with how it is refused, if anything."""
    arguments = first_call(value)
    if arguments is None:  # without an example
        return
    signature = inspect.signature(value).parameters
    for name, hint in hints_of(value).items():
        if name not in signature or signature[name].kind is inspect.Parameter.VAR_KEYWORD:
            continue
        wrong_ones = wrong_values(hint)
        if hint == Sequence[int] and signature[name].default != ():
            wrong_ones.append(())
        for wrong in wrong_ones:
            yield name, wrong, _refusal(value, {**arguments, name: wrong}, name, hint)


def _refusal(value: Callable[..., Any], arguments: dict[str, Any], name: str, hint: Any) -> str:
    try:
        called(value, arguments)
    except (ValueError, TypeError, BotorchError) as error:
        said = str(error)
        if not said.startswith("Expected"):
            return f"{type(error).__name__} from the depths: {said.splitlines()[0]}"
        kinds = get_args(hint) or (hint,)
        named = [f"`{name}`", f"{name}=", *(f"{getattr(kind, '__name__', '')}`" for kind in kinds)]
        return "" if any(each in said for each in named) else f"without its name: {said}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "is taken"


# What a strategy makes, for a method or as an answer: nobody checks what it has checked.
MADE_BY_STRATEGIES = {
    "strategies.Classification",
    "strategies.History",
    "strategies.View",
    "strategies.largest_bound",
    "strategies.random_decision",
}


def checks_arguments(value: Public) -> bool:
    r"""Whether a method, or what builds a strategy, of a paper or a wing checks them by type."""
    if not value.__module__.startswith("botorch_risk."):
        return False
    return bool(re.search(r"check_(arguments|fields)\(", inspect.getsource(value)))


BUILT = {
    name: value
    for name, value in public_objects().items()
    if (name.startswith("strategies.") or checks_arguments(value))
    and name not in MADE_BY_STRATEGIES
    if not inspect.isabstract(value) and not getattr(value, "_is_protocol", False)
    if not (isinstance(value, type) and issubclass(value, Warning))
}


@pytest.mark.parametrize("name", BUILT)
def test_every_argument_of_a_wrong_kind_is_refused_by_its_name(name: str) -> None:
    assert badly_refused(BUILT[name]) == []


def badly_refused(value: Public) -> list[str]:
    r"""The arguments that take a wrong value, or refuse it without their name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            f"{argument}={wrong!r}: {said}" for argument, wrong, said in refusals(value) if said
        ]


def test_most_strategies_and_their_parts_are_built() -> None:
    assert public_objects().keys() >= MADE_BY_STRATEGIES
    assert len([name for name in BUILT if first_call(BUILT[name])]) > 35


def test_wrong_values_are_of_no_type_that_is_asked_for() -> None:
    assert first_call(risk_search) is not None
    assert wrong_values(int | None)[1:] == ["foo"]
    assert wrong_values(bool)[1:] == ["foo"]
