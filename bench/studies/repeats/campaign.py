r"""The campaign of the study of repeats; its design was chosen on seeds from 1000."""

from botorch_risk_bench.campaigns import Campaign, Series

from bench.studies.repeats.experiments import EXPERIMENTS, STRATEGIES

NUM_SEEDS = 32
NAMES = [each.name for each in EXPERIMENTS]

CAMPAIGN = Campaign(
    "repeats",
    [  # strategy by strategy, so that a table can be written early
        Series(NAMES, label, num_seeds=NUM_SEEDS, num_rounds=rounds)
        for label, (_, rounds) in sorted(STRATEGIES.items(), key=lambda each: each[1][1])
    ],
    block_size=NUM_SEEDS,
    modules=["bench.studies.repeats.experiments"],
)
