r"""The memory that a table needs, estimated before anything is computed."""

from botorch.exceptions.errors import UnsupportedError

MEMORY_LIMIT = 4.0  # GiB, as of a joint distribution in `robust`
# Matrices between all conditions, and between all contexts, that are there at a time; and copies of
# the covariance over the contexts of each condition, from which the report draws. Together they are
# what 4,000 conditions and 25 contexts take, 1.8 GiB.
_MATRICES, _COPIES = 16, 8


def check_memory(**sizes: int) -> None:
    r"""Raise UnsupportedError unless the matrices of a table take at most `MEMORY_LIMIT` GiB.

    Args:
        sizes: The number of conditions and then the number of contexts, or one of the two.
    """
    first, *others = sizes.values()
    entries = _MATRICES * (first**2 + sum(each**2 for each in others))
    entries += _COPIES * sum(first * each**2 for each in others)
    if (needed := 8 * entries / 2**30) > MEMORY_LIMIT:
        got = " and ".join(f"{size:,} {name}" for name, size in sizes.items())
        raise UnsupportedError(
            f"Expected a table that takes at most {MEMORY_LIMIT:g} GiB. Got {got}, which take "
            f"{needed:,.1f} GiB. List fewer, such as the best conditions of a screening in one "
            "context, or describe them by numbers and use `risk_search`."
        )
