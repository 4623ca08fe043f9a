r"""Which pairs of function and risk rules are developed on, and which they are judged on.

Both are pairs with W. Whoever changes a rule looks at the development pairs alone, and at seeds
below 100; a default is decided by the judging pairs, on seeds that nobody has used before.
"""

from __future__ import annotations

from bench.studies.open_benchmark.experiments import EXPERIMENTS, NOISE
from bench.studies.open_benchmark.twelve_pairs import WITH_W as TEN

# The seeds of the boards are 0 to 19, and 20 to 29 were used to choose the rule for w.
FIRST_JUDGING_SEED = 100

DEVELOPMENT = (*TEN, "hartmann-2-1-expectation", "rosenbrock-expectation")
JUDGING = tuple(
    each.name
    for each in EXPERIMENTS
    if each.settings["risk"] != NOISE and each.name not in DEVELOPMENT
)
