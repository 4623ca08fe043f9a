r"""Means over replicates with confidence intervals, and their format."""

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from scipy.special import betaincinv, stdtrit
from torch import Tensor

from botorch_risk.arguments import as_floating, check_counts

INTERVAL = "Student-t interval, 95 %"  # what `half_width` is, for captions and tables
_LEVEL = 0.975  # of the quantile: 2.5 % on either side


class MeanAndStandardError(NamedTuple):
    r"""A mean over replicates and how well it is known.

    Args:
        mean: `...`, over the replicates that are not NaN; NaN if there are none.
        standard_error: `...`, of the mean; NaN for fewer than two replicates.
        num_replicates: `...`, the number of replicates that are not NaN. Report it when some were
            masked: a mean over survivors is not a mean over all.
    """

    mean: Tensor
    standard_error: Tensor
    num_replicates: Tensor

    @property
    def half_width(self) -> Tensor:
        r"""Half the width of Student's 95 % confidence interval of the mean.

            half_width = t_(n - 1)^-1(0.975) standard_error

        Two standard errors, its limit for many replicates, cover the mean of a normal distribution
        with a probability of 0.88 at five replicates.
        """
        count = self.num_replicates.cpu().numpy()
        quantile = torch.from_numpy(np.asarray(stdtrit(np.maximum(count - 1, 1), _LEVEL)))
        return quantile.to(self.standard_error) * self.standard_error


def mean_and_standard_error(values: Tensor, dim: int = 0) -> MeanAndStandardError:
    r"""The mean over replicates, its standard error, and how many replicates it rests on.

        standard_error = sqrt(sum (values - mean)^2 / (num_replicates - 1) / num_replicates)

    Args:
        values: One row per replicate, `R x ...`. NaN entries are left out and not counted.
        dim: The dimension of the replicates.

    Returns:
        `mean`, `standard_error` and `num_replicates`, tensors without the dimension `dim`.
    """
    values = as_floating(values)
    count = (~values.isnan()).sum(dim=dim)
    mean = values.nanmean(dim=dim)
    squares = (values - mean.unsqueeze(dim)).square().nansum(dim=dim)
    standard_error = (squares / ((count - 1) * count)).sqrt()
    return MeanAndStandardError(mean, standard_error.where(count > 1, torch.nan), count)


def median(values: Tensor, dim: int = 0) -> Tensor:
    r"""The median over replicates; of an even number the mean of both in the middle.

    Args:
        values: One row per replicate, `R x ...`. NaN entries are left out, infinite ones count.
        dim: The dimension of the replicates.

    Returns:
        The medians, `...`, without the dimension `dim`; NaN if all entries are.

    Example:
        >>> median(torch.tensor([4.0, 1.0, torch.nan, 2.0, torch.inf]))
        tensor(3.)
    """
    values = as_floating(values)
    lower, upper = values.nanmedian(dim=dim).values, -(-values).nanmedian(dim=dim).values
    return (lower + upper) / 2


def binomial_interval(count: int, num_trials: int) -> tuple[float, float]:
    r"""The exact 95 % confidence interval of a probability [Clopper1934binomial]_.

    Args:
        count: In how many trials the event was seen.

    Raises:
        ValueError: If there is no trial or the count is not in 0, .., `num_trials`.

    Example:
        >>> [round(each, 4) for each in binomial_interval(4, 200)]
        [0.0055, 0.0504]
    """
    check_counts(num_trials=num_trials)
    check_counts(0, count=count)
    if count > num_trials:
        raise ValueError(f"Expected `count` in 0, .., `num_trials`. Got {count=}, {num_trials=}.")
    rest = num_trials - count
    lower = betaincinv(count, rest + 1, 1 - _LEVEL) if count else 0.0
    upper = betaincinv(count + 1, rest, _LEVEL) if rest else 1.0
    return float(lower), float(upper)


def paired_difference(a: Tensor, b: Tensor, dim: int = 0) -> MeanAndStandardError:
    r"""The mean of `a - b` over replicates that share their seed, and its standard error.

    What the two methods have in common, the initial design and the draws, cancels. A pair
    counts only if neither of its entries is NaN.

    Args:
        a: One row per seed, `R x ...`.
        b: The same seeds in the same order, `R x ...`.
        dim: The dimension of the replicates.

    Returns:
        `mean`, `standard_error` and `num_replicates`, tensors without the dimension `dim`.

    Raises:
        BotorchTensorDimensionError: If the shapes differ.
    """
    a, b = as_floating(a, "a"), as_floating(b, "b")
    if a.shape != b.shape:
        raise BotorchTensorDimensionError(
            f"Expected one entry of each method per seed. Got {a.shape=} and {b.shape=}."
        )
    return mean_and_standard_error(a - b, dim=dim)


