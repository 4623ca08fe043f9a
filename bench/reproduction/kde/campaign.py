r"""The campaign behind this folder's README.

The paper has five seeds; where a run is cheap there are more, of which they are the first.
"""

from botorch_risk_bench.campaigns import Campaign, Series

CHEAP = ("ackley", "branin-context", "hartmann", "hartmann-complicated", "newsvendor")
ALL = (*CHEAP, "ackley-4")
NUM_ROUNDS = 100
LEARNT = ("SBO-KDE", "DRBO-KDE", "GP-UCB")
MATERN = ("SBO-KDE-Matern", "DRBO-KDE-Matern", "GP-UCB-Matern", "StableOpt-Matern")
FITTED_KERNEL = "DRBO-MMD-minimax-fitted-kernel"
LONG = ("hartmann-complicated", "newsvendor")
LONGER, NUM_LONG = "350 rounds", 350  # as many as the authors' program has
RELEASED = ("StableOpt-released", "DRBO-KDE-released", "GP-UCB-released")

CAMPAIGN = Campaign(
    "SBO-KDE and DRBO-KDE",
    [  # the slowest last
        Series(CHEAP, LEARNT, num_seeds=20, num_rounds=NUM_ROUNDS),
        Series("ackley-4", LEARNT, num_seeds=10, num_rounds=NUM_ROUNDS),
        Series(CHEAP, RELEASED, num_seeds=10, num_rounds=NUM_ROUNDS),
        Series(ALL, "StableOpt", num_seeds=10, num_rounds=NUM_ROUNDS),
        Series(ALL, MATERN, num_seeds=10, num_rounds=NUM_ROUNDS),
        Series(CHEAP, FITTED_KERNEL, num_seeds=10, num_rounds=NUM_ROUNDS),
        Series(ALL, "DRBO-MMD-minimax", num_seeds=10, num_rounds=NUM_ROUNDS),
        Series(ALL, "DRBO-MMD", num_seeds=10, num_rounds=NUM_ROUNDS),
        Series(LONG, MATERN, num_seeds=10, num_rounds=NUM_LONG, settings={LONGER: {}}),
    ],
    block_size=20,
)
