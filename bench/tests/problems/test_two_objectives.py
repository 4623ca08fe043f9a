r"""Two objectives under risk: the closed form of the Pareto front, against search."""

from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import InputDataError, UnsupportedError
from botorch.utils.multi_objective.hypervolume import Hypervolume
from botorch.utils.multi_objective.pareto import is_non_dominated
from botorch.utils.testing import (
    BaseTestProblemTestCaseMixIn,
    BotorchTestCase,
    MultiObjectiveTestProblemTestCaseMixin,
)
from botorch_risk_bench.problems import EnvironmentalSchaffer
from scipy.optimize import minimize

from botorch_risk.risk import ConditionalValueAtRisk, Expectation, ValueAtRisk
from botorch_risk.robust import HypervolumeImprovement, pareto_search
from botorch_risk.robust.pareto_search import of_measures
from botorch_risk.seeding import generators
from botorch_risk.strategies import Box, Strategy, random_decision
from botorch_risk.strategies.environment_space import EnvironmentSpace
from tests import oracles

W = np.arange(33) / 32
MASSES = np.exp(-((W - 0.5) ** 2) / (2 * 0.15**2))
MASSES /= MASSES.sum()
MEASURES = [None, ConditionalValueAtRisk(0.5), Expectation(), ValueAtRisk(0.1)]

every_measure = pytest.mark.parametrize("measure", MEASURES, ids=str)


class TestBotorchContracts(
    BotorchTestCase, BaseTestProblemTestCaseMixIn, MultiObjectiveTestProblemTestCaseMixin
):
    functions = [  # noqa: RUF012
        EnvironmentalSchaffer(),
        EnvironmentalSchaffer(noise_std=0.1),
        EnvironmentalSchaffer(noise_std=[0.1, 0.2]),
    ]


def f(x: np.ndarray, w: Any) -> tuple[Any, Any]:
    def square(point: tuple[float, float]) -> float:
        return (x[0] - point[0]) ** 2 + (x[1] - point[1]) ** 2

    first = -square((0.2, 0.2)) - 2 * w * square((0.1, 0.9))
    return first, -square((0.8, 0.3)) - (1 - w) * square((0.7, 0.9))


def test_outcomes_and_risks_equal_numpy() -> None:
    problem, X = EnvironmentalSchaffer(), torch.rand(3, 5, 3, dtype=torch.float64)
    expected = np.stack(f(X.numpy().transpose(2, 0, 1)[:2], X.numpy()[..., 2]), axis=-1)
    np.testing.assert_allclose(problem(X), expected)
    risks = problem.risks(X[..., :2])
    for i in range(3):
        for j in range(5):
            for found, values in zip(risks[i, j], f(X[i, j].numpy(), W), strict=True):
                value = oracles.conditional_value_at_risk(values, MASSES, 0.1)
                assert found.item() == pytest.approx(value, abs=1e-12)


