r"""Points that are surely Pareto optimal, surely dominated, or undecided by confidence bounds."""

from __future__ import annotations

from typing import NamedTuple

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from botorch_risk.arguments import as_floating
from botorch_risk.chunks import ChunkSize

_COMPARISONS = ChunkSize(cpu=2**20)


class ParetoSets(NamedTuple):
    r"""Points in three parts; a point with a NaN among its bounds is in none.

    Attributes:
        optimal: `batch_shape x n`, surely not dominated.
        dominated: `batch_shape x n`, surely dominated.
        undecided: `batch_shape x n`, either, as the outcomes lie in their bounds.

    Example:
        >>> lower = torch.tensor([[0.0, 3.0], [3.0, 0.0], [0.0, 0.0]])
        >>> optimal, dominated, undecided = pareto_sets(lower, lower + torch.tensor([1.0, 1.0]))
        >>> optimal, undecided
        (tensor([ True,  True, False]), tensor([False, False,  True]))
    """

    optimal: Tensor
    dominated: Tensor
    undecided: Tensor


def pareto_sets(lower: Tensor, upper: Tensor) -> ParetoSets:
    r"""Divides points by what their confidence boxes say of dominance; everything is maximised.

        dominated(i): the lower corner of another point dominates the upper corner of i
        optimal(i):   the upper corner of no other point dominates the lower corner of i

    One vector dominates another if it is nowhere smaller and somewhere larger. Both rules are exact
    if the outcomes may lie anywhere in their boxes: a point is undecided if and only if some
    outcomes within the bounds leave it dominated and others do not. So a point evaluated twice
    has to be passed once: two boxes are taken for two points.

    Args:
        lower: Lower bounds of the outcomes, or of their risks, `batch_shape x n x m` for n points
            and m outcomes; minus infinity where nothing is known.
        upper: Upper bounds, of the same shape.

    Returns:
        The three sets, disjoint.

    Raises:
        BotorchTensorDimensionError: If the shapes differ, or there is no outcome.
        InputDataError: If a lower bound is above the upper one.

    Example:
        >>> lower = torch.tensor([[0.0, 3.0], [2.0, 2.0], [0.5, 0.5], [2.0, 0.0]])
        >>> sets = pareto_sets(lower, lower + torch.tensor([0.5, 0.5]))
        >>> sets.optimal.tolist(), sets.dominated.tolist()
        ([True, True, False, False], [False, False, True, False])

        Of risks, from confidence bounds of each outcome:

        >>> from botorch.models import SingleTaskGP
        >>> from botorch_risk.acquisition import RiskUpperConfidenceBound
        >>> from botorch_risk.environments import DiscreteEnvironment
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> environment = DiscreteEnvironment(torch.linspace(0, 1, 5, dtype=torch.double)[:, None])
        >>> bounds = [
        ...     RiskUpperConfidenceBound(
        ...         SingleTaskGP(X, Y), environment, ConditionalValueAtRisk(0.2), beta=4.0
        ...     )
        ...     for Y in ((4 * X).sin().sum(dim=-1, keepdim=True), X.prod(dim=-1, keepdim=True))
        ... ]
        >>> decisions = X[:, :1]
        >>> with torch.no_grad():
        ...     lower = torch.stack([bound.lower(decisions) for bound in bounds], dim=-1)
        ...     upper = torch.stack([bound.upper(decisions) for bound in bounds], dim=-1)
        >>> pareto_sets(lower, upper).undecided.shape
        torch.Size([12])
    """
    lower, upper = as_floating(lower, "lower"), as_floating(upper, "upper")
    if lower.shape != upper.shape or lower.dim() < 2 or lower.shape[-1] == 0:
        raise BotorchTensorDimensionError(
            "Expected `lower` and `upper` of one shape, `batch_shape x n x m` with m >= 1. "
            f"Got {lower.shape=}, {upper.shape=}."
        )
    if (lower > upper).any():
        index = (lower > upper).nonzero()[0].tolist()
        raise InputDataError(
            f"Expected `lower` <= `upper`. Got {lower[tuple(index)].item()} and "
            f"{upper[tuple(index)].item()} at {index}."
        )
    missing = (lower.isnan() | upper.isnan()).any(dim=-1)  # batch_shape x n
    unknown = missing.unsqueeze(-1)
    lower, upper = (each.masked_fill(unknown, torch.nan) for each in (lower, upper))
    dominated = _dominated(upper, by=lower)
    optimal = ~_dominated(lower, by=upper) & ~missing
    return ParetoSets(optimal, dominated, ~(optimal | dominated | missing))


def _dominated(points: Tensor, by: Tensor) -> Tensor:
    r"""Which of some points the vector of another one dominates, `batch_shape x n`; NaN never is.

    Args:
        points: `batch_shape x n x m`.
        by: `batch_shape x n x m` vectors, of which the i-th belongs to the i-th point itself.
    """
    n, others = points.shape[-2], by.unsqueeze(-3)  # batch_shape x 1 x n x m
    size, parts = _COMPARISONS.rows(points.device, by.numel()), []
    for start in range(0, n, size):
        block = points[..., start : start + size, :].unsqueeze(-2)  # batch_shape x size x 1 x m
        dominates = (others >= block).all(dim=-1) & (others > block).any(dim=-1)
        dominates.diagonal(offset=start, dim1=-2, dim2=-1).fill_(False)  # not by itself
        parts.append(dominates.any(dim=-1))
    return torch.cat(parts, dim=-1) if parts else points.new_zeros(points.shape[:-1]).bool()
