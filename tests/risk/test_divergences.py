r"""Worst cases in relative entropy and chi-square against duals and cone programs."""

import numpy as np
import pytest
import torch
from torch import Tensor

from botorch_risk.risk import ChiSquareBall, KullbackLeiblerBall
from botorch_risk.risk.divergences import (
    chi_square_worst_distribution,
    kullback_leibler_worst_distribution,
)
from tests.risk import ball_oracles
from tests.second_device import SIM, counted, only_without_gpu

FAST, ALL = 100, 1_000
BALLS = {
    "kullback_leibler": (KullbackLeiblerBall, ball_oracles.kullback_leibler_worst_case),
    "chi_square": (ChiSquareBall, ball_oracles.chi_square_worst_case),
}
each = pytest.mark.parametrize("name", BALLS)


def instance(seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    r"""One to 40 points, among them ties, outliers and points of weight 0, and any radius."""
    generator = np.random.default_rng(seed)
    n = int(generator.integers(1, 41))
    values = generator.normal(size=n) ** int(generator.choice([1, 5]))
    if seed % 3 == 0:
        values = values.round()
    weights = generator.dirichlet(np.full(n, generator.choice([0.1, 1.0, 10.0])))
    weights[weights < 1e-12] = 0.0  # the cone program's rows are one over the root of a weight
    if seed % 4 == 0 and n > 2:
        weights[generator.integers(n, size=n // 3)] = 0.0
        weights[generator.integers(n)] += 0.1
    weights /= weights.sum()
    radius = generator.choice([0.0, 30.0, *10 ** generator.uniform(-6, 1, size=8)])
    return values, weights, float(radius)


def gap(name: str, seed: int) -> float:
    r"""In units of the range of the values; the distribution is checked to lie in the ball."""
    values, weights, radius = instance(seed)
    ball, oracle = BALLS[name]
    distribution = ball(radius).worst_distribution(*map(torch.tensor, (values, weights)))
    q, positive = distribution.numpy(), distribution.numpy() > 0
    assert (q >= 0).all()
    assert abs(q.sum() - 1) <= 1e-12
    assert (weights[positive] > 0).all()
    if name == "chi_square":
        distance = ((q - weights)[weights > 0] ** 2 / weights[weights > 0]).sum()
    else:
        distance = (q[positive] * np.log(q[positive] / weights[positive])).sum()
    assert distance <= radius * (1 + 1e-9) + 1e-12
    spread = np.ptp(values[weights > 0]) or 1.0
    return abs(q @ values - oracle(values, weights, radius)) / spread


@each
def test_equals_the_oracle(name: str) -> None:
    assert max(gap(name, seed) for seed in range(FAST)) <= 1e-8


@pytest.mark.slow
@each
def test_equals_the_oracle_on_many_instances(name: str) -> None:
    assert max(gap(name, seed) for seed in range(ALL)) <= 1e-8


def tensors(*shape: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    options = {"generator": generator, "dtype": torch.float64}
    weights = torch.rand(shape[-1], **options)
    return torch.randn(*shape, **options), weights / weights.sum()


def test_a_relative_entropy_in_closed_form() -> None:
    r"""Half and half: the worst probability p has log 2 - entropy(p) = radius."""
    weights = torch.full((2,), 0.5, dtype=torch.float64)
    values = torch.tensor([0.0, 1.0], dtype=torch.float64)
    p = torch.tensor([0.8, 0.2], dtype=torch.float64)
    radius = float(np.log(2) + (p * p.log()).sum())
    found = kullback_leibler_worst_distribution(values, weights, radius)
    torch.testing.assert_close(found, p, rtol=0, atol=1e-10)


def test_a_small_chi_square_ball_takes_standard_deviations_off_the_mean() -> None:
    values, weights = tensors(5, 8)
    mean = values @ weights
    deviation = ((values - mean.unsqueeze(-1)).square() @ weights).sqrt()
    found = ChiSquareBall(0.01)(values, weights)
    torch.testing.assert_close(found, mean - 0.1 * deviation)


@each
def test_the_whole_ball_is_the_worst_value_exactly_and_its_ties_keep_their_shares(
    name: str,
) -> None:
    values = torch.tensor([1.0, 0.0, 2.0, 0.0, -9.0], dtype=torch.float64)
    weights = torch.tensor([0.4, 0.1, 0.2, 0.3, 0.0], dtype=torch.float64)
    full = {"kullback_leibler": np.log(1 / 0.4), "chi_square": 1 / 0.4 - 1}[name]
    ball, _ = BALLS[name]
    expected = torch.tensor([0.0, 0.25, 0.0, 0.75, 0.0], dtype=torch.float64)
    for radius in (full + 1e-9, 100.0, 1e308):
        torch.testing.assert_close(
            ball(radius).worst_distribution(values, weights), expected, rtol=0, atol=1e-15
        )
    assert (ball(full - 1e-3).worst_distribution(values, weights)[:3:2] > 0).any()


@each
def test_risk_falls_with_the_radius_from_the_mean_to_the_worst(name: str) -> None:
    values, weights = tensors(20, 15)
    radii = [0.0, *torch.logspace(-8, 2, 40).tolist()]
    risks = torch.stack([BALLS[name][0](radius)(values, weights) for radius in radii])
    assert (risks.diff(dim=0) <= 1e-9).all()
    torch.testing.assert_close(risks[0], values @ weights)
    torch.testing.assert_close(risks[-1], values.amin(dim=-1))


@each
def test_worst_distribution_is_the_gradient_and_on_the_boundary(name: str) -> None:
    values, weights = tensors(5, 30)
    ball = BALLS[name][0](0.2)
    values.requires_grad_()
    (gradient,) = torch.autograd.grad(ball(values, weights).sum(), values)
    distribution = ball.worst_distribution(values, weights)
    assert torch.equal(gradient, distribution)
    distance = ball.distance(weights, distribution)
    torch.testing.assert_close(distance, torch.full_like(distance, 0.2))


@each
def test_chunks_of_rows_are_not_seen(name: str) -> None:
    values, weights = tensors(3, 500, 70)
    ball = BALLS[name][0](0.2)
    singly = [ball(row, weights) for row in values.flatten(0, 1)[::100]]
    torch.testing.assert_close(ball(values, weights).flatten()[::100], torch.stack(singly))


@each
def test_distances(name: str) -> None:
    weights = torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64)
    others = torch.tensor([[0.5, 0.5, 0.0], [0.25, 0.75, 0.0], [0.5, 0.4, 0.1]]).double()
    apart = {
        "kullback_leibler": 0.25 * np.log(0.5) + 0.75 * np.log(1.5),
        "chi_square": 0.25**2 / 0.5 * 2,
    }[name]
    expected = torch.tensor([0.0, apart, torch.inf], dtype=torch.float64)
    torch.testing.assert_close(BALLS[name][0](1.0).distance(weights, others), expected)


def test_relative_entropy_is_finite_where_weights_of_a_density_underflow() -> None:
    weights = torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64)
    others = torch.tensor([0.5, 0.5, 1e-200], dtype=torch.float64)
    assert KullbackLeiblerBall(1.0).distance(weights, others) == 0
    some = torch.tensor([0.5, 0.5, 1e-20], dtype=torch.float64)
    assert KullbackLeiblerBall(1.0).distance(weights, some) == torch.inf


@only_without_gpu
@each
def test_nothing_waits_for_the_device(name: str) -> None:
    values, weights = (each.to(SIM) for each in tensors(5, 30))
    ball = BALLS[name][0](0.2)
    with counted() as count:
        ball.worst_distribution(values, weights)
    assert sum(count.synchronisations.values()) == 0


@pytest.mark.parametrize("radius", [-0.1, float("nan"), float("inf")])
def test_bad_radius(radius: float) -> None:
    for call in (kullback_leibler_worst_distribution, chi_square_worst_distribution):
        with pytest.raises(ValueError, match=r"`radius` to be finite and >= 0. Got"):
            call(torch.zeros(2), torch.full((2,), 0.5), radius)
    for ball in (KullbackLeiblerBall, ChiSquareBall):
        with pytest.raises(ValueError, match=r"`radius` to be finite and >= 0. Got"):
            ball(radius)
