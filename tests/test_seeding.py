r"""Seeds and streams are the same whatever library their integers are of."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.stats import qmc
from torch.quasirandom import SobolEngine

from botorch_risk.environments.uniforms import seeded_uniforms
from botorch_risk.seeding import (
    Draws,
    argmax_at_random,
    as_seeds,
    derive_seed,
    even_normals,
    generators,
    sobol_points,
    sobol_points_of_each,
    streams,
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
    assert streams([three, 4], "noise", three) == streams([3, 4], "noise", 3)
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
    assert streams([0, 7], "noise", 1) == [1181210148097355065, 2138958814172454258]
    names = [(0,), (1,), (0, "a"), (0, "b"), (0, "a", 1), (0, "a", 2), (0, 1, "a"), (0, "1")]
    assert len({derive_seed(*name) for name in names}) == len(names)


@pytest.mark.parametrize("bad", [1.5, 1.0, "1", None])
def test_refuses_what_is_no_integer(bad: Any) -> None:
    with pytest.raises(ValueError, match=r"Expected integer `seeds` and rounds. Got"):
        as_seeds([bad])
    with pytest.raises(ValueError, match=r"Expected integer `seeds` and rounds. Got"):
        derive_seed(bad, "noise")
    with pytest.raises(ValueError, match=r"Expected integer `seeds` and rounds. Got"):
        streams([0, bad], "noise")
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


def split_mix(state: int, count: int) -> list[int]:
    r"""SplitMix64 in Python's own integers."""
    mask, drawn = 2**64 - 1, []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        drawn.append(z ^ (z >> 31))
    return drawn


def mixed(word: int) -> int:
    return split_mix((word - 0x9E3779B97F4A7C15) % 2**64, 1)[0]


def test_random_words_are_those_of_the_published_generator() -> None:
    assert split_mix(1234567, 2) == [6457827717110365317, 3203168211198807973]  # its test vector
    seeds = [0, 1, -3, 2**62 + 5]
    drawn = Draws(seeds, "starts", 4).words(5)
    for seed, words in zip(seeds, drawn.tolist(), strict=True):
        state = mixed(mixed(seed % 2**64) ^ derive_seed(0, "starts", 4))
        assert words == split_mix(state, 5)
        assert streams([seed], "starts", 4) == [state >> 1]


def test_each_seed_draws_the_same_whichever_others_are_there() -> None:
    seeds = [7, -1, 2**64 - 1, 10**40, 0]  # two of them are equal modulo 2^64
    draws, alone = Draws(seeds, "x"), [Draws([seed], "x") for seed in seeds]
    for kind, shape in (("words", (3,)), ("uniforms", (2, 2)), ("normals", (4,)), ("gumbels", ())):
        together = getattr(draws, kind)(*shape)
        assert together.shape == (5, *shape)
        assert len(np.unique(together)) == together.size
        np.testing.assert_array_equal(together, [getattr(each, kind)(*shape)[0] for each in alone])
    np.testing.assert_array_equal(
        draws.permutations(6), [each.permutations(6)[0] for each in alone]
    )
    assert streams(seeds, "x") == [streams([seed], "x")[0] for seed in seeds]
    assert len({*streams(seeds, "x"), *streams(seeds, "y")}) == 10


def test_numbers_follow_one_another() -> None:
    draws = Draws([1, 2], "x")
    parts = np.concatenate([draws.words(2, 2).reshape(2, 4), draws.words(3)], axis=1)
    np.testing.assert_array_equal(parts, Draws([1, 2], "x").words(7))


def test_draws_are_independent_and_of_their_distributions() -> None:
    r"""Over numbers, over neighbouring seeds and over names; six standard errors, fixed seeds."""
    n, seeds = 500, range(200)
    draws = Draws(seeds, "x")
    uniforms, normals, gumbels = draws.uniforms(n), draws.normals(n), draws.gumbels(n)
    assert uniforms.min() > 0 and uniforms.max() < 1
    for sample, distribution in (
        (uniforms, stats.uniform),
        (normals, stats.norm),
        (gumbels, stats.gumbel_r),
    ):
        assert stats.kstest(sample.ravel(), distribution.cdf).pvalue > 1e-3
        assert stats.kstest(sample[:, 0], distribution.cdf).pvalue > 1e-3  # the first of each seed
        assert stats.kstest(sample[0], distribution.cdf).pvalue > 1e-3  # all of one seed
    centred = uniforms - 0.5
    other = Draws(seeds, "y").uniforms(n) - 0.5
    for first, second in (
        (centred[1:], centred[:-1]), (centred[:, 1:], centred[:, :-1]), (centred, other)
    ):  # fmt: skip
        assert abs((first * second).mean()) < 6 / 12 / first.size**0.5
    orders = Draws(range(6000), "order").permutations(3)
    _, counts = np.unique(orders, axis=0, return_counts=True)
    assert len(counts) == 6 and stats.chisquare(counts).pvalue > 1e-3