@every_measure
@pytest.mark.slow
def test_nothing_on_a_grid_dominates_the_front(measure: Any) -> None:
    r"""And whatever is not dominated lies beside the segment."""
    problem = EnvironmentalSchaffer()
    axis = torch.linspace(0, 1, 101, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    front = problem.risks(problem.pareto_set(400, measure), measure)
    values = problem.risks(grid, measure)
    above = (values[:, None] >= front + 1e-9).all(dim=-1)
    assert not above.any()
    optimal = grid[is_non_dominated(values)]
    p, q = problem.pareto_set(2, measure)
    share = ((optimal - p) @ (q - p) / (q - p).square().sum()).clamp(0, 1)
    assert (optimal - p - share[:, None] * (q - p)).norm(dim=-1).max() < 0.06  # of a grid
    assert len(optimal) > 20


def test_ends_of_the_front_are_the_best_of_each_objective() -> None:
    problem = EnvironmentalSchaffer()

    def loss(x: np.ndarray, index: int) -> float:
        return -oracles.conditional_value_at_risk(f(x, W)[index], MASSES, 0.1)

    for index, end in enumerate(problem.pareto_set(2)):
        options = {"xatol": 1e-9, "fatol": 1e-13}
        start = np.array([0.5, 0.5])  # there is one optimum: each risk is concave
        found = minimize(loss, start, args=(index,), method="Nelder-Mead", options=options)
        np.testing.assert_allclose(found.x, end, atol=1e-6)
        assert problem.risks(end)[index].item() == pytest.approx(-found.fun, abs=1e-10)


@every_measure
def test_hypervolume_equals_that_of_a_dense_front(measure: Any) -> None:
    problem, n = EnvironmentalSchaffer(), 4001
    first, second = problem.risks(problem.pareto_set(n, measure), measure).T
    lower, upper = second[:-1], second[1:]  # of the steps from the best of the first objective on
    widths = first[:-1] - first[1:]
    edge = (first[-1] + 1.5) * (second[-1] + 1.5)  # left of the front
    below, above = ((widths * (side + 1.5)).sum() + edge for side in (lower, upper))
    assert below <= problem.hypervolume(measure) <= above
    assert above - below < 1e-3
    middle = ((below + above) / 2).item()
    assert problem.hypervolume(measure) == pytest.approx(middle, abs=1e-6)


def test_stated_hypervolume() -> None:
    problem = EnvironmentalSchaffer()
    assert problem.max_hv == pytest.approx(problem.hypervolume(), abs=1e-9)
    of_some = Hypervolume(problem.ref_point).compute(problem.gen_pareto_front(300))
    assert problem.max_hv - 0.005 < of_some < problem.max_hv
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(2000, 2, generator=generator, dtype=torch.float64)
    values = problem.risks(X)
    of_random = Hypervolume(problem.ref_point).compute(values[is_non_dominated(values)])
    assert problem.max_hv - 0.05 < of_random < problem.max_hv


def test_the_front_of_the_means_is_another() -> None:
    problem = EnvironmentalSchaffer()
    by_mean = problem.risks(problem.pareto_set(50, Expectation()))
    both = torch.cat([by_mean, problem.gen_pareto_front(400)])
    assert is_non_dominated(both)[:50].double().mean() < 0.1


def test_draws_of_both_objectives() -> None:
    problem = EnvironmentalSchaffer(noise_std=[0.1, 0.0])
    X = torch.rand(2, 3, 3, dtype=torch.float64)
    Y = problem.sample_outcomes(X, 4000, generators([3, 4], "noise"))
    assert Y.shape == (2, 3, 4000, 2)
    assert (Y[..., 0].std(dim=-1) - 0.1).abs().max() < 0.01
    assert torch.equal(Y[:, :, 0, 1], problem.evaluate_true(X)[..., 1])
    assert problem.draw_contexts(X[..., :2], generators([3, 4], "contexts")).shape == (2, 3, 1)
    assert problem.decision_bounds.tolist() == [[0.0, 0.0], [1.0, 1.0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dtypes(dtype: torch.dtype) -> None:
    problem = EnvironmentalSchaffer(dtype=dtype)
    front = problem.gen_pareto_front(5)
    assert front.dtype == dtype
    assert problem.pareto_set(5).dtype == dtype
    wide = EnvironmentalSchaffer().gen_pareto_front(5)
    torch.testing.assert_close(front.double(), wide, atol=1e-5, rtol=1e-5)
    assert problem.hypervolume() == pytest.approx(problem.max_hv, abs=1e-5)


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`... x 2`, in the unit square"):
        EnvironmentalSchaffer().risks(torch.rand(3, 3))
    with pytest.raises(ValueError, match=r"`... x 2`, in the unit square. .* to 2"):
        EnvironmentalSchaffer().risks(torch.full((3, 2), 2.0))
    with pytest.raises(InputDataError, match="number of objectives"):
        EnvironmentalSchaffer(noise_std=[0.1])
    problem = EnvironmentalSchaffer()
    problem.ref_point += 1.0
    with pytest.raises(UnsupportedError, match=r"front above \[-0.5, -0.5\]. Got one down to"):
        problem.hypervolume()


def test_the_hypervolume_of_sets_is_an_area() -> None:
    problem, X = EnvironmentalSchaffer(), torch.rand(3, 6, 2, dtype=torch.float64)
    X = torch.cat([X, problem.pareto_set(5).expand(3, 5, 2)], dim=1)
    X[1, 4:] = torch.nan
    X[2] = torch.nan
    found = problem.hypervolume_of(X)
    reference = problem.ref_point.numpy()
    for row in range(2):
        there = X[row][X[row].isfinite().all(dim=-1)]
        area = oracles.dominated_area(problem.risks(there).numpy(), reference)
        np.testing.assert_allclose(found[row], area)
    assert found.shape == (3,) and found[2] == 0
    assert found[1] < found[0] < problem.max_hv
    fine = problem.hypervolume_of(problem.pareto_set(2000))
    np.testing.assert_allclose(fine, problem.max_hv, atol=2e-4)


@pytest.mark.slow
def test_the_hypervolume_improvement_beats_random_decisions() -> None:
    problem = EnvironmentalSchaffer(noise_std=0.02)
    measure = ConditionalValueAtRisk(problem.risk_level)
    parts: dict[str, Any] = {"environment": problem.environment, "num_initial": 8}
    search = pareto_search(
        problem.decision_bounds,
        0,
        risk_measure=measure,
        acquisition=HypervolumeImprovement(tuple(problem.ref_point.tolist()), 16),
        num_restarts=2,
        raw_samples=16,
        max_iterations=10,
        **parts,
    )
    space = EnvironmentSpace(Box(problem.decision_bounds), problem.environment, w_is_chosen=False)
    random = Strategy(space, of_measures([measure, measure], random_decision), 0, num_initial=8)
    reached = []
    for strategy in (search, random):
        for index in range(7):
            X = strategy.ask()
            streams = [torch.Generator().manual_seed(index)]
            pairs = torch.cat([X, problem.draw_contexts(X, streams)], dim=-1)
            strategy.tell(pairs, problem.sample_outcomes(pairs, 1, streams))
        reached.append(problem.hypervolume_of(strategy.recommend()).item())
    assert reached[0] > reached[1] + 0.02
    assert reached[0] < problem.max_hv
