r"""Goals of truncated variance reduction: the maximum, or a level set.

A goal defines which points the confidence bounds rule out or classify, when the search is finished,
and how accurate the sets are.
"""

import warnings
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
from botorch.exceptions.warnings import InputDataWarning
from torch import Tensor

from botorch_risk.arguments import check_finite, check_probability

Sets = tuple[Tensor, Tensor, Tensor]  # unclassified, high, low: batch_shape x |D| each


class Goal(ABC):
    r"""The goal of the sets in Algorithm 2 of TRUVAR.

    Attributes:
        paper_a: The factor of `beta_(i)` in the paper's experiments.
        keeps_maximizer: Whether the point with the highest mean belongs to `M_t`.
    """

    paper_a: ClassVar[float]
    keeps_maximizer: ClassVar[bool]

    def classify(self, sets: Sets, lower: Tensor, upper: Tensor, monotone: bool = True) -> Sets:
        r"""The sets after a round, Eqs. (5) to (7) of [Bogunovic2016truvar]_.

        Args:
            sets: `M_{t-1}`, `H_{t-1}` and `L_{t-1}`, `batch_shape x |D|` each.
            lower: Lower bounds, `batch_shape x |D|`.
            upper: Upper bounds, `batch_shape x |D|`.
            monotone: Whether M only shrinks. Otherwise `M_{t-1}` is replaced by all points, and H
                and L start empty.
        """
        if not monotone:  # the same shapes and device, with every point undecided again
            within, high, low = sets
            sets = within | True, high & False, low & False
        return self._classify(sets, lower, upper)

    @abstractmethod
    def is_finished(self, sets: Sets, monotone: bool) -> Tensor:
        r"""Whether the sets leave nothing to do, `batch_shape`."""

    @abstractmethod
    def accuracy(self, sets: Sets, values: Tensor) -> Tensor:
        r"""The smallest epsilon for which the sets are epsilon-accurate (Definition 3.1).

        Args:
            sets: Unclassified, high and low points, `batch_shape x |D|` each.
            values: True values of f, `batch_shape x |D|`.

        Returns:
            `batch_shape` values of epsilon; infinity where a set is wrong.
        """

    @abstractmethod
    def warn_unlikely(self, smallest: Tensor, largest: Tensor) -> None:
        r"""Warn if the range of the outcomes so far suggests that the goal's level is wrong.

        Args:
            smallest: The smallest outcome of each replicate, `batch_shape`.
            largest: The largest outcome, `batch_shape`; if it equals the smallest, it is no
                evidence.
        """

    def state_dict(self) -> dict[str, Any]:
        r"""The goal as plain Python values."""
        return {"kind": type(self).__name__, **asdict(self)}  # type: ignore[call-overload]

    @abstractmethod
    def _classify(self, sets: Sets, lower: Tensor, upper: Tensor) -> Sets:
        r"""The sets after a round, from the sets before it."""


@dataclass(frozen=True)
class Maximize(Goal):
    r"""Finds the maximisers: M holds the points that may be a maximiser.

        M_t = {x in M_{t-1}: u(x) >= max_{x' in M_{t-1}} l(x')}                   Eq. (5)

    Algorithm 2 of [Bogunovic2016truvar]_.

    Example:
        >>> every = torch.ones(3, dtype=torch.bool)
        >>> lower, upper = torch.tensor([0.0, 1.0, 2.0]), torch.tensor([1.0, 3.0, 4.0])
        >>> Maximize().classify((every, ~every, ~every), lower, upper)[0]
        tensor([False,  True,  True])
    """

    paper_a: ClassVar[float] = 0.5
    keeps_maximizer: ClassVar[bool] = True

    def is_finished(self, sets: Sets, monotone: bool) -> Tensor:
        r"""Whether one potential maximiser is left, and no point can return."""
        return sets[0].sum(dim=-1) <= int(monotone)

    def accuracy(self, sets: Sets, values: Tensor) -> Tensor:
        r"""The largest distance of f in M from its maximum; infinity if M lacks a maximiser."""
        within, _, _ = sets
        gap = values.amax(dim=-1, keepdim=True) - values  # exactly 0 at every maximiser
        wrong = (gap == 0) & ~within
        error = gap.where(within, 0.0).amax(dim=-1)
        return error.where(~wrong.any(dim=-1), torch.inf)

    def warn_unlikely(self, smallest: Tensor, largest: Tensor) -> None:
        r"""Does nothing: no outcome contradicts a maximum."""

    def _classify(self, sets: Sets, lower: Tensor, upper: Tensor) -> Sets:
        within, high, low = sets
        return within & _possible_maximizers(within, lower, upper), high, low  # Eq. (5)


class LevelSetGoal(Goal):
    r"""A goal that divides the domain at a level h: a point is high if `f >= h`."""

    paper_a: ClassVar[float] = 1.0
    keeps_maximizer: ClassVar[bool] = False

    @abstractmethod
    def level(self, values: Tensor) -> Tensor:
        r"""The level h for values `batch_shape x |D|` of f, `batch_shape x 1`."""

    def is_finished(self, sets: Sets, monotone: bool) -> Tensor:
        r"""Whether every point is classified."""
        return ~_undecided(sets).any(dim=-1)

    def accuracy(self, sets: Sets, values: Tensor) -> Tensor:
        r"""Twice the distance of undecided points from the level; infinity if a class is wrong.

        A point with `f = h` is in the positive class, but neither H nor L may hold it.
        """
        _, high, low = sets
        level = self.level(values)
        wrong = (high & (values <= level)) | (low & (values >= level))
        error = 2 * (values - level).abs().where(_undecided(sets), 0.0).amax(dim=-1)
        return error.where(~wrong.any(dim=-1), torch.inf)


