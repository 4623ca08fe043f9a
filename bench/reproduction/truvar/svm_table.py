r"""Validation error of support vector machines on a 25 x 14 x 4 grid, evaluated once.

python -m bench.reproduction.truvar.svm_table

Writes `results/truvar/svm_digits.csv`, or into the folder of `--to`. The problem reads the copy in
`bench/botorch_risk_bench/problems`. The grid of the paper's "SVM on grid" data has the same shape;
those are not part of the package.
"""

from pathlib import Path

import joblib
import numpy as np
from botorch_risk_bench.campaigns.whole_files import write_text
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import ShuffleSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bench.reproduction.results import writing_parser

LOG10_C = np.linspace(-2, 4, 25)
LOG10_GAMMA = np.linspace(-5, 0, 14)
COMPONENTS = (4, 8, 16, 32)


def validation_error(log10_c: float, log10_gamma: float, components: int) -> float:
    X, y = load_digits(return_X_y=True)
    machine = make_pipeline(
        StandardScaler(), PCA(components, random_state=0), SVC(C=10**log10_c, gamma=10**log10_gamma)
    )
    splits = ShuffleSplit(n_splits=5, train_size=400, random_state=0)
    return 1 - float(np.mean(cross_val_score(machine, X, y, cv=splits)))


def main() -> None:
    to: Path = writing_parser(__doc__, "results/truvar").parse_args().to
    grid = [(c, gamma, k) for c in LOG10_C for gamma in LOG10_GAMMA for k in COMPONENTS]
    errors = joblib.Parallel(n_jobs=1)(joblib.delayed(validation_error)(*row) for row in grid)
    lines = ["log10_C,log10_gamma,components,validation_error"]
    lines += [
        f"{c:.4f},{gamma:.6f},{k},{error:.6f}"
        for (c, gamma, k), error in zip(grid, errors, strict=True)
    ]
    write_text(to / "svm_digits.csv", "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
