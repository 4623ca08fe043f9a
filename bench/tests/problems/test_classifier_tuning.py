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
    SVMOnGrid,
    SVMValidationError,
    vehicle_silhouettes,
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


ROWS = """
    rows = [[5000, 0.5, 0.01, 0.2762, 191.98],
            [900, 0.5, 0.01, 0.2742, 99.976],
            [1e+6, 2, 0.01, 0.5, 1], [5000, 2, 0.01, 0.25, 1], [0.1, 2, 0.01, 0.4, 3],
            [900, 2, 0.01, 0.3, 3]{more}]
    raise RuntimeError("read, not run")
"""


def test_the_grid_that_others_published(tmp_path):
    path = tmp_path / "svm_on_grid.py"
    path.write_text(ROWS.format(more=", [1e+6, 0.5, 0.01, 0.6, 1], [0.1, 0.5, 0.01, 0.45, 1]"))
    problem = SVMOnGrid(path)
    assert problem.bounds.tolist() == [[0, 0, 0], [1, 1, 0]]
    # C is 0.1, 900, 5,000 or 1e6; alpha 0.5 or 2; epsilon 0.01.
    X = torch.tensor([[2, 3, 0], [1, 0, 0], [3, 0, 0]]).double() / 3
    assert problem(X).tolist() == [-0.25, -0.2742, -0.6]
    assert problem.maximum.item() == -0.25


@pytest.mark.parametrize("more", ["", ", [1e+6, 0.5, 0.01, 0.6, 1], [0.1, 2, 0.01, 0.45, 1]"])
def test_a_grid_with_gaps_or_repeats(tmp_path, more):
    path = tmp_path / "svm_on_grid.py"
    path.write_text(ROWS.format(more=more) if more else "nothing of a table")
    with pytest.raises(InputDataError, match=r"every configuration once, in .*svm_on_grid.py"):
        SVMOnGrid(path)


def test_vehicles_are_read_as_openml_writes_them(tmp_path):
    path = tmp_path / "vehicle.csv"
    classes = ["bus", "opel", "saab", "van"] * 211 + ["van", "bus"]
    features = np.arange(846 * 18).reshape(846, 18)
    rows = [",".join(map(str, [*row, name])) for row, name in zip(features, classes, strict=True)]
    heading = ",".join(map(str, range(19)))
    path.write_text("\n".join([heading, *rows]))
    found, labels = vehicle_silhouettes(path)
    assert (found == features).all()
    assert labels.tolist() == classes
    path.write_text("\n".join([heading, *rows[1:]]))
    with pytest.raises(InputDataError, match=r"846 rows .* Got shape \(845, 19\)"):
        vehicle_silhouettes(path)


def test_epochs_count():
    X = torch.tensor([[-4.0, -5.0]], dtype=torch.double)
    few, many = (LogisticRegressionTuning(num_epochs=n)(X).item() for n in (1, 50))
    assert many > few + 0.05
    with pytest.raises(ValueError, match="num_epochs"):
        LogisticRegressionTuning(num_epochs=0)
