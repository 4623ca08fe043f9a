r"""Random streams that are named by a seed and a purpose, and carry no state.

A stream is named by a seed and any number of integers or words (the round, the purpose), so a
resumed experiment makes the same draws as an uninterrupted one, and the draws of one replicate do
not depend on the others.
"""

import hashlib
import operator
from collections.abc import Iterable, Sequence
from functools import cache
from numbers import Integral
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Generator, Tensor
from torch.quasirandom import SobolEngine


def as_seeds(seeds: int | Sequence[int], num_replicates: int | None = None) -> list[int]:
    r"""One seed per replicate, as a list of length `R`.

    Args:
        seeds: An integer, which means one replicate, or one distinct integer per replicate;
            Python's own, NumPy's or torch's alike.
        num_replicates: The number of replicates that the caller needs, if it knows.

    Raises:
        ValueError: If a seed is not an integer or is repeated, or their number is not
            `num_replicates`.
    """
    each: Any = [seeds] if is_one_seed(seeds) else seeds
    if isinstance(seeds, str) or not isinstance(each, Iterable):
        raise ValueError(f"Expected `seeds` to be an integer, or one per replicate. Got {seeds!r}.")
    listed = [_integer(seed) for seed in each]
    if len(set(listed)) != len(listed) or not listed:
        raise ValueError(f"Expected one distinct seed per replicate. Got {seeds=}.")
    if num_replicates is not None and len(listed) != num_replicates:
        raise ValueError(
            f"Expected one seed for each of {num_replicates} replicates. Got {len(listed)} seeds."
        )
    return listed


def is_one_seed(seeds: Any) -> TypeGuard[int]:
    r"""Whether seeds are a single integer, which may be NumPy's or a zero-dimensional tensor."""
    return isinstance(seeds, Integral) or (isinstance(seeds, torch.Tensor) and seeds.dim() == 0)


def _integer(value: Any) -> int:
    r"""Convert an integer of any library to Python's own, so that it names the same stream."""
    try:
        return operator.index(value)
    except TypeError:
        raise ValueError(f"Expected integer `seeds` and rounds. Got {value!r}.") from None


def derive_seed(seed: int, *stream: int | str) -> int:
    r"""A 63-bit seed that is a pure function of `seed` and the name of the stream.

    Raises:
        ValueError: If a part of the name is neither an integer nor a word.
    """
    names = (part if isinstance(part, str) else _integer(part) for part in stream)
    digest = hashlib.blake2b(repr((_integer(seed), *names)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def generators(seeds: int | Sequence[int], *stream: int | str) -> list[Generator]:
    r"""One CPU generator per replicate for the named stream.

    Draws are made on the CPU and moved, so that they do not depend on the device.
    """
    return [torch.Generator().manual_seed(derive_seed(seed, *stream)) for seed in as_seeds(seeds)]


def sobol_points(seed: int, num_points: int, dim: int) -> Tensor:
    r"""Scrambled Sobol points in the unit cube, a function of the seed alone.

    `num_points x dim`, in float64 on the CPU.
    """
    return sobol_points_of_each([seed], num_points, dim)[0]


# Seeds at a time, times dimensions: a block of scrambling matrices fits in a cache.
_SCRAMBLED = 2**10


def sobol_points_of_each(seeds: Sequence[int], num_points: int, dim: int) -> Tensor:
    r"""The Sobol points of each seed, `seeds x num_points x dim`, as `SobolEngine` draws them.

    One engine per seed would take a tenth of the time of a round with many replicates.
    """
    directions, order, powers = _sobol_directions(dim), _sobol_order(num_points), _POWERS
    size = max(1, _SCRAMBLED // dim)
    drawn = []
    for start in range(0, len(seeds), size):
        shift, matrix = _scramblings(seeds[start : start + size], dim)
        mixed = (matrix.float() @ directions).long() & 1  # seeds x dim x bit x direction
        numbers = (mixed * powers.unsqueeze(-1)).sum(dim=-2)  # seeds x dim x direction
        first = (shift * powers.flip(0)).sum(dim=-1, keepdim=True)
        steps = torch.cat([first, numbers[..., order]], dim=-1).numpy()
        drawn.append(np.bitwise_xor.accumulate(steps, axis=-1))
    return torch.as_tensor(np.concatenate(drawn)).mT.double() / 2**SobolEngine.MAXBIT


# The values of the bits of a number, the highest first.
_POWERS = 2 ** torch.arange(SobolEngine.MAXBIT - 1, -1, -1)


@cache
def _sobol_directions(dim: int) -> Tensor:
    r"""The bits of the direction numbers, `dim x bit x direction`; sums are to be modulo 2."""
    numbers = SobolEngine(dim).sobolstate.unsqueeze(-2)
    return ((numbers & _POWERS.unsqueeze(-1)) > 0).float()


@cache
def _sobol_order(num_points: int) -> Tensor:
    r"""The direction that each point after the first adds, in the order of Gray's code."""
    count = torch.arange(1, num_points)
    return (count & -count).double().log2().long()


def _scramblings(seeds: Sequence[int], dim: int) -> tuple[Tensor, Tensor]:
    r"""Random shifts, `seeds x dim x bit`, and triangular matrices, `seeds x dim x bit x bit`.

    The entries are zeros and ones, drawn in the order of `SobolEngine`.
    """
    generator, bits = Generator(), SobolEngine.MAXBIT
    shift = torch.empty(len(seeds), dim, bits, dtype=torch.long)
    matrix = torch.empty(*shift.shape, bits, dtype=torch.long)
    for seed, *parts in zip(seeds, shift, matrix, strict=True):
        generator.manual_seed(seed)
        for part in parts:
            part.random_(2, generator=generator)
    matrix.tril_().diagonal(dim1=-2, dim2=-1).fill_(1)
    return shift, matrix


def is_largest(score: Tensor) -> Tensor:
    r"""Whether scores `... x n` are the largest in their row, up to rounding."""
    best = score.amax(dim=-1, keepdim=True)
    least = score.masked_fill(score == -torch.inf, torch.inf).amin(dim=-1, keepdim=True)
    spread = (best - least).where(best > -torch.inf, 0.0)
    rounding = 64 * torch.finfo(score.dtype).eps * best.abs().where(best > -torch.inf, 0.0)
    return score >= best - (1e-9 * spread + rounding)


def argmax_at_random(score: Tensor, lottery: Tensor) -> Tensor:
    r"""The index of a largest score, `...`; ties up to rounding are broken at random.

    Args:
        score: `... x n`, minus infinity where nothing may be chosen.
        lottery: `... x n` numbers in [0, 1).
    """
    return lottery.masked_fill(~is_largest(score), -1.0).argmax(dim=-1)


def even_normals(num_samples: int, generators: Sequence[np.random.Generator]) -> np.ndarray:
    r"""Standard normal quantiles at even steps of probability, `num_samples x R`.

    Their order is drawn for each of `R` generators; their mean is 0.
    """
    steps = torch.special.ndtri((torch.arange(num_samples).double() + 0.5) / num_samples).numpy()
    return np.stack([each.permutation(steps) for each in generators], axis=1)
