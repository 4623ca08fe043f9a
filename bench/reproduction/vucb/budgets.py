r"""The campaign with a larger budget for rho-KG-apx: 20 starts of 500 raw points, all values of W.

All methods are played again, so that their seeds are paired; 4 s a query and seed at 10
observations, 12 s at 60.
"""

from botorch_risk_bench.campaigns import Campaign, Series

from bench.reproduction.vucb.campaign import DISCRETE

SETTING = "authors' budget"  # apart from the main campaign, whose seeds have other draws
METHODS = ("V-UCB-Prob", "V-UCB-Unif", "rho-KG-apx")
LARGER = "rho-KG-apx-authors-budget"

CAMPAIGN = Campaign(
    "V-UCB, budget of rho-KG-apx",
    [  # the claims of Branin-Hoo and Goldstein-Price first
        Series(DISCRETE, METHODS, num_seeds=10, settings={SETTING: {}}),
        *(Series(name, LARGER, num_seeds=10, settings={SETTING: {}}) for name in DISCRETE),
    ],
    block_size=5,
)
