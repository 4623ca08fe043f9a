r"""The campaign behind this folder's tables: what needs no extra.

The paper has ten seeds, which are the first.
"""

from botorch_risk_bench.campaigns import Campaign, Series

METHODS = (
    "UHE-BO",
    "MAP",
    "pseudo-data",
    "RA-BO",
    "Random+EXP3",
    "A-GP-UCB",
    "Wang-de-Freitas",
    "Portfolio",
    "Random",
)
CHEAP = ("uhe-branin", "uhe-deceptive", "uhe-h1", "uhe-hartmann3")

CAMPAIGN = Campaign(
    "UHE-BO",
    [  # the slowest last
        Series(CHEAP, METHODS, num_seeds=20),
        Series("uhe-hartmann6", METHODS, num_seeds=10),
    ],
    block_size=20,
)
