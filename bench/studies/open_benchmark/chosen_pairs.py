r"""The campaign in which w is chosen, on the judging pairs.

Next to it w is drawn: our bound, and random decisions. All share the decisions of the initial
design. Its w are chosen with equal shares, or drawn.
"""

from __future__ import annotations

import random

from botorch_risk_bench.campaigns import Campaign, Series

from bench.studies.open_benchmark.pairs import FIRST_JUDGING_SEED, JUDGING

NUM_SEEDS = 20
LABELS = ("chosen-former", "confidence-bound", "random", "chosen-risk_variance")
MMD = "mmd-ball"  # costs ten times as much, and more in every sample of a risk
# Whatever part has been played is a random one; the expensive pairs come last.
PAIRS = sorted(random.Random(0).sample(JUDGING, len(JUDGING)), key=lambda name: name.endswith(MMD))
WITHOUT_MMD = [name for name in PAIRS if not name.endswith(MMD)]
# What `select_lacing_value` refuses.
WITHOUT_LACING = ("mean-variance", MMD)
WITH_LACING = [name for name in PAIRS if not name.endswith(WITHOUT_LACING)]

CAMPAIGN = Campaign(
    "w is chosen",
    [
        Series(PAIRS, LABELS, num_seeds=NUM_SEEDS, first_seed=FIRST_JUDGING_SEED),
        Series(WITHOUT_MMD, "chosen-joint", num_seeds=NUM_SEEDS, first_seed=FIRST_JUDGING_SEED),
        Series(WITH_LACING, "chosen-lacing", num_seeds=NUM_SEEDS, first_seed=FIRST_JUDGING_SEED),
    ],
    block_size=NUM_SEEDS,
    modules=["bench.studies.open_benchmark.experiments"],
)