class PooledDifference(NamedTuple):
    r"""A difference over a set of problems, known over seeds and over problems.

    Args:
        over_seeds: Of each seed's mean over the problems: what other seeds of these problems have.
        over_problems: Of each problem's mean over its seeds: what other problems of the kind have.
    """

    over_seeds: MeanAndStandardError
    over_problems: MeanAndStandardError


def pooled_difference(differences: Sequence[Tensor]) -> PooledDifference:
    r"""The mean of paired differences over problems, each of which counts alike.

    Args:
        differences: `R` differences of each problem, a seed each and in the same order. Both
            intervals use the first seeds only, as many as every problem has.

    Returns:
        Scalars.

    Example:
        >>> pooled = pooled_difference([torch.tensor([1.0, 3.0]), torch.tensor([2.0, 4.0, 9.0])])
        >>> pooled.over_seeds.mean, pooled.over_problems.standard_error
        (tensor(2.5000), tensor(0.5000))
    """
    common = min(map(len, differences))
    table = torch.stack([as_floating(each)[:common] for each in differences])  # problems x seeds
    return PooledDifference(
        mean_and_standard_error(table.mean(dim=0)), mean_and_standard_error(table.mean(dim=1))
    )


class RatioOfMeans(NamedTuple):
    r"""The ratio of two means over the same replicates, with its 95 % interval.

    Args:
        ratio: NaN if the second mean is 0.
        lower: The lower end, NaN if the interval has no ends.
        upper: The upper end, NaN if the interval has no ends.
    """

    ratio: float
    lower: float
    upper: float

    def __str__(self) -> str:
        if math.isnan(self.lower):
            return f"{self.ratio:.2f}, open"
        return f"{self.ratio:.2f}, {self.lower:.2f} to {self.upper:.2f}"


def ratio_of_means(a: Tensor, b: Tensor) -> RatioOfMeans:
    r"""The mean of a over the mean of b, with Fieller's interval [Fieller1954interval]_.

    The interval holds the ratios r for which the paired Student-t interval, 95 %, of the mean of
    `a - r b` holds 0. It has ends only if the interval of the mean of b does not hold 0.

    Args:
        a: One entry per seed, `R`, R at least 2.
        b: The same seeds in the same order, `R`.

    Raises:
        BotorchTensorDimensionError: If there are not two or more seeds, the same of both.

    Example:
        >>> b = torch.tensor([1.0, 1.2, 0.8, 1.0])
        >>> print(ratio_of_means(2 * b + torch.tensor([0.1, 0.0, -0.1, 0.0]), b))
        2.00, 1.85 to 2.12
    """
    a, b = as_floating(a, "a").double(), as_floating(b, "b").double()
    if a.dim() != 1 or a.shape != b.shape or len(a) < 2:
        raise BotorchTensorDimensionError(
            f"Expected `R` entries of each, R at least 2. Got {a.shape=} and {b.shape=}."
        )
    mean_a, mean_b = a.mean().item(), b.mean().item()
    quantile = stdtrit(len(a) - 1, _LEVEL).item()
    covariance = (torch.stack([a, b]).cov() * quantile**2 / len(a)).tolist()
    # (mean_a - r mean_b)^2 <= quantile^2 var(a - r b) / R, a quadratic in r.
    square = mean_b**2 - covariance[1][1]
    half = mean_a * mean_b - covariance[0][1]
    constant = mean_a**2 - covariance[0][0]
    ratio = mean_a / mean_b if mean_b else math.nan
    if not square > 0:
        return RatioOfMeans(ratio, math.nan, math.nan)
    root = math.sqrt(max(half**2 - square * constant, 0.0))
    return RatioOfMeans(ratio, (half - root) / square, (half + root) / square)


def format_with_error(mean: float, error: float) -> str:
    r"""`mean ± error` to two significant digits of the error, never in scientific notation.

    Without an error that is a positive number the mean has four significant digits.
    """
    if not (math.isfinite(mean) and 0 < error < math.inf):
        return f"{_positional(mean, 4)} ± {_positional(error, 2)}"
    shown = _positional(error, 2)
    decimals = len(shown.partition(".")[2])
    return f"{round(mean, decimals) + 0.0:.{decimals}f} ± {shown}"  # + 0.0: never minus 0


def note_on_comparisons(number: int) -> str:
    r"""Write the note below a table of differences: their number, each with its own interval.

    If twenty true differences are all 0, one 95 % interval misses 0 on average.
    """
    if number == 1:
        return "1 comparison."
    return f"{number} comparisons; the intervals are not adjusted for their number."


def _positional(value: float, digits: int) -> str:
    r"""Format a number with significant digits, without an exponent."""
    if value == 0 or not math.isfinite(value):
        return f"{value + 0.0:g}"
    return f"{Decimal(f'{value:.{digits - 1}e}'):f}"
