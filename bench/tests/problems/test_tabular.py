from itertools import product

import pytest
import torch
from botorch_risk_bench.experiments.problem import decision_space
from botorch_risk_bench.problems import TabularProblem
from botorch_risk_bench.problems.tabular import FOLDER, TABLES

from botorch_risk.strategies import Box
from botorch_risk.test_functions.certified import RISKS

PAIRS = list(product(TABLES, RISKS))


@pytest.mark.parametrize(("table", "risk"), PAIRS)
def test_no_decision_is_better_than_the_optimum(table: str, risk: str) -> None:
    problem = TabularProblem(table, risk)
    grid = torch.cartesian_prod(torch.arange(12.0), torch.arange(12.0)).double()
    values = problem.objective(grid)
    assert values.shape == (144,) and values.isfinite().all()
    # The solver of the MMD ball has its own tolerance.
    assert values.max().item() == pytest.approx(problem.optimal_risk, abs=1e-8)
    best = problem.objective(problem.optimal_decision).item()
    assert best == pytest.approx(problem.optimal_risk, abs=1e-8)


@pytest.mark.parametrize("table", TABLES)
def test_values_are_those_of_the_file_in_units_of_their_deviation(table: str) -> None:
    heading, *lines = (FOLDER / f"{table}.csv").read_text(encoding="utf-8").splitlines()
    numbers = torch.tensor([[float(value) for value in line.split(",")[2:]] for line in lines])
    numbers = numbers.double()
    problem = TabularProblem(table, "expectation")
    assert len(heading.split(",")) - 2 == len(problem.environment.points) == numbers.shape[-1]
    inputs, weights = problem.environment.expand(torch.tensor([[3.0, 5.0]]).double())
    values = problem(inputs, noise=False).squeeze(0)
    torch.testing.assert_close(values * numbers.std(), numbers[3 * 12 + 5], rtol=1e-6, atol=0)
    mean = (values * weights).sum()
    torch.testing.assert_close(problem.objective(torch.tensor([3.0, 5.0]).double()), mean)


def test_outcomes_depend_on_the_decision_and_the_condition_together() -> None:
    r"""No table is a sum of a function of either, and risks do not agree everywhere."""
    for table in TABLES:
        problem = TabularProblem(table, "expectation")
        values = problem._outcomes.flatten(0, 1)
        additive = values.mean(dim=0) + values.mean(dim=1, keepdim=True) - values.mean()
        assert (values - additive).std() > 0.1
        best = {tuple(TabularProblem(table, risk).optimal_decision.tolist()) for risk in RISKS}
        assert len(best) > 1


def test_it_is_a_problem_of_the_loop_with_whole_numbers() -> None:
    problem = TabularProblem("diabetes", "worst-case", dtype=torch.float)
    space = decision_space(problem)
    assert isinstance(space, Box) and space.integers == (0, 1) and not space.categories
    assert problem.bounds.dtype == torch.float
    X = problem.optimal_decision.expand(2, 3, 2)
    assert problem.draw_contexts(X, [torch.Generator(), torch.Generator()]).shape == (2, 3, 1)
    assert problem.objective(X).dtype == torch.float
    with pytest.raises(ValueError, match=r"whole numbers in the columns \[0, 1\]"):
        problem.objective(torch.tensor([[0.5, 1.0]]))


def test_errors_name_what_there_is() -> None:
    with pytest.raises(ValueError, match=r"digits, diabetes, cancer, momentum.*table='wine'"):
        TabularProblem("wine", "expectation")
    with pytest.raises(ValueError, match=r"mmd-ball. Got .*risk='entropy'"):
        TabularProblem("digits", "entropy")
