r"""The campaign on the papers' back-tests, a table that is not ours to distribute.

`BOTORCH_RISK_PORTFOLIO_TABLE` is its path; see `PortfolioOptimization`.
"""

from botorch_risk_bench.campaigns import Campaign, Series
from botorch_risk_bench.experiments.papers import kde
from botorch_risk_bench.problems import PortfolioOptimization

from bench.reproduction.kde.campaign import LEARNT, NUM_ROUNDS
from bench.reproduction.outside_tables import table_path

EXPERIMENTS = kde.portfolio(table_path("BOTORCH_RISK_PORTFOLIO_TABLE", PortfolioOptimization))
NAMES = [each.name for each in EXPERIMENTS]

CAMPAIGN = Campaign(
    "SBO-KDE and DRBO-KDE, portfolio",
    [
        Series(NAMES, (*LEARNT, "StableOpt"), num_seeds=40, num_rounds=NUM_ROUNDS),
        Series(NAMES, ("DRBO-MMD-minimax", "DRBO-MMD"), num_seeds=10, num_rounds=NUM_ROUNDS),
    ],
    block_size=10,
    modules=["bench.reproduction.kde.portfolio"],
)
