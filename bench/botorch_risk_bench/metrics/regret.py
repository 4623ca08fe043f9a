r"""Regret of the risk objective.

Values, `batch_shape x T`, measure the RISK objective without noise, one per round: the number of
repeats at a point does not enter. NaN marks a round that a replicate did not play. References are
to [Makarova2021rahbo]_.
"""

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from torch import Tensor

from botorch_risk.arguments import as_floating, as_tensor, check_positive


def instantaneous_regret(values: Tensor, optimal_value: float | Tensor) -> Tensor:
    r"""The distance of each round's objective to the optimum.

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
    """
    return instantaneous_regret(values, optimal_value).cumsum(dim=-1)  # Eq. (3)


def simple_regret(recommended_values: Tensor, optimal_value: float | Tensor) -> Tensor:
    r"""The regret of the point that is recommended after each round.

        optimal_value - value of the recommended point

    The accuracy of Eq. (4) of [Makarova2021rahbo]_. It is not the least regret so far, which
    cannot be reported without the true values, and it may rise from one round to the next.
    """
    return instantaneous_regret(recommended_values, optimal_value)  # Eq. (4)


def share_of_targets(regret: Tensor, targets: Tensor) -> Tensor:
    r"""The share of targets that have been reached by each round.

    Over many targets, problems and seeds its mean is the empirical distribution function of the
    run lengths. A recommendation that reaches a target and leaves it again still counts;
    `share_held` counts what lasts.

    The run-length distributions of [Hansen2021coco]_.

    Args:
        regret: `batch_shape x T`, round 0 first; NaN is above every target.
        targets: `n` of them, at least one.

    Returns:
        `batch_shape x T`, from 0 to 1, never falling.

    Raises:
        BotorchTensorDimensionError: If there is no round or no target, or `targets` is not `n`.
    """
    return _below(regret, targets).cummax(dim=-2).values.mean(dim=-1)


def share_held(regret: Tensor, targets: Tensor) -> Tensor:
    r"""The share of targets that are reached by each round and held to the last one.

    A target counts from the round after which the regret never again exceeds it. It is known in
    hindsight only, and never larger than `share_of_targets`.

    Args:
        regret: `batch_shape x T`, round 0 first; NaN is above every target.
        targets: `n` of them, at least one.

    Returns:
        `batch_shape x T`, from 0 to 1, never falling.

    Raises:
        BotorchTensorDimensionError: If there is no round or no target, or `targets` is not `n`.
    """
    backwards = _below(regret, targets).flip(-2)
    return backwards.cummin(dim=-2).values.flip(-2).mean(dim=-1)


def log_regret(regret: Tensor, scale: float | Tensor, smallest: float = 1e-3) -> Tensor:
    r"""The regret in decades below a scale.

        log10 max(regret / scale, smallest)

    The limit keeps a regret that is 0 up to rounding from deciding a mean.

    Args:
        regret: `batch_shape x T`; NaN stays NaN.
        scale: What 0 stands for, such as the regret of an initial design: a positive number, or
            one for each row, `batch_shape`.
        smallest: The least ratio that is told from others, positive.

    Returns:
        `batch_shape x T`, at least `log10 smallest`.

    Raises:
        BotorchTensorDimensionError: If `scale` is neither a number nor `batch_shape`.
        ValueError: If `scale` or `smallest` is not positive and finite.

    Example:
        >>> log_regret(torch.tensor([2.0, 0.2, 0.0]), scale=2.0)
        tensor([ 0., -1., -3.])
    """
    regret, scale = as_floating(regret, "regret"), as_tensor("scale", scale)
    check_positive(smallest=smallest)
    unit = torch.as_tensor(scale, dtype=regret.dtype, device=regret.device)
    if unit.dim() > 0 and unit.shape != regret.shape[:-1]:
        raise BotorchTensorDimensionError(
            "Expected `scale` to be a number or to have the batch shape of "
            f"`regret: batch_shape x T`. Got {unit.shape=} and {regret.shape=}."
        )
    if not bool(((unit > 0) & unit.isfinite()).all()):
        raise ValueError(f"Expected a positive, finite `scale`. Got {scale}.")
    return (regret / unit.unsqueeze(-1)).clamp_min(smallest).log10()


def _below(regret: Tensor, targets: Tensor) -> Tensor:
    r"""Whether each target is reached at each round, `batch_shape x T x n` of 0 and 1."""
    regret, targets = as_floating(regret, "regret"), as_floating(targets, "targets")
    if not targets.numel():
        raise BotorchTensorDimensionError(f"Expected a target. Got {targets.shape=}.")
    if targets.dim() != 1 or regret.dim() == 0 or not regret.shape[-1]:
        raise BotorchTensorDimensionError(
            "Expected `regret: batch_shape x T` of at least one round, and `targets: n`. Got "
            f"{regret.shape=}, {targets.shape=}."
        )
    return (regret.unsqueeze(-1) <= targets.to(regret)).to(regret)