def test_normals_spread_evenly_in_an_order_of_each_seed() -> None:
    drawn = even_normals(8, Draws(range(50), "x"))
    assert drawn.shape == (8, 50) and len(np.unique(drawn, axis=1).T) == 50
    expected = stats.norm.ppf((np.arange(8) + 0.5) / 8)
    np.testing.assert_allclose(np.sort(drawn, axis=0), np.tile(expected[:, None], 50), atol=1e-12)


def shapes_of(boxes: int, dim: int) -> list[tuple[int, ...]]:
    r"""Ways to cut the cube into 2^boxes boxes by halving its sides."""
    every = itertools.product(range(boxes + 1), repeat=dim)
    return [each for each in every if sum(each) == boxes]


@pytest.mark.parametrize(("power", "dim"), [(6, 1), (8, 2), (7, 3), (5, 6)])
def test_sobol_points_of_each_seed_are_stratified_as_the_sequence_is(power: int, dim: int) -> None:
    r"""A scrambling permutes the boxes: as many have 0, 1, 2 ... points. In two dimensions
    each box has one.
    """
    plain = SobolEngine(dim).draw(2**power, dtype=torch.double).numpy()
    points = sobol_points_of_each([0, 3, 2**70, -5], 2**power, dim).numpy()
    for shape in shapes_of(power, dim):
        counts = [_counts(each, shape) for each in (plain, *points)]
        assert all(each == counts[0] for each in counts)
        assert dim > 2 or set(counts[0]) == {1}


def _counts(points: np.ndarray, shape: tuple[int, ...]) -> list[int]:
    r"""The numbers of points in the boxes that have some, in order."""
    cells = (points * 2.0 ** np.array(shape)).astype(int)
    return sorted(np.unique(cells, axis=0, return_counts=True)[1].tolist())


def test_sobol_points_are_uniform_over_seeds_and_independent_between_them() -> None:
    points = sobol_points_of_each(range(4000), 8, 2).numpy()
    for i, j in itertools.product(range(8), range(2)):
        assert stats.kstest(points[:, i, j], stats.uniform.cdf).pvalue > 1e-4
    first, second = points[1:] - 0.5, points[:-1] - 0.5
    assert abs((first * second).mean(axis=0)).max() < 5 / 12 / 4000**0.5
    # Without bias, and with far less variance than independent points.
    means = np.cos(3 * points.sum(axis=-1)).mean(axis=1)
    rule = np.cos(3 * np.add.outer(*2 * [(np.arange(1000) + 0.5) / 1000]))
    assert abs(means.mean() - rule.mean()) < 5 * means.std() / 4000**0.5
    assert means.std() < 0.5 * rule.std() / 8**0.5


def test_sobol_points_are_as_even_as_those_of_torch() -> None:
    own = sobol_points_of_each(range(32), 128, 4).numpy()
    engines = [SobolEngine(4, scramble=True, seed=seed) for seed in range(32)]
    torchs = [engine.draw(128, dtype=torch.double).numpy() for engine in engines]
    found, expected = (np.mean([qmc.discrepancy(p) for p in each]) for each in (own, torchs))
    assert found == pytest.approx(expected, rel=0.03)


def test_fewer_sobol_points_are_the_first_of_more() -> None:
    many = sobol_points_of_each([4, 9], 300, 3)
    assert many.dtype == torch.float64 and many.is_contiguous()
    for count in (1, 2, 3, 64, 65):
        assert torch.equal(sobol_points_of_each([4, 9], count, 3), many[:, :count])
    assert torch.equal(sobol_points(9, 300, 3), many[1])
    assert ((many >= 0) & (many < 1)).all()
    assert torch.equal(many * 2**30, (many * 2**30).round())  # of torch's resolution
