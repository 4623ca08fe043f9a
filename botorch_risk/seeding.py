r"""Random streams that are identified by a seed and a purpose, and carry no state.

A stream is named by a seed and any number of integers or words (the round, the purpose), so a
resumed experiment makes the same draws as an uninterrupted one, and the draws of one replicate do
not depend on the others.
"""

import hashlib
import math
import operator
from collections.abc import Iterable, Sequence
from functools import cache
from numbers import Integral
from typing import Any, TypeGuard

import numpy as np
import torch
from numpy import ndarray
from scipy.special import ndtri
from torch import Generator, Tensor
from torch.quasirandom import SobolEngine

from botorch_risk.arguments import in_short


def as_seeds(seeds: int | Sequence[int], num_replicates: int | None = None) -> list[int]:
    r"""One seed per replicate, as a list of length `R`.

    Args:
        seeds: An integer, which means one replicate, or one distinct integer per replicate;
            Python's own, NumPy's or torch's alike.
        num_replicates: The required number of replicates, if it is known.

    Raises:
        ValueError: If a seed is not an integer or is repeated, or their number is not
            `num_replicates`.
    """
    each: Any = [seeds] if is_one_seed(seeds) else seeds
    if isinstance(seeds, str) or not isinstance(each, Iterable):
        raise ValueError(
            f"Expected `seeds` to be an integer, or one per replicate. Got {in_short(seeds)}."
        )
    listed = _integers(each)
    if len(set(listed)) != len(listed) or not listed:
        raise ValueError(f"Expected one distinct seed per replicate. Got seeds={in_short(seeds)}.")
    if num_replicates is not None and len(listed) != num_replicates:
        raise ValueError(
            f"Expected one seed for each of {num_replicates} replicates. Got {len(listed)} seeds."
        )
    return listed


def is_one_seed(seeds: Any) -> TypeGuard[int]:
    r"""Whether seeds are a single integer, which may be NumPy's or a zero-dimensional tensor."""
    return isinstance(seeds, Integral) or (isinstance(seeds, torch.Tensor) and seeds.dim() == 0)


