r"""The campaign of this folder's README.

The demo has seeds 0 to 7, and the problem was built on 1000 to 1007.
"""

from botorch_risk_bench.campaigns import Campaign, Series
from botorch_risk_bench.experiments.portfolio import EXPERIMENTS

from bench.studies.frontier.forest import FOREST

(PORTFOLIO,) = EXPERIMENTS

CAMPAIGN = Campaign(
    "frontiers of mean and variance",
    [
        Series(PORTFOLIO.name, num_seeds=10, first_seed=100),
        Series(FOREST.name, num_seeds=4, first_seed=100),
    ],
    block_size=10,
    modules=["bench.studies.frontier.forest"],
)
