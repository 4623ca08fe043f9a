r"""Rows of tables, from DataFrames, tensors and lists."""

import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError

from botorch_risk.tables import Factors


def test_columns_of_a_frame_are_categories_or_numbers() -> None:
    frame = pd.DataFrame({"base": ["a", "b", "a"], "T": [20.0, 40.0, 60.0]}, index=["p", "q", "r"])
    rows = Factors.of(frame)
    assert rows.names == ("p", "q", "r")
    different = [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert rows.distances[0].tolist() == different
    spread = np.std([20.0, 40.0, 60.0])
    assert rows.distances[1, 0, 2].item() == pytest.approx((40 / spread) ** 2 / 2)
    assert rows.features.shape == (3, 3)  # two categories, one number


def test_lists_and_tensors() -> None:
    assert Factors.of(["a", "b"]).distances.tolist() == [[[0, 1], [1, 0]]]
    both = Factors.of([("a", 1), ("b", 1), ("b", 2)])
    assert both.distances[:, 0].tolist() == [[0, 1, 1], [0, 0, 1]]
    numbers = torch.tensor([[0.0, 2.0], [1.0, 2.0]])
    assert Factors.of(numbers).names == (0, 1)
    torch.testing.assert_close(Factors.of(numbers.numpy()).distances, Factors.of(numbers).distances)
    # A column that does not vary, and two columns that share the distance.
    assert Factors.of(numbers).distances[:, 0, 1].tolist() == [1.0, 0.0]


def test_bad_rows_are_named() -> None:
    with pytest.raises(InputDataError, match=r"every name of `conditions` once. Got 'a' twice"):
        Factors.of(["a", "b", "a"], "conditions")
    with pytest.raises(InputDataError, match=r"`rows` to have a row and a column. Got none"):
        Factors.of([])
    with pytest.raises(TypeError, match=r"tensor `n x d` or a list of names. Got str"):
        Factors.of("abc")
    with pytest.raises(InputDataError, match=r"finite descriptors of `rows`. Got"):
        Factors.of(torch.tensor([[torch.nan], [1.0]]))
    with pytest.raises(InputDataError, match=r"shape `n x d`. Got \(3,\)"):
        Factors.of(torch.rand(3))
    with pytest.raises(InputDataError, match=r"tuples of one length"):
        Factors.of([("a", "b"), ("c",)])
    with pytest.raises(InputDataError, match=r"no missing category"):
        Factors.of(pd.DataFrame({"base": ["a", None]}))


def test_distances_of_the_user() -> None:
    points = torch.tensor([[0.0, 2.0], [1.0, 5.0], [4.0, 3.0]])
    expected = Factors.of(points)
    rows = Factors.with_distances(["p", "q", "r"], expected.distances)
    assert rows.names == ("p", "q", "r")
    torch.testing.assert_close(rows.distances, expected.distances)
    bits = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1]]).double()
    both = bits @ bits.T
    sizes = bits.sum(dim=-1)
    tanimoto = both / (sizes[:, None] + sizes - both)
    one = Factors.with_distances(["p", "q", "r"], (1 - tanimoto).numpy())
    assert one.distances.shape == (1, 3, 3)
    assert Factors.of(one) is one
    assert one.features.unique(dim=0).shape == (3, 3)


def test_bad_distances() -> None:
    far = 1 - torch.eye(3)
    for distances in (far[:2], far[None, None], far[:0]):
        with pytest.raises(BotorchTensorDimensionError, match=r"shape `c x 3 x 3`, for 3 names"):
            Factors.with_distances("abc", distances)
    with pytest.raises(InputDataError, match=r"every name of `names` once. Got 'a' twice"):
        Factors.with_distances(["a", "a", "b"], far)
    # The last: two steps of length 1 do not lead 3 far.
    no_points = torch.tensor([[0.0, 1.0, 9.0], [1.0, 0.0, 1.0], [9.0, 1.0, 0.0]])
    for distances in (far.triu(), 1 + far, far * torch.nan, -far, no_points):
        with pytest.raises(InputDataError, match=r"Expected squared distances of points"):
            Factors.with_distances("abc", distances)


def test_categories_may_be_numbers() -> None:
    lots = pd.DataFrame({"lot": pd.Categorical([1, 2, 3])})
    assert Factors.of(lots).distances[0].tolist() == [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    twice = pd.DataFrame([[1.0, 5.0], [2.0, 7.0], [4.0, 9.0]], columns=["T", "T"])
    expected = Factors.of(torch.tensor(twice.to_numpy()))
    torch.testing.assert_close(Factors.of(twice).distances, expected.distances)
    with pytest.raises(InputDataError, match="no missing category"):
        Factors.of(pd.DataFrame({"lot": ["a", pd.NA, "b"]}, dtype=object))
    with pytest.raises(TypeError, match="Got a list of list"):
        Factors.of([[1.0, 2.0], [3.0, 4.0]])
    numbers = torch.rand(3, 2, requires_grad=True)
    assert not Factors.of(numbers).distances.requires_grad


NUMBERS = [20.0, 40.0, 80.0]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(NUMBERS, dtype=object),
        pd.Series([20, 40, 80], dtype=object),
        pd.Series([Decimal("20"), Decimal("40"), Decimal("80")]),
        pd.Series([20, Decimal("40"), np.float32(80)], dtype=object),
        pd.Series([Fraction(20), Fraction(40), Fraction(80)]),
        pd.Series([20, 40, 80], dtype="Int64"),
        pd.Series(NUMBERS, dtype="Float64"),
        pd.Series([20, 40, 80], dtype="uint8"),
    ],
    ids=lambda column: f"{column.dtype} {type(column[0]).__name__}",
)
def test_numbers_are_descriptors_whatever_their_dtype(column: pd.Series) -> None:
    found = Factors.of(pd.DataFrame({"T": column.tolist()}).assign(T=column))
    standard = (np.array(NUMBERS) - np.mean(NUMBERS)) / np.std(NUMBERS)
    expected = (standard[:, None] - standard) ** 2 / 2
    np.testing.assert_allclose(found.distances[0], expected, rtol=1e-12)


def test_a_transposed_table_is_the_same() -> None:
    frame = pd.DataFrame({"T": NUMBERS, "base": ["a", "b", "b"]}, index=list("PQR"))
    found, expected = Factors.of(frame.T.T), Factors.of(frame)
    assert torch.equal(found.distances, expected.distances)


@pytest.mark.parametrize(
    "values",
    [
        pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"]),
        pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"], utc=True),
        [datetime.date(2024, 1, day) for day in (1, 2, 3)],
        pd.period_range("2024-01", periods=3, freq="M"),
        pd.to_timedelta([1, 2, 3], unit="h"),
        [1 + 2j, 3 + 0j, 0j],
        [1.0, 2.0, 3j],
    ],
    ids=lambda values: type(values[0]).__name__,
)
def test_dates_and_complex_numbers_are_refused_by_the_name_of_their_column(values: Any) -> None:
    frame = pd.DataFrame({"base": ["a", "b", "c"], "day": values})
    with pytest.raises(InputDataError, match=r"categories in column 'day' of `conditions`\. Got"):
        Factors.of(frame, "conditions")


def test_flags_and_numbers_in_text_are_categories() -> None:
    frame = pd.DataFrame({"dry": [True, False, True], "code": ["1", "2", "2"]})
    expected = [[[0, 1, 0], [1, 0, 1], [0, 1, 0]], [[0, 1, 1], [1, 0, 0], [1, 0, 0]]]
    assert Factors.of(frame).distances.tolist() == expected
    assert Factors.of(frame.astype(object)).distances.tolist() == expected
