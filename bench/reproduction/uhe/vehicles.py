r"""The campaign of logistic regression on the paper's table, which is not part of the package.

`BOTORCH_RISK_VEHICLE_TABLE` is its path; see `vehicle_silhouettes`. An evaluation takes a third of
a second. The paper has ten seeds.
"""

from botorch_risk_bench.campaigns import Campaign, Series
from botorch_risk_bench.experiments.papers import uhe
from botorch_risk_bench.problems import vehicle_silhouettes

from bench.reproduction.outside_tables import table_path
from bench.reproduction.uhe.campaign import METHODS

EXPERIMENTS = (uhe.logistic(table_path("BOTORCH_RISK_VEHICLE_TABLE", vehicle_silhouettes)),)

CAMPAIGN = Campaign(
    "UHE-BO, vehicles",
    [Series("uhe-logistic-vehicle", (*METHODS, "MCMC"), num_seeds=10)],
    block_size=10,
    modules=["bench.reproduction.uhe.vehicles"],
)
