r"""Statistics over replicates against scipy."""

import math

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch_risk_bench.metrics import (
    binomial_interval,
    format_with_error,
    mean_and_standard_error,
    median,
    paired_difference,
    ratio_of_means,
)
from scipy import stats
from scipy.stats import binomtest

NAN = float("nan")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_mean_and_standard_error_equal_scipy(dtype):
    values = torch.randn(7, 4, 3, dtype=dtype)
    values[2, 1, 0] = values[5, 1, 0] = NAN
    summary = mean_and_standard_error(values)
    expected = stats.sem(values.double().numpy(), axis=0, nan_policy="omit")
    np.testing.assert_allclose(summary.standard_error.numpy(), expected, rtol=1e-5)
    np.testing.assert_allclose(summary.mean.numpy(), np.nanmean(values.numpy(), 0), rtol=1e-4)
    quantile = torch.from_numpy(stats.t.ppf(0.975, summary.num_replicates.numpy() - 1)).to(dtype)
    torch.testing.assert_close(summary.half_width, quantile * summary.standard_error)
    assert summary.half_width.dtype == dtype
    assert summary.num_replicates.flatten().tolist() == [7] * 3 + [5] + [7] * 8
    assert summary.mean.dtype == summary.standard_error.dtype == dtype


def test_any_dimension_may_hold_the_replicates():
    values = torch.randn(3, 6)
    for found, expected in zip(
        mean_and_standard_error(values, dim=-1), mean_and_standard_error(values.T), strict=True
    ):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("number", [1, 2, 5, 6])
def test_a_median_is_that_of_numpy(number):
    values = torch.randn(number, 3, dtype=torch.double)
    values[1:2, 1] = NAN
    np.testing.assert_allclose(median(values), np.nanmedian(values.numpy(), axis=0))
    np.testing.assert_allclose(median(values.T, dim=-1), median(values))


def test_a_median_between_a_number_and_infinity_is_infinite():
    found = median(torch.tensor([[1.0, -1.0], [torch.inf, 1.0], [torch.inf, 2.0], [0.0, 0.0]]))
    assert found.tolist() == [torch.inf, 0.5]


def test_too_few_replicates_have_no_standard_error():
    summary = mean_and_standard_error(torch.tensor([[1.0, NAN], [NAN, NAN]]))
    assert summary.mean[0] == 1.0
    assert summary.mean[1].isnan()
    assert summary.standard_error.isnan().all() and summary.half_width.isnan().all()
    assert summary.num_replicates.tolist() == [1, 0]


def test_paired_difference_is_the_paired_t_test():
    common = torch.randn(9, dtype=torch.double)
    a, b = (common + 0.1 * torch.randn(9, dtype=torch.double) for _ in range(2))
    paired = paired_difference(a, b)
    expected = stats.ttest_rel(a.numpy(), b.numpy()).statistic
    assert (paired.mean / paired.standard_error).item() == pytest.approx(expected)
    assert paired.standard_error < mean_and_standard_error(a).standard_error


def test_interval_covers_the_mean_as_often_as_it_says():
    r"""Five normal replicates: 95 %, where two standard errors cover 88 %."""
    values = torch.randn(5, 100_000, generator=torch.Generator().manual_seed(0))
    summary = mean_and_standard_error(values)
    covered = (summary.mean.abs() <= summary.half_width).double().mean()
    assert covered == pytest.approx(0.95, abs=3e-3)
    narrow = (summary.mean.abs() <= 2 * summary.standard_error).double().mean()
    assert narrow == pytest.approx(0.884, abs=3e-3)


def test_paired_difference_drops_broken_pairs():
    paired = paired_difference(torch.tensor([1.0, NAN, 3.0]), torch.tensor([NAN, 0.0, 1.0]))
    assert paired.num_replicates == 1
    assert paired.mean == 2.0


def test_paired_difference_refuses_other_shapes():
    with pytest.raises(BotorchTensorDimensionError, match=r"Got a.shape=.*b.shape="):
        paired_difference(torch.zeros(3), torch.zeros(4))


@pytest.mark.parametrize(
    ("mean", "error", "shown"),
    [
        (608.4, 214.2, "608 ± 210"),
        (3.14159, 9.96, "3 ± 10"),
        (3.14159, 0.996, "3.1 ± 1.0"),
        (1e9, 3.4e7, "1000000000 ± 34000000"),
        (12345678.0, 34567.0, "12345678 ± 35000"),
        (0.5, 2.34e-8, "0.500000000 ± 0.000000023"),
        (-0.001, 4.0, "0.0 ± 4.0"),
        (-1.26, 0.31, "-1.26 ± 0.31"),
        (123456.0, 0.0, "123500 ± 0"),
        (0.0, 0.0, "0 ± 0"),
        (608.44, math.nan, "608.4 ± nan"),
        (math.nan, math.nan, "nan ± nan"),
        (math.inf, 2.0, "inf ± 2.0"),
    ],
)
def test_two_digits_of_the_error_and_never_an_exponent(
    mean: float, error: float, shown: str
) -> None:
    assert format_with_error(mean, error) == shown


def test_binomial_intervals_are_scipys_exact_ones() -> None:
    for count, trials in ((0, 7), (7, 7), (3, 11), (190, 200)):
        expected = binomtest(count, trials).proportion_ci(method="exact")
        found = binomial_interval(count, trials)
        assert found == pytest.approx((expected.low, expected.high), abs=1e-12)
    for count, trials, message in (
        (-1, 3, "`count` to be at least 0"),
        (4, 3, "Got count=4"),
        (0, 0, "`num_trials` to be at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            binomial_interval(count, trials)


def test_at_the_ends_of_fiellers_interval_the_difference_just_holds_0() -> None:
    stream = torch.Generator().manual_seed(0)
    shared, own = torch.randn(2, 20, generator=stream, dtype=torch.double)
    b = 1.0 + 0.5 * shared
    a = 1.7 + 0.4 * shared + 0.3 * own
    found = ratio_of_means(a, b)
    assert found.ratio == pytest.approx(float(a.mean() / b.mean()))
    assert found.lower < found.ratio < found.upper
    for end in (found.lower, found.upper):
        test = stats.ttest_1samp((a - end * b).numpy(), 0.0)
        assert test.pvalue == pytest.approx(0.05, abs=1e-9)
    assert str(found) == f"{found.ratio:.2f}, {found.lower:.2f} to {found.upper:.2f}"


def test_fiellers_interval_covers_as_often_as_it_says() -> None:
    stream = torch.Generator().manual_seed(1)
    noise = torch.randn(400, 2, 10, generator=stream, dtype=torch.double)
    held = 0
    for first, second in noise:
        b = 1.0 + 0.5 * second
        found = ratio_of_means(3.0 + first + 0.5 * second, b)
        held += found.lower <= 3.0 <= found.upper
    assert 0.92 <= held / 400 <= 0.98


def test_a_ratio_to_what_may_be_0_is_open() -> None:
    b = torch.tensor([1.0, -0.8, 0.3, -0.4])
    found = ratio_of_means(torch.ones(4), b)
    assert math.isnan(found.lower) and math.isnan(found.upper) and str(found).endswith("open")
    assert math.isnan(ratio_of_means(torch.ones(2), torch.tensor([1.0, -1.0])).ratio)
    for shapes in (((3,), (2,)), ((1,), (1,)), ((2, 2), (2, 2))):
        with pytest.raises(BotorchTensorDimensionError, match="R at least 2"):
            ratio_of_means(*map(torch.zeros, shapes))
