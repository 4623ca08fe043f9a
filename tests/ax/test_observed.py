from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from ax.exceptions.core import UserInputError
from botorch.exceptions.warnings import BotorchWarning
from botorch.utils.datasets import SupervisedDataset
from torch import Tensor

from botorch_risk.ax import ObservedDataset, readings
from botorch_risk.ax.observed import with_counts
from tests.ax.laboratory import laboratory, play

NAMES: dict[str, Any] = {"feature_names": ["a", "b"], "outcome_names": ["y"]}


def summary(tables: list[list[float]]) -> tuple[Tensor, Tensor, Tensor]:
    r"""Means, squared standard errors and counts."""
    found = [readings({"y": table}) for table in tables]
    pairs = [
        each["y"] if isinstance(each["y"], tuple) else (each["y"], torch.nan) for each in found
    ]
    mean, error = torch.tensor(pairs, dtype=torch.double).T.unsqueeze(-1)
    counts = torch.tensor([[each["y_count"]] for each in found], dtype=torch.double)
    return mean, error.square(), counts


def test_arms_that_come_back_are_pooled_as_all_their_readings() -> None:
    tables = [[1.0, 2.0, 4.0], [5.0], [0.0, 3.0], [9.0]]
    X = torch.tensor([[0.5, 1.0], [0.1, 0.2], [0.5, 1.0], [0.1, 0.2]], dtype=torch.double)
    mean, squares, counts = summary(tables)
    found = with_counts(SupervisedDataset(X, mean, Yvar=squares, **NAMES), counts)
    assert isinstance(found, ObservedDataset)
    assert torch.equal(found.X, X[:2])  # in the order in which they came
    expected = summary([tables[0] + tables[2], tables[1] + tables[3]])
    for ours, theirs in zip((found.Y, found.Yvar, found.counts), expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_mean_without_a_count_is_one_reading() -> None:
    X, Y = torch.eye(2, dtype=torch.double), torch.ones(2, 1, dtype=torch.double)
    squares = torch.tensor([[0.1], [torch.nan]], dtype=torch.double)
    counts = torch.tensor([[3.0], [torch.nan]], dtype=torch.double)
    found = with_counts(SupervisedDataset(X, Y, Yvar=squares, **NAMES), counts)
    assert found.counts.flatten().tolist() == [3, 1]
    assert found.Yvar[0].item() == pytest.approx(0.1)
    plain = SupervisedDataset(X, Y, Yvar=squares, **NAMES)
    assert with_counts(plain, torch.full((2, 1), torch.nan)) is plain


@pytest.mark.parametrize("count", [0.0, 2.5])
def test_a_count_is_a_whole_number(count: float) -> None:
    X, Y = torch.eye(2, dtype=torch.double), torch.ones(2, 1, dtype=torch.double)
    with pytest.raises(UserInputError, match=rf"'y_count' to be whole numbers .* Got {count}"):
        with_counts(SupervisedDataset(X, Y, Yvar=Y, **NAMES), torch.tensor([[3.0], [count]]))


def test_several_readings_have_a_standard_error() -> None:
    X, Y = torch.eye(2, dtype=torch.double), torch.ones(2, 1, dtype=torch.double)
    with pytest.raises(UserInputError, match=r"a standard error beside the mean 1.0 of 'y', which"):
        with_counts(SupervisedDataset(X, Y, **NAMES), torch.tensor([[1.0], [3.0]]))


def test_outcomes_that_the_store_would_lose_are_warned_of() -> None:
    client = laboratory()
    for heat in (0.1, 0.4, 0.9):
        index = client.attach_trial({"heat": heat, "stir": heat})
        client.complete_trial(index, readings({"purity": [1e-9 * heat, 2e-9 * heat]}))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        play(client, 1)
    ours = [str(each.message) for each in caught if issubclass(each.category, BotorchWarning)]
    assert any("10 decimals are enough" in message for message in ours)
