r"""The campaign behind this folder's tables.

The paper has 100 starting points, and 200 functions. With three noise levels, rounds of GCHK are
what a cost of 800 buys; those of TRUVAR come to some 550.
"""

from botorch_risk_bench.campaigns import Campaign, Series

CAMPAIGN = Campaign(
    "TRUVAR",
    [
        Series("coast", ("TRUVAR", "GCHK", "straddle", "variance"), num_seeds=100, num_rounds=120),
        Series("coast-travel", ("TRUVAR", "GCHK"), num_seeds=100, num_rounds=120),
        Series("noise-levels", "GCHK-1e-06", num_seeds=50, num_rounds=55),
        Series("noise-levels", "GCHK-0.001", num_seeds=50, num_rounds=80),
        Series("noise-levels", "TRUVAR", num_seeds=50, num_rounds=160),
        Series("noise-levels", "GCHK-0.05", num_seeds=50, num_rounds=400),
        Series(
            "synthetic-maximum", ("TRUVAR", "EI", "GP-UCB", "MRS"), num_seeds=200, num_rounds=100
        ),
        Series("synthetic-maximum", "MES", num_seeds=50, num_rounds=100),  # one by one
    ],
    block_size=50,
)
