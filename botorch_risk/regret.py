r"""Regret of the risk objective, and how it is summed up over replicates.

Values are those of the RISK objective without noise, one per round: the number of repeats
at a point does not enter. NaN marks a round that a replicate did not play. References are to
Makarova et al., "Risk-averse Heteroscedastic Bayesian Optimization", 2021.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import NamedTuple

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from torch import Tensor


class MeanAndStandardError(NamedTuple):
    r"""A mean over replicates and how well it is known.

    Args:
        mean: Over the replicates that are not NaN; NaN if there are none.
        standard_error: Of the mean; NaN for fewer than two replicates.
        num_replicates: The number of replicates that are not NaN. Report it when some were
            masked: a mean over survivors is not a mean over all.
    """

    mean: Tensor
    standard_error: Tensor
    num_replicates: Tensor

    @property
    def two_standard_errors(self) -> Tensor:
        r"""The half-width that the paper's figures show."""
        return 2.0 * self.standard_error


def format_with_error(mean: float, error: float) -> str:
    r"""`mean ± error` to two significant digits of the error, never in scientific notation.

    Without an error that is a positive number the mean has four significant digits.

    Args:
        mean: The mean.
        error: Its error, in the same units.

    Example:
        >>> format_with_error(608.4, 214.2), format_with_error(-0.123456, 0.00234)
        ('608 ± 210', '-0.1235 ± 0.0023')
        >>> format_with_error(1.23456e-7, 0.0), format_with_error(608.44, float("nan"))
        ('0.0000001235 ± 0', '608.4 ± nan')
    """
    if not (math.isfinite(mean) and 0 < error < math.inf):
        return f"{_positional(mean, 4)} ± {_positional(error, 2)}"
    shown = _positional(error, 2)
    decimals = len(shown.partition(".")[2])
    return f"{round(mean, decimals) + 0.0:.{decimals}f} ± {shown}"  # + 0.0: never minus 0


def _positional(value: float, digits: int) -> str:
    r"""A number to so many significant digits, without an exponent."""
    if value == 0 or not math.isfinite(value):
        return f"{value + 0.0:g}"
    return f"{Decimal(f'{value:.{digits - 1}e}'):f}"


def instantaneous_regret(values: Tensor, optimal_value: float | Tensor) -> Tensor:
    r"""How far each round's point falls short of the optimum.

        r_t = optimal_value - values_t

    Nothing is clipped: a negative regret says that `optimal_value` is not the optimum.

    Args:
        values: The risk objective at the points queried, `batch_shape x T`.
        optimal_value: Its optimum, a number or one for each replicate, `batch_shape`.

    Returns:
        A `batch_shape x T` tensor, NaN where `values` is.

    Raises:
        BotorchTensorDimensionError: If `optimal_value` is neither a number nor `batch_shape`.

    Example:
        >>> instantaneous_regret(torch.tensor([[0.5, 1.0]]), optimal_value=1.0)
        tensor([[0.5000, 0.0000]])
    """
    optimum = torch.as_tensor(optimal_value, dtype=values.dtype, device=values.device)
    if optimum.dim() > 0 and optimum.shape != values.shape[:-1]:
        raise BotorchTensorDimensionError(
            "Expected `optimal_value` to be a number or to have the batch shape of "
            f"`values: batch_shape x T`. Got {optimum.shape=} and {values.shape=}."
        )
    return optimum.unsqueeze(-1) - values


def cumulative_regret(values: Tensor, optimal_value: float | Tensor) -> Tensor:
    r"""The regret of all rounds so far.

        R_t = sum_{s <= t} (optimal_value - values_s)

    Eq. (3). From its first round that was not played, a replicate's regret is NaN: leaving
    the round out would reward the failure.

    Args:
        values: The risk objective at the points queried, `batch_shape x T`.
        optimal_value: Its optimum, a number or one for each replicate, `batch_shape`.

    Returns:
        A `batch_shape x T` tensor.

    Raises:
        BotorchTensorDimensionError: If `optimal_value` is neither a number nor `batch_shape`.

    Example:
        >>> cumulative_regret(torch.tensor([0.5, 1.0, 0.75]), optimal_value=1.0)
        tensor([0.5000, 0.5000, 0.7500])
    """
    return instantaneous_regret(values, optimal_value).cumsum(dim=-1)  # Eq. (3)


def simple_regret(recommended_values: Tensor, optimal_value: float | Tensor) -> Tensor:
    r"""The regret of the point that would be handed over after each round.

        optimal_value - value of the recommended point

    The accuracy of Eq. (4). It is not the least regret so far, which nobody can report
    who does not know the true values, and it may rise from one round to the next.

    Args:
        recommended_values: The risk objective at the points recommended, `batch_shape x T`.
        optimal_value: Its optimum, a number or one for each replicate, `batch_shape`.

    Returns:
        A `batch_shape x T` tensor, NaN where `recommended_values` is.

    Raises:
        BotorchTensorDimensionError: If `optimal_value` is neither a number nor `batch_shape`.

    Example:
        >>> simple_regret(torch.tensor([0.5, 1.0, 0.75]), optimal_value=1.0)
        tensor([0.5000, 0.0000, 0.2500])
    """
    return instantaneous_regret(recommended_values, optimal_value)  # Eq. (4)


def mean_and_standard_error(values: Tensor, dim: int = 0) -> MeanAndStandardError:
    r"""The mean over replicates, its standard error, and how many replicates it rests on.

        standard_error = sqrt(sum (values - mean)^2 / (num_replicates - 1) / num_replicates)

    Args:
        values: One row per replicate, `R x ...`. NaN entries are left out and not counted.
        dim: The dimension of the replicates.

    Returns:
        `mean`, `standard_error` and `num_replicates`, tensors without the dimension `dim`.

    Example:
        >>> summary = mean_and_standard_error(torch.tensor([1.0, 3.0, float("nan")]))
        >>> summary.mean, summary.standard_error, summary.num_replicates
        (tensor(2.), tensor(1.), tensor(2))
        >>> summary.two_standard_errors
        tensor(2.)
    """
    count = (~values.isnan()).sum(dim=dim)
    mean = values.nanmean(dim=dim)
    squares = (values - mean.unsqueeze(dim)).square().nansum(dim=dim)
    standard_error = (squares / ((count - 1) * count)).sqrt()
    return MeanAndStandardError(mean, standard_error.where(count > 1, torch.nan), count)


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

    Example:
        >>> a, b = torch.tensor([1.0, 5.0, 9.0]), torch.tensor([0.0, 4.0, 8.0])
        >>> paired_difference(a, b).mean, paired_difference(a, b).standard_error
        (tensor(1.), tensor(0.))
    """
    if a.shape != b.shape:
        raise BotorchTensorDimensionError(
            f"Expected one entry of each method per seed. Got {a.shape=} and {b.shape=}."
        )
    return mean_and_standard_error(a - b, dim=dim)
