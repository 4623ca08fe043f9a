r"""Runs the experiments behind this folder's tables; stop it at any moment, it resumes.

python -m reproduction.uhe.run [NAME ...] [--out results/uhe] [--seeds N] [--rounds N]
"""

from __future__ import annotations

import warnings

from botorch.exceptions.warnings import BotorchWarning

from reproduction.parts import Part, parser, run

METHODS = (
    "UHE-BO",
    "MAP",
    "pseudo-data",
    "RA-BO",
    "Random+EXP3",
    "A-GP-UCB",
    "Wang-de-Freitas",
    "Portfolio",
    "Random",
)
LANDER, SAMPLER = ("gymnasium", "Box2D"), ("numpyro", "jax")
PARTS = (  # the slowest last; the paper has ten seeds, which are the first
    Part("uhe-branin", METHODS, 20),
    Part("uhe-deceptive", METHODS, 20),
    Part("uhe-h1", METHODS, 20),
    Part("uhe-hartmann3", METHODS, 20),
    Part("uhe-logistic", METHODS, 20),
    Part("uhe-hartmann6", METHODS, 10),
    Part("uhe-boosting", METHODS, 10, needs=("xgboost",)),
    # About 10 s of compilation for every size of the data, and 3 s to 5 s a seed and fit.
    *(
        Part(name, ("MCMC",), 10, suffix="-mcmc", needs=SAMPLER + needs)
        for name, needs in (
            ("uhe-hartmann3", ()),
            ("uhe-deceptive", ()),
            ("uhe-h1", ()),
            ("uhe-branin", ()),
            ("uhe-logistic", ()),
            ("uhe-boosting", ("xgboost",)),
            ("uhe-hartmann6", ()),
        )
    ),
    # Tenths of a second a flight, fifty flights an evaluation.
    Part("uhe-lunar", METHODS, 10, 60, needs=LANDER),
    Part("uhe-lunar", ("MCMC",), 10, 60, suffix="-mcmc", needs=SAMPLER + LANDER),
)


def main() -> None:
    warnings.simplefilter("ignore", BotorchWarning)
    run(PARTS, parser(__doc__, PARTS, out="results/uhe").parse_args())


if __name__ == "__main__":
    main()
