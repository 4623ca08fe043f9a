r"""Expected errors of the command line, without a traceback."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_line_errors(*kinds: type[Exception]) -> Iterator[None]:
    r"""Turns errors of these kinds into one line on the error stream and the exit code 2."""
    try:
        yield
    except kinds as error:
        print(f"Error: {' '.join(str(error).split())}", file=sys.stderr)
        raise SystemExit(2) from error
