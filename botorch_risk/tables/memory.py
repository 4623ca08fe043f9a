r"""The memory that a table needs, estimated before anything is computed."""

import math

from botorch.exceptions.errors import UnsupportedError

MEMORY_LIMIT = 4.0  # GiB, as of a joint distribution in `robust`
# An upper bound: matrices between all conditions, and between all contexts, mostly the distances of
# each column; and four times what 100 readings say of every pair, `n x n_x x n_w`, no copy of which
# is kept. No search is refused for readings beyond these. Measured peaks with three columns and 100
# readings were .2 to .35 of the sum: .7 GiB for 4,000 conditions and 25 contexts.
_MATRICES, _COPIES, _READINGS = 16, 4, 100


def check_memory(**sizes: int) -> None:
    r"""Raise UnsupportedError unless a table with 100 readings takes at most `MEMORY_LIMIT` GiB.

    Args:
        sizes: The number of conditions and then the number of contexts, or one of the two.
    """
    entries = _MATRICES * sum(each**2 for each in sizes.values())
    if len(sizes) > 1:
        entries += _COPIES * _READINGS * math.prod(sizes.values())
    if (needed := 8 * entries / 2**30) > MEMORY_LIMIT:
        got = " and ".join(f"{size:,} {name}" for name, size in sizes.items())
        raise UnsupportedError(
            f"Expected a table that takes at most {MEMORY_LIMIT:g} GiB. Got {got}, which take "
            f"{needed:,.1f} GiB. List fewer names, such as the best conditions of a screening in "
            "one context, or describe the names by numbers and use `risk_search`."
        )
