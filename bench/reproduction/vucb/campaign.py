r"""The campaign behind this folder's README.

The paper has ten seeds, which cannot tell these methods apart; they are the first of ours. On one
core our methods take ten minutes a problem, the outside baselines, which come last, as much again:
1 to 3 s a query and seed.
"""

from botorch_risk_bench.campaigns import Campaign, Series

OURS = ("V-UCB-Prob", "V-UCB-Unif", "V-UCB-observed", "StableOpt", "contextual-GP-UCB", "random")
FUNCTIONS = ("branin", "goldstein", "hartmann12", "hartmann21")
DISCRETE = tuple(f"var-{name}-discrete" for name in FUNCTIONS)
CONTINUOUS = tuple(f"var-{name}-continuous" for name in FUNCTIONS)
SLOW = ("var-hartmann12-continuous", "var-robot")
PORTFOLIO = "var-portfolio"  # by portfolio.py

CAMPAIGN = Campaign(
    "V-UCB",
    [  # the slowest last
        Series([name for name in (*DISCRETE, *CONTINUOUS) if name not in SLOW], OURS, num_seeds=30),
        Series(SLOW, OURS, num_seeds=10),
        Series((*DISCRETE, "var-robot"), ("rho-KG-apx", "qLogNEI-VaR"), num_seeds=5),
        Series(CONTINUOUS, "rho-KG-apx", num_seeds=5),
    ],
    block_size=30,
)
