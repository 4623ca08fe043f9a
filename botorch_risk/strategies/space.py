r"""The protocol of spaces, and the box of decisions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol, Self, runtime_checkable

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models.transforms.input import InputTransform
from torch import Tensor

from botorch_risk.arguments import (
    as_data,
    as_floating,
    check_arguments,
    check_bounds,
    check_counts,
    check_fields,
    first_index,
)
from botorch_risk.engine import PointwiseAcquisition, PolytopeSampler, optimize_acqf_replicates
from botorch_risk.models.standardized_gp import one_hot_inputs
from botorch_risk.seeding import Draws, as_seeds, sobol_points_of_each, streams
from botorch_risk.steady import sent
from botorch_risk.strategies.distinct import distinct_first
from botorch_risk.strategies.encoded_decisions import AcquisitionOfDecisions, decoded
from botorch_risk.strategies.limits import Constraints, LimitedColumns, LinearLimit, in_unit_cube


def as_columns(name: str, columns: Sequence[int], d: int) -> tuple[int, ...]:
    r"""Some of `d` columns in ascending order; negative numbers count from the end."""
    for column in columns:
        if not -d <= column < d:
            raise ValueError(f"Expected columns in [0, {d}) in `{name}`. Got {column}.")
    return tuple(sorted(column % d for column in columns))


def check_space(space: Any, method: Any, *needed: str) -> None:
    r"""Raise an `UnsupportedError` unless a space has what a method needs beyond `Space`."""
    missing = [name for name in needed if not hasattr(space, name)]
    if missing:
        raise UnsupportedError(
            f"Expected a space with {' and '.join(f'`{name}`' for name in needed)} for "
            f"{type(method).__name__}. Got {type(space).__name__}, which has no "
            f"{' and no '.join(f'`{name}`' for name in missing)}."
        )


_MOST_SETTINGS = 2**12  # that are listed
# How far outside the bounds a point may be by rounding, in units of their range.
_ROUNDING = 1e-6


@runtime_checkable
class Space(Protocol):
    r"""The interface of a space.

    A row of the history has the decision in the first columns, then the columns that the space
    adds. Decisions are in the units of `bounds`. Methods may need more, such as `random_points` or
    `maximize`, and refuse a space without it.

    Example:
        >>> from botorch_risk.strategies import RandomPoints, Strategy
        >>> class EvenStart:  # a line with an evenly spaced initial design
        ...     bounds, num_columns = torch.tensor([[0.0], [1.0]]), 1
        ...     def of(self, replicates):
        ...         return self
        ...     def initial(self, seeds, num_points):
        ...         return torch.linspace(0, 1, num_points).view(1, -1, 1).expand(len(seeds), -1, 1)
        ...     def random_points(self, seeds, num_points, *stream):  # for RandomPoints
        ...         return torch.rand(len(seeds), num_points, 1)
        ...     def shown(self, asked):
        ...         return asked
        ...     def rows(self, X, asked):
        ...         return X
        >>> Strategy(EvenStart(), RandomPoints(), seeds=[0, 1], num_initial=3).ask().squeeze(-1)
        tensor([[0.0000, 0.5000, 1.0000],
                [0.0000, 0.5000, 1.0000]])
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
        r"""The part of asked rows that the user evaluates."""
        ...

    def rows(self, X: Tensor, asked: Callable[[], Tensor]) -> Tensor:
        r"""History rows `R x q x num_columns` from the user's observations.

        Args:
            X: The evaluated points, `R x q x d_told`; NaN where a replicate took no part.
            asked: A function that returns the asked rows, which may have to be chosen first.
        """
        ...


