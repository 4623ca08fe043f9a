r"""Decisions beside contexts that are observed with the outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from botorch.exceptions.errors import InputDataError
from torch import Tensor

from botorch_risk.arguments import check_fields
from botorch_risk.strategies.space import Box, as_box, check_columns


@dataclass(frozen=True)
class ContextSpace:
    r"""Decisions in a box; a context is observed with each outcome and cannot be chosen.

    A row is a decision with its context in the last columns.

    Args:
        box: The decisions.
        context_bounds: The lower and the upper bounds of the contexts, `2 x d_w`.
        may_leave: Whether contexts outside their bounds are accepted.

    Raises:
        BotorchTensorDimensionError: If `context_bounds` is not `2 x d_w`.
        TypeError: If an argument has the wrong type.
        ValueError: If they are reversed or not finite.

    Example:
        >>> from botorch_risk.acquisition import sbo_kde
        >>> from botorch_risk.strategies import ContextualRisk, Strategy
        >>> unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> space = ContextSpace(Box(unit), context_bounds=unit)
        >>> strategy = Strategy(space, ContextualRisk(sbo_kde), seeds=0, num_initial=4)
        >>> X = strategy.ask()  # decisions alone
        >>> rows = torch.cat([X, torch.rand(1, 4, 1)], dim=-1)  # each with its context
        >>> strategy.tell(rows, rows.sum(dim=-1, keepdim=True))
        >>> X.shape, strategy.history.X.shape
        (torch.Size([1, 4, 1]), torch.Size([1, 4, 2]))
    """

    box: Box
    context_bounds: Tensor
    may_leave: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        bounds = as_box("context_bounds", self.context_bounds).to(self.box.bounds)
        object.__setattr__(self, "context_bounds", bounds)

    @property
    def bounds(self) -> Tensor:
        r"""The lower and the upper bounds of the decisions, `2 x d_x`."""
        return self.box.bounds

    @property
    def num_columns(self) -> int:
        r"""The number of columns of a row of the history."""
        return self.bounds.shape[-1] + self.context_bounds.shape[-1]

    def of(self, replicates: Sequence[int]) -> ContextSpace:
        r"""The same space: replicates share it."""
        return self

    def initial(self, seeds: Sequence[int], num_points: int) -> Tensor:
        return self.box.initial(seeds, num_points)

    def random_points(self, seeds: Sequence[int], num_points: int, *stream: int | str) -> Tensor:
        r"""Uniform decisions."""
        return self.box.random_points(seeds, num_points, *stream)

    def shown(self, asked: Tensor) -> Tensor:
        return asked

    def rows(self, X: Tensor, asked: Callable[[], Tensor]) -> Tensor:
        r"""Decisions with the contexts that were observed."""
        check_columns(X, self.num_columns)
        X = self.box.checked(X)
        contexts = X[..., self.bounds.shape[-1] :]
        outside = (contexts < self.context_bounds[0]) | (contexts > self.context_bounds[1])
        if outside.any() and not self.may_leave:
            raise InputDataError(
                "Expected contexts within `context_bounds`, or density_options={'at_bounds': "
                f"'clip'}}. Got {contexts[outside][0].item()}, {self.context_bounds.tolist()=}."
            )
        return X

    def unit(self, X: Tensor) -> Tensor:
        r"""Rows on the unit cube."""
        X, W = X.tensor_split([self.bounds.shape[-1]], dim=-1)
        lower, upper = self.context_bounds
        return torch.cat([self.box.unit(X), (W - lower) / (upper - lower)], dim=-1)
