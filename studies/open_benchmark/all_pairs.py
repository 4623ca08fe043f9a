r"""The campaign of our methods on all certified pairs: those whose rounds are cheap."""

from __future__ import annotations

from botorch_risk.experiments.campaigns import Campaign, Series
from studies.open_benchmark.experiments import EXPERIMENTS

NUM_SEEDS = 20
LABELS = ("confidence-bound", "random")

CAMPAIGN = Campaign(
    "all pairs",
    [Series([each.name for each in EXPERIMENTS], LABELS, num_seeds=NUM_SEEDS)],
    block_size=NUM_SEEDS,
    modules=["studies.open_benchmark.experiments"],
)
