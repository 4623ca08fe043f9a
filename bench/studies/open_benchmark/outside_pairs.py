r"""The campaign of optimisers of other packages on judging pairs, next to `default_pairs`.

Each is asked for decisions while w is drawn, and for pairs (x, w), and is recommended as
`risk_search` recommends. Two pairs of each kind of risk, drawn at random, with the seeds of
`default_pairs`.
"""

import random

from botorch_risk_bench.campaigns import Campaign, Series

from bench.studies.open_benchmark.chosen_pairs import WITHOUT_MMD
from bench.studies.open_benchmark.default_pairs import FIRST_SEED, NUM_SEEDS
from bench.studies.open_benchmark.experiments import EXPERIMENTS

RISK_OF = {each.name: each.settings["risk"] for each in EXPERIMENTS}
DRAWN = ("expected-random", "expected-qLogNEI", "expected-Optuna", "expected-hetGPy")
CHOSEN = ("chosen-qLogNEI", "chosen-Optuna", "chosen-hetGPy")
OF_AX = ("expected-Ax", "chosen-Ax")  # a round costs three times as much


def two_of_each_risk(seed: int) -> list[str]:
    r"""The first pair of each risk in a random order, then the second."""
    order = random.Random(seed).sample(WITHOUT_MMD, len(WITHOUT_MMD))
    by_risk: dict[str, list[str]] = {}
    for name in order:
        by_risk.setdefault(RISK_OF[name], []).append(name)
    return [names[turn] for turn in range(2) for names in by_risk.values()]


PAIRS = two_of_each_risk(1)

CAMPAIGN = Campaign(
    "other packages",
    [
        Series(PAIRS, labels, num_seeds=NUM_SEEDS, first_seed=FIRST_SEED)
        for labels in (DRAWN, CHOSEN, OF_AX)
    ],
    block_size=NUM_SEEDS,
    modules=["bench.studies.open_benchmark.experiments"],
)
