r"""Problems with chance constraints."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import InputDataError
from botorch.models import ModelListGP
from botorch.test_functions.synthetic import ConstrainedGramacy
from botorch.utils.testing import (
    BaseTestProblemTestCaseMixIn,
    BotorchTestCase,
    ConstrainedTestProblemTestCaseMixin,
)
from botorch_risk_bench.problems import (
    ChanceConstrainedBranin,
    ChanceConstrainedGramacy,
    ChanceConstrainedTestProblem,
)
from scipy.optimize import minimize
from torch import Tensor

from botorch_risk.acquisition import RiskUpperConfidenceBound
from botorch_risk.constraints import ConstrainedUpperConfidenceBound, RiskConstraint
from botorch_risk.engine import fit_exact_gp
from botorch_risk.models.standardized_gp import standardized_gp
from botorch_risk.recommend import recommend
from botorch_risk.risk import Expectation, WorstCase
from botorch_risk.seeding import generators
from botorch_risk.strategies import initial_design
from tests import oracles

KINDS = [ChanceConstrainedGramacy, ChanceConstrainedBranin]
every = pytest.mark.parametrize("kind", KINDS)


class TestBotorchContracts(
    BotorchTestCase, BaseTestProblemTestCaseMixIn, ConstrainedTestProblemTestCaseMixin
):
    functions = [  # noqa: RUF012
        *(kind(noise_std=0.1) for kind in KINDS),
        ChanceConstrainedGramacy(constraint_noise_std=[0.1, 0.2]),
        ChanceConstrainedBranin(constraint_noise_std=0.3),
    ]


def decisions(problem: ChanceConstrainedTestProblem, *shape: int) -> torch.Tensor:
    lower, upper = problem.decision_bounds
    return lower + (upper - lower) * torch.rand(*shape, 2, dtype=torch.float64)


@every
def test_risks_and_feasibility_equal_loops(kind: type[ChanceConstrainedTestProblem]) -> None:
    problem = kind()
    X, w, weights = decisions(problem, 3, 20), problem.environment.points, problem.environment
    risks, feasible = problem.constraint_risks(X), problem.is_feasible_decision(X)
    assert risks.shape == (3, 20, problem.num_constraints)
    masses = weights.weights.tolist()
    for at in torch.cartesian_prod(torch.arange(3), torch.arange(20)).tolist():
        pairs = torch.cat([X[tuple(at)].expand(33, 2), w], dim=-1)
        slacks = problem.evaluate_slack_true(pairs)
        for index in range(problem.num_constraints):
            values = slacks[:, index].tolist()
            chance = sum(m for m, v in zip(masses, values, strict=True) if v >= 0)
            assert (risks[(*at, index)] >= 0) == (chance >= 0.95)
            # The largest value that is reached with a probability of 0.95.
            reached = [
                v
                for v in values
                if sum(m for m, u in zip(masses, values, strict=True) if u >= v) >= 0.95
            ]
            assert risks[(*at, index)].item() == pytest.approx(max(reached), abs=1e-12)
            assert values == sorted(values, reverse=True)  # slacks decrease in w
        jointly = sum(m for m, row in zip(masses, slacks.tolist(), strict=True) if min(row) >= 0)
        assert feasible[tuple(at)] == (jointly >= 0.95)
        value = oracles.to_numpy(problem.evaluate_true(pairs)) @ oracles.to_numpy(weights.weights)
        assert problem.objective(X[tuple(at)]).item() == pytest.approx(value)


@every
def test_feasible_decisions_are_those_of_one_value_of_w(
    kind: type[ChanceConstrainedTestProblem],
) -> None:
    problem = kind()
    X = decisions(problem, 500)
    critical = torch.cat([X, torch.full((500, 1), 0.75, dtype=torch.float64)], dim=-1)
    known = (problem.evaluate_slack_true(critical) >= 0).all(dim=-1)
    assert torch.equal(problem.is_feasible_decision(X), known)
    assert 0.2 < known.double().mean() < 0.45


@every
def test_another_risk(kind: type[ChanceConstrainedTestProblem]) -> None:
    problem = kind()
    X = decisions(problem, 7)
    inputs, weights = problem.environment.expand(X)
    slacks = problem.evaluate_slack_true(inputs)
    torch.testing.assert_close(problem.constraint_risks(X, WorstCase()), slacks.amin(dim=-2))
    worst = problem.objective(X, WorstCase())
    torch.testing.assert_close(worst, problem.evaluate_true(inputs).amin(dim=-1))
    torch.testing.assert_close(
        problem.objective(X, Expectation()), (problem.evaluate_true(inputs) * weights).sum(dim=-1)
    )


@every
def test_draws_of_all_outcomes(kind: type[ChanceConstrainedTestProblem]) -> None:
    problem = kind(noise_std=0.1, constraint_noise_std=0.2)
    X = torch.cat([decisions(problem, 2, 3), torch.rand(2, 3, 1, dtype=torch.float64)], dim=-1)
    Y = problem.sample_outcomes(X, 4000, generators([3, 4], "noise"))
    assert Y.shape == (2, 3, 4000, 1 + problem.num_constraints)
    spread = Y.std(dim=2)
    assert (spread[..., 0] - 0.1).abs().max() < 0.01
    assert (spread[..., 1:] - 0.2).abs().max() < 0.02
    exact = kind().sample_outcomes(X, 1, generators([3, 4], "noise")).squeeze(2)
    assert torch.equal(exact[..., 0], problem.evaluate_true(X))
    assert torch.equal(exact[..., 1:], problem.evaluate_slack_true(X))


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputDataError, match="must match the number of constraints"):
        ChanceConstrainedGramacy(constraint_noise_std=[0.1])
    with pytest.raises(ValueError, match=r"`... x 2`, within the decision's bounds"):
        ChanceConstrainedGramacy().constraint_risks(torch.rand(3, 3))


PROBLEMS = {"gramacy": ChanceConstrainedGramacy, "branin": ChanceConstrainedBranin}
W = np.arange(33) / 32
MASSES = np.exp(-((W - 0.5) ** 2) / (2 * 0.15**2))

MASSES /= MASSES.sum()

BOXES = {"gramacy": [(0, 1), (0, 1)], "branin": [(-5, 10), (0, 15)]}
every_synthetic = pytest.mark.parametrize("name", PROBLEMS)


def f(name: str, x: Any, w: Any) -> Any:
    if name == "gramacy":
        return -(0.5 + w) * (x[0] + x[1])
    u, v = x[0] + 4 * (w - 0.5), x[1]
    square = (v - 5.1 / (4 * np.pi**2) * u**2 + 5 / np.pi * u - 6) ** 2
    return -(square + 10 * (1 - 1 / (8 * np.pi)) * np.cos(u) + 10 - 44.81) / 51.95


def slacks(name: str, x: Any, w: Any) -> Any:
    if name == "gramacy":
        wave = 0.5 * np.sin(2 * np.pi * (x[0] ** 2 - 2 * x[1]))
        first = x[0] + 2 * x[1] + wave - 1.5 - (w - 0.5) * (0.2 + x[0])
        return np.stack([first, 1.5 - x[0] ** 2 - x[1] ** 2 - 0.4 * (w - 0.5)])
    return (1 - ((x[0] - 2.5) ** 2 + (x[1] - 7.5) ** 2) / 50 - 2.4 * (w - 0.5))[None]


def critical_value() -> float:
    r"""The largest w that is reached or exceeded with a probability of more than 0.05."""
    return max(w for i, w in enumerate(W) if MASSES[i:].sum() > 0.05)


def best(name: str, sign: float) -> tuple[np.ndarray, float]:
    r"""The largest expectation, or the smallest, of a feasible decision: a grid, then SLSQP."""

    def value(x: np.ndarray) -> Any:
        return sign * sum(mass * f(name, x, w) for w, mass in zip(W, MASSES, strict=True))

    axes = [np.linspace(*side, 801) for side in BOXES[name]]
    grid = np.stack(np.meshgrid(*axes, indexing="ij")).reshape(2, -1)
    feasible = (slacks(name, grid, critical_value()) >= 0).all(axis=0)
    values = np.where(feasible, value(grid), -np.inf)
    found = []
    for _ in range(8):  # the best point of the grid, the best one apart from it, and so on
        start = grid[:, values.argmax()]
        near = np.abs(grid - start[:, None]) < 0.1 * np.ptp(np.array(BOXES[name]), axis=1)[:, None]
        values[near.all(axis=0)] = -np.inf
        found.append(climb(name, value, start))
    return max(found, key=lambda pair: pair[1])


def climb(name: str, value: Callable[[np.ndarray], Any], start: np.ndarray) -> tuple[Any, float]:
    limits = {"type": "ineq", "fun": lambda x: slacks(name, x, critical_value())}
    options = {"ftol": 1e-15, "maxiter": 300}
    result = minimize(
        lambda x: -value(x), start, bounds=BOXES[name], constraints=[limits], options=options
    )
    violated = slacks(name, result.x, critical_value()).min() < -1e-9
    return (start, value(start)) if violated else (result.x, -result.fun)


@every_synthetic
def test_functions_equal_numpy(name: str) -> None:
    problem = PROBLEMS[name]()
    lower, upper = problem.bounds
    X = lower + (upper - lower) * torch.rand(4, 6, 3, dtype=torch.float64)
    *x, w = X.numpy().transpose(2, 0, 1)
    np.testing.assert_allclose(problem(X), f(name, x, w), rtol=1e-7, atol=1e-7)
    found = problem.evaluate_slack(X).numpy().transpose(2, 0, 1)
    np.testing.assert_allclose(found, slacks(name, x, w), rtol=1e-9, atol=1e-9)


@every_synthetic
@pytest.mark.slow
def test_optimum_equals_search(name: str) -> None:
    problem = PROBLEMS[name]()
    x, value = best(name, 1.0)
    assert problem.optimal_expectation == pytest.approx(value, abs=1e-7)
    np.testing.assert_allclose(problem.optimal_decision, x, atol=1e-5)
    assert problem.is_feasible_decision(problem.optimal_decision)
    assert problem.constraint_risks(problem.optimal_decision).min() < 1e-7  # a constraint is tight
    assert problem.objective(problem.optimal_decision).item() == pytest.approx(value, abs=5e-8)


@every_synthetic
def test_worst_feasible_value_equals_search(name: str) -> None:
    _, value = best(name, -1.0)
    assert PROBLEMS[name]().worst_feasible_value == pytest.approx(-value, abs=1e-7)


def test_gramacys_problem_is_botorchs_on_an_average_day() -> None:
    problem = ChanceConstrainedGramacy()
    X = torch.rand(20, 2, dtype=torch.float64)
    average = torch.cat([X, torch.full((20, 1), 0.5, dtype=torch.float64)], dim=-1)
    torch.testing.assert_close(problem(average), -ConstrainedGramacy()(X))
    torch.testing.assert_close(
        problem.evaluate_slack(average), ConstrainedGramacy().evaluate_slack(X)
    )
    torch.testing.assert_close(problem.objective(X), -X.sum(dim=-1))
    nominal = torch.tensor([0.1954, 0.4044], dtype=torch.float64)
    assert not problem.is_feasible_decision(nominal)
    second = torch.tensor([0.0, 0.756042], dtype=torch.float64)
    assert problem.is_feasible_decision(second)
    assert problem.objective(second).item() == pytest.approx(-0.756041, abs=2e-6)


def test_the_feasible_set_of_branin_is_a_disk() -> None:
    angle = torch.linspace(0, 6.28, 50, dtype=torch.float64)
    circle = torch.stack([angle.cos(), angle.sin()], dim=-1) * 20**0.5
    centre = torch.tensor([2.5, 7.5], dtype=torch.float64)
    problem = ChanceConstrainedBranin()
    assert problem.is_feasible_decision(centre + 0.999999 * circle).all()
    assert not problem.is_feasible_decision(centre + 1.000001 * circle).any()


@pytest.fixture(scope="module")
def learnt() -> tuple[ChanceConstrainedGramacy, Tensor, ModelListGP]:
    r"""A problem with a known feasible set, and 200 replicates of 30 noisy evaluations of it."""
    problem = ChanceConstrainedGramacy(noise_std=0.02, constraint_noise_std=0.02)
    seeds = list(range(200))
    X = initial_design(problem.bounds, seeds, 30)
    Y = problem.sample_outcomes(X, 1, generators(seeds, "noise")).squeeze(-2)
    models = [standardized_gp(X, each.unsqueeze(-1)) for each in Y.unbind(dim=-1)]
    for model in models:
        fit_exact_gp(model)
    return problem, X[..., :2], ModelListGP(*models)


@pytest.mark.parametrize(("beta", "least", "most"), [(4.0, 0.0, 0.03), (0.0, 0.05, 0.3)])
@pytest.mark.filterwarnings("ignore::botorch_risk.recommend.InfeasibleRecommendationWarning")
@pytest.mark.slow
def test_decisions_that_are_called_feasible_are(
    learnt: Any, beta: float, least: float, most: float
) -> None:
    r"""With confidence; by the mean alone one in twelve fails."""
    problem, X, model = learnt
    environment = problem.environment
    bound = RiskUpperConfidenceBound(model.models[0], environment, Expectation(), beta=4.0)
    constraints = [
        RiskConstraint.chance(environment, 0.0, outcome, delta=problem.delta, at_most=False)
        for outcome in (1, 2)
    ]
    acqf = ConstrainedUpperConfidenceBound(model, bound, constraints, beta=beta)
    chosen = recommend(bound, X, "posterior_mean", feasible=acqf)
    assert chosen.feasible is not None
    assert chosen.feasible.double().mean() >= 0.9
    fails = ~problem.is_feasible_decision(chosen.point[chosen.feasible])
    assert least <= fails.double().mean() <= most
