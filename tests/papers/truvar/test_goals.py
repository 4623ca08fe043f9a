r"""Sets of Algorithm 2 by hand, where a bound is the level itself."""

import warnings

import pytest
import torch
from botorch.exceptions.warnings import InputDataWarning
from torch import Tensor

from botorch_risk.papers import LevelSet, Maximize, RelativeLevelSet
from botorch_risk.papers.truvar.goals import Goal, Sets


def start(size: int, **flags: list[int]) -> Sets:
    sets = {name: torch.zeros(size, dtype=torch.bool) for name in ("within", "high", "low")}
    sets["within"][:] = True
    for name, rows in flags.items():
        sets[name][:] = False
        sets[name][rows] = True
    return sets["within"], sets["high"], sets["low"]


def bounds(*pairs: tuple[float, float]) -> tuple[Tensor, Tensor]:
    lower, upper = zip(*pairs, strict=True)
    return torch.tensor(lower), torch.tensor(upper)


def classify(sets: Sets, lower: Tensor, upper: Tensor, goal: Goal, monotone: bool = True) -> Sets:
    return goal.classify(sets, lower, upper, monotone)


def rows(sets: Sets) -> list[list[int]]:
    return [part.nonzero().flatten().tolist() for part in sets]


def test_a_bound_at_the_level_classifies_nothing() -> None:
    r"""`l > h` and `u < h` are strict, Eq. (7); `l <= h <= u` is not, Eq. (6)."""
    lower, upper = bounds((0.5, 1.0), (0.0, 0.5), (0.5, 0.5), (0.6, 1.0), (0.0, 0.4), (0.0, 1.0))
    assert rows(classify(start(6), lower, upper, LevelSet(0.5))) == [[0, 1, 2, 5], [3], [4]]


def test_an_upper_bound_at_the_largest_lower_bound_may_be_the_maximum() -> None:
    lower, upper = bounds((0.5, 1.0), (0.0, 0.5), (0.0, 0.4999))
    assert rows(classify(start(3), lower, upper, Maximize())) == [[0, 1], [], []]


def test_only_a_maximum_is_never_ruled_out_by_itself() -> None:
    assert Maximize.keeps_maximizer
    assert not LevelSet.keeps_maximizer


def test_monotone_sets_only_shrink() -> None:
    lower, upper = bounds((0.6, 1.0), (0.0, 1.0), (0.0, 1.0), (0.0, 0.4))
    before = start(4, within=[0, 1], high=[2], low=[3])
    assert rows(classify(before, lower, upper, LevelSet(0.5))) == [[1], [0, 2], [3]]
    again = classify(before, lower, upper, LevelSet(0.5), monotone=False)
    assert rows(again) == [[1, 2], [0], [3]]
    assert rows(before) == [[0, 1], [2], [3]]  # left as they are
    # A point that was ruled out has no say in the largest lower bound.
    lower, upper = bounds((0.9, 1.0), (0.0, 0.5), (0.2, 0.6))
    ruled_out = start(3, within=[1, 2])
    assert rows(classify(ruled_out, lower, upper, Maximize()))[0] == [1, 2]
    assert rows(classify(ruled_out, lower, upper, Maximize(), monotone=False))[0] == [0]


def test_levels_that_are_a_fraction_of_the_maximum() -> None:
    r"""High above half the optimistic maximum, low below half the pessimistic one."""
    half = RelativeLevelSet(0.5)
    lower, upper = bounds((2.0, 4.0), (2.0, 3.0), (2.1, 3.0), (0.5, 1.05), (0.4, 0.9), (0.0, 1.9))
    assert rows(classify(start(6), lower, upper, half)) == [[0, 1, 2, 3, 5], [2], [4]]
    # A point that is high stays while it may be the maximum, and is not classified twice.
    sets = classify(start(6, within=[0, 2, 3], high=[2], low=[4]), lower, upper, half)
    assert rows(sets) == [[0, 2, 3], [2], [4]]
    beyond = bounds((2.0, 4.0), (2.0, 3.0), (1.9, 1.95), (0.5, 1.0), (0.4, 0.9), (0.0, 1.9))
    assert rows(classify(start(6, within=[0, 2, 3], high=[2]), *beyond, half))[0] == [0, 3]
    # What was ruled out has no say in either maximum.
    lower, upper = bounds((8.0, 9.0), (2.0, 3.0), (1.6, 2.5), (0.1, 0.9))
    sets = classify(start(4, within=[1, 2, 3], low=[0]), lower, upper, half)
    assert rows(sets) == [[1, 2], [1, 2], [0, 3]]


