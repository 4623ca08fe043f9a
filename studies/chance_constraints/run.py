r"""Runs the study of chance constraints; stop it at any moment, it resumes.

python -m studies.chance_constraints.run [NAME ...] [--out results/chance_constraints]
"""

from __future__ import annotations

from reproduction.parts import Part, parser, run

NAMES = ("chance-gramacy", "chance-branin")
# The defaults of `risk_search` were chosen on seeds 0 to 89, which are not among these.
FIRST_SEED, NUM_SEEDS, BLOCK = 100, 200, 50
NUM_ROUNDS = 25


def _block(name: str, labels: tuple[str, ...], first: int) -> Part:
    return Part(name, labels, BLOCK, NUM_ROUNDS, f"-{first}", first_seed=first)


BLOCKS = range(FIRST_SEED, FIRST_SEED + NUM_SEEDS, BLOCK)
PARTS = [  # the slowest last
    *(_block(name, ("confidence-bound",), first) for name in NAMES for first in BLOCKS),
    *(_block(name, ("qLogEI",), FIRST_SEED) for name in NAMES),  # 20 minutes of CPU time each
]


def main() -> None:
    r"""Runs all parts, or those that were named."""
    arguments = parser(__doc__, PARTS, "results/chance_constraints").parse_args()
    run(PARTS, arguments)


if __name__ == "__main__":
    main()
