r"""Runs the study of risk measures; stop it at any moment, it resumes.

python -m studies.risk_measures.run [NAME ...] [--out results/risk_measures]
"""

from __future__ import annotations

from reproduction.parts import Part, parser, run
from studies.risk_measures.experiments import EXPERIMENTS

NUM_SEEDS = 20
LABELS = ("confidence-bound", "random", "qLogNEI-robust", "qLogNEI-BoTorch")  # the slowest last
PARTS = [
    Part(definition.name, (label,), NUM_SEEDS) for label in LABELS for definition in EXPERIMENTS
]


def main() -> None:
    r"""Runs all parts, or those that were named."""
    run(PARTS, parser(__doc__, PARTS, "results/risk_measures").parse_args(), EXPERIMENTS)


if __name__ == "__main__":
    main()
