r"""NumPy arrays, lists and whole numbers are taken wherever a user passes a tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchError
from torch import Tensor

from botorch_risk.arguments import as_floating, as_tensor, check_finite, check_positive
from botorch_risk.risk.mmd import UncertifiedWorstCaseError
from botorch_risk.strategies import Strategy
from tests.arrays import FORMS, PUBLIC, SLOW, WITHOUT_ARRAYS, cases, results, tensors_of

REFUSALS = (TypeError, ValueError, BotorchError, UncertifiedWorstCaseError)
CASES = [
    pytest.param(*case, form, marks=[pytest.mark.slow] if case[0] in SLOW else [])
    for case in cases()
    for form in FORMS
]


def assert_same(expected: Any, found: Any) -> None:
    r"""The same kind, and the same numbers where it holds some; lists are float64."""
    assert type(found) is type(expected)
    if isinstance(expected, Tensor):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5, check_dtype=False)
    elif isinstance(expected, Strategy):
        assert_same(expected.ask(), found.ask())
    elif isinstance(expected, Sequence) and not isinstance(expected, str):
        for one, other in zip(expected, found, strict=True):
            assert_same(one, other)


@pytest.mark.parametrize(("name", "argument", "form"), CASES)
def test_other_forms_of_the_numbers_are_taken_or_refused(
    name: str, argument: str, form: str
) -> None:
    try:
        both = results(name, argument, form)
    except REFUSALS as error:
        # Rounded numbers may be out of range, but no array of the same numbers is.
        assert form == "integers"
        assert str(error).startswith("Expected")
        return
    if both is not None and form != "integers":
        assert_same(*both)


def test_every_name_without_arrays_is_one() -> None:
    assert set(PUBLIC) >= WITHOUT_ARRAYS.keys()
    assert all(tensors_of(PUBLIC[name]) for name in WITHOUT_ARRAYS)


def test_every_public_name_with_tensors_is_called_again() -> None:
    with_tensors = {name for name, value in PUBLIC.items() if tensors_of(value)}
    assert {name for name, _ in cases()} == with_tensors - WITHOUT_ARRAYS.keys()
    assert len(with_tensors) > 100


@pytest.mark.parametrize("values", [[[1.0], [2.0, 3.0]], "abc", ["a"], [None], object(), {"a": 1}])
@pytest.mark.parametrize("convert", [as_tensor, lambda name, values: as_floating(values, name)])
def test_what_is_no_table_of_numbers_is_refused_by_its_name(
    convert: Callable[..., Any], values: Any
) -> None:
    with pytest.raises(TypeError, match="Expected `bounds` to be a tensor, or an array or a list"):
        convert("bounds", values)


def test_forms_keep_their_numbers() -> None:
    array = np.array([[0.1], [0.2]], dtype=np.float32)
    found = as_tensor("X", array)
    array[0] = 9.0
    assert found.dtype == torch.float32 and found[0] == np.float32(0.1)  # a copy
    assert as_tensor("X", [[1, 2]]).dtype == torch.int64
    assert as_tensor("X", [True]).dtype == torch.bool
    assert as_tensor("X", [[0.5]]).dtype == as_floating([[1]]).dtype == torch.float64
    assert as_tensor("X", None) is None
    tensor = torch.ones(2, requires_grad=True)
    assert as_tensor("X", tensor) is as_floating(tensor) is tensor
    with pytest.raises(TypeError, match=r"Expected `X` to be a tensor, .* Got None"):
        as_floating(None, "X")


@pytest.mark.parametrize("number", ["1", b"1", None, [1.0, 2.0], torch.ones(2)])
def test_what_is_no_number_is_refused_by_its_name(number: Any) -> None:
    for check in (check_finite, check_positive):
        with pytest.raises(ValueError, match=r"Expected `threshold` to be a number. Got"):
            check(threshold=number)
