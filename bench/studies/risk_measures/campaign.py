r"""The campaign of the study of risk measures."""

from botorch_risk_bench.campaigns import Campaign, Series

from bench.studies.risk_measures.experiments import EXPERIMENTS

NUM_SEEDS = 20
LABELS = ("confidence-bound", "random", "qLogNEI-robust", "qLogNEI-BoTorch")  # the slowest last

CAMPAIGN = Campaign(
    "risk measures",
    [Series([each.name for each in EXPERIMENTS], label, num_seeds=NUM_SEEDS) for label in LABELS],
    block_size=NUM_SEEDS,
    modules=["bench.studies.risk_measures.experiments"],
)
