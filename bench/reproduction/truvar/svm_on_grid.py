r"""The campaign on the paper's "SVM on grid", a table that is not ours to distribute.

`BOTORCH_RISK_SVM_TABLE` is its path; see `SVMOnGrid`.
"""

from botorch_risk_bench.campaigns import Campaign, Series
from botorch_risk_bench.experiments.papers import truvar
from botorch_risk_bench.problems import SVMOnGrid

from bench.reproduction.outside_tables import table_path

EXPERIMENTS = truvar.svm_on_grid(table_path("BOTORCH_RISK_SVM_TABLE", SVMOnGrid))

CAMPAIGN = Campaign(
    "TRUVAR, SVM on grid",
    [
        Series(each.name, ("TRUVAR", "EI", "GP-UCB"), num_seeds=100, num_rounds=100)
        for each in EXPERIMENTS
    ],
    block_size=10,
    modules=["bench.reproduction.truvar.svm_on_grid"],
)
