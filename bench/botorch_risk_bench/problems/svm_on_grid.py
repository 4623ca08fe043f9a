r"""The grid of support vector machines of the papers, from the table that others published."""

import math
import re
from os import PathLike
from pathlib import Path

import torch
from botorch.exceptions.errors import InputDataError

from botorch_risk.test_functions.finite_domain import FiniteDomainProblem

_NUMBER = r"\s*([-+.\deE]+)\s*"
_ROW = re.compile(rf"\[{','.join([_NUMBER] * 5)}\]")


class SVMOnGrid(FiniteDomainProblem):
    r"""Minus the validation error of a structured SVM on a 25 x 14 x 4 grid, "SVM on grid".

    The inputs are the cost C, alpha and the tolerance epsilon, each the number of its value in
    ascending order, scaled to [0, 1]; the public benchmark numbers them too, epsilon's in
    descending order. [Bogunovic2016truvar]_, Sec. 4, has the data of Snoek et al. (2012) and
    Miller et al. (2012), and does not state its scale.

    The table is `HPOlib/benchmarks/svm_on_grid.py` of the public repository `automl/HPOlib`, and
    not part of this package: its rows `[C, alpha, epsilon, error, seconds]` are read, and nothing
    of it is run.
    """

    def __init__(self, table: str | PathLike[str]) -> None:
        r"""Reads the table.

        Args:
            table: The path of that file.

        Raises:
            InputDataError: If its rows are not a grid, every configuration once.
        """
        found = _ROW.findall(Path(table).read_text(encoding="utf-8"))
        rows = torch.tensor([[float(cell) for cell in row] for row in found], dtype=torch.double)
        columns = rows.reshape(-1, 5)[:, :3].T
        grids = [column.unique(return_inverse=True) for column in columns]
        sizes = [len(values) for values, _ in grids]
        configurations = torch.stack([number for _, number in grids], dim=-1)
        if not len(rows) == len(configurations.unique(dim=0)) == math.prod(sizes) > 0:
            raise InputDataError(
                "Expected rows `[C, alpha, epsilon, error, seconds]` of a grid, every "
                f"configuration once, in {table}. Got {len(rows)} rows, with {sizes} values of "
                "the three."
            )
        last = torch.tensor(sizes).double() - 1
        super().__init__(configurations / last.clamp_min(1), -rows[:, 3])
