r"""Runs the experiments behind this folder's README; stop it at any moment, it resumes.

python -m reproduction.vucb.run [NAME ...] [--table portfolio.csv] [--out results/vucb]

On one core our methods take ten minutes a problem, the outside baselines, which come last, as much
again: 1 to 3 s a query and seed.
"""

from __future__ import annotations

from pathlib import Path

from botorch_risk.experiments.value_at_risk import register_value_at_risk_portfolio
from reproduction.parts import Part, parser, run

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
    arguments = parser(__doc__, PARTS, out="results/vucb")
    arguments.add_argument("--table", type=Path, help="the back-tests of PortfolioOptimization")
    options = arguments.parse_args()
    parts = PARTS
    if options.table is not None:
        register_value_at_risk_portfolio(options.table)
    else:
        print("var-portfolio: left out, it needs --table", flush=True)
        parts = [part for part in PARTS if part.name != "var-portfolio"]
    run(parts, options)


if __name__ == "__main__":
    main()