@dataclass(frozen=True)
class Box:
    r"""Decisions in a box, whose columns may be whole numbers, under linear constraints.

    A category is one column, coded by whole numbers without an order. Models are given one column
    for each of its values; see `one_hot_inputs`.

    Args:
        bounds: The lower and the upper bounds, `2 x d`.
        integers: The columns of integers: all whole numbers within their bounds.
        categories: The columns of categories, coded by the whole numbers within their bounds.
        limits: Linear constraints (`LinearLimit`), not on categories. All proposed and recommended
            decisions satisfy them. The initial design fills the feasible set evenly: a whole number
            is as probable as its share of that set. If an environment perturbs the decision, the
            limits hold before the perturbation.

    Raises:
        UnsupportedError: If a limit is on a category.
        ValueError: If at most one decision is within the limits.

    Example:
        >>> Box(torch.tensor([[0.0], [2.0]])).initial([0, 1], 5).shape
        torch.Size([2, 5, 1])

        >>> oven = Box(torch.tensor([[150.0, 1.0, 0.0], [250.0, 8.0, 2.0]]), [1], [2])
        >>> oven.unit(torch.tensor([[200.0, 8.0, 1.0]]))
        tensor([[0.5000, 1.0000, 0.0000, 1.0000, 0.0000]])
    """

    bounds: Tensor
    integers: Sequence[int] = ()
    categories: Sequence[int] = ()
    limits: Sequence[LinearLimit] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", as_box("bounds", self.bounds))
        check_fields(self)
        for name in ("integers", "categories"):
            columns = as_columns(name, getattr(self, name), self.num_columns)
            object.__setattr__(self, name, columns)
        if len(set(self.discrete)) < len(self.discrete):
            raise ValueError(
                "Expected each column once in `integers` and `categories`. "
                f"Got {self.integers=}, {self.categories=}."
            )
        for column in self.discrete:
            lower, upper = self.bounds[:, column].tolist()
            whole = self.bounds.new_tensor([math.ceil(lower), math.floor(upper)])
            if not whole[0] < whole[1]:
                raise ValueError(
                    f"Expected at least two whole numbers within the bounds of column {column}. "
                    f"Got [{lower:g}, {upper:g}]."
                )
            self.bounds[:, column] = whole
        self._check_limits()

    def _check_limits(self) -> None:
        for limit in self.limits or ():
            if any(isinstance(column, str) for column in limit.coefficients):
                raise TypeError(f"Expected columns by number in the limits. Got `{limit}`.")
        limits = tuple(limit.of_columns(self.num_columns) for limit in self.limits or ())
        object.__setattr__(self, "limits", limits or None)  # None, as in states without limits
        self._limited  # noqa: B018 raises if no decision is feasible

    @cached_property
    def _limited(self) -> LimitedColumns | None:
        r"""The columns with their limits, if there are any."""
        if self.limits is None:
            return None
        columns, (lower, upper) = range(self.num_columns), self.bounds.double().tolist()
        steps = [1.0 if column in self.discrete else None for column in columns]
        return LimitedColumns(list(columns), lower, upper, steps, self.categories, self.limits)

    @property
    def constraints(self) -> Constraints:
        r"""The limits as arguments of BoTorch's `optimize_acqf`; none without limits."""
        return {} if self._limited is None else self._limited.constraints()

    @property
    def _sampler(self) -> PolytopeSampler | None:
        return None if self._limited is None else PolytopeSampler(self._limited.polytope)

    def inside(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""The nearest decisions within the limits that have the same whole numbers.

        Args:
            X: Decisions within the bounds, `... x d`.

        Returns:
            The decisions, and which of them have such a nearest one; others are unchanged.
        """
        if self._limited is None:
            return X, torch.ones(X.shape[:-1], dtype=torch.bool, device=X.device)
        moved, has_one = self._limited.polytope.nearest(X)
        return moved, has_one.to(X.device)

    @property
    def num_columns(self) -> int:
        return self.bounds.shape[-1]

    @property
    def discrete(self) -> list[int]:
        r"""The columns of whole numbers."""
        return sorted((*self.integers, *self.categories))

    @property
    def discrete_dims(self) -> dict[int, list[float]]:
        r"""The values of the integers, as BoTorch's optimisers take them."""
        return {column: self._values(column) for column in self.integers}

    @property
    def cat_dims(self) -> dict[int, list[float]]:
        r"""The values of the categories, as BoTorch's optimisers take them."""
        return {column: self._values(column) for column in self.categories}

    def _values(self, column: int) -> list[float]:
        lower, upper = self.bounds[:, column].tolist()
        return [lower + step for step in range(int(upper - lower) + 1)]

    def of(self, replicates: Sequence[int]) -> Box:
        return self

    def initial(self, seeds: Sequence[int], num_points: int) -> Tensor:
        r"""Scrambled Sobol points within the limits, a function of each seed alone.

        If all columns are whole numbers, no setting is repeated until all have come.
        """
        listed = self.settings()
        if listed is None:
            return self._sobol_points(seeds, num_points)
        return distinct_first(partial(self._sobol_points, seeds), num_points, len(listed))

    def _sobol_points(self, seeds: Sequence[int], num_points: int) -> Tensor:
        if self._sampler is None:
            return self._evenly(initial_design(self.bounds, seeds, num_points))
        own = streams(as_seeds(seeds), "initial design")
        return self._sampler.sobol(own, num_points).to(self.bounds)

    def random_points(self, seeds: Sequence[int], num_points: int, *stream: int | str) -> Tensor:
        r"""Uniform decisions, a function of each seed and the stream; see `uniform_points`."""
        if self._sampler is not None:
            own = streams(as_seeds(seeds), *stream)
            return self._sampler.uniform(own, num_points).to(self.bounds)
        return self._evenly(uniform_points(self.bounds, seeds, num_points, *stream))

    def _evenly(self, X: Tensor) -> Tensor:
        r"""Make points uniform in the box, in place, with all whole numbers equally probable."""
        for column in self.discrete:
            lower, upper = self.bounds[:, column]
            step = (X[..., column] - lower) / (upper - lower) * (upper - lower + 1)
            X[..., column] = (lower + step.floor()).clamp(lower, upper)
        return X

    def shown(self, asked: Tensor) -> Tensor:
        return asked

    def rows(self, X: Tensor, asked: Callable[[], Tensor]) -> Tensor:
        r"""The told decisions, which have to be within the bounds up to rounding."""
        check_columns(X, self.num_columns)
        return self.checked(X)

    def checked(self, X: Tensor) -> Tensor:
        r"""Rows whose first columns are decisions of the box, with rounding errors removed.

        Raises:
            InputDataError: If a decision is outside the bounds or the limits by more than 1e-6 of
                the range, or a number is not whole.
        """
        check_within(X, self.bounds)
        if self.discrete:
            X = self._rounded(X)
        if self._limited is None:
            return X
        decisions, others = X[..., : self.num_columns], X[..., self.num_columns :]
        rows = decisions.reshape(-1, self.num_columns).tolist()
        self._limited.check(decisions, lambda row: f"{rows[row]}")
        return torch.cat([self.inside(decisions)[0], others], dim=-1)

    def _rounded(self, X: Tensor) -> Tensor:
        whole = X[..., self.discrete].round()
        lower, upper = self.bounds[:, self.discrete]
        # Of large numbers in single precision, the last bits too.
        slack = (4 * torch.finfo(X.dtype).eps * whole.abs()).clamp_min(_ROUNDING)
        broken = (X[..., self.discrete] - whole).abs() > slack
        broken = broken | (whole < lower) | (whole > upper)
        if broken.any():
            row = X[broken.any(dim=-1)][0, : self.num_columns].tolist()
            raise InputDataError(
                f"Expected whole numbers in the columns {self.discrete} of points, within the "
                f"bounds. Got {row}."
            )
        X = X.clone()
        X[..., self.discrete] = whole
        return X

    @cached_property
    def _one_hot(self) -> InputTransform:
        return one_hot_inputs(self.bounds, self.categories)

    def unit(self, X: Tensor) -> Tensor:
        r"""Decisions in the unit cube, with one column for each value of a category."""
        if self.categories:
            return self._one_hot(X)
        lower, upper = self.bounds
        return (X - lower) / (upper - lower)

    def settings(self) -> Tensor | None:
        r"""All decisions `n x d`; None if a column is continuous or there are more than 4,096."""
        if self._limited is not None:
            if len(self.discrete) < self.num_columns:
                return None
            found = self._limited.polytope.settings(_MOST_SETTINGS)
            return None if found is None else self._limited.polytope.points(found).to(self.bounds)
        values = [self._values(column) for column in self.discrete]
        if len(values) < self.num_columns or math.prod(map(len, values)) > _MOST_SETTINGS:
            return None
        each = [self.bounds.new_tensor(one) for one in values]
        return torch.cartesian_prod(*each).reshape(-1, self.num_columns)

    def spared(self, acquisition: Any, X: Tensor, pending: Tensor | None) -> Tensor:
        r"""Decisions `R x 1 x d`, each replaced by the best of all others if it is pending.

        A search may end at a pending decision if there are few others.

        Args:
            pending: `R x p x d` or `p x d`, or None.
        """
        if pending is None:
            return X
        repeated = (pending == X).all(dim=-1).any(dim=-1)
        if not repeated.any() or (listed := self.settings()) is None:
            return X
        with torch.no_grad():
            values = acquisition.evaluate(listed.expand(len(X), -1, -1))
        is_pending = (listed.unsqueeze(-2) == pending.unsqueeze(-3)).all(dim=-1).any(dim=-1)
        best = values.masked_fill(is_pending, -torch.inf).argmax(dim=-1)
        replaced = repeated & ~is_pending.all(dim=-1)
        return torch.where(replaced[:, None, None], listed[best].unsqueeze(-2), X)

    def maximize(
        self,
        acquisition: PointwiseAcquisition,
        seeds: Sequence[int],
        q: int,
        num_restarts: int,
        raw_samples: int,
    ) -> Tensor:
        options: dict[str, Any] = {"num_restarts": num_restarts, "raw_samples": raw_samples}
        if self.discrete:
            of_decisions = AcquisitionOfDecisions(acquisition, self.unit)
            X, _ = optimize_acqf_replicates(
                of_decisions,
                self.bounds,
                q=q,
                seeds=list(seeds),
                discrete_dims=self.discrete_dims,
                cat_dims=self.cat_dims,
                **self.constraints,
                **options,
            )
            return self.each_once(of_decisions, X, getattr(acquisition, "X_pending", None))
        X, _ = optimize_acqf_replicates(
            acquisition,
            unit_cube(self.bounds),
            q=q,
            seeds=list(seeds),
            **in_unit_cube(self.constraints, self.bounds),
            **options,
        )
        return self.from_unit(X)

    def each_once(self, acquisition: Any, X: Tensor, pending: Tensor | None) -> Tensor:
        r"""A batch `R x q x d`, whose repeated settings are replaced while others are left.

        Args:
            pending: Points of the unit cube, `R x p x d'` or `p x d'`, or None.
        """
        before = X[:, :0]
        if pending is not None:
            running = self.from_unit(pending)
            before = running.expand(len(X), *running.shape[-2:])
        for one in X.split(1, dim=-2):
            before = torch.cat([before, self.spared(acquisition, one, before)], dim=-2)
        return before[:, -X.shape[1] :]

    def from_unit(self, X: Tensor) -> Tensor:
        r"""Points of the unit cube as decisions, within the bounds in spite of rounding."""
        lower, upper = self.bounds
        X = decoded(X, self.cat_dims, len(lower)) if self.categories else X
        X = (lower + (upper - lower) * X).clamp(lower, upper)
        if self.discrete:
            X[..., self.discrete] = X[..., self.discrete].round()
        return X


@dataclass(frozen=True)
class SpaceOfBox:
    r"""A space of a box's decisions: whatever a subclass does not define is taken from the box.

    Args:
        box: The decisions.
    """

    box: Box

    @property
    def bounds(self) -> Tensor:
        return self.box.bounds

    @property
    def num_columns(self) -> int:
        return self.box.num_columns

    def of(self, replicates: Sequence[int]) -> Self:
        return self

    def initial(self, seeds: Sequence[int], num_points: int) -> Tensor:
        return self.box.initial(seeds, num_points)

    def shown(self, asked: Tensor) -> Tensor:
        return asked

    def rows(self, X: Tensor, asked: Callable[[], Tensor]) -> Tensor:
        return self.box.rows(X, asked)

    def unit(self, X: Tensor) -> Tensor:
        return self.box.unit(X)

    def from_unit(self, X: Tensor) -> Tensor:
        return self.box.from_unit(X)

    def maximize(self, acquisition: PointwiseAcquisition, *options: Any) -> Tensor:
        return self.box.maximize(acquisition, *options)


def decision_box(bounds: Tensor | Box) -> Box:
    r"""The box that an argument describes: bounds `2 x d`, or a box with whole numbers."""
    return bounds if isinstance(bounds, Box) else Box(bounds)


def as_box(name: str, bounds: Tensor) -> Tensor:
    r"""A copy of a user's box."""
    bounds = as_data(bounds, name)
    check_bounds(bounds, name=name)
    return bounds


def unit_cube(bounds: Tensor) -> Tensor:
    r"""The bounds of the unit cube, `2 x d`."""
    return torch.stack([torch.zeros_like(bounds[0]), torch.ones_like(bounds[0])])


def check_columns(X: Tensor, num_columns: int) -> None:
    r"""Raise a `BotorchTensorDimensionError` if points are not `R x q x num_columns`, q >= 1."""
    if X.ndim != 3 or X.shape[-1] != num_columns or X.shape[1] < 1:
        raise BotorchTensorDimensionError(
            f"Expected `X` to have shape `R x q x {num_columns}`, q >= 1. Got {tuple(X.shape)}."
        )


def check_within(X: Tensor, bounds: Tensor) -> None:
    r"""Raise an `InputDataError` if a decision, in the first columns, is outside the bounds."""
    lower, upper = bounds
    decisions, slack = X[..., : len(lower)], _ROUNDING * (upper - lower)
    outside = (decisions < lower - slack) | (decisions > upper + slack)
    if outside.any():
        index = first_index(outside)
        raise InputDataError(
            f"Expected points within bounds. Got {decisions[index].item()} in column "
            f"{index[-1]} of the point at {index[:-1]}, outside {bounds[:, index[-1]].tolist()}."
        )


def initial_design(bounds: Tensor, seeds: int | Sequence[int], num_points: int) -> Tensor:
    r"""Scrambled Sobol points, a pure function of each replicate's seed.

    Args:
        bounds: The lower and the upper bounds of the box, `2 x d`.
        seeds: One seed per replicate.
        num_points: The number of points.

    Returns:
        An `R x num_points x d` tensor in the units, dtype and device of `bounds`.
    """
    check_arguments(initial_design, locals())
    check_counts(num_points=num_points)
    bounds = as_floating(bounds, "bounds")
    own = streams(as_seeds(seeds), "initial design")
    unit = sobol_points_of_each(own, num_points, bounds.shape[-1])
    lower, upper = bounds.cpu().double()
    return (lower + (upper - lower) * unit).to(bounds)


def uniform_points(
    bounds: Tensor, seeds: int | Sequence[int], num_points: int, *stream: int | str
) -> Tensor:
    r"""Independent uniform points, a pure function of each replicate's seed and the stream.

    In all else it is like `initial_design`; integers and words name the stream.
    """
    unit = Draws(as_seeds(seeds), *stream).uniforms(num_points, bounds.shape[-1])
    lower, upper = bounds
    return lower + (upper - lower) * sent(unit, bounds.device).to(bounds)