def _integer(value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise ValueError(f"Expected integer `seeds` and rounds. Got {in_short(value)}.") from None


def _integers(values: Iterable[Any]) -> list[int]:
    values = list(values)
    try:
        return list(map(operator.index, values))  # without Python for each
    except TypeError:
        return [_integer(value) for value in values]  # says which


def derive_seed(seed: int, *stream: int | str) -> int:
    r"""A 63-bit seed that is a pure function of `seed` and the name of the stream.

    Its values must never change: the problems and the noise of stored studies are drawn with it.
    """
    names = (part if isinstance(part, str) else _integer(part) for part in stream)
    digest = hashlib.blake2b(repr((_integer(seed), *names)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def generators(seeds: int | Sequence[int], *stream: int | str) -> list[Generator]:
    r"""One CPU generator per replicate for the named stream.

    Draws are made on the CPU and then moved, so that they do not depend on the device.
    """
    return [Generator().manual_seed(derive_seed(seed, *stream)) for seed in as_seeds(seeds)]


def streams(seeds: Sequence[int], *name: int | str) -> list[int]:
    r"""A 63-bit seed for each seed and the name of a stream, computed for all seeds at once.

    It serves like `derive_seed` for each, but with other values: no hash per seed is computed.
    """
    derived: list[int] = (_state(seeds, *name) >> 1).tolist()
    return derived


class Draws:
    r"""Random numbers of each of `R` seeds, all drawn at once.

        state = mix(mix(seed) ^ name),    number i = mix(state + (i + 1) * step)

    with the function `mix` of SplitMix64 [Steele2014splittable]_. Each seed has a generator of its
    own, so that its numbers do not depend on the other seeds; no Python code runs per seed.

    Args:
        seeds: One distinct seed per replicate.
        name: Words and integers, which name the stream.

    Example:
        >>> Draws([3, 8], "noise", 1).uniforms(2).shape
        (2, 2)
    """

    def __init__(self, seeds: Sequence[int], *name: int | str) -> None:
        self._states, self._count = _state(seeds, *name)[:, None], 0

    def words(self, *shape: int) -> ndarray:
        r"""The next numbers of 64 random bits, `R x shape`."""
        count = math.prod(shape)
        steps = np.arange(self._count + 1, self._count + count + 1, dtype=np.uint64) * _STEP
        self._count += count
        return _mixed(self._states + steps).reshape(-1, *shape)

    def uniforms(self, *shape: int) -> ndarray:
        r"""Independent uniform numbers in (0, 1), `R x shape`; neither end is ever drawn."""
        halves: ndarray = (self.words(*shape) >> _TWELVE) + 0.5  # exact: 53 bits
        return halves * 2.0**-52

    def normals(self, *shape: int) -> ndarray:
        r"""Independent standard normal numbers, `R x shape`."""
        drawn: ndarray = ndtri(self.uniforms(*shape))
        return drawn

    def gumbels(self, *shape: int) -> ndarray:
        r"""Independent numbers of the standard Gumbel distribution, `R x shape`."""
        drawn: ndarray = -np.log(-np.log(self.uniforms(*shape)))
        return drawn

    def permutations(self, size: int) -> ndarray:
        r"""A random order of `size` things for each seed, `R x size`."""
        return self.words(size).argsort(axis=1, kind="stable")


# SplitMix64: the step of its counter, and the shifts and factors of its function.
_STEP, _TWELVE = np.uint64(0x9E3779B97F4A7C15), np.uint64(12)
_SHIFTS = tuple(map(np.uint64, (30, 27, 31)))
_FACTORS = tuple(map(np.uint64, (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)))


def _mixed(words: ndarray) -> ndarray:
    r"""A bijection of 64-bit words under which neighbours have nothing in common."""
    words = (words ^ (words >> _SHIFTS[0])) * _FACTORS[0]
    words = (words ^ (words >> _SHIFTS[1])) * _FACTORS[1]
    return words ^ (words >> _SHIFTS[2])


def _state(seeds: Sequence[int], *name: int | str) -> ndarray:
    r"""A 64-bit word for each seed and the name of a stream; distinct for distinct seeds."""
    try:
        seeds = _integers(seeds)
        words = np.array(seeds, dtype=np.int64).view(np.uint64)
    except OverflowError:  # 64 bits do not hold one: it is hashed
        words = np.array([s if -(2**63) <= s < 2**63 else derive_seed(s) for s in seeds]).view(
            np.uint64
        )
    return _mixed(_mixed(words) ^ np.uint64(derive_seed(0, *name)))


def sobol_points(seed: int, num_points: int, dim: int) -> Tensor:
    r"""Scrambled Sobol points in the unit cube, a function of the seed alone.

    `num_points x dim`, in float64 on the CPU.
    """
    return sobol_points_of_each([seed], num_points, dim)[0]


def sobol_points_of_each(seeds: Sequence[int], num_points: int, dim: int) -> Tensor:
    r"""The scrambled Sobol points of each seed, `seeds x num_points x dim`.

    Each seed applies a random digital shift and a random linear scrambling to one sequence
    [Matousek1998discrepancy]_, as torch's `SobolEngine` does, but for all seeds at once: its loop
    over seeds takes a tenth of a round with many replicates. Fewer points are the first of more.
    """
    bits, used = SobolEngine.MAXBIT, (num_points - 1).bit_length()  # and the directions used
    words = Draws(seeds, "Sobol").words(1 + used, dim).swapaxes(0, 1) >> np.uint64(64 - bits)
    points = np.empty((num_points, *words.shape[1:]), dtype=np.int64)
    points[0], *columns = words.view(np.int64)
    numbers = np.zeros((used, *words.shape[1:]), dtype=np.int64)
    for k, column in enumerate(columns):  # of bit k, with a one there and random bits below
        bit = 1 << (bits - 1 - k)
        chosen = np.where(_sobol_directions(dim)[:used] & bit, -1, 0)
        numbers ^= ((column & (bit - 1)) | bit) & chosen[:, None, :]
    for k, number in enumerate(numbers):  # Gray's code: backwards, with one more direction
        size = 1 << k
        back = points[:size][::-1][: num_points - size]
        np.bitwise_xor(back, number, out=points[size : size + len(back)])
    return torch.as_tensor(np.ascontiguousarray(points.swapaxes(0, 1))).double() / 2**bits


@cache
def _sobol_directions(dim: int) -> ndarray:
    r"""The direction numbers, `direction x dim`; the first bit of each is its own."""
    return np.ascontiguousarray(SobolEngine(dim).sobolstate.numpy().T)


def is_largest(score: Tensor) -> Tensor:
    r"""Whether scores `... x n` are the largest in their row, up to rounding."""
    best = score.amax(dim=-1, keepdim=True)
    least = score.masked_fill(score == -torch.inf, torch.inf).amin(dim=-1, keepdim=True)
    spread = (best - least).where(best > -torch.inf, 0.0)
    rounding = 64 * torch.finfo(score.dtype).eps * best.abs().where(best > -torch.inf, 0.0)
    return score >= best - (1e-9 * spread + rounding)


def argmax_at_random(score: Tensor, lottery: Tensor) -> Tensor:
    r"""The index of a largest score, `...`; ties up to rounding are broken at random.

    Scores `... x n` are minus infinity for entries that may not be chosen. The lottery consists of
    `... x n` numbers in [0, 1).
    """
    return lottery.masked_fill(~is_largest(score), -1.0).argmax(dim=-1)


def even_normals(num_samples: int, draws: Draws) -> ndarray:
    r"""Standard normal quantiles at even steps of probability, `num_samples x R`.

    Their order is random for each of `R` seeds; their mean is 0.
    """
    steps = ndtri((np.arange(num_samples) + 0.5) / num_samples)
    ordered: ndarray = steps[draws.permutations(num_samples)].T
    return ordered
