r"""The campaign of the three sweeps; their design was chosen on seeds from 1000."""

from botorch_risk_bench.campaigns import Campaign, Series

from bench.studies.when_it_pays.experiments import AT_FIRST, LATER

NUM_SEEDS = 20

CAMPAIGN = Campaign(
    "when it pays",
    [
        Series([each.name for each in experiments], num_seeds=NUM_SEEDS)
        for experiments in (AT_FIRST, LATER)
    ],
    block_size=NUM_SEEDS,
    modules=["bench.studies.when_it_pays.experiments"],
)
