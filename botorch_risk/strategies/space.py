r"""What a point is: the box or the finite domain of decisions, and the columns beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from botorch.exceptions.errors import (
    BotorchTensorDimensionError,
    InputDataError,
    UnsupportedError,
)
from torch import Tensor

from botorch_risk.environments import (
    DiscreteEnvironment,
    IndependentEnvironment,
    InputPerturbation,
)
from botorch_risk.environments.environment import choose
from botorch_risk.environments.uniforms import draw_uniforms
from botorch_risk.optim.multistart import optimize_acqf_replicates
from botorch_risk.optim.pointwise import PointwiseAcquisition
from botorch_risk.posterior.domain_arguments import check_domain
from botorch_risk.seeding import generators
from botorch_risk.strategies.initial_design import initial_design

# How far outside the bounds a point may be by rounding, in units of their range.
_ROUNDING = 1e-6


class Space(Protocol):
    r"""What a strategy asks of a space.

    A row of the history is what was asked for and what was observed with it: the decision in the
    first columns, then whatever the space adds. Decisions are in the units of `bounds`.
    """

    @property
    def bounds(self) -> Tensor:
        r"""The lower and the upper bounds of the decisions, `2 x d`."""
        ...

    @property
    def num_columns(self) -> int:
        r"""The number of columns of a row of the history."""
        ...

    def of(self, replicates: Sequence[int]) -> Space:
        r"""The space of some replicates."""
        ...

    def initial(self, seeds: Sequence[int], num_points: int) -> Tensor:
        r"""The initial design as asked rows, `R x num_points x d_asked`."""
        ...

    def shown(self, asked: Tensor) -> Tensor:
        r"""What the user evaluates of asked rows."""
        ...

    def rows(self, X: Tensor, asked: Tensor) -> Tensor:
        r"""Rows of the history `R x q x num_columns` of what the user observed.

        Args:
            X: The evaluated points, `R x q x d_told`; NaN where a replicate took no part.
            asked: The rows that were asked for.

        Raises:
            BotorchTensorDimensionError: If `X` has other columns.
            InputDataError: If a point is outside the space.
        """
        ...


@dataclass(frozen=True)
class Box:
    r"""Decisions in a box.

    Args:
        bounds: The lower and the upper bounds, `2 x d`.

    Raises:
        BotorchTensorDimensionError: If `bounds` is not `2 x d`.
        ValueError: If the bounds are reversed or not finite.

    Example:
        >>> Box(torch.tensor([[0.0], [2.0]])).initial([0, 1], 5).shape
        torch.Size([2, 5, 1])
    """

    bounds: Tensor

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", as_box("bounds", self.bounds))

    @property
    def num_columns(self) -> int:
        r"""The number of columns of a row of the history."""
        return self.bounds.shape[-1]

    def of(self, replicates: Sequence[int]) -> Box:
        r"""The same space: replicates share it."""
        return self

    def initial(self, seeds: Sequence[int], num_points: int) -> Tensor:
        r"""Scrambled Sobol points, a function of each seed alone."""
        return initial_design(self.bounds, seeds, num_points)

    def shown(self, asked: Tensor) -> Tensor:
        r"""The decisions."""
        return asked

    def rows(self, X: Tensor, asked: Tensor) -> Tensor:
        r"""The decisions, within the bounds up to rounding."""
        check_columns(X, self.num_columns)
        check_within(X, self.bounds)
        return X

    def unit(self, X: Tensor) -> Tensor:
        r"""Decisions on the unit cube."""
        lower, upper = self.bounds
        return (X - lower) / (upper - lower)

    def maximize(
        self,
        acquisition: PointwiseAcquisition,
        seeds: Sequence[int],
        q: int,
        num_restarts: int,
        raw_samples: int,
    ) -> Tensor:
        r"""Where an acquisition function on the unit cube is largest, `R x q x d` decisions."""
        X, _ = optimize_acqf_replicates(
            acquisition,
            unit_cube(self.bounds),
            q=q,
            seeds=list(seeds),
            num_restarts=num_restarts,
            raw_samples=raw_samples,
        )
        return self.from_unit(X)

    def from_unit(self, X: Tensor) -> Tensor:
        r"""Points of the unit cube as decisions, within the bounds in spite of rounding."""
        lower, upper = self.bounds
        return (lower + (upper - lower) * X).clamp(lower, upper)


@dataclass(frozen=True)
class ContextSpace:
    r"""Decisions in a box; a context is observed with each outcome and cannot be chosen.

    A row is a decision with its context in the last columns.

    Args:
        box: The decisions.
        context_bounds: The lower and the upper bounds of the contexts, `2 x d_w`.
        may_leave: Whether contexts outside their bounds are accepted.
    """

    box: Box
    context_bounds: Tensor
    may_leave: bool = False

    def __post_init__(self) -> None:
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
        r"""The initial decisions."""
        return self.box.initial(seeds, num_points)

    def shown(self, asked: Tensor) -> Tensor:
        r"""The decisions."""
        return asked

    def rows(self, X: Tensor, asked: Tensor) -> Tensor:
        r"""Decisions with the contexts that were observed."""
        check_columns(X, self.num_columns)
        check_within(X, self.bounds)
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
        lower, upper = torch.cat([self.bounds, self.context_bounds], dim=-1)
        return (X - lower) / (upper - lower)


@dataclass(frozen=True)
class EnvironmentSpace:
    r"""Decisions in a box, beside an environmental variable whose distribution is known.

    A row is a pair (x, w). Where the environment perturbs the decision, a row is the decision with
    the perturbed one, (x, x + w): the user evaluates x + w.

    Args:
        box: The decisions.
        environment: The distribution of W, one or one for each replicate.
        w_is_chosen: Whether the strategy chooses w; otherwise it is observed with the outcome.
    """

    box: Box
    environment: Any
    w_is_chosen: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.environment, IndependentEnvironment | InputPerturbation):
            raise UnsupportedError(
                "Expected an `IndependentEnvironment` or an `InputPerturbation`. "
                f"Got {type(self.environment).__name__}."
            )

    @property
    def bounds(self) -> Tensor:
        r"""The lower and the upper bounds of the decisions, `2 x d_x`."""
        return self.box.bounds

    @property
    def perturbs(self) -> bool:
        r"""Whether a row is a decision with the perturbed decision."""
        return isinstance(self.environment, InputPerturbation)

    @property
    def num_columns(self) -> int:
        r"""The number of columns of a row of the history."""
        d_x = self.bounds.shape[-1]
        return self.environment.num_inputs(d_x) + (d_x if self.perturbs else 0)

    def of(self, replicates: Sequence[int]) -> EnvironmentSpace:
        r"""The space of some replicates, whose environments may be their own.

        Raises:
            UnsupportedError: If each replicate has an environment that is not discrete.
        """
        environment, index = self.environment, list(replicates)
        shape = environment.weights.shape[:-1]
        if not shape or index == list(range(shape[0])):
            return self
        if not isinstance(environment, DiscreteEnvironment):
            raise UnsupportedError(
                "Expected one environment for all replicates, or a `DiscreteEnvironment`, as some "
                f"replicates have fewer outcomes. Got {type(environment).__name__} of {shape}."
            )
        points = environment.points.expand(*shape, *environment.points.shape[-2:])
        some = DiscreteEnvironment(points[index], environment.weights[index])
        return replace(self, environment=some)

    def initial(self, seeds: Sequence[int], num_points: int) -> Tensor:
        r"""Sobol decisions, each with any value of the support, all with the same probability."""
        decisions = self.box.initial(seeds, num_points)
        if not self.w_is_chosen:
            return decisions
        inputs, weights = self.environment.expand(decisions)  # R x n x n_w x d
        even = (weights > 0).to(inputs)
        even = (even / even.sum(dim=-1, keepdim=True)).expand(inputs.shape[:-1])
        draws = generators(list(seeds), "initial environment")
        uniforms = draw_uniforms((num_points, 1, 1), draws).to(inputs.device)
        return self.row(decisions, choose(inputs, even, uniforms).squeeze(-2))

    def row(self, X: Tensor, inputs: Tensor) -> Tensor:
        r"""A row of a decision `R x q x d_x` and the inputs of the model."""
        return torch.cat([X, inputs], dim=-1) if self.perturbs else inputs

    def inputs(self, rows: Tensor) -> Tensor:
        r"""The inputs of the model, (x, w) or x + w."""
        return rows[..., self.bounds.shape[-1] :] if self.perturbs else rows

    def shown(self, asked: Tensor) -> Tensor:
        r"""What is evaluated: (x, w) or x + w; decisions where w is not chosen."""
        return self.inputs(asked) if self.w_is_chosen else asked

    def rows(self, X: Tensor, asked: Tensor) -> Tensor:
        r"""Pairs; of perturbed decisions, which come in the order of asking, with the decisions."""
        if self.perturbs:
            decisions = asked[:, : X.shape[1], : self.bounds.shape[-1]]
            if X.shape != decisions.shape:
                raise BotorchTensorDimensionError(
                    f"Expected perturbed decisions of {tuple(asked.shape[:-1])} rows at most, as "
                    f"asked, of {self.bounds.shape[-1]} columns. Got {tuple(X.shape)}."
                )
            X = torch.cat([decisions.masked_fill(X.isnan(), torch.nan), X], dim=-1)
        check_columns(X, self.num_columns)
        check_within(X, self.bounds)
        W = X[..., self.bounds.shape[-1] :]
        supported = self.environment.contains(X[..., : self.bounds.shape[-1]], W)
        outside = W.isfinite().all(dim=-1) & ~supported
        if outside.any():
            index = tuple(outside.nonzero()[0].tolist())
            raise InputDataError(
                "Expected every w in the support of its distribution. "
                f"Got {W[index].tolist()} at {index}."
            )
        return X


@dataclass(frozen=True)
class FiniteDomain:
    r"""The points of a finite domain, at several noise levels if there are any.

    A row is a point, with the number of its noise level in one more, last column.

    Args:
        domain: `|D| x d` points.
        num_levels: The number of noise levels; None if there is no choice.
        initial_level: The level of the initial points.
    """

    domain: Tensor
    num_levels: int | None = None
    initial_level: int = 0

    def __post_init__(self) -> None:
        check_domain(self.domain, torch.Size())
        object.__setattr__(self, "domain", as_data(self.domain))
        if not 0 <= self.initial_level < (self.num_levels or 1):
            raise ValueError(
                f"Expected `initial_level` in 0, .., {(self.num_levels or 1) - 1}. "
                f"Got {self.initial_level}."
            )

    @property
    def bounds(self) -> Tensor:
        r"""The smallest box round the domain, `2 x d`."""
        return torch.stack([self.domain.amin(dim=-2), self.domain.amax(dim=-2)])

    @property
    def num_columns(self) -> int:
        r"""The number of columns of a row of the history."""
        return self.domain.shape[-1] + (self.num_levels is not None)

    def of(self, replicates: Sequence[int]) -> FiniteDomain:
        r"""The same space: replicates share it."""
        return self

    def initial(self, seeds: Sequence[int], num_points: int) -> Tensor:
        r"""Random points of the domain, each once.

        Raises:
            ValueError: If there are fewer points.
        """
        if num_points > len(self.domain):
            raise ValueError(
                f"Expected `num_initial` of at most {len(self.domain)} points. Got {num_points}."
            )
        picks = [
            torch.randperm(len(self.domain), generator=generator)[:num_points]
            for generator in generators(list(seeds), "initial points")
        ]
        X = self.domain[torch.stack(picks).to(self.domain.device)]
        return self.at_level(X, torch.full_like(X[..., 0], self.initial_level))

    def at_level(self, X: Tensor, level: Tensor) -> Tensor:
        r"""Points `... x d` with their levels, if there are any."""
        return X if self.num_levels is None else torch.cat([X, level.unsqueeze(-1)], dim=-1)

    def shown(self, asked: Tensor) -> Tensor:
        r"""The points."""
        return asked

    def rows(self, X: Tensor, asked: Tensor) -> Tensor:
        r"""Points within the smallest box round the domain; they need not be points of it."""
        check_columns(X, self.num_columns)
        check_within(X, self.bounds)
        return X


def as_data(values: Tensor) -> Tensor:
    r"""A copy of what a user passes, without its graph, integers as floating-point numbers."""
    return values.detach().clone() if values.is_floating_point() else values.double()


def as_box(name: str, bounds: Tensor) -> Tensor:
    r"""A copy of a box that a user passes.

    Raises:
        BotorchTensorDimensionError: If it is not `2 x d`.
        ValueError: If it is reversed or not finite.
    """
    if bounds.ndim != 2 or bounds.shape[0] != 2 or bounds.shape[1] < 1:
        raise BotorchTensorDimensionError(
            f"Expected `{name}` to have shape `2 x d`, d >= 1. Got {tuple(bounds.shape)}."
        )
    if not (bounds.isfinite().all() and (bounds[0] < bounds[1]).all()):
        raise ValueError(
            f"Expected finite `{name}` with each lower bound below its upper bound. "
            f"Got {bounds.tolist()}."
        )
    return as_data(bounds)


def unit_cube(bounds: Tensor) -> Tensor:
    r"""The bounds of the unit cube, `2 x d`."""
    return torch.stack([torch.zeros_like(bounds[0]), torch.ones_like(bounds[0])])


def check_columns(X: Tensor, num_columns: int) -> None:
    r"""Raises a `BotorchTensorDimensionError` if points are not `R x q x num_columns`, q >= 1."""
    if X.ndim != 3 or X.shape[-1] != num_columns or X.shape[1] < 1:
        raise BotorchTensorDimensionError(
            f"Expected `X` to have shape `R x q x {num_columns}`, q >= 1. Got {tuple(X.shape)}."
        )


def check_within(X: Tensor, bounds: Tensor) -> None:
    r"""Raises an `InputDataError` if a decision, in the first columns, is outside the bounds."""
    lower, upper = bounds
    decisions, slack = X[..., : len(lower)], _ROUNDING * (upper - lower)
    outside = (decisions < lower - slack) | (decisions > upper + slack)
    if outside.any():
        row = decisions[outside.any(dim=-1)][0].tolist()
        raise InputDataError(f"Expected points within bounds={bounds.tolist()}. Got {row}.")
