r"""Runs the study of this folder's README; stop it at any moment, it resumes.

python -m studies.two_objectives.run [--out results/two_objectives] [--seeds 20] [--rounds 40]
"""

from __future__ import annotations

from reproduction.parts import Part, parser, run

NAME = "two-risks"
NUM_SEEDS, NUM_ROUNDS = 20, 40
LABELS = ("random", "Pareto-search", "qLogNEHVI-CVaR", "MARS-NEI")  # the slowest last
PARTS = [Part(NAME, (label,), NUM_SEEDS, NUM_ROUNDS) for label in LABELS]


def main() -> None:
    run(PARTS, parser(__doc__, PARTS, "results/two_objectives").parse_args())


if __name__ == "__main__":
    main()