@pytest.mark.parametrize("goal", [Maximize(), LevelSet(0.4), RelativeLevelSet(0.5)])
def test_replicates_have_sets_of_their_own(goal: Goal) -> None:
    one = bounds((0.5, 1.0), (0.0, 0.4), (0.01, 0.05))
    two = bounds((0.0, 0.4), (0.3, 0.6), (0.01, 0.05))
    lower, upper = (torch.stack(part) for part in zip(one, two, strict=True))
    sets = tuple(part.expand(2, 3) for part in start(3))
    found = classify(sets, lower, upper, goal)
    for r, pair in enumerate((one, two)):
        alone = rows(classify(start(3), *pair, goal))
        assert rows(tuple(part[r] for part in found)) == alone != rows(start(3))


def test_a_threshold_is_one_level_for_each_replicate() -> None:
    assert LevelSet(0.5).level(torch.zeros(2, 7)).tolist() == [[0.5], [0.5]]


def test_fractions_and_baselines() -> None:
    shifted = RelativeLevelSet(0.25, baseline=-2.0)
    assert shifted.level(torch.tensor([[0.0, 2.0], [-2.0, -3.0]])).tolist() == [[-1.0], [-2.0]]
    for fraction in (0.0, 1.0):
        with pytest.raises(ValueError, match=r"`fraction` in \(0, 1\)"):
            RelativeLevelSet(fraction)


@pytest.mark.parametrize("goal", [Maximize(), LevelSet(0.5), RelativeLevelSet(0.5)])
def test_accuracy_of_each_replicate_is_its_own(goal: Goal) -> None:
    generator = torch.Generator().manual_seed(0)
    values = torch.rand(3, 8, generator=generator)
    within, high, low = (torch.rand(3, 3, 8, generator=generator) < 0.5).unbind()
    within[values.argmax(dim=-1, keepdim=True) == torch.arange(8)] = True
    within[2, values[2].argmax()] = False
    together = goal.accuracy((within, high & ~within, low & ~high & ~within), values)
    for r in range(3):
        sets = (within[r], (high & ~within)[r], (low & ~high & ~within)[r])
        torch.testing.assert_close(together[r], goal.accuracy(sets, values[r]))


@pytest.mark.parametrize(
    ("high", "low", "expected"),
    [
        ([2], [0], 0.0),
        ([], [0], 2.0),  # the undecided point is 1 above the level
        ([2], [], 4.0),  # ... 2 below
        ([1], [], torch.inf),  # a point at the level is neither high
        ([], [1], torch.inf),  # nor low
        ([0], [], torch.inf),
        ([], [2], torch.inf),
    ],
)
def test_accuracy_is_twice_the_distance_from_the_level_unless_a_class_is_wrong(
    high: list[int], low: list[int], expected: float
) -> None:
    undecided = sorted({0, 1, 2} - {*high, *low})
    sets = start(3, within=undecided, high=high, low=low)
    assert LevelSet(1.0).accuracy(sets, torch.tensor([-1.0, 1.0, 2.0])) == expected


def test_accuracy_of_a_maximum_that_was_ruled_out_is_infinite() -> None:
    values = torch.tensor([0.0, 3.0, 2.5])
    assert Maximize().accuracy(start(3, within=[1, 2]), values) == 0.5
    assert Maximize().accuracy(start(3), values) == 3.0
    assert Maximize().accuracy(start(3, within=[0, 2]), values) == torch.inf


def test_the_warning_names_the_range_of_the_replicates_that_it_is_about() -> None:
    smallest, largest = torch.tensor([-9.0, 1.0, 2.0]), torch.tensor([9.0, 4.0, 3.0])
    with pytest.warns(InputDataWarning, match=r"0\.5 for outcomes in \[1, 4\] in 2 of 3 replic"):
        LevelSet(0.5).warn_unlikely(smallest, largest)
    with pytest.warns(InputDataWarning, match=r"5\.0 for outcomes in \[1, 4\] in 2 of 3 replic"):
        RelativeLevelSet(0.5, baseline=5.0).warn_unlikely(smallest, largest)


def test_a_level_at_an_outcome_is_within_their_range() -> None:
    ends = torch.tensor([1.0]), torch.tensor([4.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for goal in (LevelSet(1.0), LevelSet(4.0), RelativeLevelSet(0.5, baseline=4.0)):
            goal.warn_unlikely(*ends)
