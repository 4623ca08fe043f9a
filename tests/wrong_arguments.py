r"""Values of the wrong kind for each argument of a public name, by its type."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from botorch.exceptions.errors import BotorchError
from torch import Tensor

from tests.calls import called, first_call
from tests.public_objects import Public, hints_of


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
    assert arguments is not None
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
