r"""Descent in a box, row by row and by groups."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy import ndarray
from scipy.optimize import minimize
from torch import Tensor

from botorch_risk.engine import minimize_rows
from botorch_risk.engine.projected_bfgs.descent import Objective
from botorch_risk.engine.projected_bfgs.leaders import Leaders
from botorch_risk.engine.projected_bfgs.minima import RowStatus
from botorch_risk.engine.recorded import Portable
from tests.engine.recorders import make_recorder


def rosenbrock(x: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
    left, right = x[:, :-1], x[:, 1:]
    slack = right - left**2
    gradient = np.zeros_like(x)
    gradient[:, :-1] = -400 * left * slack - 2 * (1 - left)
    gradient[:, 1:] += 200 * slack
    return (100 * slack**2 + (1 - left) ** 2).sum(axis=1), gradient


def quadratics(count: int, p: int) -> Objective:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(count, p, p))
    matrix, shift = root @ root.transpose(0, 2, 1) + 0.01 * np.eye(p), rng.normal(size=(count, p))

    def objective(x: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        product = np.einsum("rij,rj->ri", matrix[rows], x)
        value = (x * (0.5 * product - 3 * shift[rows])).sum(axis=1)
        return value, product - 3 * shift[rows]

    return objective


def scipy_minimum(objective: Objective, start: ndarray, row: int, bounds: list) -> float:
    def single(x: ndarray) -> tuple[float, ndarray]:
        value, gradient = objective(x[None], np.array([row]))
        return value[0], gradient[0]

    options = {"ftol": 1e-13, "gtol": 1e-8, "maxiter": 1000}
    return minimize(single, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).fun


@pytest.mark.parametrize("p", [1, 2, 8])
def test_quadratics_with_active_bounds_reach_what_scipy_reaches(p: int) -> None:
    objective = quadratics(32, p)
    start = np.random.default_rng(1).uniform(-1, 1, (32, p))
    minima = minimize_rows(objective, start, -np.ones(p), np.ones(p))
    expected = [scipy_minimum(objective, x, row, [(-1, 1)] * p) for row, x in enumerate(start)]
    assert (minima.status == RowStatus.CONVERGED).all()
    assert (np.abs(minima.x) == 1.0).any()
    np.testing.assert_allclose(minima.value, expected, atol=1e-7)


@pytest.mark.parametrize("upper", [2.0, 0.8])
def test_rosenbrock_inside_the_box_and_at_its_side(upper: float) -> None:
    start = np.random.default_rng(0).uniform(-2, upper, (40, 2))
    minima = minimize_rows(rosenbrock, start, np.full(2, -2.0), np.full(2, upper))
    expected = np.array([1.0, 1.0]) if upper > 1 else np.array([0.8, 0.64])
    np.testing.assert_allclose(minima.x, np.tile(expected, (40, 1)), atol=1e-3)
    assert minima.num_evaluations.max() < 100


def test_rows_do_not_depend_on_each_other() -> None:
    start = np.random.default_rng(0).uniform(-2, 2, (10, 3))
    box = np.full(3, -2.0), np.full(3, 2.0)
    together = minimize_rows(rosenbrock, start, *box)
    for row in range(10):
        alone = minimize_rows(rosenbrock, start[row : row + 1], *box)
        np.testing.assert_allclose(alone.x[0], together.x[row], atol=1e-12)
        assert alone.num_evaluations[0] == together.num_evaluations[row]


def test_finished_rows_are_not_evaluated() -> None:
    seen: list[int] = []

    def objective(x: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        seen.extend(rows)
        return rosenbrock(x, rows)

    start = np.array([[1.0, 1.0], [-1.5, 2.0]])
    minima = minimize_rows(objective, start, np.full(2, -2.0), np.full(2, 2.0))
    assert seen.count(0) == minima.num_evaluations[0] == 1
    assert seen.count(1) == minima.num_evaluations[1] > 10


def test_a_row_that_is_not_finite_fails_and_leaves_the_others() -> None:
    def objective(x: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        value, gradient = rosenbrock(x, rows)
        value[rows == 0], gradient[rows == 1] = np.nan, np.inf
        return value, gradient

    start = np.random.default_rng(0).uniform(-2, 2, (3, 2))
    box = np.full(2, -2.0), np.full(2, 2.0)
    minima = minimize_rows(objective, start, *box)
    assert minima.status.tolist() == [RowStatus.FAILED, RowStatus.FAILED, RowStatus.CONVERGED]
    np.testing.assert_array_equal(minima.x[:2], start[:2])
    alone = minimize_rows(rosenbrock, start[2:], *box)
    np.testing.assert_allclose(minima.x[2], alone.x[0], atol=1e-12)


def test_values_that_are_not_finite_on_the_way_are_stepped_around() -> None:
    def objective(x: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        value = np.where(x[:, 0] > 0, x[:, 0] - np.log(x[:, 0]), np.nan)
        return value, 1 - 1 / x

    minima = minimize_rows(objective, np.array([[20.0], [0.01]]), np.full(1, -50.0), np.full(1, 50))
    np.testing.assert_allclose(minima.x, 1.0, atol=1e-4)


def test_the_iteration_limit_and_stalls_are_told() -> None:
    start = np.array([[-1.5, 2.0]])
    box = np.full(2, -2.0), np.full(2, 2.0)
    limited = minimize_rows(rosenbrock, start, *box, max_iterations=2)
    assert limited.status[0] == RowStatus.ITERATION_LIMIT
    assert limited.value[0] < rosenbrock(start, np.array([0]))[0][0]

    def wrong(x: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        value, gradient = rosenbrock(x, rows)
        return value, -gradient

    assert minimize_rows(wrong, start, *box).status[0] == RowStatus.STALLED


def test_equal_bounds_fix_a_coordinate_and_starts_are_moved_into_the_box() -> None:
    lower, upper = np.array([-2.0, 0.5]), np.array([2.0, 0.5])
    minima = minimize_rows(rosenbrock, np.array([[5.0, 5.0]]), lower, upper)
    assert minima.x[0, 1] == 0.5
    np.testing.assert_allclose(minima.x[0, 0], 0.7079, atol=1e-3)


def test_no_step_is_longer_than_allowed() -> None:
    points = []

    def objective(x: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        points.append(x[0, 0])
        return (x[:, 0] - 30) ** 2, 2 * (x - 30)

    minimize_rows(objective, np.zeros((1, 1)), np.full(1, -99.0), np.full(1, 99.0), max_step=1.5)
    assert np.abs(np.diff(points)).max() <= 1.5 + 1e-12
    assert abs(points[-1] - 30) < 1e-4


@pytest.mark.parametrize(
    ("start", "lower", "message"),
    [(np.zeros(2), 0.0, "`rows x p`"), (np.zeros((1, 2)), 2.0, "`lower` <= `upper`")],
)
def test_bad_input(start: ndarray, lower: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        minimize_rows(rosenbrock, start, np.full(2, lower), np.ones(2))


def test_an_exponential_is_followed_until_it_promises_nothing() -> None:
    def exponential(x: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value = np.exp(-x[:, 0])
        return value, -value[:, None]

    options = {"start": np.zeros((1, 1)), "lower": np.zeros(1), "upper": np.full(1, 50.0)}
    soon = minimize_rows(exponential, gradient_tolerance=1e-3, relative_tolerance=0.0, **options)
    late = minimize_rows(
        exponential,
        gradient_tolerance=1e-3,
        relative_tolerance=0.0,
        decrease_tolerance=1e-9,
        **options,
    )
    assert 1e-6 < soon.value[0] <= 1e-3
    assert late.value[0] < 1e-8
    assert late.status.tolist() == [RowStatus.CONVERGED]


def test_a_metric_from_a_similar_problem_saves_most_evaluations() -> None:
    r"""As does the start at its minimum; a row without a metric begins as ever."""
    objective = quadratics(8, 4)
    box = (np.full(4, -50.0), np.full(4, 50.0))

    def shifted(x: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        value, gradient = objective(x, rows)
        return value + 0.01 * x.sum(axis=1), gradient + 0.01

    first = minimize_rows(objective, np.zeros((8, 4)), *box)
    metric = first.metric.copy()
    metric[0] = np.nan
    second = minimize_rows(shifted, first.x, *box, metric=metric)
    cold = minimize_rows(shifted, first.x, *box)
    np.testing.assert_allclose(second.value, cold.value, atol=1e-8)
    assert second.num_evaluations[0] == cold.num_evaluations[0]
    assert second.num_evaluations[1:].mean() < 0.5 * cold.num_evaluations[1:].mean()


def test_a_row_that_learnt_nothing_has_no_metric() -> None:
    minima = minimize_rows(rosenbrock, np.ones((1, 2)), np.full(2, -2.0), np.full(2, 2.0))
    assert np.isnan(minima.metric).all()


def as_tensors(objective: Objective) -> Objective:
    r"""The same for tensors: what two forms compute differs by what they do with it alone."""

    def on_device(x: Tensor, rows: ndarray) -> tuple[Tensor, Tensor]:
        value, gradient = (torch.as_tensor(part).to(x) for part in objective(x.cpu().numpy(), rows))
        return value, gradient

    return on_device


def ridges(x: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
    r"""The largest of three bowls, which meet at kinks."""
    centres, steepness = np.array([[-1.0, 0.2], [0.4, 0.6], [0.1, -1.2]]), np.array([1.0, 2.0, 5.0])
    offset = x[:, None] - centres
    bowls = steepness * (offset**2).sum(-1)
    top = bowls.argmax(axis=1)
    each = np.arange(len(x))
    return bowls[each, top], 2 * steepness[top][:, None] * offset[each, top]


@pytest.mark.slow
def test_both_forms_do_the_same_on_a_thousand_problems(device: torch.device) -> None:
    rng = np.random.default_rng(7)
    in_groups = {"groups": np.arange(400) // 20, "patience": 20, "worthwhile": 1e-6}
    for p, objective, options in (
        (3, quadratics(400, 3), {}),
        (4, rosenbrock, {"max_step": 1.0}),
        (2, wells, in_groups),
        (2, ridges, {**in_groups, "kinks": True}),
    ):
        problem = rng.uniform(-2, 0.8, (400, p)), np.full(p, -2.0), np.full(p, 0.8)
        numpy = minimize_rows(objective, *problem, **options)
        torch_ = minimize_rows(as_tensors(objective), *problem, **options, device=device)
        np.testing.assert_array_equal(torch_.status, numpy.status)
        np.testing.assert_array_equal(torch_.num_evaluations, numpy.num_evaluations)
        np.testing.assert_allclose(torch_.value, numpy.value, rtol=0.0, atol=1e-9)
        # Along a valley a value is the square of a distance.
        np.testing.assert_allclose(torch_.x, numpy.x, rtol=0.0, atol=1e-8)


def bowls(x: Tensor, centres: Tensor, steepness: Tensor) -> tuple[Tensor, Tensor]:
    r"""A quartic bowl for each row, as a function of tensors alone."""
    offset = x - centres
    value = (steepness * (offset.square() + offset.pow(4))).sum(-1)
    return value, steepness * (2 * offset + 4 * offset.pow(3))


def test_a_recording_serves_other_tensors_of_its_shapes(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_recorder(device, monkeypatch)
    rng, groups = np.random.default_rng(3), np.arange(12) // 4
    box = np.full(2, -1.0), np.full(2, 1.0)
    for _ in range(4):  # called, recorded, replayed
        centres, steepness = rng.uniform(-1.5, 1.5, (12, 2)), rng.uniform(0.1, 9.0, (12, 2))
        start = rng.uniform(-1.0, 1.0, (12, 2))
        given = torch.as_tensor(centres), torch.as_tensor(steepness)

        def objective(x: ndarray, rows: ndarray, given: Any = given) -> tuple[ndarray, ndarray]:
            found = bowls(torch.as_tensor(x), *(each[rows] for each in given))
            return found[0].numpy(), found[1].numpy()

        there = tuple(each.to(device) for each in given)
        for option in ({}, {"groups": groups}):
            expected = minimize_rows(objective, start, *box, **option)
            portable = Portable("bowls", bowls, there)
            found = minimize_rows(portable, start, *box, **option, device=device)
            np.testing.assert_array_equal(found.status, expected.status)
            np.testing.assert_array_equal(found.num_evaluations, expected.num_evaluations)
            np.testing.assert_allclose(found.x, expected.x, rtol=0.0, atol=1e-10)
            np.testing.assert_allclose(found.metric, expected.metric, rtol=0.0, atol=1e-8)


def test_a_failure_and_a_metric_are_seen_on_a_device(device: torch.device) -> None:
    def broken(x: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        value, gradient = rosenbrock(x, rows)
        return np.where(rows == 1, np.nan, value), gradient

    box, start = (np.full(2, -2.0), np.full(2, 2.0)), np.full((3, 2), 0.5)
    cold = minimize_rows(rosenbrock, start, *box)
    metric = np.where(np.arange(3)[:, None, None] == 2, np.nan, cold.metric)
    minima = minimize_rows(as_tensors(broken), cold.x, *box, metric=metric, device=device)
    assert minima.status.tolist() == [RowStatus.CONVERGED, RowStatus.FAILED, RowStatus.CONVERGED]
    assert minima.num_evaluations[1] == 1
    late = minimize_rows(as_tensors(rosenbrock), start, *box, device=device, max_iterations=2)
    assert (late.status == RowStatus.ITERATION_LIMIT).all()


def test_joined_minima_are_in_order() -> None:
    box = (np.full(2, -2.0), np.full(2, 2.0))
    start = np.random.default_rng(0).uniform(-2, 2, (5, 2))
    together = minimize_rows(rosenbrock, start, *box)
    parts = [minimize_rows(rosenbrock, start[rows], *box) for rows in (slice(0, 2), slice(2, 5))]
    joined = parts[0].joined(parts[1])
    np.testing.assert_array_equal(joined.num_evaluations, together.num_evaluations)
    np.testing.assert_allclose(joined.metric, together.metric)


def wells(x: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
    r"""Many minima, the lowest at 0.3."""
    offset = x - 0.3
    value = (2 * offset**2 + 0.2 * (1 - np.cos(12 * offset))).sum(axis=1)
    return value, 4 * offset + 2.4 * np.sin(12 * offset)


def test_groups_end_as_low_with_fewer_evaluations() -> None:
    start = np.random.default_rng(4).uniform(-2, 2, (200, 2))
    groups, box = np.arange(200) // 20, (np.full(2, -2.0), np.full(2, 2.0))
    whole = minimize_rows(wells, start, *box)
    short = minimize_rows(wells, start, *box, groups=groups)
    lowest = [minima.value.reshape(10, 20).min(axis=1) for minima in (whole, short)]
    np.testing.assert_allclose(*lowest, atol=1e-8)
    overtaken = short.status == RowStatus.OVERTAKEN
    assert overtaken.mean() > 0.5
    assert (~overtaken.reshape(10, 20)).any(axis=1).all()  # the lowest row of each has its end
    assert short.num_evaluations.sum() < 0.8 * whole.num_evaluations.sum()


def test_groups_do_not_see_each_other() -> None:
    start = np.random.default_rng(5).uniform(-2, 2, (60, 2))
    groups, box = np.arange(60) // 20, (np.full(2, -2.0), np.full(2, 2.0))
    together = minimize_rows(wells, start, *box, groups=groups)
    for group in range(3):
        own = groups == group
        alone = minimize_rows(wells, start[own], *box, groups=np.zeros(20, dtype=np.int64))
        np.testing.assert_array_equal(alone.x, together.x[own])
        np.testing.assert_array_equal(alone.status, together.status[own])


def test_rows_that_go_to_a_known_minimum_end() -> None:
    objective = quadratics(6, 3)
    box = (np.full(3, -50.0), np.full(3, 50.0))
    start = np.random.default_rng(2).uniform(-5, 5, (6, 3))
    whole = minimize_rows(objective, start, *box)
    value = whole.value.copy()
    value[0] = np.nan  # nothing is known to the first row
    value[1] += 1e3  # and something worse to the second
    short = minimize_rows(objective, start, *box, groups=np.arange(6), known=(whole.x, value))
    assert short.num_evaluations[:2].tolist() == whole.num_evaluations[:2].tolist()
    assert (short.status[:2] == RowStatus.CONVERGED).all()
    assert (short.num_evaluations[2:] <= whole.num_evaluations[2:]).all()
    assert (short.status[2:] == RowStatus.OVERTAKEN).sum() >= 3


def test_rows_end_when_time_is_out() -> None:
    start = np.random.default_rng(6).uniform(-2, 2, (5, 2))
    times = iter([False, False, True])
    minima = minimize_rows(
        rosenbrock, start, np.full(2, -2.0), np.full(2, 2.0), is_out_of_time=lambda: next(times)
    )
    assert (minima.status == RowStatus.ITERATION_LIMIT).all()
    assert (minima.num_evaluations == 3).all()
    assert (minima.value <= rosenbrock(start, np.arange(5))[0]).all()


FAR = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])


def test_a_row_without_hope_is_overtaken() -> None:
    leaders = Leaders.of(np.zeros(3, dtype=np.int64), 2)
    value, promise = np.array([0.0, 1.0, 1.0]), np.array([0.0, 0.02, 0.04])
    overtaken = leaders.overtake(
        np.zeros(3, dtype=int), FAR, value, np.zeros((3, 2)), promise, np.zeros(3)
    )
    assert overtaken.tolist() == [False, True, False]  # 30 times 0.02 is 0.6, 30 times 0.04 is 1.2


def test_a_row_in_the_bowl_of_the_lowest_is_overtaken() -> None:
    x = np.array([[0.5, 0.5], [0.55, 0.5], [0.45, 0.5]])
    value = (x - 0.5)[:, 0] ** 2
    gradient = 2 * (x - 0.5)
    gradient[2] *= 3  # as of another bowl
    leaders = Leaders.of(np.zeros(3, dtype=np.int64), 2)
    overtaken = leaders.overtake(
        np.zeros(3, dtype=int), x, value, gradient, np.full(3, np.inf), np.zeros(3)
    )
    assert overtaken.tolist() == [False, True, False]


def test_a_row_on_its_way_to_the_kink_of_the_lowest_is_overtaken() -> None:
    x = np.array([[0.5], [0.55], [0.45]])
    gradient = np.array([[1.0], [1.0], [-0.5]])  # the third as of another kink
    leaders = Leaders.of(np.zeros(3, dtype=np.int64), 1, kinks=True)
    overtaken = leaders.overtake(
        np.zeros(3, dtype=int), x, abs(x - 0.5)[:, 0], gradient, np.full(3, np.inf), np.zeros(3)
    )
    assert overtaken.tolist() == [False, True, False]


@pytest.mark.parametrize("steepness", [1.0, 5.0, 50.0])
def test_kinks_are_reached_in_few_evaluations(steepness: float) -> None:
    rng = np.random.default_rng(0)
    kinks = rng.uniform(0.2, 0.8, 20)

    def objective(x: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        left, right = kinks[rows] + 0.3, kinks[rows] - 0.5 / steepness  # of their two minima
        low, high = (x[:, 0] - left) ** 2 / 2, steepness * (x[:, 0] - right) ** 2 / 2
        high += (0.09 - 0.25 / steepness) / 2  # they meet at the kink
        slopes = x[:, 0] - left, steepness * (x[:, 0] - right)
        return np.maximum(low, high), np.where(low > high, *slopes)[:, None]

    start = rng.uniform(size=(20, 1))
    minima = minimize_rows(
        objective, start, np.zeros(1), np.ones(1), worthwhile=1e-6, patience=20, kinks=True
    )
    np.testing.assert_allclose(minima.value, 0.045, atol=1e-9)
    assert np.median(minima.num_evaluations) <= 36  # 44 and more by parabolas, which end 1e-8 above


def test_the_lowest_row_of_each_group_leads_whatever_the_order() -> None:
    group = np.array([0, 1, 0, 1])
    leaders = Leaders.of(group, 2)
    x = np.arange(8.0).reshape(4, 2)
    nothing = np.zeros((4, 2))
    value = np.array([1.0, 5.0, 3.0, 4.0])
    leaders.overtake(group, x, value, nothing, np.full(4, np.inf), np.zeros(4))
    assert leaders.value[:-1].tolist() == [1.0, 4.0]
    assert leaders.x[:-1].tolist() == [[0.0, 1.0], [6.0, 7.0]]
    rest = group[2:]  # the others have finished
    leaders.overtake(rest, x[:2], value[[0, 2]] + 1, nothing[:2], np.full(2, np.inf), np.zeros(2))
    assert leaders.value[:-1].tolist() == [1.0, 4.0]
    leaders.overtake(rest, x[:2], value[[0, 2]], nothing[:2], np.full(2, np.inf), np.zeros(2))
    assert leaders.value[:-1].tolist() == [1.0, 3.0]


def test_what_is_known_leads_from_the_start() -> None:
    known = (FAR[:2], np.array([-5.0, np.nan]))
    leaders = Leaders.of(np.array([0, 1]), 2, known)
    value, promise = np.zeros(2), np.full(2, 0.1)
    overtaken = leaders.overtake(
        np.arange(2), FAR[1:], value, np.zeros((2, 2)), promise, np.zeros(2)
    )
    assert overtaken.tolist() == [True, False]


def test_a_row_does_not_overtake_itself_within_the_error_of_its_values() -> None:
    leaders, point = Leaders.of(np.zeros(1, dtype=np.int64), 2), FAR[:1]
    nothing, error = np.zeros((1, 2)), np.array([1e-4])
    for value, lost in ((1.0, False), (1.0 + 5e-5, False), (1.0 + 2e-4, True)):
        row = np.array([value])
        found = leaders.overtake(np.zeros(1, dtype=int), point, row, nothing, np.zeros(1), error)
        assert found.tolist() == [lost]
