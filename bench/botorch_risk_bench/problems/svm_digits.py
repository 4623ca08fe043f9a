r"""Tuning a support vector machine on a grid of configurations that have all been tried."""

from importlib import resources
from os import PathLike
from pathlib import Path

import numpy as np
import torch
from botorch.exceptions.errors import InputDataError

from botorch_risk.test_functions.finite_domain import FiniteDomainProblem

COLUMNS = "log10_C,log10_gamma,components,validation_error"


class SVMValidationError(FiniteDomainProblem):
    r"""Minus the validation error of an SVM on handwritten digits, on a 25 x 14 x 4 grid.

    The inputs are the cost C (1e-2 to 1e4, logarithmic), the width gamma (1e-5 to 1, logarithmic)
    and the number of principal components (4, 8, 16, 32; logarithmic), each scaled to [0, 1]; the
    value is the mean over five splits. It stands in for the "SVM on grid" data of
    [Bogunovic2016truvar]_, Sec. 4, a grid of the same shape (`SVMOnGrid`). The table, of
    scikit-learn's digits, is part of the package; `bench/reproduction/truvar/svm_table.py` made it.
    """

    def __init__(self, table: str | PathLike[str] | None = None) -> None:
        r"""Reads the table.

        Args:
            table: A file of comma-separated values with the columns of the bundled one, which is
                the default.

        Raises:
            InputDataError: If the table has other columns, or no row.
        """
        bundled = resources.files(__package__) / "svm_digits.csv"
        text = (bundled if table is None else Path(table)).read_text(encoding="utf-8")
        heading, *lines = text.split()
        if heading != COLUMNS or not lines:
            raise InputDataError(
                "Expected a table with rows and the columns "
                f"{COLUMNS!r}. Got {heading!r}, {len(lines)} rows."
            )
        rows = torch.from_numpy(np.loadtxt(lines, delimiter=",", ndmin=2))
        inputs = torch.cat([rows[:, :2], rows[:, 2:3].log2()], dim=-1)
        lower, upper = inputs.amin(dim=0), inputs.amax(dim=0)
        span = (upper - lower).where(upper > lower, 1.0)
        super().__init__((inputs - lower) / span, -rows[:, 3])
