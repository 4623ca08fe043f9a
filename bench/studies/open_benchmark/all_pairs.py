r"""The campaign of our methods on all certified pairs: those whose rounds are cheap."""

from __future__ import annotations

from botorch_risk_bench.campaigns import Campaign, Series

from bench.studies.open_benchmark.experiments import EXPERIMENTS, NOISE

NUM_SEEDS = 20
LABELS = ("confidence-bound", "random")

ALL = [each.name for each in EXPERIMENTS]
# A ball in maximum mean discrepancy is factored again each round where its centre is learnt.
WITH_LEARNT = [
    each.name for each in EXPERIMENTS if each.settings["risk"] not in (NOISE, "mmd-ball")
]

CAMPAIGN = Campaign(
    "all pairs",
    [
        Series(ALL, LABELS, num_seeds=NUM_SEEDS),
        Series(WITH_LEARNT, "confidence-bound-KDE", num_seeds=NUM_SEEDS),
    ],
    block_size=NUM_SEEDS,
    modules=["bench.studies.open_benchmark.experiments"],
)
