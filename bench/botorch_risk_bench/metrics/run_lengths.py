r"""How many rounds it takes until the regret is at most a target."""

from __future__ import annotations

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from torch import Tensor

from botorch_risk.arguments import as_floating


def run_lengths(regret: Tensor, targets: Tensor) -> Tensor:
    r"""The first round whose regret is at most a target.

    A regret of recommendations may rise again later; the round counts all the same.

    A run length in the sense of [Hansen2021coco]_, in rounds.

    Args:
        regret: `batch_shape x T`, round 0 first; NaN is above every target.
        targets: `n` of them.

    Returns:
        `batch_shape x n`, infinity where a target is not reached.

    Raises:
        BotorchTensorDimensionError: If there is no round, or `targets` is not `n`.

    Example:
        >>> run_lengths(torch.tensor([[3.0, 0.5, 0.2]]), torch.tensor([1.0, 0.3, 0.1]))
        tensor([[1., 2., inf]])
    """
    regret, targets = as_floating(regret, "regret"), as_floating(targets, "targets")
    reached = _reached(regret, targets)
    first = reached.to(torch.uint8).argmax(dim=-2).to(regret)  # the first of equal values
    return first.masked_fill(~reached.any(dim=-2), torch.inf)


def share_of_targets(regret: Tensor, targets: Tensor) -> Tensor:
    r"""The share of targets that have been reached by each round.

    Over many targets, problems and seeds its mean is the empirical distribution function of the
    run lengths.

    The run-length distributions of [Hansen2021coco]_.

    Args:
        regret: `batch_shape x T`, round 0 first; NaN is above every target.
        targets: `n` of them, at least one.

    Returns:
        `batch_shape x T`, from 0 to 1, never falling.

    Raises:
        BotorchTensorDimensionError: If there is no round or no target, or `targets` is not `n`.

    Example:
        >>> share_of_targets(torch.tensor([3.0, 0.5, 2.0]), torch.tensor([1.0, 0.1]))
        tensor([0.0000, 0.5000, 0.5000])
    """
    regret, targets = as_floating(regret, "regret"), as_floating(targets, "targets")
    if not targets.numel():
        raise BotorchTensorDimensionError(f"Expected a target. Got {targets.shape=}.")
    so_far = _reached(regret, targets).to(regret).cummax(dim=-2).values
    return so_far.mean(dim=-1)


def _reached(regret: Tensor, targets: Tensor) -> Tensor:
    r"""`batch_shape x T x n`."""
    if targets.dim() != 1 or regret.dim() == 0 or not regret.shape[-1]:
        raise BotorchTensorDimensionError(
            "Expected `regret: batch_shape x T` of at least one round, and `targets: n`. Got "
            f"{regret.shape=}, {targets.shape=}."
        )
    return regret.unsqueeze(-1) <= targets.to(regret)
