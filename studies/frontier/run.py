r"""Runs the study of this folder's README; stop it at any moment, it resumes.

python -m studies.frontier.run [NAME ...] [--out results/frontier]
"""

from __future__ import annotations

from botorch_risk.experiments.portfolio import EXPERIMENTS
from reproduction.parts import Part, parser, run
from studies.frontier.forest import EXPERIMENT as FOREST

(PORTFOLIO,) = EXPERIMENTS
# The demo has seeds 0 to 7, and the problem was built on 1000 to 1007.
FIRST_SEED = 100
PARTS = [
    Part(PORTFOLIO.name, tuple(PORTFOLIO.strategies), 10, first_seed=FIRST_SEED),
    Part(FOREST.name, tuple(FOREST.strategies), 4, first_seed=FIRST_SEED),
]


def main() -> None:
    r"""Runs both parts, or the one that was named."""
    run(PARTS, parser(__doc__, PARTS, "results/frontier").parse_args(), [FOREST])


if __name__ == "__main__":
    main()
