r"""The campaign of the two problems that need an extra: boosted trees and the lunar lander.

A flight takes tenths of a second, and an evaluation fifty flights.
"""

from botorch_risk_bench.campaigns import Campaign, Series

from bench.reproduction.uhe.campaign import METHODS

CAMPAIGN = Campaign(
    "UHE-BO, applications",
    [
        Series("uhe-boosting", (*METHODS, "MCMC"), num_seeds=10),
        Series("uhe-lunar", (*METHODS, "MCMC"), num_seeds=10, num_rounds=60),
    ],
    block_size=10,
)