@dataclass(frozen=True)
class LevelSet(LevelSetGoal):
    r"""Classifies points by a known level.

        M_t = {x in M_{t-1}: l(x) <= h <= u(x)}                                    Eq. (6)
        H_t adds {x in M_{t-1}: l(x) > h},  L_t adds {x in M_{t-1}: u(x) < h}      Eq. (7)

    Algorithm 2 of [Bogunovic2016truvar]_.

    Attributes:
        threshold: The level h, in units of the outcome.

    Example:
        >>> every = torch.ones(3, dtype=torch.bool)
        >>> lower, upper = torch.tensor([0.0, 1.0, 2.0]), torch.tensor([1.0, 3.0, 4.0])
        >>> within, high, low = LevelSet(1.5).classify((every, ~every, ~every), lower, upper)
        >>> within, high
        (tensor([False,  True, False]), tensor([False, False,  True]))
    """

    threshold: float

    def __post_init__(self) -> None:
        check_finite(threshold=self.threshold)

    def level(self, values: Tensor) -> Tensor:
        r"""The threshold, whatever the values are."""
        return values.new_full((*values.shape[:-1], 1), self.threshold)

    def warn_unlikely(self, smallest: Tensor, largest: Tensor) -> None:
        r"""Warn about a level outside the outcomes so far."""
        outside = (smallest > self.threshold) | (largest < self.threshold)
        expected = "a threshold within the range of the outcomes so far"
        _warn_where(outside, expected, self.threshold, smallest, largest)

    def _classify(self, sets: Sets, lower: Tensor, upper: Tensor) -> Sets:
        within, high, low = sets
        above, below = within & (lower > self.threshold), within & (upper < self.threshold)
        return within & ~above & ~below, high | above, low | below  # Eqs. (6) and (7)


@dataclass(frozen=True)
class RelativeLevelSet(LevelSetGoal):
    r"""Classifies points by a fraction of the unknown maximum, [Gotovos2013lse]_, Sec. 4.

        h = baseline + fraction (max f - baseline)

    A point is high if its lower bound is above the optimistic level, computed from `max_M u`, and
    low if its upper bound is below the pessimistic one, computed from `max_M l`. A classified point
    whose upper bound reaches `max_M l` may be the maximum that sets the level, and stays in M.

    With a baseline of 0, the paper's form, a negative maximum is below h, so that no point is high:
    put the baseline below every possible value of f.

    Attributes:
        fraction: In (0, 1), the paper's omega.
        baseline: The value that counts as zero, in units of the outcome.

    Example:
        >>> RelativeLevelSet(0.8).level(torch.tensor([1.0, 5.0]))
        tensor([4.])
    """

    fraction: float
    baseline: float = 0.0

    def __post_init__(self) -> None:
        check_probability(fraction=self.fraction)
        check_finite(baseline=self.baseline)

    def level(self, values: Tensor) -> Tensor:
        r"""The level from the largest value."""
        return self._of(values.amax(dim=-1, keepdim=True))

    def warn_unlikely(self, smallest: Tensor, largest: Tensor) -> None:
        r"""Warn about a baseline above all outcomes so far."""
        expected = "a baseline below the largest outcome so far"
        _warn_where(largest < self.baseline, expected, self.baseline, smallest, largest)

    def _of(self, maximum: Tensor) -> Tensor:
        return self.baseline + self.fraction * (maximum - self.baseline)

    def _classify(self, sets: Sets, lower: Tensor, upper: Tensor) -> Sets:
        within, high, low = sets
        pessimistic = lower.where(within, -torch.inf).amax(dim=-1, keepdim=True)
        optimistic = upper.where(within, -torch.inf).amax(dim=-1, keepdim=True)
        undecided = _undecided(sets)
        # The level itself lies between these two: a class is certain only beyond both.
        above = undecided & (lower > self._of(optimistic))
        below = undecided & (upper < self._of(pessimistic))
        possible = _possible_maximizers(within, lower, upper)
        within = within & ((undecided & ~above & ~below) | possible)
        return within, high | above, low | below


GOALS = {kind.__name__: kind for kind in (Maximize, LevelSet, RelativeLevelSet)}


def _undecided(sets: Sets) -> Tensor:
    r"""Points of M that are in neither class."""
    within, high, low = sets
    return within & ~high & ~low


def _possible_maximizers(within: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    r"""Points whose upper bound reaches the largest lower bound in M."""
    return upper >= lower.where(within, -torch.inf).amax(dim=-1, keepdim=True)


def _warn_where(
    outside: Tensor, expected: str, given: float, smallest: Tensor, largest: Tensor
) -> None:
    outside = outside & (smallest < largest)  # a single outcome says nothing
    if not bool(outside.any()):
        return
    low, high = smallest[outside].min().item(), largest[outside].max().item()
    warnings.warn(
        f"Expected {expected}. Got {given} for outcomes in [{low:.4g}, {high:.4g}] in "
        f"{int(outside.sum())} of {outside.numel()} replicates.",
        InputDataWarning,
        stacklevel=4,
    )
