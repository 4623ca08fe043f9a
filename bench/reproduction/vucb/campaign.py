r"""The campaign behind this folder's README.

The paper has ten seeds, which cannot tell these methods apart; they are the first of ours. Our
methods take twenty seconds of one core a problem and method, LNSO two minutes. The outside
baselines, which come last, are nearly all of the time: rho-KG-apx half a second to a second a query
and seed, qLogNEI 1 to 3 s.
"""

from botorch_risk_bench.campaigns import Campaign, Series

OURS = ("V-UCB-Prob", "V-UCB-Unif", "V-UCB-observed", "StableOpt", "contextual-GP-UCB", "random")
# What the paper, its authors' programs and we do differently.
WIDTHS = (
    "V-UCB-Prob-constant-width",
    "V-UCB-Unif-constant-width",
    "contextual-GP-UCB-constant-width",
)
LIKELIHOOD, LNSO = "V-UCB-Prob-likelihood", "V-UCB-Prob-LNSO"
OF_CONTINUOUS = ("V-UCB-Prob-beta-as-width", LIKELIHOOD)
OUTSIDE = ("rho-KG-apx", "qLogNEI-VaR")
FUNCTIONS = ("branin", "goldstein", "hartmann21", "hartmann12")
DISCRETE = tuple(f"var-{name}-discrete" for name in FUNCTIONS)
CONTINUOUS = tuple(f"var-{name}-continuous" for name in FUNCTIONS)
ONE_W, TWO_W = CONTINUOUS[:-1], CONTINUOUS[-1]  # two continuous w are slow
BRANIN, *REST = ONE_W  # thirty seeds leave most differences on the first undecided
ROBOT = "var-robot"
PORTFOLIO = "var-portfolio"  # by portfolio.py

CAMPAIGN = Campaign(
    "V-UCB",
    [  # the slowest last
        Series((*DISCRETE, *REST), OURS, num_seeds=30),
        Series(DISCRETE, (*WIDTHS, LIKELIHOOD), num_seeds=30),
        Series(REST, OF_CONTINUOUS, num_seeds=30),
        Series(BRANIN, (*OURS, *OF_CONTINUOUS), num_seeds=60),
        Series((TWO_W, ROBOT), OURS, num_seeds=20),
        Series(ONE_W, LNSO, num_seeds=10),
        Series(BRANIN, "rho-KG-apx", num_seeds=60),
        Series((*DISCRETE, *REST, TWO_W, ROBOT), "rho-KG-apx", num_seeds=20),
        Series((*DISCRETE, ROBOT), "qLogNEI-VaR", num_seeds=5),
    ],
    block_size=10,
)
