r"""Which numbers a public name takes: its example is called again with other values.

A limit is part of the interface: it changes on purpose, in a diff that shows it, or not at all. A
new name needs no line. `python -m tests.limits` writes `limits.txt` again.
"""

import math
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType, UnionType
from typing import Any, Union, get_args, get_origin

from botorch.exceptions.errors import BotorchError

import botorch_risk
from tests.calls import called, first_call
from tests.public_objects import Public, hints_of, public_objects

FILE = Path(__file__).with_suffix(".txt")
AREAS = sorted({name.partition(".")[0] for name in public_objects()})
NUMBERS: tuple[float, ...] = (math.nan, -math.inf, -1.0, 0.0, 0.5, 1.0, 2.0, math.inf)
INTEGERS: tuple[float, ...] = (math.nan, -1, 0, 1, 2, 2.5)
REFUSALS = (ValueError, TypeError, BotorchError)  # what a user can act on

# What any number is right for, or what others check: a name, an argument of it, or one of any name.
WITHOUT_LIMITS = {
    "papers.TruncatedVarianceState": "a state, whose classmethod checks",
    "ax.BestArm": "a result",
    "engine.optimize_acqf_replicates.seeds": "its example is of two replicates",
    "engine.minimize_rows": "the innermost loop, whose callers check",
    "strategies.History": "a state, whose strategy checks",
    "constraint_noise_std": "BoTorch's, of any test problem",
    "dim": "PyTorch's, with PyTorch's error",
    "lower_bounds": "BoTorch's, where NaN is no bound",
    "noise_std": "BoTorch's, of any test problem",
    "optimal_value": "the unknown one is NaN, and so are regrets",
    "upper_bounds": "BoTorch's, where NaN is no bound",
}


def limits_of(value: Public) -> Iterator[tuple[str, str]]:
    r"""Each argument that is a number, and the values that are taken.

    A value that ends in an error from the depths is followed by the name of the error.
    """
    numbers = {name: each for name, hint in hints_of(value).items() if (each := probes(hint))}
    numbers.pop("return", None)
    arguments = first_call(value) if numbers else None
    if arguments is None:
        return
    for name, values in numbers.items():
        if name in arguments:
            taken = (_taken(value, arguments, name, each) for each in values)
            yield name, " ".join(filter(None, taken))


def probes(hint: Any) -> tuple[float, ...]:
    r"""Values for an argument of this type; none if it is no number."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if float in parts:
        return NUMBERS
    return INTEGERS if int in parts else ()


def _taken(value: Public, arguments: dict[str, Any], name: str, number: float) -> str:
    try:
        called(value, {**arguments, name: number})
    except REFUSALS:
        return ""
    except Exception as error:
        return f"{number:g}!{type(error).__name__}"
    return f"{number:g}"


def area_of(name: str) -> str:
    r"""The folder that a public name is in, or the module at the top."""
    return name.partition(".")[0]


def stored_limits(area: str) -> list[str]:
    r"""What the file says of an area."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if area_of(line) == area]


@cache
def present_limits(area: str, package: ModuleType = botorch_risk) -> list[str]:
    r"""A line for each public name of an area that takes numbers."""
    lines = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, value in public_objects(package).items():
            if area_of(name) != area or name in WITHOUT_LIMITS:
                continue
            found = [
                f"{argument}: {taken}"
                for argument, taken in limits_of(value)
                if not WITHOUT_LIMITS.keys() & {argument, f"{name}.{argument}"}
            ]
            lines += [f"{name}({'; '.join(found)})"] if found else []
    return sorted(lines)


if __name__ == "__main__":
    text = "".join(f"{line}\n" for area in AREAS for line in present_limits(area))
    FILE.write_text(text, encoding="utf-8")
