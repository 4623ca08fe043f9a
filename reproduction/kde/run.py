r"""Runs the experiments behind this folder's README; stop it at any moment, it resumes.

python -m reproduction.kde.run [NAME ...] [--table portfolio.csv] [--out results/kde]
"""

from __future__ import annotations

from pathlib import Path

from botorch_risk.experiments.kde import register_portfolio
from reproduction.parts import Part, parser, run

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
    arguments = parser(__doc__, PARTS, out="results/kde")
    arguments.add_argument("--table", type=Path, help="the back-tests of PortfolioOptimization")
    options = arguments.parse_args()
    parts = PARTS
    if options.table is not None:
        register_portfolio(options.table)
    else:
        print("portfolio: left out, it needs --table", flush=True)
        parts = [part for part in PARTS if not part.name.startswith("portfolio")]
    run(parts, options)


if __name__ == "__main__":
    main()
