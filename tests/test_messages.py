r"""Errors and warnings name what is wrong in one line, and print no tensor, array or list whole."""

from __future__ import annotations

import ast
import inspect
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import botorch_risk
from tests.calls import called, first_call
from tests.limits import WITHOUT_LIMITS
from tests.public_objects import Public, hints_of, public_objects

PLUGIN = Path(botorch_risk.__file__).parent
NUMBERS = -torch.arange(1.0, 5001.0, dtype=torch.double).view(50, 100)
LARGE: list[Any] = [NUMBERS, NUMBERS.tolist(), NUMBERS * torch.nan, NUMBERS[0]]
MANY = re.compile(r"(?:(?:-\d+\.\d*|nan)\W+){37}")  # more than the first six of six rows
EXEMPT = {"dtype": "PyTorch refuses it"}


def _calls_of(node: ast.AST, name: str) -> Iterator[ast.Call]:
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and getattr(part.func, "attr", None) == name:
            yield part


def _whole_tensors_in(message: ast.AST) -> Iterator[int]:
    r"""Lines of a message with all of a tensor, not one row, column or entry of it."""
    for value in (part for part in ast.walk(message) if isinstance(part, ast.FormattedValue)):
        for call in _calls_of(value, "tolist"):
            owner = call.func.value  # type: ignore[attr-defined]
            if not isinstance(owner, ast.Subscript):
                yield call.lineno


def _messages_of(tree: ast.AST) -> Iterator[ast.AST]:
    for part in ast.walk(tree):
        warns = isinstance(part, ast.Call) and ast.unparse(part.func) == "warnings.warn"
        if warns or isinstance(part, ast.Raise):
            yield part


def test_no_message_of_the_package_prints_a_whole_tensor() -> None:
    found = [
        f"{path.name}:{line}"
        for path in PLUGIN.rglob("*.py")
        for message in _messages_of(ast.parse(path.read_text()))
        for line in _whole_tensors_in(message)
    ]
    assert not found


def test_the_search_for_whole_tensors_finds_one() -> None:
    code = 'raise ValueError(f"Got {X.tolist()}, {X[0].tolist()}.")'
    (message,) = _messages_of(ast.parse(code))
    assert list(_whole_tensors_in(message)) == [1]


def said(public: Public, arguments: dict[str, Any], name: str, value: Any) -> str:
    r"""What the package itself says of an argument, if anything."""
    try:
        called(public, {**arguments, name: value})
    except Exception as error:
        trace = error.__traceback__
        while trace and trace.tb_next:
            trace = trace.tb_next
        is_ours = trace is not None and trace.tb_frame.f_code.co_filename.startswith(str(PLUGIN))
        return str(error) if is_ours else ""
    return ""


def test_no_argument_is_printed_whole() -> None:
    found, messages = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, public in public_objects().items():
            is_error = isinstance(public, type) and issubclass(public, Exception)
            if name in WITHOUT_LIMITS or is_error or inspect.isabstract(public):
                continue
            arguments, signature = first_call(public), inspect.signature(public).parameters
            if arguments is None:
                continue
            for argument in filter(signature.__contains__, hints_of(public)):
                for value in LARGE if argument not in EXEMPT else ():
                    message = said(public, arguments, argument, value)
                    messages += bool(message)
                    if "\n" in message or MANY.search(message):
                        found.append(f"{name}({argument}=...): {message[:80]!r}")
    assert not found
    assert messages > 1000
