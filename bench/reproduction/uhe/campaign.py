r"""The campaign behind this folder's tables: what needs no extra.

The paper has ten seeds, which are the first; h1, the paper's clearest case, has thirty.
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
CHEAP = ("uhe-branin", "uhe-deceptive", "uhe-hartmann3")

CAMPAIGN = Campaign(
    "UHE-BO",
    [  # the slowest last
        Series("uhe-h1", METHODS, num_seeds=30),
        Series(CHEAP, METHODS, num_seeds=20),
        Series("uhe-hartmann6", METHODS, num_seeds=10),
    ],
    block_size=20,
)
