r"""The command `botorch-risk`: run an experiment, look at it, plot it.

Example:
    botorch-risk run branin --replicates 30 --rounds 50 --out branin.sqlite
    botorch-risk status branin.sqlite
    botorch-risk plot branin.sqlite --to pictures

A script of your own that calls `main([my_experiment])` is this command with your experiments
in it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from botorch_risk.experiments.extras import MissingExtraError

if TYPE_CHECKING:
    from botorch_risk.experiments.definition import ExperimentDefinition


def main(own: Iterable[ExperimentDefinition] = ()) -> None:
    r"""Runs the command line; an extra that is not installed is one line and the exit code 2.

    Args:
        own: Experiments beside the papers' ones.
    """
    with one_line_errors(MissingExtraError):
        from botorch_risk.experiments.commands import app
    app(obj=tuple(own))


@contextmanager
def one_line_errors(*kinds: type[Exception]) -> Iterator[None]:
    r"""Errors of these kinds are one line on the error stream and the exit code 2."""
    try:
        yield
    except kinds as error:
        print(f"Error: {' '.join(str(error).split())}", file=sys.stderr)
        raise SystemExit(2) from error


if __name__ == "__main__":
    main()
