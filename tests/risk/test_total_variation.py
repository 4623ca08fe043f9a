r"""Worst cases in a total-variation ball, and the minimax approximation."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

from botorch_risk.risk import (
    MinimaxApproximation,
    TotalVariationBall,
    total_variation_worst_case,
    total_variation_worst_distribution,
)
from botorch_risk.risk.total_variation import _moved
from tests import oracles
from tests.risk.cases import risk_kernel
from tests.risk.test_mmd import matrix_of, tensors, worst_case

FAST, ALL = 100, 1_000


def instance(seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    r"""One to 40 points, among them ties and points of weight 0, and any radius."""
    generator = np.random.default_rng(seed)
    n = int(generator.integers(1, 41))
    values = generator.normal(size=n)
    if seed % 3 == 0:
        values = values.round()
    weights = generator.dirichlet(np.full(n, generator.choice([0.1, 1.0, 10.0])))
    if seed % 4 == 0 and n > 2:
        weights[generator.integers(n, size=n // 3)] = 0.0
        weights[generator.integers(n)] += 0.1
        weights /= weights.sum()
    radius = generator.choice([0.0, 2.0, 3.0, *generator.uniform(0, 2, size=7)])
    return values, weights, float(radius)


def difference(seed: int) -> float:
    values, weights, radius = instance(seed)
    expected = oracles.total_variation_worst_case(values, weights, radius)
    ours = total_variation_worst_case(torch.tensor(values), torch.tensor(weights), radius)
    return abs(ours.item() - expected)


def test_equals_the_linear_program() -> None:
    assert max(difference(seed) for seed in range(FAST)) <= 1e-9


@pytest.mark.slow
def test_equals_the_linear_program_on_many_instances() -> None:
    assert max(difference(seed) for seed in range(ALL)) <= 1e-9


def worst(values: list[float], weights: list[float], radius: float) -> Tensor:
    options = {"dtype": torch.float64}
    return total_variation_worst_distribution(
        torch.tensor(values, **options), torch.tensor(weights, **options), radius
    )


@pytest.mark.parametrize(
    ("values", "weights", "radius", "distribution"),
    [
        ([1.0, 2.0, 3.0], [0.2, 0.3, 0.5], 0.0, [0.2, 0.3, 0.5]),
        ([1.0, 2.0, 3.0], [0.2, 0.3, 0.5], 0.5, [0.45, 0.3, 0.25]),
        ([1.0, 2.0, 3.0], [0.2, 0.3, 0.5], 1.2, [0.8, 0.2, 0.0]),
        ([1.0, 2.0, 3.0], [0.2, 0.3, 0.5], 2.0, [1.0, 0.0, 0.0]),
        ([1.0, 2.0, 3.0], [0.2, 0.3, 0.5], 7.0, [1.0, 0.0, 0.0]),
        ([1.0, 2.0, 3.0], [0.0, 0.5, 0.5], 0.5, [0.25, 0.5, 0.25]),  # weight 0 receives
        ([1.0, 2.0, 3.0], [1.0, 0.0, 0.0], 0.5, [1.0, 0.0, 0.0]),
        ([2.0], [1.0], 0.5, [1.0]),
    ],
)
def test_worst_distribution(
    values: list[float], weights: list[float], radius: float, distribution: list[float]
) -> None:
    expected = torch.tensor(distribution, dtype=torch.float64)
    torch.testing.assert_close(worst(values, weights, radius), expected, rtol=0, atol=1e-15)


def test_worst_distribution_is_the_gradient_and_lies_in_the_ball() -> None:
    values = torch.randn(5, 30, dtype=torch.float64, requires_grad=True)
    weights = torch.rand(30, dtype=torch.float64).softmax(dim=-1)
    (gradient,) = torch.autograd.grad(
        total_variation_worst_case(values, weights, 0.6).sum(), values
    )
    distribution = total_variation_worst_distribution(values, weights, 0.6)
    assert torch.equal(gradient, distribution)
    assert (distribution >= 0).all()
    torch.testing.assert_close(distribution.sum(dim=-1), torch.ones(5, dtype=torch.float64))
    distance = (distribution - weights).abs().sum(dim=-1)
    torch.testing.assert_close(distance, torch.full_like(distance, 0.6))


@pytest.mark.parametrize("n_w", [1, 5, 63, 64, 65, 300, 2000])
@pytest.mark.parametrize("radius", [0.0, 0.03, 0.7, 2.0, 5.0])
def test_the_twin_in_numpy_is_the_torch_text(n_w: int, radius: float) -> None:
    generator = np.random.default_rng(n_w)
    values, weights = generator.normal(size=(4, n_w)), generator.random(n_w)
    weights[generator.random(n_w) < 0.3] = 0.0
    weights[0] += 1e-3
    weights /= weights.sum()
    values[2, 0] = np.nan
    found = TotalVariationBall(radius).worst_distribution(*map(torch.from_numpy, (values, weights)))
    finite = torch.from_numpy(values[[0, 1, 3]])
    expected = _moved(finite, torch.from_numpy(weights), radius / 2)
    torch.testing.assert_close(found[[0, 1, 3]], expected, rtol=0, atol=1e-15)
    assert found[2].isnan().all()
    risk, slope = TotalVariationBall(radius).value_and_slope_on_host(values, weights)
    assert np.array_equal(slope, found.numpy(), equal_nan=True)
    np.testing.assert_allclose(risk, (found.numpy() * values).sum(axis=-1), rtol=1e-14)


def test_half_convention_moves_twice_as_much() -> None:
    values, weights = torch.randn(4, 10), torch.full((10,), 0.1)
    half = TotalVariationBall(0.3, half_convention=True)
    assert torch.equal(half(values, weights), TotalVariationBall(0.6)(values, weights))


def test_gradient_in_the_weights() -> None:
    values = torch.randn(6, dtype=torch.float64)
    weights = torch.rand(6, dtype=torch.float64).softmax(dim=-1).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda distribution: total_variation_worst_case(values, distribution, 0.3), weights
    )


@pytest.mark.parametrize("radius", [-0.1, float("nan"), float("inf")])
def test_bad_radius(radius: float) -> None:
    with pytest.raises(ValueError, match=r"`radius` to be finite and >= 0. Got"):
        TotalVariationBall(radius)
    with pytest.raises(ValueError, match=r"`radius` to be finite and >= 0. Got"):
        total_variation_worst_case(torch.zeros(2), torch.full((2,), 0.5), radius)


def minimax(points: Tensor, radius: float, sensitivity: str = "kernel") -> MinimaxApproximation:
    measure = MinimaxApproximation(radius, risk_kernel, sensitivity)  # type: ignore[arg-type]
    return measure.bind(SimpleNamespace(points=points))


def test_minimax_approximation_at_radius_zero_and_huge() -> None:
    values, weights, points = tensors(1)
    for sensitivity in ("kernel", "identity"):
        risk = minimax(points, 0.0, sensitivity)(values, weights)
        torch.testing.assert_close(risk, (weights * values).sum(dim=-1))
        risk = minimax(points, 2.0, sensitivity)(values, weights)
        assert torch.equal(risk, values.amin(dim=-1))
    assert torch.equal(minimax(points[:1], 0.1)(values[:, :1], torch.ones(1)), values[:, 0])
    certain = torch.eye(20, dtype=torch.float64)[values[0].argmin()]
    assert torch.equal(minimax(points, 0.1)(values[0], certain), values[0].min())


def test_bounds_where_the_ball_holds_every_distribution() -> None:
    values, weights, points = tensors(1)
    mean = (weights * (values + 1)).sum(dim=-1)
    low, high = minimax(points, 2.0).bounds(values, values + 1, weights)
    torch.testing.assert_close(low, values.amin(dim=-1))
    torch.testing.assert_close(high, (mean + values.amin(dim=-1) + 1) / 2)


def test_only_the_kernel_sensitivity_gives_a_true_lower_bound() -> None:
    values, weights, points = tensors(2, n_w=6, rows=200)
    radius = 0.05
    exact = worst_case(values, weights, matrix_of(points), radius)
    mean, least = (weights * values).sum(dim=-1), values.amin(dim=-1)
    apart = torch.eye(6, dtype=torch.float64)[values.argmin(dim=-1)] - weights
    farthest = ((apart @ matrix_of(points)) * apart).sum(dim=-1).sqrt()
    chord = torch.lerp(mean, least, (radius / farthest).clamp_max(1.0))
    assert (exact <= chord + 1e-7).all()
    lower = {
        name: 2 * minimax(points, radius, name)(values, weights) - chord
        for name in ("kernel", "identity")
    }
    assert (lower["kernel"] <= exact + 1e-7).all()
    assert (lower["identity"] > exact + 1e-3).any()


def test_a_ball_that_holds_the_smallest_value_gives_it_also_with_the_identity() -> None:
    r"""Points that are nearly one: the drop over the radius says less than the ball does."""
    values, weights, points = tensors(3, n_w=6)
    risk = minimax(1e-3 * points, 0.02, "identity")(values, weights)
    assert torch.equal(risk, values.amin(dim=-1))


def test_replicates_with_points_of_their_own_equal_the_loop() -> None:
    r"""Far apart, so that the lower bound is above the smallest value."""
    points = 9 * torch.rand(3, 5, 2, dtype=torch.float64)
    values, weights = torch.randn(3, 4, 5).double(), torch.rand(3, 1, 5).double().softmax(dim=-1)
    for radius in (0.01, 0.1, 0.5):
        together = minimax(points, radius)(values, weights)
        for r in range(3):
            alone = minimax(points[r], radius)(values[r], weights[r])
            torch.testing.assert_close(together[r], alone)


def test_unknown_sensitivity() -> None:
    with pytest.raises(ValueError, match=r"`sensitivity` to be one of .* Got .*'none'"):
        MinimaxApproximation(0.1, risk_kernel, "none")  # type: ignore[arg-type]
