r"""Properties of every problem."""

import pickle
from typing import Any

import pytest
import torch
from botorch.test_functions.base import BaseTestProblem, MultiObjectiveTestProblem
from botorch_risk_bench.campaigns.loop import evaluate
from botorch_risk_bench.experiments.problem import (
    ProblemWithContexts,
    ProblemWithObjective,
    decision_bounds,
)
from torch import Tensor
from torch.quasirandom import SobolEngine

from botorch_risk.seeding import generators
from tests.contracts import BATCH_SHAPES, DTYPES
from tests.devices import home
from tests.test_functions.cases import PROBLEMS, ProblemCase

EVERY = [pytest.param(case, id=case.name, marks=case.marks) for case in PROBLEMS]

every = pytest.mark.parametrize("case", EVERY)
known = pytest.mark.parametrize("case", [each for each in EVERY if each.values[0].objective])
random = pytest.mark.parametrize("case", [each for each in EVERY if each.values[0].sample])
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])


def sobol(case: ProblemCase, problem: Any, n: int) -> Tensor:
    r"""Decisions `n x d_x` within the bounds."""
    lower, upper = problem.bounds[:, : case.decision].double().cpu()
    unit = SobolEngine(case.decision, scramble=True, seed=0).draw(n, dtype=torch.double)
    return rounded(problem, lower + (upper - lower) * unit).to(problem.bounds)


def rounded(problem: Any, X: Tensor) -> Tensor:
    r"""Decisions with whole numbers where the problem asks for them."""
    whole = [i for i in problem.discrete_inds + problem.categorical_inds if i < X.shape[-1]]
    X[..., whole] = X[..., whole].round()
    return X


def value_of(case: ProblemCase, problem: Any, X: Tensor) -> Tensor:
    r"""The objective, and minus infinity at infeasible decisions."""
    values = case.objective(problem, X)
    return values if case.feasible is None else values.where(case.feasible(problem, X), -torch.inf)


@every
@dtypes
@pytest.mark.every_device
def test_bounds_are_a_box_and_follow_the_dtype(case: ProblemCase, dtype: torch.dtype) -> None:
    problem = case.build(dtype).to(home())
    assert isinstance(problem, BaseTestProblem)
    assert problem.bounds.shape == (2, problem.dim)
    assert problem.bounds.dtype == dtype
    assert problem.bounds.device == home()
    assert (problem.bounds[0] < problem.bounds[1]).all()
    if not isinstance(problem, MultiObjectiveTestProblem):
        assert not problem.is_minimization_problem


@known
@dtypes
@pytest.mark.every_device
def test_objective_has_the_shape_dtype_and_device_of_the_decisions(
    case: ProblemCase, dtype: torch.dtype
) -> None:
    problem = case.build(dtype).to(home())
    X = sobol(case, problem, 12)
    single = case.objective(problem, X)
    assert single.dtype == dtype
    assert single.device == home()
    for batch_shape in BATCH_SHAPES:
        m = 12 // max(1, torch.Size(batch_shape).numel())
        batch = X[: m * torch.Size(batch_shape).numel()].reshape(*batch_shape, m, case.decision)
        values = case.objective(problem, batch)
        assert values.shape == (*batch_shape, m)
        torch.testing.assert_close(values.flatten(), single[: values.numel()])


@known
def test_nothing_is_better_than_the_stated_optimum(case: ProblemCase) -> None:
    problem = case.build(torch.float64)
    best, value = case.optimum(problem)
    lower, upper = problem.bounds[:, : case.decision]
    assert best.shape == (case.decision,)
    assert ((best >= lower) & (best <= upper)).all()
    found = value_of(case, problem, best.unsqueeze(0)).item()
    assert found == pytest.approx(value, abs=2e-6)
    X = sobol(case, problem, case.num_points)
    assert (value_of(case, problem, X) <= value + 2e-6).all()
    for reach in (1e-1, 1e-2, 1e-3):
        near = best + reach * (X[: case.num_points // 4] - (lower + upper) / 2)
        near = rounded(problem, torch.minimum(torch.maximum(near, lower), upper))
        assert (value_of(case, problem, near) <= found + 1e-9).all()


@known
def test_is_what_the_experiment_loop_asks_for(case: ProblemCase) -> None:
    problem, seeds = case.build(torch.float64), [5, 1, 8]
    assert decision_bounds(problem).shape == (2, case.decision)
    assert isinstance(problem, ProblemWithObjective)
    assert isinstance(problem, ProblemWithContexts) == (problem.dim > case.decision)
    X = sobol(case, problem, 6).reshape(3, 2, case.decision)
    assert torch.equal(problem.objective(X), case.objective(problem, X))
    met, outcomes = evaluate(problem, X, seeds, num_repeats=4, index=2)
    assert met.shape == (3, 2, problem.dim)
    assert torch.equal(met[..., : case.decision], X)
    assert outcomes.shape == (3, 2, 4)
    _, alone = evaluate(problem, X[1:2], [1], num_repeats=4, index=2)
    torch.testing.assert_close(alone, outcomes[1:2], rtol=1e-9, atol=1e-9)


@random
@dtypes
@pytest.mark.every_device
def test_draws_depend_on_the_generator_alone(case: ProblemCase, dtype: torch.dtype) -> None:
    problem = case.build(dtype).to(home())
    together = case.sample(problem, generators([5, 1, 8], "draws"))
    assert together.dtype == dtype
    assert together.device == home()
    torch.manual_seed(7)  # the global state has no part in it
    again = case.sample(case.build(dtype).to(home()), generators([8, 5], "draws"))
    assert torch.equal(again, together[[2, 0]])
    (generator,) = generators(1, "draws")
    assert torch.equal(case.sample(problem, generator), together[1])
    assert not torch.equal(together[0], together[1])
    wide = case.sample(case.build(torch.float64), generators([5, 1, 8], "draws"))
    torch.testing.assert_close(together.double().cpu(), wide, rtol=1e-3, atol=1e-3)


@every
def test_pickles(case: ProblemCase) -> None:
    problem = case.build(torch.float64)
    copy = pickle.loads(pickle.dumps(problem))
    assert torch.equal(copy.bounds, problem.bounds)
    if case.sample is not None:
        one, two = (case.sample(each, generators([3, 4], "draws")) for each in (copy, problem))
        assert torch.equal(one, two)
    if case.objective is not None:
        X = sobol(case, problem, 4)
        assert torch.equal(case.objective(copy, X), case.objective(problem, X))
