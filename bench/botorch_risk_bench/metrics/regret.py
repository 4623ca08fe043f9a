r"""Regret of the risk objective.

Values are of the RISK objective without noise, one per round: the number of repeats at a point does
not enter. NaN marks a round that a replicate did not play. References are to [Makarova2021rahbo]_.
"""

from __future__ import annotations

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from torch import Tensor

from botorch_risk.arguments import as_floating, as_tensor


def instantaneous_regret(values: Tensor, optimal_value: float | Tensor) -> Tensor:
    r"""How far each round's point falls short of the optimum.

        r_t = optimal_value - values_t

    A summand of Eq. (3) of [Makarova2021rahbo]_. Nothing is clipped: a negative regret says that
    `optimal_value` is not the optimum.

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
    values = as_floating(values)
    optimal_value = as_tensor("optimal_value", optimal_value)
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

    Eq. (3) of [Makarova2021rahbo]_. From its first round that was not played, a replicate's regret
    is NaN: leaving the round out would reward the failure.

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

    The accuracy of Eq. (4) of [Makarova2021rahbo]_. It is not the least regret so far, which
    cannot be reported without the true values, and it may rise from one round to the next.

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
