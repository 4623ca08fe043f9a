r"""Optimisers of other packages, by ask and tell."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from torch import Tensor

from botorch_risk.arguments import check_arguments, check_fields
from botorch_risk.environments import Environment, IndependentEnvironment
from botorch_risk.risk import RiskMeasure
from botorch_risk.strategies.decision_then_value import (
    DecisionThenValue,
    largest_reduction,
    random_decision,
)
from botorch_risk.strategies.environment_risk import EnvironmentRisk
from botorch_risk.strategies.environment_space import EnvironmentSpace
from botorch_risk.strategies.method import ReportedMethod, View
from botorch_risk.strategies.random_search import RandomPoints
from botorch_risk.strategies.risk_search import RiskRecipe
from botorch_risk.strategies.space import Box, decision_box
from botorch_risk.strategies.strategy import Strategy

_ROUNDING = 1e-6  # how far outside the bounds an answer may be, in units of their range


@runtime_checkable
class AskTellOptimizer(Protocol):
    r"""An optimiser of another package, which maximises."""

    def tell(self, X: Tensor, Y: Tensor) -> None:
        r"""Take all outcomes so far, once.

        Args:
            X: The points, `n x d`: the decision, then w if there is one.
            Y: Their outcomes, `n x k`, NaN where a repeat is missing.
        """
        ...

    def ask(self, num_points: int) -> Tensor:
        r"""The next points, `num_points x d`, within the box."""
        ...


MakeOptimizer = Callable[[Box, int], AskTellOptimizer]
r"""From what is asked for, a `Box` on the CPU, and a seed to an optimiser."""


@dataclass(frozen=True)
class AskTell(ReportedMethod):
    r"""Decisions, or pairs (x, w), of another package; another method recommends.

    Each round makes a new optimiser, with a seed of that round, and tells it all outcomes: so what
    it asks for is a function of the seeds and the data, and an interrupted run continues bit for
    bit, whatever the optimiser can save of itself.

    Args:
        report: The method that recommends.
        optimizer: Makes the optimiser of a replicate, `optimizer(box, seed)`.
    """

    optimizer: MakeOptimizer

    def __post_init__(self) -> None:
        check_fields(self)

    def propose(self, view: View) -> Tensor:
        r"""Ask the optimiser of each replicate."""
        space, points = view.space, None
        box: Box = getattr(space, "box", space)
        bounds = box.bounds.cpu()
        if isinstance(space, EnvironmentSpace) and space.w_is_chosen:
            points = space.environment.points.cpu()
            values = points.flatten(0, -2)
            of_w = torch.stack([values.amin(dim=0), values.amax(dim=0)])
            bounds = torch.cat([bounds, of_w], dim=-1)
        here = replace(box, bounds=bounds)
        told = zip(
            view.X.cpu(), view.complete[1].cpu(), view.history.streams("ask/tell"), strict=True
        )
        asked = torch.stack([self._asked(here, *each, view.batch_size) for each in told])
        if points is not None:
            X, W = asked.tensor_split([box.num_columns], dim=-1)
            asked = torch.cat([X, nearest(W, points)], dim=-1)
        return asked.to(box.bounds)

    def _asked(self, box: Box, X: Tensor, Y: Tensor, seed: int, num_points: int) -> Tensor:
        optimizer = self.optimizer(box, seed)
        optimizer.tell(X, Y)
        answer = torch.as_tensor(optimizer.ask(num_points)).to(box.bounds)
        name, (lower, upper) = type(optimizer).__name__, box.bounds
        if answer.shape != (num_points, len(lower)):
            raise BotorchTensorDimensionError(
                f"Expected {name} to ask for `{num_points} x {len(lower)}` decisions. "
                f"Got {answer.shape}."
            )
        slack = _ROUNDING * (upper - lower)
        is_within = (answer >= lower - slack) & (answer <= upper + slack)
        whole = answer[:, box.discrete]
        if not is_within.all() or (whole != whole.round()).any():
            raise InputDataError(
                f"Expected {name} to ask for decisions within {box.bounds.tolist()}, with whole "
                f"numbers in the columns {box.discrete}. Got {answer.tolist()}."
            )
        return answer.maximum(lower).minimum(upper)


def nearest(W: Tensor, points: Tensor) -> Tensor:
    r"""The point nearest to each `w`, by shares of the range of each column.

    Args:
        W: Values `R x q x d_w`.
        points: The values that there are, `n_w x d_w` or `R x n_w x d_w`.
    """
    scale = points.amax(dim=-2, keepdim=True) - points.amin(dim=-2, keepdim=True)
    index = torch.cdist(W / scale, points / scale).argmin(dim=-1, keepdim=True)
    return points.expand(len(W), *points.shape[-2:]).gather(-2, index.expand_as(W))


def ask_tell(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    optimizer: MakeOptimizer,
    environment: Environment | None = None,
    risk_measure: RiskMeasure | None = None,
    w_is_chosen: bool = False,
    num_initial: int = 10,
    batch_size: int = 1,
    **options: Any,
) -> Strategy:
    r"""An optimiser of another package in our loops, paired with our methods.

    All replicates share the initial design with every other strategy of the same seeds. Beside an
    environment, w is observed with the outcome and told with the decision, and what is
    recommended is the decision that `risk_search` would recommend of the same data, so that methods
    differ in nothing but the decisions that they evaluate. Without one it is the decision with the
    best mean of its repeats. If w is chosen, the optimiser is asked for pairs (x, w) within the box
    of the decisions and the range of W, and the nearest value of W is evaluated.

    Args:
        bounds: The lower and the upper bounds of the decisions, `2 x d_x`, or a `Box`.
        optimizer: Makes the optimiser, `optimizer(box, seed)`; `box.bounds` are `2 x d_x`.
        risk_measure: What is recommended by, beside an environment; larger is better.
        w_is_chosen: Whether the optimiser chooses w as well; it knows the outcome alone, no risk.
        options: Options of the part that recommends: `EnvironmentRisk`, or `RandomPoints` without
            an environment.

    Example:
        >>> class Middle:
        ...     def __init__(self, box, seed):
        ...         self.bounds = box.bounds
        ...     def tell(self, X, Y):
        ...         self.best = X[Y.nanmean(dim=-1).argmax(), : self.bounds.shape[-1]]
        ...     def ask(self, num_points):
        ...         return (self.best + self.bounds.mean(dim=0)).div(2).expand(num_points, -1)
        >>> strategy = ask_tell(torch.tensor([[0.0], [1.0]]), 0, optimizer=Middle, num_initial=3)
        >>> X = strategy.ask()
        >>> strategy.tell(X, X)
        >>> strategy.ask().shape
        torch.Size([1, 1, 1])
    """
    check_arguments(ask_tell, locals())
    if (environment is None) != (risk_measure is None):
        raise ValueError(
            "Expected an environment with a risk measure, or neither. "
            f"Got {environment=}, {risk_measure=}."
        )
    if w_is_chosen and not isinstance(environment, IndependentEnvironment):
        raise UnsupportedError(
            "Expected an `IndependentEnvironment` if w is chosen. "
            f"Got {type(environment).__name__}."
        )
    box = decision_box(bounds)
    sizes = {"num_initial": num_initial, "batch_size": batch_size}
    if environment is None or risk_measure is None:
        return Strategy(box, AskTell(RandomPoints(**options), optimizer), seeds, **sizes)
    recipe = RiskRecipe(risk_measure)
    space = EnvironmentSpace(box, environment, w_is_chosen, risk_measure if w_is_chosen else None)
    options = {"reporting": recipe.reporting(space), **options}
    report = EnvironmentRisk(
        recipe, DecisionThenValue(random_decision, largest_reduction), **options
    )
    return Strategy(space, AskTell(report, optimizer), seeds, **sizes)
