r"""The campaign on the papers' back-tests, a table that is not ours to distribute.

`BOTORCH_RISK_PORTFOLIO_TABLE` is its path; see `PortfolioOptimization`.
"""

from botorch_risk_bench.campaigns import Campaign, Series
from botorch_risk_bench.experiments.papers import vucb
from botorch_risk_bench.problems import ValueAtRiskPortfolio

from bench.reproduction.outside_tables import table_path
from bench.reproduction.vucb.campaign import OURS, PORTFOLIO

EXPERIMENTS = vucb.portfolio(table_path("BOTORCH_RISK_PORTFOLIO_TABLE", ValueAtRiskPortfolio))

CAMPAIGN = Campaign(
    "V-UCB, portfolio",
    [
        Series(PORTFOLIO, OURS, num_seeds=20),
        Series(PORTFOLIO, "rho-KG-apx", num_seeds=20),
        Series(PORTFOLIO, "qLogNEI-VaR", num_seeds=5),
    ],
    block_size=10,
    modules=["bench.reproduction.vucb.portfolio"],
)
