r"""The campaign of all methods on twelve pairs.

Eight of the functions, once each, the risks in turn, two tables of real data and two problems whose
noise depends on the decision.
"""

from __future__ import annotations

from botorch_risk.experiments.campaigns import Campaign, Series
from botorch_risk.test_functions.certified import RISKS, certificates
from studies.open_benchmark.experiments import NOISE, OF_BOTORCH
from studies.open_benchmark.others import OTHERS

NUM_SEEDS = 10
LABELS = ("confidence-bound", "qLogNEI-robust", "random", *OTHERS)

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
WITH_BOTORCH = [f"{form}-{risk}" for form, risk in PAIRS if risk in OF_BOTORCH]

CAMPAIGN = Campaign(
    "twelve pairs",
    [
        Series(ALL, LABELS, num_seeds=NUM_SEEDS),
        Series(WITH_W, "confidence-bound-KDE", num_seeds=NUM_SEEDS),
        Series(WITH_BOTORCH, "qLogNEI-BoTorch", num_seeds=NUM_SEEDS),
    ],
    block_size=NUM_SEEDS,
    modules=["studies.open_benchmark.experiments"],
)
