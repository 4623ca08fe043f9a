r"""The campaign of the study of two objectives."""

from botorch_risk_bench.campaigns import Campaign, Series

NAME = "two-risks"
NUM_SEEDS, NUM_ROUNDS = 20, 40
LABELS = ("random", "Pareto-search", "qLogNEHVI-CVaR", "MARS-NEI")

CAMPAIGN = Campaign(
    "two objectives",
    [Series(NAME, LABELS, num_seeds=NUM_SEEDS, num_rounds=NUM_ROUNDS)],
    block_size=NUM_SEEDS,
)
