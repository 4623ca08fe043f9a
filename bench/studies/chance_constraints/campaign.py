r"""The campaign of the study of chance constraints.

The defaults of `risk_search` were chosen on seeds 0 to 89, which are not among these.
"""

from botorch_risk_bench.campaigns import Campaign, Series

NAMES = ("chance-gramacy", "chance-branin")
FIRST_SEED = 100
NUM_ROUNDS = 25

CAMPAIGN = Campaign(
    "chance constraints",
    [  # the slowest last
        Series(
            NAMES, "confidence-bound", num_seeds=200, first_seed=FIRST_SEED, num_rounds=NUM_ROUNDS
        ),
        # 20 minutes of CPU time each
        Series(NAMES, "qLogEI", num_seeds=50, first_seed=FIRST_SEED, num_rounds=NUM_ROUNDS),
    ],
    block_size=50,
)
