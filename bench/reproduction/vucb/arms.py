r"""The campaign of what the paper, its authors' programs and we do differently.

Ten seeds, as the paper has: two widths, the likelihood, the surrogate, and rho-KG-apx, which is
nearly all of the time (1.2 s of CPU time a query and seed).
"""

from botorch_risk_bench.campaigns import Campaign, Series

NUM_SEEDS = 10
NAMES = ("hartmann21", "hartmann12", "branin", "goldstein")
DISCRETE = tuple(f"var-{name}-discrete" for name in NAMES)
CONTINUOUS = tuple(f"var-{name}-continuous" for name in ("branin", "goldstein", "hartmann21"))
WIDTHS = ("V-UCB-Prob", "V-UCB-Unif", "V-UCB-Prob-constant-width", "V-UCB-Unif-constant-width")
OTHERS = ("contextual-GP-UCB", "contextual-GP-UCB-constant-width", "V-UCB-Prob-likelihood")
OF_CONTINUOUS = (
    "V-UCB-Prob",
    "V-UCB-Prob-beta-as-width",
    "V-UCB-Prob-likelihood",
    "V-UCB-Prob-LNSO",
)
HARTMANNS, SMALL = DISCRETE[:2], DISCRETE[2:]

CAMPAIGN = Campaign(
    "V-UCB, arms",
    [  # what decides a verdict first
        Series(DISCRETE, WIDTHS, num_seeds=NUM_SEEDS),
        Series(HARTMANNS, "rho-KG-apx", num_seeds=NUM_SEEDS),
        Series(CONTINUOUS, OF_CONTINUOUS, num_seeds=NUM_SEEDS),
        Series(DISCRETE, OTHERS, num_seeds=NUM_SEEDS),
        Series(SMALL, "rho-KG-apx", num_seeds=NUM_SEEDS),
    ],
    block_size=10,
)
