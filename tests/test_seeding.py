r"""Seeds and streams are the same whatever library their integers are of."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.quasirandom import SobolEngine

from botorch_risk.environments.uniforms import seeded_uniforms
from botorch_risk.seeding import (
    argmax_at_random,
    as_seeds,
    derive_seed,
    generators,
    sobol_points,
    sobol_points_of_each,
)

THREE = [3, np.int64(3), np.uint8(3), torch.tensor(3)]
kinds = pytest.mark.parametrize("three", THREE, ids=lambda three: type(three).__name__)


@kinds
def test_integers_of_any_library_name_the_same_stream(three: Any) -> None:
    assert as_seeds(three) == [3]
    assert as_seeds([three, 4]) == [3, 4]
    assert all(type(seed) is int for seed in as_seeds([three, 4]))
    assert derive_seed(three, "noise", 1) == derive_seed(3, "noise", 1)
    assert derive_seed(0, "noise", three) == derive_seed(0, "noise", 3)
    draws = [torch.rand(2, generator=generators(s, "x", t)[0]) for s, t in ((3, 3), (three, three))]
    assert torch.equal(*draws)
    assert torch.equal(seeded_uniforms(4, 2, three, "x"), seeded_uniforms(4, 2, 3, "x"))


def test_sequences_of_any_library_are_seeds() -> None:
    for seeds in ([1, 2], (1, 2), range(1, 3), np.arange(1, 3), torch.arange(1, 3)):
        assert as_seeds(seeds) == [1, 2]
    assert as_seeds(np.array([7])) == as_seeds(torch.tensor([7])) == [7]


def test_streams_are_stable_and_differ() -> None:
    r"""Stored experiments are resumed with these."""
    assert derive_seed(0, "noise", 1) == 1975832920945326368
    assert derive_seed(7) == 6645920422606582411
    names = [(0,), (1,), (0, "a"), (0, "b"), (0, "a", 1), (0, "a", 2), (0, 1, "a"), (0, "1")]
    assert len({derive_seed(*name) for name in names}) == len(names)


@pytest.mark.parametrize("bad", [1.5, 1.0, "1", None])
def test_refuses_what_is_no_integer(bad: Any) -> None:
    with pytest.raises(ValueError, match=r"Expected integer `seeds` and rounds. Got"):
        as_seeds([bad])
    with pytest.raises(ValueError, match=r"Expected integer `seeds` and rounds. Got"):
        derive_seed(bad, "noise")
    if not isinstance(bad, str):
        with pytest.raises(ValueError, match=r"Expected integer `seeds` and rounds. Got"):
            derive_seed(0, "noise", bad)


def test_refuses_repeated_and_missing_seeds() -> None:
    for seeds in ([1, 1], [], [1, np.int64(1)]):
        with pytest.raises(ValueError, match="one distinct seed per replicate"):
            as_seeds(seeds)
    with pytest.raises(ValueError, match=r"one seed for each of 2 replicates. Got 1"):
        as_seeds(0, 2)


def test_of_scores_that_are_equal_to_rounding_one_is_drawn() -> None:
    score = torch.tensor([1e6 + 1.0, 1e6, 1e6 + 1.0 - 1e-10, -torch.inf], dtype=torch.double)
    lottery = torch.rand(500, 4, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    index = argmax_at_random(score.expand(500, -1), lottery)
    counts = torch.bincount(index, minlength=4).tolist()
    assert counts[1] == counts[3] == 0
    assert min(counts[0], counts[2]) > 200
    assert argmax_at_random(score[:2], lottery[0, :2]) == 0


@pytest.mark.parametrize(("num_points", "dim"), [(1, 1), (2, 3), (300, 2), (33, 40)])
def test_sobol_points_are_those_of_an_engine_for_each_seed(num_points: int, dim: int) -> None:
    seeds = [3, 99, 2**60 + 1]
    for seed, points in zip(seeds, sobol_points_of_each(seeds, num_points, dim), strict=True):
        engine = SobolEngine(dim, scramble=True, seed=seed)
        expected = engine.draw(num_points, dtype=torch.double)
        expected[0] = engine.shift.double() / 2**engine.MAXBIT  # which it rounds to float32
        torch.testing.assert_close(points, expected, rtol=0.0, atol=1e-12)
        torch.testing.assert_close(sobol_points(seed, num_points, dim), points, rtol=0, atol=0)
