r"""Runs the experiments behind this folder's tables; stop it at any moment, it resumes.

python -m reproduction.rahbo.run [NAME ...] [--out results/rahbo]
"""

from __future__ import annotations

from reproduction.parts import Part, parser, run

ALL = ("RAHBO", "RAHBO-US", "GP-UCB", "RAHBO-paper", "RAHBO-US-paper", "GP-UCB-paper")
PARTS = (  # the paper's numbers of repetitions and rounds
    Part("sine", ALL, 30),
    Part("branin", ALL, 25),
    Part("sine-variance", ALL, 30),
    Part("branin-variance", ALL, 25),
    Part("forest", ("RAHBO", "GP-UCB"), 15),
    # What GP-UCB asks for does not depend on the risk aversion: its points are those of "forest".
    Part("forest-100", ("RAHBO",), 15),
)


def main() -> None:
    run(PARTS, parser(__doc__, PARTS, out="results/rahbo").parse_args())


if __name__ == "__main__":
    main()
