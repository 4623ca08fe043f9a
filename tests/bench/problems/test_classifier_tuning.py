r"""The table of the support vector machine, the bundled one and any other."""

import pickle
import sys

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import InputDataError
from botorch_risk_bench.problems import (
    BoostedTreesTuning,
    LogisticRegressionTuning,
    SVMValidationError,
)
from botorch_risk_bench.problems.svm_digits import COLUMNS


def test_logistic_regression_learns_at_a_good_rate_only() -> None:
    problem = LogisticRegressionTuning()
    X = torch.tensor([[-1.0, -4.0], [-5.0, 0.0]], dtype=torch.double)
    good, bad = problem(X).tolist()
    assert good > 0.9
    assert good > bad
    assert torch.equal(problem(X), pickle.loads(pickle.dumps(problem))(X))
    assert problem(X.view(2, 1, 2)).shape == (2, 1)


def test_a_table_of_the_users() -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 2
    features = rng.normal(size=(60, 3)) + 9 * labels[:, None]
    problem = LogisticRegressionTuning(features, labels)
    assert problem(torch.tensor([[-1.0, -3.0]]).double()).item() == 1.0
    for bad in ((features, None), (features[:5], labels)):
        with pytest.raises(InputDataError, match=r"`features` and `labels`|`num_rows`"):
            LogisticRegressionTuning(*bad)


def test_nothing_stands_in_for_xgboost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)  # as if it were not installed
    problem = BoostedTreesTuning()
    with pytest.raises(ImportError, match=r"botorch-risk-bench\[problems\]"):
        problem(problem.bounds.mean(dim=0, keepdim=True))


def test_boosted_trees() -> None:
    pytest.importorskip("xgboost")
    problem = BoostedTreesTuning()
    X = torch.tensor([[-2.0, 1.5, 0.5, 0.0], [-10.0, 0.0, 0.1, 10.0]], dtype=torch.double)
    good, bad = problem(X).tolist()
    assert good > 0.9
    assert good > bad


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
