r"""Worst cases by transport against linear programs."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from botorch_risk.risk import WassersteinBall, WassersteinRegularization
from botorch_risk.risk.wasserstein import euclidean, wasserstein_worst_distribution
from tests.risk import ball_oracles
from tests.second_device import SIM, counted, only_without_gpu

FAST, ALL = 100, 1_000


def instance(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    r"""One to 30 points in one or two dimensions, on a grid or not, any weights and radius."""
    generator = np.random.default_rng(seed)
    n = int(generator.integers(1, 31))
    points = generator.uniform(size=(n, int(generator.integers(1, 3))))
    values = generator.normal(size=n)
    if seed % 2 == 0:  # a smooth function of the points
        values = np.sin(5 * points @ generator.normal(size=points.shape[1]))
    if seed % 3 == 0:
        values, points = values.round(1), points.round(1)
    weights = generator.dirichlet(np.full(n, generator.choice([0.1, 1.0, 10.0])))
    if seed % 5 == 0:
        weights = np.eye(n)[0]
    radius = generator.choice([3.0, *10 ** generator.uniform(-5, 0, size=8)])
    return points, values, weights, float(radius)


def bound(points: Tensor, radius: float, **options: object) -> WassersteinBall:
    return WassersteinBall(radius, **options).bind(SimpleNamespace(points=points))


def gap(seed: int) -> float:
    r"""In units of the range of the values, of pairs and of the line, if the points are on one."""
    points, values, weights, radius = instance(seed)
    distances = ball_oracles.distances(points)
    expected = ball_oracles.wasserstein_worst_case(values, weights, distances, radius)
    gaps, spread = [], np.ptp(values) or 1.0
    for ball in (bound(torch.tensor(points), radius), _listed(distances, radius)):
        q = ball.worst_distribution(*map(torch.tensor, (values, weights))).numpy()
        assert (q >= 0).all()
        assert abs(q.sum() - 1) <= 1e-12
        gaps.append(abs(q @ values - expected) / spread)
    if seed % 10 == 0:
        assert ball_oracles.wasserstein_distance(weights, q, distances) <= radius + 1e-7
    return max(gaps)


def _listed(distances: np.ndarray, radius: float) -> WassersteinBall:
    matrix = torch.tensor(distances)
    return bound(torch.zeros(len(matrix), 1), radius, metric=lambda v, w: matrix)


def test_equals_the_linear_program() -> None:
    assert max(gap(seed) for seed in range(FAST)) <= 1e-8


@pytest.mark.slow
def test_equals_the_linear_program_on_many_instances() -> None:
    assert max(gap(seed) for seed in range(ALL)) <= 1e-8


def tensors(d_w: int = 1, rows: int = 6, n_w: int = 20) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    options = {"generator": generator, "dtype": torch.float64}
    points, weights = torch.rand(n_w, d_w, **options), torch.rand(n_w, **options)
    return torch.randn(rows, n_w, **options), weights / weights.sum(), points


@pytest.mark.parametrize(
    ("weights", "radius", "distribution"),
    [
        ([0.5, 0.5, 0.0, 0.0], 0.0, [0.5, 0.5, 0.0, 0.0]),
        ([0.5, 0.5, 0.0, 0.0], 0.1, [0.5, 0.4, 0.1, 0.0]),  # -3 per unit of distance
        ([0.5, 0.5, 0.0, 0.0], 0.5, [0.5, 0.0, 0.5, 0.0]),
        ([0.5, 0.5, 0.0, 0.0], 1.0, [0.25, 0.0, 0.75, 0.0]),  # then -2 per unit from the first
        ([0.5, 0.5, 0.0, 0.0], 9.0, [0.0, 0.0, 1.0, 0.0]),
        ([0.0, 0.0, 1.0, 0.0], 0.5, [0.0, 0.0, 1.0, 0.0]),  # the smallest stays
        ([0.0, 0.0, 0.0, 1.0], 0.5, [0.0, 0.0, 0.5, 0.5]),
    ],
)
def test_worst_distribution(weights: list[float], radius: float, distribution: list[float]) -> None:
    points = torch.arange(4, dtype=torch.float64).unsqueeze(-1)
    values = torch.tensor([4.0, 3.0, 0.0, 1.0], dtype=torch.float64)
    centre = torch.tensor(weights, dtype=torch.float64)
    found = [
        bound(points, radius).worst_distribution(values, centre),
        wasserstein_worst_distribution(values, centre, euclidean(points, points), radius),
    ]
    expected = torch.tensor(distribution, dtype=torch.float64)
    torch.testing.assert_close(torch.stack(found), expected.expand(2, 4), rtol=0, atol=1e-12)


def test_risk_falls_with_the_radius_from_the_mean_to_the_worst() -> None:
    for d_w in (1, 2):
        values, weights, points = tensors(d_w)
        radii = [0.0, *torch.logspace(-5, 1, 40).tolist()]
        risks = torch.stack([bound(points, radius)(values, weights) for radius in radii])
        assert (risks.diff(dim=0) <= 1e-9).all()
        torch.testing.assert_close(risks[0], values @ weights)
        torch.testing.assert_close(risks[-1], values.amin(dim=-1))


def test_the_radius_has_the_unit_of_w() -> None:
    values, weights, points = tensors()
    risk = bound(points, 0.1)(values, weights)
    torch.testing.assert_close(bound(273 + 40 * points, 4.0)(values, weights), risk)
    scaled = bound(40 * points, 0.1, metric=lambda v, w: euclidean(v / 40, w / 40))
    torch.testing.assert_close(scaled(values, weights), risk)


def test_a_slope_costs_radius_times_slope() -> None:
    r"""While no probability has reached the lowest point."""
    points = torch.linspace(0, 1, 101, dtype=torch.float64).unsqueeze(-1)
    weights = torch.zeros(101, dtype=torch.float64)
    weights[50:] = 1 / 51
    risk = bound(points, 0.2)(3 * points.squeeze(-1), weights)
    torch.testing.assert_close(risk, torch.tensor(3 * (0.75 - 0.2)).double())


def test_worst_distribution_is_the_gradient_and_on_the_boundary() -> None:
    for d_w in (1, 2):
        values, weights, points = tensors(d_w)
        ball = bound(points, 0.1)
        values.requires_grad_()
        (gradient,) = torch.autograd.grad(ball(values, weights).sum(), values)
        distribution = ball.worst_distribution(values, weights)
        assert torch.equal(gradient, distribution)
        distance = ball.distance(weights, distribution)
        torch.testing.assert_close(distance, torch.full_like(distance, 0.1), rtol=1e-6, atol=0)


def test_at_a_kink_the_gradient_is_a_worst_distribution() -> None:
    r"""Two points are as good a target, and the risk falls along any step by no less."""
    points = torch.tensor([[0.0], [-1.0], [1.0]], dtype=torch.float64)
    values = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64, requires_grad=True)
    weights = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    ball = bound(points, 0.4)
    risk = ball(values, weights)
    (gradient,) = torch.autograd.grad(risk, values)
    torch.testing.assert_close(gradient @ values, risk)
    for step in (*torch.eye(3).double(), *-torch.eye(3).double()):
        after = ball(values + 0.1 * step, weights)
        assert after <= risk + 0.1 * gradient @ step + 1e-12  # concave


def test_distances_equal_the_linear_program() -> None:
    for d_w in (1, 2):
        _, weights, points = tensors(d_w, n_w=8)
        others = torch.rand(3, 8, dtype=torch.float64).softmax(dim=-1)
        distances = ball_oracles.distances(points.numpy())
        expected = [
            ball_oracles.wasserstein_distance(weights.numpy(), other, distances)
            for other in others.numpy()
        ]
        found = bound(points, 0.1).distance(weights, others)
        torch.testing.assert_close(found, torch.tensor(expected).double(), rtol=0, atol=1e-7)


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
def test_small_distances_keep_their_digits_in_any_unit(unit: float) -> None:
    r"""A little probability goes across the square, or most of it a little way."""
    corners = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1e-5, 0.0]]
    ball = bound(unit * torch.tensor(corners).double(), 0.1 * unit)
    centre = torch.tensor([0.4, 0.2, 0.2, 0.1, 0.1]).double()
    moves = torch.tensor([[-1e-5, 1e-5, 0, 0, 0], [-0.3, 0, 0, 0, 0.3]]).double()
    expected = unit * torch.tensor([1e-5, 0.3e-5]).double()
    torch.testing.assert_close(ball.distance(centre, centre + moves), expected, rtol=1e-4, atol=0)


@pytest.mark.parametrize("d_w", [1, 2])
def test_points_for_each_replicate(d_w: int) -> None:
    values, weights, points = tensors(d_w)
    values, others = values.view(2, 3, 20), weights.flip(-1).expand(2, 3, 20)
    both = torch.stack([points, points**2])
    batched, ball = bound(both, 0.1)(values, weights), bound(both, 0.1)
    for replicate in range(2):
        single = bound(both[replicate], 0.1)
        torch.testing.assert_close(batched[replicate], single(values[replicate], weights))
        torch.testing.assert_close(
            ball.distance(weights, others)[replicate], single.distance(weights, others[replicate])
        )


@only_without_gpu
@pytest.mark.parametrize("d_w", [1, 2])
def test_nothing_waits_for_the_device(d_w: int) -> None:
    values, weights, points = (each.to(SIM) for each in tensors(d_w))
    ball = bound(points, 0.1)
    with counted() as count:
        ball.worst_distribution(values, weights)
    assert sum(count.synchronisations.values()) == 0


def test_the_regularised_form_is_a_lower_bound_that_is_exact_on_a_slope() -> None:
    for d_w in (1, 2):
        values, weights, points = tensors(d_w)
        for radius in (0.0, 0.01, 0.1, 1.0):
            ball = bound(points, radius)(values, weights)
            regularised = regularisation(points, radius)(values, weights)
            assert (regularised <= ball + 1e-9).all()
    torch.testing.assert_close(regularisation(points, 0.0)(values, weights), values @ weights)
    points = torch.linspace(0, 1, 11, dtype=torch.float64).unsqueeze(-1)
    even = torch.full((11,), 1 / 11, dtype=torch.float64)
    risk = regularisation(points, 0.1)(-3 * points.squeeze(-1), even)
    torch.testing.assert_close(risk, torch.tensor(-1.5 - 0.3).double())


def test_the_regularised_form_takes_pairs_of_points_in_chunks() -> None:
    values, weights, points = tensors(2, rows=700)
    together = regularisation(points, 0.1)(values, weights)
    singly = [regularisation(points, 0.1)(row, weights) for row in values[::50]]
    assert torch.equal(together[::50], torch.stack(singly))


def regularisation(points: Tensor, radius: float) -> WassersteinRegularization:
    return WassersteinRegularization(radius).bind(SimpleNamespace(points=points))


def test_bad_distances() -> None:
    values, weights = torch.randn(2, 3), torch.full((3,), 1 / 3)
    bad = {
        r"distances of shape `batch_shape x n_w x n_w` for the points. Got": torch.ones(3, 2),
        r"`distances: batch_shape x n_w x n_w` for": torch.zeros(4, 4),
        r"0 on the diagonal. Got 0 to 1, and 1 on": torch.eye(3),
        r">= 0, and 0 on the diagonal. Got -1": torch.eye(3) - 1,
        r"that are finite": torch.zeros(3, 3).index_fill(0, torch.tensor([1]), torch.nan),
    }
    for message, matrix in bad.items():
        with pytest.raises((BotorchTensorDimensionError, InputDataError), match=message):
            wasserstein_worst_distribution(values, weights, matrix, 0.1)
    with pytest.raises(InputDataError, match=r"0 on the diagonal"):
        bound(torch.rand(4, 1), 0.1, metric=lambda v, w: torch.ones(4, 4))
    with pytest.raises(BotorchTensorDimensionError, match=r"distances of shape"):
        bound(torch.rand(4, 1), 0.1, metric=lambda v, w: v)


@pytest.mark.parametrize("radius", [-0.1, float("nan"), float("inf")])
def test_bad_radius(radius: float) -> None:
    with pytest.raises(ValueError, match=r"`radius` to be finite and >= 0. Got"):
        WassersteinBall(radius)
    with pytest.raises(ValueError, match=r"`radius` to be finite and >= 0. Got"):
        WassersteinRegularization(radius)
    with pytest.raises(ValueError, match=r"`radius` to be finite and >= 0. Got"):
        wasserstein_worst_distribution(torch.zeros(2), torch.ones(2) / 2, torch.zeros(2, 2), radius)
