r"""The campaign of the baseline that samples its hyperparameters.

About 10 s of compilation for every size of the data, and 3 s to 5 s a seed and fit.
"""

from botorch_risk_bench.campaigns import Campaign, Series

NAMES = ("uhe-hartmann3", "uhe-deceptive", "uhe-branin", "uhe-hartmann6")

CAMPAIGN = Campaign(
    "UHE-BO, MCMC",
    [Series(NAMES, "MCMC", num_seeds=10), Series("uhe-h1", "MCMC", num_seeds=30)],
    block_size=10,
)
