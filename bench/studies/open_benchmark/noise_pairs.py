r"""The campaign of RAHBO's bound and the knowledge gradient on six problems of noise.

The four of the board, Hartmann of six inputs, and two hills of which the higher one is noisy. All
strategies take five readings of each decision.
"""

from __future__ import annotations

from botorch_risk_bench.campaigns import Campaign, Series

from bench.studies.open_benchmark import more_noise
from bench.studies.open_benchmark.experiments import EXPERIMENTS, NOISE

NUM_SEEDS, FIRST_SEED = 20, 200  # seeds below 100 were there to develop with
LABELS = ("confidence-bound", "knowledge-gradient", "random")

ALL = [
    *(each.name for each in EXPERIMENTS if each.settings["risk"] == NOISE),
    *(each.name for each in more_noise.EXPERIMENTS),
]

CAMPAIGN = Campaign(
    "six problems of noise",
    [Series(ALL, LABELS, num_seeds=NUM_SEEDS, first_seed=FIRST_SEED)],
    block_size=NUM_SEEDS,
    modules=["bench.studies.open_benchmark.experiments", "bench.studies.open_benchmark.more_noise"],
)
