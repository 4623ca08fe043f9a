r"""Runs the experiments behind this folder's README; stop it at any moment, it resumes.

python -m reproduction.vucb.run [NAME ...] [--table portfolio.csv] [--out results/vucb]

On one core our methods take ten minutes a problem, the outside baselines, which come last, as much
again: 1 to 3 s a query and seed.
"""

from __future__ import annotations

from botorch_risk.experiments.papers import vucb
from reproduction.parts import Part, run_with_portfolio

# The paper has ten seeds, which cannot tell these methods apart; they are the first of ours.
NUM_SEEDS = {
    "var-branin-discrete": 30,
    "var-goldstein-discrete": 30,
    "var-hartmann12-discrete": 30,
    "var-hartmann21-discrete": 30,
    "var-branin-continuous": 30,
    "var-goldstein-continuous": 30,
    "var-hartmann12-continuous": 10,
    "var-hartmann21-continuous": 30,
    "var-portfolio": 10,
    "var-robot": 10,
}
OURS = (
    "V-UCB-Prob",
    "V-UCB-Unif",
    "V-UCB-observed",
    "StableOpt",
    "contextual-GP-UCB",
    "random",
)
FINITE = [name for name in NUM_SEEDS if not name.endswith("-continuous")]
CONTINUOUS = [name for name in NUM_SEEDS if name.endswith("-continuous")]
PARTS = [  # the slowest last
    *(Part(name, OURS, num_seeds) for name, num_seeds in NUM_SEEDS.items()),
    *(Part(name, ("rho-KG-apx", "qLogNEI-VaR"), 5, suffix="-outside") for name in FINITE),
    *(Part(name, ("rho-KG-apx",), 5, suffix="-outside") for name in CONTINUOUS),
]


def main() -> None:
    run_with_portfolio(__doc__, PARTS, "results/vucb", vucb.portfolio)


if __name__ == "__main__":
    main()
