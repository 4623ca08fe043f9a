r"""Runs the study of repeats; stop it at any moment, it resumes.

python -m studies.repeats.run [NAME ...] [--out results/repeats]
"""

from __future__ import annotations

from reproduction.parts import Part, parser, run
from studies.repeats.experiments import EXPERIMENTS, STRATEGIES

NUM_SEEDS = 32  # 0 to 31; the design was chosen on seeds from 1000
PARTS = [  # strategy by strategy, so that a table can be written early
    Part(definition.name, (label,), NUM_SEEDS, rounds)
    for label, (_, rounds) in sorted(STRATEGIES.items(), key=lambda each: each[1][1])
    for definition in EXPERIMENTS
]


def main() -> None:
    r"""Runs all parts, or those that were named."""
    run(PARTS, parser(__doc__, PARTS, "results/repeats").parse_args(), EXPERIMENTS)


if __name__ == "__main__":
    main()
