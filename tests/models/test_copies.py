r"""Readings that are copies of others of their row count once."""

import re
import warnings

import pytest
import torch
from botorch.exceptions.warnings import InputDataWarning
from torch import Tensor

from botorch_risk.models import MeanVarianceGP
from botorch_risk.models.copies import find_copies
from tests.models.examples import assert_same, everything, fit, points, repeats

D = torch.double


def tables(k: int, count: int = 200, n: int = 30, seed: int = 0) -> Tensor:
    r"""Tables `count x n x k` of a smooth function and noise of standard deviation 0.3."""
    generator = torch.Generator().manual_seed(seed)
    f = (6 * torch.rand(count, n, 1, dtype=D, generator=generator)).sin()
    return f + 0.3 * torch.randn(count, n, k, dtype=D, generator=generator)


def plain_copies(row: list[float]) -> list[bool]:
    r"""Whether a reading equals an earlier one of its row."""
    return [value in row[:i] for i, value in enumerate(row)]


@pytest.mark.parametrize("k", [2, 3, 10])
def test_equal_readings_are_found_whole_rows_and_parts_of_rows(k: int) -> None:
    Y = tables(k, count=2)
    Y[:, 3] = Y[:, 3, :1]
    Y[1, 7, -1] = Y[1, 7, 0]
    found = find_copies(Y)
    expected = [[plain_copies(row) for row in table] for table in Y.tolist()]
    assert found.sum(-1).tolist() == torch.tensor(expected).sum(-1).tolist()
    # One reading of each group is left.
    for row, marks in zip(Y.flatten(0, 1), found.flatten(0, 1), strict=True):
        assert sorted(row[~marks].tolist()) == sorted(set(row.tolist()))


@pytest.mark.parametrize("dtype", [torch.double, torch.float32])
def test_order_units_and_missing_readings_do_not_matter(dtype: torch.dtype) -> None:
    Y = tables(4, count=1)[0].to(dtype)
    Y[5] = Y[5, :1]
    Y[9, 2:] = torch.nan
    Y[11, 1:] = torch.nan
    counts = find_copies(Y).sum(-1)
    assert counts.nonzero().flatten().tolist() == [5]
    assert counts[5] == 3
    for other in (Y.flip(-1), 64 * Y, torch.cat([Y, torch.full_like(Y[:, :1], torch.nan)], dim=-1)):
        assert torch.equal(find_copies(other).sum(-1), counts)
    shuffled = torch.randperm(len(Y), generator=torch.Generator().manual_seed(0))
    assert torch.equal(find_copies(Y[shuffled]).sum(-1), counts[shuffled])


@pytest.mark.parametrize("k", [2, 3, 5, 10])
def test_nearly_equal_readings_are_copies(k: int) -> None:
    Y = tables(k)
    Y[:, :6] = Y[:, :6, :1] + 1e-6 * (Y[:, :6] - Y[:, :6, :1])
    found = find_copies(Y)
    assert (found[:, :6].sum(-1) == k - 1).to(D).mean() > 0.99
    assert found[:, 6:].to(D).mean() < 1e-4


@pytest.mark.parametrize("k", [2, 3, 5, 10])
@pytest.mark.parametrize("step", [0.0, 1e-3, 0.01, 0.1, 1.0])
@pytest.mark.parametrize("quiet", [1.0, 0.01, 1e-3])
def test_rounded_readings_are_no_copies(k: int, step: float, quiet: float) -> None:
    r"""Also where the noise of a third of the rows is far below the step."""
    Y = tables(k)
    Y[:, :10] = Y[:, :10, :1] + quiet * (Y[:, :10] - Y[:, :10, :1])
    if step > 0:
        Y = (Y / (0.3 * step)).round() * (0.3 * step)
    alarms = find_copies(Y).flatten(1).any(-1)
    # Binomial of 200 tables at a rate of 0.6 %: more than five have a probability below 1e-3.
    assert alarms.sum() <= 5


@pytest.mark.parametrize("k", [2, 3, 5])
def test_limits_of_an_instrument_are_no_copies(k: int) -> None:
    alarms = find_copies(tables(k).clamp(-0.8, 0.8)).flatten(1).any(-1)
    assert alarms.sum() <= 3


