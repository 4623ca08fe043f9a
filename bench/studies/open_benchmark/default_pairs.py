r"""The campaign of the defaults of `risk_search`, w chosen and observed, on the judging pairs.

Each next to what was the default before, and to random decisions. The seeds are fresh.
"""

from __future__ import annotations

from botorch_risk_bench.campaigns import Campaign, Series

from bench.studies.open_benchmark.chosen_pairs import PAIRS, WITHOUT_MMD

FIRST_SEED, NUM_SEEDS = 120, 20
LABELS = ("expected-risk", "confidence-bound", "chosen", "chosen-former", "random")
# A ball in maximum mean discrepancy is a program: its expected risk is not what is recommended by.
OF_MMD = LABELS[1:]
WITH_MMD = PAIRS[len(WITHOUT_MMD) :]

CAMPAIGN = Campaign(
    "defaults",
    [
        Series(WITHOUT_MMD, LABELS, num_seeds=NUM_SEEDS, first_seed=FIRST_SEED),
        Series(WITH_MMD, OF_MMD, num_seeds=NUM_SEEDS, first_seed=FIRST_SEED),
    ],
    block_size=NUM_SEEDS,
    modules=["bench.studies.open_benchmark.experiments"],
)
