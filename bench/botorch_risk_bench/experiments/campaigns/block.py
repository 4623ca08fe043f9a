r"""The unit of work of a campaign, and how large it should be."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

from botorch_risk.arguments import check_counts

# CPU time of a round by its number of replicates, in units of a batch of one: a fixed part and a
# part for each replicate. RAHBO's loop took 2.08 s of one replicate and 5.44 s of 32
# (bench/speed/README.md).
_FIXED, _PER_REPLICATE = 0.95, 0.05


@dataclass(frozen=True, order=True)
class Block:
    r"""Seeds of one strategy on one experiment in one setting, which run as one batch.

    Args:
        experiment: The experiment.
        strategy: The label of the strategy.
        setting: The name of the setting.
        seeds: One seed per replicate.
        num_rounds: The number of rounds after the initial design.

    Example:
        >>> str(Block("sine", "RAHBO", "default", (4, 5), 20))
        'sine, RAHBO, default, seeds 4 to 5'
    """

    experiment: str
    strategy: str
    setting: str
    seeds: tuple[int, ...]
    num_rounds: int

    @property
    def series(self) -> tuple[str, str, str]:
        r"""What its seeds are repetitions of."""
        return self.experiment, self.strategy, self.setting

    @property
    def key(self) -> tuple[str, str, str, int]:
        r"""What tells it from the other blocks of a campaign."""
        return (*self.series, self.seeds[0])

    @property
    def folder_name(self) -> str:
        r"""A file name that only this block has."""
        return hashlib.blake2b(repr(self.key).encode(), digest_size=12).hexdigest()

    def __str__(self) -> str:
        last = f" to {self.seeds[-1]}" if len(self.seeds) > 1 else ""
        return f"{', '.join(self.series)}, seeds {self.seeds[0]}{last}"


def best_block_size(num_seeds: int, num_series: int, num_workers: int) -> int:
    r"""The block size that ends a campaign soonest, by what a batch saves.

    Large blocks take less work, small ones keep all workers busy. The work of a round is taken as
    `.95 + .05 R` for R replicates, as measured for RAHBO's loop.

    Args:
        num_seeds: The number of seeds of each series.
        num_series: The number of experiments x settings x strategies.
        num_workers: The number of workers.

    Returns:
        The smallest of the best block sizes.

    Raises:
        ValueError: If a number is below 1.

    Example:
        >>> best_block_size(20, num_series=40, num_workers=2), best_block_size(20, 1, 4)
        (20, 5)
    """
    check_counts(num_seeds=num_seeds, num_series=num_series, num_workers=num_workers)

    def duration(size: int) -> float:
        num_blocks = num_series * math.ceil(num_seeds / size)
        return math.ceil(num_blocks / num_workers) * (_FIXED + _PER_REPLICATE * size)

    return min(range(1, num_seeds + 1), key=lambda size: (duration(size), size))
