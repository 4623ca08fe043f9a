r"""Text is no flag and no number, for any public name: it is refused by the argument's name."""

import inspect
import warnings
from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np
import pytest
from botorch.exceptions.errors import BotorchError

from botorch_risk.arguments import check_flags, check_numbers
from botorch_risk.constraints import NoisyChanceConstraint
from tests.calls import called, first_call
from tests.limits import WITHOUT_LIMITS
from tests.public_objects import Public, hints_of, public_objects

# What others check, or what is a result or a state that nobody builds.
EXEMPT = {"validate_args": "PyTorch's, of any distribution"}


def wrong_values(hint: Any) -> list[Any]:
    r"""What a flag or a number of this type cannot be; none for another type."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    kinds = {get_origin(part) or part for part in parts}
    if kinds & {str, Literal, Any}:
        return []
    if bool in kinds:
        return ["no", 2, *([] if NoneType in kinds else [None])]
    return ["1", "foo"] if kinds & {int, float} else []


def cases(
    public: Mapping[str, Public],
) -> Iterator[tuple[str, str, Public, dict[str, Any], list[Any]]]:
    r"""Each flag and number of each public name that has an example."""
    for name, value in public.items():
        wrong = {argument: wrong_values(hint) for argument, hint in hints_of(value).items()}
        wrong.pop("return", None)
        if name in WITHOUT_LIMITS or inspect.isabstract(value) or not any(wrong.values()):
            continue
        arguments, signature = first_call(value), inspect.signature(value).parameters
        for argument, values in wrong.items():
            names = {argument, f"{name}.{argument}"}
            if arguments is None or argument not in signature or not values:
                continue
            if not names & (WITHOUT_LIMITS.keys() | EXEMPT.keys()):
                yield name, argument, value, arguments, values


def refusal(value: Public, arguments: dict[str, Any], argument: str, wrong: Any) -> str:
    r"""What is wrong with how a value is refused, if anything."""
    try:
        called(value, {**arguments, argument: wrong})
    except (TypeError, ValueError, BotorchError) as error:
        said = str(error)
        if not said.startswith("Expected") or not (
            f"`{argument}`" in said or f"{argument}=" in said
        ):
            return f"{type(error).__name__}: {said}"
        is_flag = wrong is None or wrong in ("no", 2)
        return (
            f"{type(error).__name__}, no TypeError"
            if is_flag and not isinstance(error, TypeError)
            else ""
        )
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "is taken"


def taken_text(public: Mapping[str, Public], at_least: int) -> list[str]:
    r"""The flags and numbers of some public names that take text, or refuse it badly.

    Args:
        at_least: How many names must have a flag or a number.
    """
    found, names = [], set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, argument, value, arguments, wrong_ones in cases(public):
            names.add(name)
            for wrong in wrong_ones:
                if said := refusal(value, arguments, argument, wrong):
                    found.append(f"{name}({argument}={wrong!r}): {said}")
    assert len(names) >= at_least
    return found


def test_text_is_no_flag_and_no_number_anywhere() -> None:
    assert taken_text(public_objects(), at_least=140) == []


def test_a_flag_is_true_or_false() -> None:
    check_flags(one=True, other=np.bool_(False))
    check_numbers(one=1, other=np.float32(0.5))
    for wrong in ("no", "", 0, 1, None):
        with pytest.raises(TypeError, match=r"Expected `other` to be True or False\. Got"):
            check_flags(one=True, other=wrong)  # type: ignore[arg-type]


def test_no_text_turns_a_constraint_round() -> None:
    assert NoisyChanceConstraint(1.0, 0, 0.1, at_most=True).limit == -1.0
    with pytest.raises(TypeError, match=r"`at_most` to be True or False\. Got 'no'"):
        NoisyChanceConstraint(1.0, 0, 0.1, at_most="no")  # type: ignore[arg-type]
