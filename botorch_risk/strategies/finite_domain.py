r"""The points of a finite domain as a space, and the smallest box around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from botorch.exceptions.errors import InputDataError
from torch import Tensor

from botorch_risk.arguments import as_data, check_counts, check_fields, check_integers
from botorch_risk.engine import DomainPosterior, PointwiseAcquisition, optimize_acqf_replicates
from botorch_risk.seeding import Draws
from botorch_risk.steady import sent
from botorch_risk.strategies.space import as_columns, check_columns, check_within, uniform_points

# Of the points of the domain with the largest values, from which a search between them starts.
NUM_RAW, NUM_STARTS = 64, 4


@dataclass(frozen=True)
class FiniteDomain:
    r"""The points of a finite domain, at several noise levels if there are any.

    A row is a point, with the number of its noise level in one extra, last column.

    Args:
        domain: `|D| x d` points.
        num_levels: The number of noise levels; None if there is no choice.
        initial_level: The level of the initial points.
        categories: The columns of whole numbers without an order, in an `EnvironmentSpace`.

    Example:
        >>> domain = torch.linspace(0, 1, 4, dtype=torch.double).unsqueeze(-1)
        >>> FiniteDomain(domain).initial([0], 4).sort(dim=-2).values.squeeze()
        tensor([0.0000, 0.3333, 0.6667, 1.0000], dtype=torch.float64)
        >>> FiniteDomain(domain, num_levels=3, initial_level=2).initial([0], 2)[..., -1]  # levels
        tensor([[2., 2.]], dtype=torch.float64)
    """

    domain: Tensor
    num_levels: int | None = None
    initial_level: int = 0
    categories: tuple[int, ...] = ()
    integers: ClassVar[tuple[int, ...]] = ()  # a kernel sees whole numbers in their order
    limits: ClassVar[None] = None  # a list has the decisions within limits

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "domain", as_data(self.domain, "domain"))
        DomainPosterior.check_domain(self.domain, torch.Size())
        if self.num_levels is not None:
            check_counts(num_levels=self.num_levels)
        check_integers(initial_level=self.initial_level)
        if not 0 <= self.initial_level < (self.num_levels or 1):
            raise ValueError(
                f"Expected `initial_level` in 0, .., {(self.num_levels or 1) - 1}. "
                f"Got {self.initial_level}."
            )
        columns = as_columns("categories", self.categories, self.domain.shape[-1])
        object.__setattr__(self, "categories", columns)
        codes = self.domain[:, list(columns)]
        if (codes != codes.round()).any():
            raise InputDataError(
                f"Expected whole numbers in the columns {columns} of `domain`, which are "
                f"categories. Got {codes[codes != codes.round()][0]:g}."
            )

    @property
    def discrete(self) -> list[int]:
        r"""The columns whose values cannot change by small amounts."""
        return list(self.categories)

    @property
    def cat_dims(self) -> dict[int, list[float]]:
        return codes_of(self.domain, self.categories)

    @cached_property
    def bounds(self) -> Tensor:
        r"""The smallest box round the domain, `2 x d`."""
        return torch.stack([self.domain.amin(dim=-2), self.domain.amax(dim=-2)])

    @property
    def num_columns(self) -> int:
        return self.domain.shape[-1] + (self.num_levels is not None)

    def of(self, replicates: Sequence[int]) -> FiniteDomain:
        return self

    def initial(self, seeds: Sequence[int], num_points: int) -> Tensor:
        r"""Random points of the domain, each once."""
        if num_points > len(self.domain):
            raise ValueError(
                f"Expected `num_initial` of at most {len(self.domain)} points. Got {num_points}."
            )
        picks = Draws(seeds, "initial points").permutations(len(self.domain))[:, :num_points]
        X = self.domain[sent(picks, self.domain.device)]
        return self.at_level(X, torch.full_like(X[..., 0], self.initial_level))

    def at_level(self, X: Tensor, level: Tensor) -> Tensor:
        r"""Points `... x d` with their noise levels, if there are any."""
        return X if self.num_levels is None else torch.cat([X, level.unsqueeze(-1)], dim=-1)

    def random_points(self, seeds: Sequence[int], num_points: int, *stream: int | str) -> Tensor:
        r"""Random points of the domain, possibly repeated, at the level of the initial design."""
        unit = self.bounds.new_tensor([[0.0], [1.0]])
        draws = uniform_points(unit, seeds, num_points, *stream).squeeze(-1)
        X = self.domain[(draws * len(self.domain)).long().clamp_max(len(self.domain) - 1)]
        return self.at_level(X, torch.full_like(X[..., 0], self.initial_level))

    def spared(self, values: Tensor, pending: Tensor | None) -> Tensor:
        r"""Values `R x |D|` with -inf for pending points `R x p x d`, unless all are pending."""
        if pending is None:
            return values
        is_pending = (self.domain.unsqueeze(-2) == pending.unsqueeze(-3)).all(dim=-1).any(dim=-1)
        is_left = ~is_pending & values.isfinite()
        return values.masked_fill(is_pending & is_left.any(dim=-1, keepdim=True), -torch.inf)

    def checked(self, X: Tensor) -> Tensor:
        r"""Rows whose first columns lie within the smallest box round the domain."""
        check_within(X, self.bounds)
        return X

    def shown(self, asked: Tensor) -> Tensor:
        return asked

    def rows(self, X: Tensor, asked: Callable[[], Tensor]) -> Tensor:
        r"""Points within the smallest box round the domain; they need not be points of it."""
        check_columns(X, self.num_columns)
        return self.checked(X)


def codes_of(points: Tensor, columns: Sequence[int]) -> dict[int, list[float]]:
    r"""The codes in columns of `points: ... x d`, ordered by first row, at least two.

    So the same rows make the same one-hot columns, whichever numbers are their codes.
    """
    listed = {column: points[..., column].flatten().tolist() for column in columns}
    codes = {column: list(dict.fromkeys(each)) for column, each in listed.items()}
    return {c: each if len(each) > 1 else [each[0], each[0] + 1] for c, each in codes.items()}


def maximize_between(
    acquisition: PointwiseAcquisition, values: Tensor, space: FiniteDomain, seeds: Sequence[int]
) -> tuple[Tensor, Tensor]:
    r"""Maximise an acquisition function over the box round a domain.

    Args:
        values: Its values at the points of the domain, `R x |D|`, to choose starts.

    Returns:
        The points `R x 1 x d`, and their values `R`.
    """
    best = values.topk(min(NUM_RAW, values.shape[-1]), dim=-1).indices
    return optimize_acqf_replicates(
        acquisition,
        space.bounds,
        seeds=seeds,
        num_restarts=min(NUM_STARTS, best.shape[-1]),
        raw_points=space.domain[best],
    )


@dataclass(frozen=True)
class PosteriorMean:
    r"""The posterior mean at any points of the box round a domain."""

    posterior: DomainPosterior

    def evaluate(self, X: Tensor) -> Tensor:
        r"""Means `R x m` at `R x m x d` points."""
        return self.posterior.at(X).mean
