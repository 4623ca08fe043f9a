r"""Runs the experiments behind this folder's README; stop it at any moment, it resumes.

python -m reproduction.kde.run [NAME ...] [--table portfolio.csv] [--out results/kde]
"""

from __future__ import annotations

from botorch_risk.experiments.papers import kde
from reproduction.parts import Part, run_with_portfolio

# The paper has five seeds; where a run is cheap there are more, of which they are the first.
NUM_SEEDS = {
    "ackley": 20,
    "branin-context": 20,
    "hartmann": 20,
    "hartmann-complicated": 20,
    "newsvendor": 20,
    "portfolio-normal": 5,
    "portfolio-uniform": 5,
    "ackley-4": 5,
}
NUM_ROUNDS = 100
PARTS = [  # the slowest last
    *(
        Part(name, ("SBO-KDE", "DRBO-KDE", "GP-UCB"), num_seeds, NUM_ROUNDS)
        for name, num_seeds in NUM_SEEDS.items()
    ),
    *(Part(name, ("StableOpt", "DRBO-MMD-minimax"), 5, NUM_ROUNDS, "-5") for name in NUM_SEEDS),
    *(Part(name, ("DRBO-MMD",), 5, NUM_ROUNDS, "-5") for name in NUM_SEEDS),
]


def main() -> None:
    run_with_portfolio(__doc__, PARTS, "results/kde", kde.portfolio)


if __name__ == "__main__":
    main()
