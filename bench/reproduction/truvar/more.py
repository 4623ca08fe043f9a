r"""The second campaign of this folder: what the first did otherwise than the paper.

Maxima anywhere in the square, the lake's ranges on the coast, a function for each seed with three
noise levels. The paper has 200 functions and 100 starting points; this is thinned.
"""

from botorch_risk_bench.campaigns import Campaign, Series

MAXIMA, LAKE = "synthetic-maximum-anywhere", "coast-lake-ranges"
FUNCTIONS = "noise-levels-functions"

CAMPAIGN = Campaign(
    "TRUVAR, as in the paper",
    [  # what decides a verdict first
        Series(MAXIMA, ("EI", "GP-UCB", "TRUVAR"), num_seeds=100, num_rounds=60),
        Series(LAKE, ("GCHK", "TRUVAR"), num_seeds=10, num_rounds=120),
        Series(MAXIMA, "ES", num_seeds=100, num_rounds=30),
        Series(MAXIMA, "MRS", num_seeds=100, num_rounds=60),
        Series(MAXIMA, ("TRUVAR-not-monotone", "TRUVAR-a-1"), num_seeds=100, num_rounds=60),
        # Rounds of GCHK are what a cost of about 1,500 buys.
        Series(FUNCTIONS, "GCHK-1e-06", num_seeds=10, num_rounds=100),
        Series(FUNCTIONS, "GCHK-0.001", num_seeds=10, num_rounds=150),
        Series(FUNCTIONS, "TRUVAR", num_seeds=10, num_rounds=400),
        Series(FUNCTIONS, "GCHK-0.05", num_seeds=10, num_rounds=740),
    ],
    block_size=20,
)
