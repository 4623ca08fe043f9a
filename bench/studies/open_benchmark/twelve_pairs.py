r"""The campaign of all methods on twelve pairs.

Eight of the functions, once each, the risks in turn, two tables of real data and two problems whose
noise depends on the decision. On two pairs qLogNEI on the risk is left out for its cost: a decision
takes seven minutes on the ball in maximum mean discrepancy, since every sample is a program of its
own, and up to half a minute under the mean-variance. So is the learnt distribution on that ball,
which is factored again in every round.
"""

from __future__ import annotations

from botorch_risk_bench.campaigns import Campaign, Series

from bench.studies.open_benchmark.experiments import NOISE, OF_BOTORCH
from bench.studies.open_benchmark.others import OTHERS
from botorch_risk.test_functions.certified import RISKS, certificates

NUM_SEEDS = 10
LABELS = ("confidence-bound", "random", *OTHERS)

FUNCTIONS = list(certificates())[4:]
PAIRS = [
    *((form, RISKS[number % len(RISKS)]) for number, form in enumerate(FUNCTIONS)),
    ("digits", "worst-case"),
    ("momentum", "conditional-value-at-risk"),
    ("branin", NOISE),
    ("hartmann", NOISE),
]
ALL = [f"{form}-{risk}" for form, risk in PAIRS]
WITH_W = [f"{form}-{risk}" for form, risk in PAIRS if risk != NOISE]
QUICK = [name for name in ALL if not name.endswith(("mmd-ball", "mean-variance"))]
LEARNT = [name for name in WITH_W if not name.endswith("mmd-ball")]
WITH_BOTORCH = [f"{form}-{risk}" for form, risk in PAIRS if risk in OF_BOTORCH]

CAMPAIGN = Campaign(
    "twelve pairs",
    [
        Series(ALL, LABELS, num_seeds=NUM_SEEDS),
        Series(QUICK, "qLogNEI-robust", num_seeds=NUM_SEEDS),
        Series(LEARNT, "confidence-bound-KDE", num_seeds=NUM_SEEDS),
        Series(WITH_BOTORCH, "qLogNEI-BoTorch", num_seeds=NUM_SEEDS),
    ],
    block_size=NUM_SEEDS,
    modules=["bench.studies.open_benchmark.experiments"],
)
