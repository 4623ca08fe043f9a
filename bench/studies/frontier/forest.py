r"""A random forest that has to find 6 % positives: the breast-cancer data without most tumours."""

from functools import partial

import numpy as np
from botorch_risk_bench.experiments.definition import ExperimentDefinition
from botorch_risk_bench.experiments.portfolio import label_of
from botorch_risk_bench.problems import ForestTuning

from botorch_risk.papers import rahbo

NUM_POSITIVES = 23  # the first of the 212 malignant ones, beside all 357 benign ones
RISK_AVERSIONS = (5.0, 20.0, 100.0)
NUM_REPEATS = 5


def imbalanced_forest() -> ForestTuning:
    r"""`ForestTuning` on 380 rows of which 6.05 % are positive.

    A validation fold has 76 rows, 4 or 5 of them positive: missing one costs a tenth of the
    balanced accuracy.
    """
    from sklearn.datasets import load_breast_cancer

    features, benign = load_breast_cancer(return_X_y=True)
    kept = np.flatnonzero(benign | (np.cumsum(1 - benign) <= NUM_POSITIVES))
    return ForestTuning(features[kept], 1 - benign[kept])


FOREST = ExperimentDefinition(
    name="study-forest-6",
    description="Random forest on data with 6 % positives, from risk-neutral to averse",
    problem=imbalanced_forest,
    strategies={
        label_of(each): partial(rahbo, num_repeats=NUM_REPEATS, risk_aversion=each)
        for each in (0.0, *RISK_AVERSIONS)
    },
    num_initial=10,
    num_rounds=20,
    num_repeats=NUM_REPEATS,
    objective="balanced accuracy - risk aversion x its variance",
    settings={"num_positives": NUM_POSITIVES},
)
EXPERIMENTS = (FOREST,)