def test_readings_that_never_differ_are_left_to_the_warning_of_equal_repeats() -> None:
    assert not find_copies(torch.rand(8, 1, dtype=D).expand(8, 3)).any()
    assert not find_copies(torch.rand(8, 1, dtype=D)).any()


def filled() -> tuple[Tensor, Tensor, Tensor]:
    r"""A table with two rows of copies, and the same with one reading in each."""
    X, Y = repeats(12, 3)
    Y[[3, 8], 1:] = Y[[3, 8], :1]
    once = Y.clone()
    once[[3, 8], 1:] = torch.nan
    return X, Y, once


def test_a_model_of_copies_is_that_of_one_reading_each() -> None:
    X, Y, once = filled()
    with pytest.warns(InputDataWarning, match=r"Readings of rows 3, 8 are equal, or nearly so"):
        model = MeanVarianceGP(X, Y)
    expected = MeanVarianceGP(X, once)
    for one in (model, expected):
        fit(one)
    assert_same(model, expected, points(5), rtol=1e-10, atol=1e-12)


def test_rows_of_a_long_table_are_named() -> None:
    X, Y, once = filled()
    with pytest.warns(InputDataWarning, match=r"Readings of rows 10, 11, 25, 26 are equal"):
        model = MeanVarianceGP(X.repeat_interleave(3, 0), Y.reshape(-1, 1))
    assert model.train_counts.flatten().tolist() == once.isfinite().sum(-1).tolist()


def test_each_replicate_is_looked_at_alone() -> None:
    X, Y, once = filled()
    other = repeats(12, 3)[1]
    message = re.escape("Readings of rows 3, 8 of replicate 1 are equal")
    with pytest.warns(InputDataWarning, match=message):
        model = MeanVarianceGP(X.expand(2, -1, -1), torch.stack([other, Y]))
    assert (model.train_counts[0] == 3).all()
    assert model.train_counts[1].flatten().tolist() == once.isfinite().sum(-1).tolist()


@pytest.mark.parametrize("options", [{"keep_copies": True}, {"noise_evidence": "spread"}])
def test_copies_count_if_asked_for_and_in_the_spread(options: dict[str, object]) -> None:
    X, Y, _ = filled()
    assert (MeanVarianceGP(X, Y, **options).train_counts == 3).all()  # warnings are errors


def test_copies_in_every_row_are_noticed_by_the_scatter_of_their_means() -> None:
    X = torch.rand(30, 2, dtype=D)
    Y = (3 * X).sin().sum(-1, keepdim=True) + 0.5 * torch.randn(30, 1, dtype=D)
    Y = Y + 1e-6 * torch.randn(30, 3, dtype=D)
    model = MeanVarianceGP(X, Y)
    with pytest.warns(InputDataWarning, match="means that scatter about any smooth function"):
        fit(model)


def test_a_smooth_function_without_noise_is_no_copy() -> None:
    X, _ = repeats(30, 1)
    Y = (2 * X).sin().sum(-1, keepdim=True) + 1e-6 * torch.randn(30, 3, dtype=D)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="Expected repeats that scatter")
        warnings.filterwarnings("ignore", message="The noise of")
        fit(MeanVarianceGP(X, Y))


@pytest.mark.filterwarnings("ignore:Readings of row 4 are equal")
@pytest.mark.parametrize("keep_copies", [False, True])
@pytest.mark.slow
def test_devices_count_the_same_copies(device: torch.device, keep_copies: bool) -> None:
    X, Y = repeats(12, 3)
    Y[4] = Y[4, :1]
    here, there = (
        MeanVarianceGP(X.to(place), Y.to(place), keep_copies=keep_copies)
        for place in (torch.device("cpu"), device)
    )
    assert there.train_counts.device == device
    assert here.train_counts[4].item() == (3 if keep_copies else 1)
    for one in (here, there):
        fit(one)
    at = points(5)
    for mine, theirs in zip(everything(here, at), everything(there, at.to(device)), strict=True):
        torch.testing.assert_close(mine, theirs.cpu(), rtol=1e-6, atol=1e-8)
