r"""Schedules of risks, and the environments and risk measures of SBO-KDE's paper."""

import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.deterministic import GenericDeterministicModel
from botorch.models.transforms.input import AppendFeatures
from botorch.models.transforms.input import InputPerturbation as BotorchPerturbation
from torch import Tensor

from botorch_risk.acquisition import RiskUpperConfidenceBound, risk_bound
from botorch_risk.engine import optimize_acqf_replicates
from botorch_risk.environments import (
    DiscreteEnvironment,
    Environment,
    InputPerturbation,
    PerturbedEnvironment,
)
from botorch_risk.papers.kde import (
    PAPER_BETA,
    discrepancy_kernel,
    discrepancy_schedule,
    empirical_grid,
    kernel_density,
)
from botorch_risk.risk import ConditionalValueAtRisk, Expectation, RiskMeasure
from tests import oracles

UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.double)
SEEDS = [3, 5]
GRID = torch.linspace(0, 1, 7, dtype=torch.double).reshape(1, 7, 1).expand(2, 7, 1)


def kernel(v: Tensor, w: Tensor) -> Tensor:
    squares = (v.unsqueeze(-2) - w.unsqueeze(-3)).square().sum(dim=-1)
    return torch.exp(-0.5 * squares / 0.2**2)


def data() -> tuple[Tensor, Tensor]:
    X = torch.rand(2, 6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    return X, (4 * X).sin().sum(dim=-1, keepdim=True)


SCALE = 0.1


def drbo_mmd(
    model: Any, observed: Tensor, bounds: Tensor, t: int, num_points: int = 100, **options: Any
) -> RiskUpperConfidenceBound:
    r"""DRBO-MMD's bound of round t, from its parts."""
    grid = empirical_grid(bounds, num_points).learnt(observed, seeds=0)
    previous, kernel = options.pop("previous", None), options.pop("kernel", None)
    ball = partial(discrepancy_schedule, kernel=kernel or discrepancy_kernel(bounds), **options)
    return risk_bound(model, grid, t, risk_measure=ball, beta=PAPER_BETA, previous=previous)


def test_a_schedule_gives_the_risk_of_the_round() -> None:
    X, Y = data()
    model = SingleTaskGP(X, Y)

    def tail(t: int, d_w: int) -> RiskMeasure:
        return ConditionalValueAtRisk(d_w / (2 * t))

    learnt = kernel_density(UNIT, 32, None).learnt(X[..., 1:], SEEDS)
    found = risk_bound(model, learnt, 2, risk_measure=tail, beta=4.0)
    assert found.risk_measure == ConditionalValueAtRisk(0.25)
    moves = InputPerturbation(torch.tensor([[-0.1, 0.0], [0.1, 0.0]], dtype=torch.double))
    found = risk_bound(model, moves, 4, risk_measure=tail, beta=4.0)
    assert found.risk_measure == ConditionalValueAtRisk(0.25)
    with pytest.raises(TypeError, match=r"Expected a `RiskMeasure`.*Got 0\.5"):
        risk_bound(model, learnt, 2, risk_measure=lambda t, d_w: 1 / t, beta=4.0)  # type: ignore[arg-type, return-value]


class RelativeError(Environment):
    r"""A machine sets the decision to within a tenth of it."""

    def expand(self, X: Tensor) -> tuple[Tensor, Tensor]:
        errors = torch.tensor([-0.1, 0.0, 0.1]).to(X)
        return X.unsqueeze(-2) * (1 + errors).unsqueeze(-1), torch.full_like(errors, 1 / 3)


class SkewedWeather(DiscreteEnvironment):
    r"""W whose weights depend on the decision."""

    independent = False

    def expand(self, X: Tensor) -> tuple[Tensor, Tensor]:
        inputs, weights = super().expand(X)
        return inputs, (weights + X.mean(dim=-1, keepdim=True)).softmax(dim=-1)


WEATHER = torch.linspace(0, 1, 5, dtype=torch.double)[:, None]
MOVES = InputPerturbation(torch.zeros(2, 1, dtype=torch.double))


@pytest.mark.parametrize(
    ("environment", "d_w", "d_x"),
    [
        (RelativeError(), 3, 3),
        (SkewedWeather(WEATHER), 1, 2),
        (SkewedWeather(WEATHER.expand(5, 2)), 2, 1),
        (PerturbedEnvironment(MOVES, DiscreteEnvironment(WEATHER.expand(5, 2))), 2, 1),
        (AppendFeatures(WEATHER.expand(5, 2)), 2, 1),
        (BotorchPerturbation(torch.zeros(2, 3, dtype=torch.double)), 3, 3),
    ],
    ids=["relative", "skewed", "skewed_2", "perturbed", "botorch_append", "botorch_perturb"],
)
def test_a_schedule_knows_the_number_of_contexts_of_any_environment(
    environment: Any, d_w: int, d_x: int
) -> None:
    X = torch.rand(6, 3, dtype=torch.double)
    model = SingleTaskGP(X, X.sum(dim=-1, keepdim=True).sin())
    told: list[tuple[int, int]] = []

    def neutral(t: int, d_w: int) -> RiskMeasure:
        told.append((t, d_w))
        return Expectation()

    bound = risk_bound(model, environment, 4, risk_measure=neutral, beta=4.0)
    assert told == [(4, d_w)]
    assert bound.evaluate(X[:2, :d_x]).shape == (2,)


def test_a_schedule_needs_a_model_that_fits_the_environment() -> None:
    X = torch.rand(6, 1, dtype=torch.double)
    environment = PerturbedEnvironment(MOVES, DiscreteEnvironment(WEATHER))
    with pytest.raises(BotorchTensorDimensionError, match=r"makes the 1 inputs .* Got Pert"):
        risk_bound(
            SingleTaskGP(X, X.sin()), environment, 1, risk_measure=lambda t, d_w: Expectation(),
            beta=4.0,
        )  # fmt: skip


def test_a_schedule_needs_a_model_that_knows_its_number_of_inputs() -> None:
    model = GenericDeterministicModel(lambda X: X.sum(dim=-1, keepdim=True))
    with pytest.raises(
        UnsupportedError, match=r"number of inputs, .*Got GenericDeterministicModel"
    ):
        risk_bound(model, RelativeError(), 1, risk_measure=lambda t, d_w: Expectation(), beta=4.0)


def test_minimax_uses_the_factors_of_an_earlier_round_again() -> None:
    X, Y = data()
    model, W = SingleTaskGP(X, Y), X[..., 1:]
    calls: list[int] = []

    def counted(v: Tensor, w: Tensor) -> Tensor:
        calls.append(1)
        return kernel(v, w)

    options: dict[str, Any] = {"kernel": counted, "radius_scale": 0.1, "num_points": 20}
    options["minimax"] = True
    first = drbo_mmd(model, W[:, :4], UNIT, 1, **options)
    count = len(calls)
    again = drbo_mmd(model, W, UNIT, 5, previous=first, **options)
    assert len(calls) == count
    fresh = drbo_mmd(model, W, UNIT, 5, **options)
    assert again.risk_measure.radius == fresh.risk_measure.radius
    assert torch.equal(again.evaluate(GRID), fresh.evaluate(GRID))


@pytest.mark.parametrize("minimax", [False, True])
def test_default_radius_is_the_papers(minimax: bool) -> None:
    X, Y = data()
    acqf = drbo_mmd(SingleTaskGP(X, Y), X[..., 1:], UNIT, 4, num_points=5, minimax=minimax)
    assert acqf.risk_measure.radius == pytest.approx((2 + (2 * np.log(10)) ** 0.5) / 2)
    schedule = discrepancy_schedule(4, 1, kernel=kernel, minimax=minimax)
    assert schedule.radius == acqf.risk_measure.radius


def test_default_kernel_is_in_units_of_the_range_of_the_contexts() -> None:
    X, Y = data()
    box = torch.tensor([[10.0], [30.0]], dtype=torch.double)
    wide = drbo_mmd(SingleTaskGP(X, Y), 10 + 20 * X[..., 1:], box, 3).risk_measure
    unit = drbo_mmd(SingleTaskGP(X, Y), X[..., 1:], UNIT, 3).risk_measure
    points = torch.linspace(0, 1, 9, dtype=torch.double).unsqueeze(-1)
    torch.testing.assert_close(
        wide.kernel(10 + 20 * points, 10 + 20 * points), unit.kernel(points, points)
    )
    torch.testing.assert_close(unit.kernel(points, points), kernel(points, points))
    pickle.loads(pickle.dumps(unit.kernel))


def test_default_kernel_of_two_contexts_is_scaled_in_each() -> None:
    X = torch.rand(6, 3, dtype=torch.double)  # one decision variable, two contexts
    box = torch.tensor([[0.0, -2.0], [1.0, 8.0]], dtype=torch.double)
    model = SingleTaskGP(X, X.sum(dim=-1, keepdim=True).sin())
    measure = drbo_mmd(model, X[:, 1:], box, 1, num_points=4).risk_measure
    v, w = (box[0] + size * torch.rand(n, 2).double() for n, size in ((3, 1.0), (5, 10.0)))
    scale = torch.tensor([1.0, 10.0], dtype=torch.double)
    torch.testing.assert_close(measure.kernel(v, w), kernel(v / scale, w / scale))


@pytest.mark.parametrize("seed", range(8))
def test_minimax_maximises_the_worst_case_of_the_upper_bounds(seed: int) -> None:
    r"""As the exact ball does, min_Q E_Q[u]; not a bound of the approximation at f."""
    draw = {"generator": torch.Generator().manual_seed(seed), "dtype": torch.double}
    X = torch.rand(10, 2, **draw)
    model = SingleTaskGP(X, (9 * X[:, :1]).sin() + (7 * X.sum(-1, keepdim=True)).cos())
    options = {"t": 12, "kernel": lambda v, w: 0.01 * (-5 * (v - w.mT).abs()).exp()}
    W, grid = torch.rand(12, 1, **draw), torch.linspace(0, 1, 101, dtype=torch.double)[:, None]
    acqf = drbo_mmd(model, W, UNIT, minimax=True, **options)
    _, upper, weights = acqf.pointwise_bounds(grid)
    points, radius = acqf.environment.points.numpy(), acqf.risk_measure.radius
    gram = 0.01 * np.exp(-5 * np.abs(points - points.T))  # which can be inverted
    distribution = weights[0].numpy()
    expected = [
        oracles.minimax_approximation(u, distribution, gram, radius, "kernel")
        for u in upper.numpy()
    ]
    torch.testing.assert_close(acqf.evaluate(grid), torch.tensor(expected), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(acqf(grid.unsqueeze(-2)), acqf.evaluate(grid))
    assert (acqf.upper(grid) >= acqf.evaluate(grid) - 1e-9).all()
    exact = drbo_mmd(model, W, UNIT, **options)
    torch.testing.assert_close(exact.evaluate(grid), exact.upper(grid))


def test_minimax_is_maximised_at_the_best_worst_case_of_the_upper_bounds() -> None:
    X, Y = data()
    model = SingleTaskGP(X, Y)
    acqf = drbo_mmd(model, X[..., 1:], UNIT, 1, radius_scale=SCALE, minimax=True)
    asked, _ = optimize_acqf_replicates(acqf, UNIT, seeds=SEEDS, num_restarts=4, raw_samples=64)
    grid = torch.linspace(0, 1, 501, dtype=torch.double).reshape(1, 501, 1).expand(2, 501, 1)
    _, upper, weights = acqf.pointwise_bounds(grid)
    best = acqf.risk_measure(upper, weights).amax(dim=-1)
    assert (acqf.evaluate(asked).squeeze(-1) >= best - 1e-3).all()
