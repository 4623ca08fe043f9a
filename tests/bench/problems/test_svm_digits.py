r"""The table of the support vector machine, the bundled one and any other."""

from __future__ import annotations

import pytest
import torch
from botorch.exceptions.errors import InputDataError
from botorch_risk_bench.problems import SVMValidationError
from botorch_risk_bench.problems.svm_digits import COLUMNS


def test_the_bundled_grid():
    problem = SVMValidationError()
    assert [len(column.unique()) for column in problem.domain.T] == [25, 14, 4]
    assert problem.bounds.tolist() == [[0, 0, 0], [1, 1, 1]]
    assert torch.allclose(problem.domain[:, 2].unique(), torch.arange(4).double() / 3)
    assert (problem.values > -1).all() and (problem.values < 0).all()
    # C = 1e-2 and gamma = 1e-5 cannot tell ten digits apart; what the grid is for can.
    assert problem.values[0] < -0.8
    assert problem.maximum > -0.05


def test_a_table_of_ones_own(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(f"{COLUMNS}\n-2.0,-5.0,4,0.5\n-1.0,-5.0,16,0.25\n2.0,-5.0,8,0.125\n")
    problem = SVMValidationError(path)
    expected = torch.tensor([[0.0, 0.0, 0.0], [0.25, 0.0, 1.0], [1.0, 0.0, 0.5]]).double()
    torch.testing.assert_close(problem.domain, expected)
    assert problem.values.tolist() == [-0.5, -0.25, -0.125]


def test_errors(tmp_path):
    path = tmp_path / "table.csv"
    for text in ("a,b\n1,2\n", f"{COLUMNS}\n"):
        path.write_text(text)
        with pytest.raises(InputDataError, match="table with rows and the columns"):
            SVMValidationError(path)
