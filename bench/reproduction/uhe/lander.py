r"""The campaign of the lunar lander with a budget that leaves room after the initial design.

It is thinned to six methods. An evaluation, fifty flights, takes 0.1 s to 0.7 s, the better the
controller the longer: 90 minutes of one core.
"""

from botorch_risk_bench.campaigns import Campaign, Series

METHODS = ("UHE-BO", "MAP", "Random+EXP3", "pseudo-data", "Wang-de-Freitas", "Random")

CAMPAIGN = Campaign(
    "UHE-BO, lander", [Series("uhe-lunar", METHODS, num_seeds=10, num_rounds=150)], block_size=10
)
