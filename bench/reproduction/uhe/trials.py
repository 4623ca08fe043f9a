r"""The campaign of what is tried beyond the paper: two rewards of the bandit, and A-GP-UCB's rule.

They are compared with the runs of `campaign.py`, of the same seeds.
"""

from botorch_risk_bench.campaigns import Campaign, Series

TRIALS = {  # what is tried, and instead of which method
    "UHE-BO-gain": "UHE-BO",
    "UHE-BO-improved": "UHE-BO",
    "Random+EXP3-improved": "Random+EXP3",
    "A-GP-UCB-one-step": "A-GP-UCB",
}
FUNCTIONS = ("uhe-branin", "uhe-hartmann3", "uhe-deceptive")

CAMPAIGN = Campaign(
    "UHE-BO, trials",
    [Series("uhe-h1", tuple(TRIALS), num_seeds=30), Series(FUNCTIONS, tuple(TRIALS), num_seeds=20)],
    block_size=20,
)
