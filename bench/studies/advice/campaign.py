r"""The trials of other packages on ten judging pairs of the open benchmark, and our own.

Optuna, Ax and BoTorch's qLogNEI are asked for decisions while w is drawn and noted. They are the
first ten pairs of `outside_pairs`, under seeds that no rule was chosen on.
"""

from botorch_risk_bench.campaigns import Campaign, Series

from bench.studies.open_benchmark.outside_pairs import PAIRS

NUM_SEEDS, FIRST_SEED = 16, 300
TEN = tuple(PAIRS[:10])
PACKAGES = {
    "expected-Optuna": "Optuna",
    "expected-qLogNEI": "BoTorch, qLogNEI",
    "expected-Ax": "Ax",
}
OURS = {"expected-risk": "w drawn", "chosen": "w chosen"}

CAMPAIGN = Campaign(
    "advice",
    [  # the slowest last
        Series(TEN, labels, num_seeds=NUM_SEEDS, first_seed=FIRST_SEED)
        for labels in ((*OURS, "expected-Optuna"), "expected-qLogNEI", "expected-Ax")
    ],
    block_size=NUM_SEEDS,
    modules=["bench.studies.open_benchmark.experiments"],
)
