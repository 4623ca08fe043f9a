r"""Runs the experiments behind this folder's tables; stop it at any moment, it resumes.

python -m reproduction.truvar.run [NAME ...] [--out results/truvar] [--seeds N] [--rounds N]
"""

from __future__ import annotations

import warnings

from botorch.exceptions.warnings import BotorchWarning

from reproduction.parts import Part, parser, run

# The paper has 100 starting points, and 200 functions. With three noise levels, rounds of GCHK are
# what a cost of 800 buys; those of TRUVAR come to some 550.
PARTS = (
    Part("coast", ("TRUVAR", "GCHK", "straddle", "variance"), 100, 120),
    Part("coast-travel", ("TRUVAR", "GCHK"), 100, 120),
    Part("noise-levels", ("GCHK-1e-06",), 50, 55),
    Part("noise-levels", ("GCHK-0.001",), 50, 80),
    Part("noise-levels", ("TRUVAR",), 50, 160),
    Part("noise-levels", ("GCHK-0.05",), 50, 400),
    Part("svm", ("TRUVAR", "EI", "GP-UCB"), 100, 100),
    Part("synthetic-maximum", ("TRUVAR", "EI", "GP-UCB", "MRS"), 200, 100),
    Part("synthetic-maximum", ("MES",), 50, 100, "-50"),  # not batched over replicates
)


def main() -> None:
    # Under the practical width some runs rule out the point of highest mean, which TRUVAR warns of.
    warnings.simplefilter("ignore", BotorchWarning)
    run(PARTS, parser(__doc__, PARTS, out="results/truvar").parse_args())


if __name__ == "__main__":
    main()
