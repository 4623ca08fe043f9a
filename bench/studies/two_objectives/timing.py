r"""Writes timing.md: what a decision costs each strategy, from the outcomes that were stored.

OMP_NUM_THREADS=1 python -m bench.studies.two_objectives.timing [--results results/two_objectives]
"""

from pathlib import Path

from bench.studies.decision_seconds import write_timing
from bench.studies.two_objectives.campaign import NAME, NUM_ROUNDS


def main() -> None:
    r"""Writes timing.md."""
    write_timing(__doc__, "results/two_objectives", Path(__file__).parent, [NAME], NUM_ROUNDS)


if __name__ == "__main__":
    main()
