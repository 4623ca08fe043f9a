r"""Writes timing.md: what a decision costs each strategy, from the outcomes that were stored.

OMP_NUM_THREADS=1 python -m bench.studies.risk_measures.timing [--results results/risk_measures]
"""

from pathlib import Path

from bench.studies.decision_seconds import write_timing
from bench.studies.risk_measures.experiments import EXPERIMENTS, NUM_ROUNDS


def main() -> None:
    r"""Writes timing.md."""
    folder = Path(__file__).parent
    names = [each.name for each in EXPERIMENTS]
    write_timing(__doc__, "results/risk_measures", folder, names, NUM_ROUNDS, EXPERIMENTS)


if __name__ == "__main__":
    main()
