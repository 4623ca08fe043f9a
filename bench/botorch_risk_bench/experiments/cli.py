r"""The command `botorch-risk`: run an experiment, look at it, plot it.

Example:
    botorch-risk run branin --replicates 30 --rounds 50 --out branin.sqlite
    botorch-risk status branin.sqlite
    botorch-risk plot branin.sqlite --to pictures

A script of your own that calls `main([my_experiment])` is this command with your experiments
in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from botorch_risk_bench.experiments.definition import ExperimentDefinition


def main(own: Iterable[ExperimentDefinition] = ()) -> None:
    r"""Runs the command line.

    Args:
        own: Experiments beside the papers' ones.
    """
    from botorch_risk_bench.experiments.commands import app

    app(obj=tuple(own))


if __name__ == "__main__":
    main()
