r"""Boxes that are not the unit cube, columns that say nothing, and what the caller does later."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from scipy.stats import norm
from torch import Tensor
from torch.distributions import Normal

from botorch_risk.arguments import check_bounds, check_rows
from botorch_risk.environments import (
    ContinuousEnvironment,
    DiscreteEnvironment,
    EmpiricalGrid,
    Environment,
    IndependentEnvironment,
    InputPerturbation,
    KernelDensity,
    KernelDensityEnvironment,
    StandardDeviationBox,
    regular_grid,
    silverman_bandwidth,
)
from botorch_risk.environments.environment import choose, inside
from tests.environments.cases import ENVIRONMENTS, PERTURBATIONS, EnvironmentCase

BOXES = [(3.0, 5.0), (-4.0, -1.0)]


boxes = pytest.mark.parametrize("box", BOXES, ids=str)


kinds = pytest.mark.parametrize("at_bounds", ["truncate", "reflect", "clip"])


def values(t: int, lower: float, upper: float, d_w: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(5)
    share = torch.rand(t, d_w, generator=generator, dtype=torch.double)
    return lower + (upper - lower) * share


def column(*entries: float) -> Tensor:
    return torch.tensor(entries, dtype=torch.double).unsqueeze(-1)


def folded(value: float, lower: float, upper: float) -> float:
    r"""Reflected at the ends of an interval until it is inside."""
    while not lower <= value <= upper:
        value = 2 * lower - value if value < lower else 2 * upper - value
    return value


@boxes
@kinds
@pytest.mark.parametrize("width", [0.05, 0.7, 3.0])
def test_quantiles_and_density_on_any_box(
    box: tuple[float, float], at_bounds: Any, width: float
) -> None:
    r"""Against scipy, kernel by kernel; wide kernels are reflected more than once."""
    lower, upper = box
    observed, bounds = values(3, lower, upper), column(lower, upper)
    density = KernelDensity(observed, torch.tensor([width], dtype=torch.double), bounds, at_bounds)
    levels = torch.linspace(0.02, 0.98, 9, dtype=torch.double)
    ordered = observed.flatten().sort().values
    for k, centre in enumerate(ordered.tolist()):
        uniforms = torch.stack([torch.full_like(levels, (k + 0.5) / 3), levels], dim=-1)
        found = density.from_uniforms(uniforms).flatten().tolist()
        if at_bounds == "truncate":
            ends = norm.cdf([lower, upper], centre, width)
            expected = norm.ppf(ends[0] + levels.numpy() * np.diff(ends), centre, width)
        else:
            expected = norm.ppf(levels.numpy(), centre, width)
        if at_bounds == "clip":
            expected = np.clip(expected, lower, upper)
        if at_bounds == "reflect":
            expected = [folded(value, lower, upper) for value in expected]
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    if at_bounds == "clip":
        return
    points = torch.linspace(lower, upper, 7, dtype=torch.double).unsqueeze(-1)
    total = np.zeros(7)
    for centre in ordered.tolist():
        if at_bounds == "truncate":
            ends = norm.cdf([lower, upper], centre, width)
            total += norm.pdf(points.flatten(), centre, width) / np.diff(ends)
        else:
            for k in range(-30, 31):
                shift = 2 * k * (upper - lower)
                total += norm.pdf(points.flatten() + shift, centre, width)
                total += norm.pdf(2 * lower - points.flatten() + shift, centre, width)
    np.testing.assert_allclose(density.log_prob(points).exp(), total / 3, rtol=1e-9)
    assert density.log_prob(bounds + torch.tensor([[-0.01], [0.01]])).tolist() == [-math.inf] * 2


@boxes
def test_floors_are_relative_to_the_box(box: tuple[float, float]) -> None:
    lower, upper = box
    W = torch.full((4, 1), lower + 0.5, dtype=torch.double)
    distribution = KernelDensityEnvironment(W, column(lower, upper), 8, 0, relative_floor=1e-2)
    assert distribution.bandwidth.item() == pytest.approx(1e-2 * (upper - lower))
    assert distribution.at_floor.item()
    free = KernelDensityEnvironment(values(4, *box), None, 8, 0, relative_floor=5.0)
    extent = values(4, *box).amax() - values(4, *box).amin()
    assert free.bandwidth.item() == pytest.approx(5.0 * extent.item())


@boxes
def test_grids_and_boxes_anywhere(box: tuple[float, float]) -> None:
    lower, upper = box
    bounds, W = column(lower, upper), values(6, lower, upper)
    grid = regular_grid(bounds, 5).flatten()
    np.testing.assert_allclose(grid, np.linspace(lower, upper, 5))
    counts = EmpiricalGrid(W, regular_grid(bounds, 5)).weights
    nearest = np.abs(W.numpy() - np.linspace(lower, upper, 5)).argmin(axis=1)
    np.testing.assert_allclose(counts, np.bincount(nearest, minlength=5) / 6)
    sd = np.std(W.numpy())
    around = StandardDeviationBox(W, 64, 0, num_deviations=0.5)
    expected = [W.mean().item() - 0.5 * sd, W.mean().item() + 0.5 * sd]
    np.testing.assert_allclose(around.box.flatten(), expected)
    np.testing.assert_allclose(around.support_bounds.flatten(), expected)
    assert ((around.points >= around.box[0]) & (around.points <= around.box[1])).all()
    cut = StandardDeviationBox(W, 64, 0, num_deviations=50.0, bounds=bounds)
    assert torch.equal(cut.box, bounds)
    distribution = ContinuousEnvironment(
        Normal(torch.tensor(lower + 1.0).double(), 0.5), bounds, 16, rule="quadrature"
    )
    assert ((distribution.points > lower) & (distribution.points < upper)).all()
    assert distribution.supports(bounds).all()
    assert not distribution.supports(bounds + column(-0.1, 0.1)).any()
    assert torch.equal(distribution.support_bounds, bounds)


def test_a_constant_column_has_the_floor_and_leaves_the_other_alone() -> None:
    W = torch.cat([torch.full((8, 1), 0.3).double(), values(8, 0.0, 1.0)], dim=-1)
    box = column(0.0, 1.0).expand(2, 2)
    for rule in ("silverman", "leave_one_out"):
        distribution = KernelDensityEnvironment(W, box, 64, 0, bandwidth=rule)
        assert distribution.at_floor.tolist() == [True, False]
        assert distribution.bandwidth[0].item() == pytest.approx(1e-3)
        assert distribution.bandwidth[1] > 0.05
        assert (distribution.points[:, 0] - 0.3).abs().max() < 5e-3
        assert distribution.points[:, 1].std() > 0.1
    silverman = KernelDensityEnvironment(W, box, 64, 0).bandwidth
    torch.testing.assert_close(silverman[1], silverman_bandwidth(W)[1])


def test_a_bandwidth_of_ones_own_serves_a_single_value() -> None:
    W = torch.tensor([[[0.2, 0.7]], [[0.5, 0.5]]], dtype=torch.double)
    width = torch.tensor([0.1, 0.3], dtype=torch.double)
    distribution = KernelDensityEnvironment(
        W, column(0.0, 1.0).expand(2, 2), 256, [0, 1], bandwidth=width
    )
    torch.testing.assert_close(distribution.bandwidth, width.expand(2, 2))
    assert not distribution.at_floor.any()
    free = KernelDensity(W[0], width)
    value = torch.tensor([0.25, 0.5], dtype=torch.double)
    expected = norm.logpdf([0.25, 0.5], [0.2, 0.7], [0.1, 0.3]).sum()
    assert free.log_prob(value).item() == pytest.approx(expected)
    each = KernelDensityEnvironment(
        W, column(0.0, 1.0).expand(2, 2), 8, [0, 1], bandwidth=width * column(1.0, 2.0)
    )
    torch.testing.assert_close(each.bandwidth, width * column(1.0, 2.0))
    tiny = KernelDensityEnvironment(
        W[0], column(0.0, 1.0).expand(2, 2), 8, 0, bandwidth=width / 1e6
    )
    assert tiny.at_floor.all()


@pytest.mark.parametrize("case", [*ENVIRONMENTS, PERTURBATIONS], ids=lambda case: case.name)
def test_what_the_caller_changes_later_does_not_reach_the_distribution(
    case: EnvironmentCase,
) -> None:
    observed = values(7, 0.0, 1.0, 2)
    X = values(3, 0.0, 1.0, 2)
    mine, theirs = case.of(observed), case.of(observed.clone())
    observed.fill_(0.5)
    for found, expected in zip(mine.expand(X), theirs.expand(X), strict=True):
        assert torch.equal(found, expected)
    if not isinstance(mine, IndependentEnvironment):
        return
    draws = [each.sample(5, torch.Generator().manual_seed(0)) for each in (mine, theirs)]
    assert torch.equal(*draws)
    assert torch.equal(mine.supports(draws[0]), theirs.supports(draws[0]))
    assert torch.equal(mine.support_bounds, theirs.support_bounds)
    if isinstance(mine, KernelDensityEnvironment):
        assert torch.equal(mine.log_density(draws[0]), theirs.log_density(draws[0]))


def test_other_tensors_of_the_caller_do_not_reach_the_distribution_either() -> None:
    points, probabilities, bounds = column(0.0, 1.0), torch.tensor([0.25, 0.75]), column(0.0, 1.0)
    location, grid = torch.tensor([0.5]).double(), column(0.0, 0.5, 1.0)
    density = KernelDensityEnvironment(points, bounds, 8, 0, bandwidth=location)
    box = StandardDeviationBox(points, 8, 0, bounds=bounds)
    continuous = ContinuousEnvironment(Normal(location, 0.1), bounds, 8, 0)
    discrete = DiscreteEnvironment(points, probabilities)
    moved = InputPerturbation(points, probabilities, bounds)
    empirical = EmpiricalGrid(points, grid)

    new, at = column(0.3), column(0.0, 0.5, 1.0)

    def seen() -> list[Tensor]:
        generators = [torch.Generator().manual_seed(0) for _ in range(5)]
        distributions = (density, box, continuous, discrete, empirical)
        samples = [
            distribution.sample(4, g)
            for distribution, g in zip(distributions, generators, strict=True)
        ]
        parts = [*moved.expand(column(0.4, 0.9)), discrete.weights, empirical.points, box.box]
        shown = [density.log_density(at), continuous.log_density(at), density.bandwidth]
        again = density.condition(new).points
        return [
            part.clone() for part in (*samples, *parts, *shown, continuous.support_bounds, again)
        ]

    before = seen()
    for tensor in (points, probabilities, bounds, location, grid):
        tensor.mul_(0.5).add_(0.1)
    for now, then in zip(seen(), before, strict=True):
        assert torch.equal(now, then)


def test_uniform_numbers_choose_points_by_their_share() -> None:
    points, weights = column(10.0, 20.0, 30.0, 40.0), torch.tensor([0.0, 0.25, 0.75, 0.0])
    levels = column(0.0, 0.1, 0.25 - 1e-12, 0.25, 0.6, 1 - 1e-12)
    chosen = choose(points, weights, levels).flatten().tolist()
    assert chosen == [20.0, 20.0, 20.0, 30.0, 30.0, 30.0]
    both = choose(torch.stack([points, -points]), weights.expand(2, 4), levels.expand(2, 6, 1))
    assert both[1].flatten().tolist() == [-value for value in chosen]
    # Weights that sum to a little less than 1 do not lead past the end.
    short = choose(points, weights * (1 - 1e-6), column(1 - 1e-9)).item()
    assert short == 30.0


@boxes
def test_inside_allows_for_rounding_of_the_bounds(box: tuple[float, float]) -> None:
    lower, upper = box
    bounds = column(lower, upper)
    step = 4 * torch.finfo(torch.double).eps
    near = column(lower - step * abs(lower), upper + step * abs(upper))
    far = column(lower - 1e-9, upper + 1e-9)
    assert inside(near, bounds).tolist() == [True, True]
    assert inside(far, bounds).tolist() == [False, False]
    assert inside(bounds.mT, bounds.expand(2, 2)).item()
    outside = torch.tensor([[lower, upper + 1.0]], dtype=torch.double)
    assert not inside(outside, bounds.expand(2, 2)).item()


@pytest.mark.parametrize(
    ("total", "accepted"),
    [(1 - 2e-5, False), (1 - 5e-6, True), (1 + 5e-6, True), (1 + 2e-5, False)],
)
def test_probabilities_are_divided_by_a_sum_of_about_one(total: float, accepted: bool) -> None:
    points, weights = column(0.0, 1.0), total * torch.tensor([0.25, 0.75], dtype=torch.double)
    for build in (DiscreteEnvironment, InputPerturbation):
        if accepted:
            torch.testing.assert_close(build(points, weights).weights, weights / total)
        else:
            with pytest.raises(ValueError, match=r"Got a smallest one of 0\.2\d* and sums \d\.\d+"):
                build(points, weights)


def test_bounds_must_be_a_box() -> None:
    check_bounds(column(-4.0, -1.0))
    check_bounds(column(-4.0, -1.0).expand(2, 3), 3)
    for bad in (column(1.0), column(0.0, 1.0, 2.0), torch.zeros(2), torch.zeros(1, 2, 1)):
        with pytest.raises(BotorchTensorDimensionError, match=r"`bounds` to have shape `2 x d`"):
            check_bounds(bad)
    with pytest.raises(BotorchTensorDimensionError, match=r"`bounds` to have shape `2 x 2`"):
        check_bounds(column(0.0, 1.0), 2)
    for lower, upper in ((1.0, 1.0), (-1.0, -4.0), (0.0, math.inf), (math.nan, 1.0)):
        with pytest.raises(ValueError, match="each lower bound below its upper bound"):
            check_bounds(column(lower, upper))


def test_one_value_that_is_no_number_is_named() -> None:
    values = torch.rand(2, 3, 2)
    check_rows("contexts", values)
    values[1, 0, 1] = math.inf
    with pytest.raises(InputDataError, match=r"finite `contexts`. Got \[0\.\d+, inf\] at \(1, 0\)"):
        check_rows("contexts", values)


def test_what_a_strategy_asks_of_an_environment() -> None:
    r"""How many columns, in which box, and what a decision may meet."""
    bounds = torch.tensor([[-1.0, 0.0], [1.0, 2.0]])
    w = torch.tensor([[0.3], [0.5], [9.0]])
    weather = DiscreteEnvironment(w, torch.tensor([0.5, 0.5, 0.0]))
    assert weather.independent and weather.num_inputs(2) == 3
    assert torch.equal(weather.range(bounds), torch.tensor([[-1.0, 0.0, 0.3], [1.0, 2.0, 0.5]]))
    X = torch.zeros(3, 2)
    assert weather.contains(X, w).tolist() == [True, True, False]
    assert torch.equal(weather.log_probability(weather.weights), weather.weights.log())
    moved = InputPerturbation(torch.tensor([[-0.25, 0.0], [0.5, 0.125]]), bounds=2 * bounds)
    assert not moved.independent and moved.num_inputs(2) == 2
    assert torch.equal(moved.range(bounds), torch.tensor([[-1.25, 0.0], [1.5, 2.125]]))


class Doubled(Environment):
    r"""An environment of one's own: W is -x or x, with the same probability."""

    def expand(self, X: Tensor) -> tuple[Tensor, Tensor]:
        inputs = torch.stack([torch.cat([X, -X], dim=-1), torch.cat([X, X], dim=-1)], dim=-2)
        return inputs, torch.full((2,), 0.5)


class Summed(Environment):
    r"""Another one: W is the sum of x."""

    def expand(self, X: Tensor) -> tuple[Tensor, Tensor]:
        inputs = torch.cat([X, X.sum(dim=-1, keepdim=True)], dim=-1).unsqueeze(-2)
        return inputs, torch.ones(1)


class Certain(Doubled):
    r"""W is -x; x has no weight."""

    def expand(self, X: Tensor) -> tuple[Tensor, Tensor]:
        return super().expand(X)[0], torch.tensor([1.0, 0.0])


def test_a_decision_does_not_meet_a_point_without_weight() -> None:
    X = torch.tensor([[0.5], [0.25]])
    assert Certain().contains(X, torch.tensor([[-0.5], [0.25]])).tolist() == [True, False]


def test_an_environment_needs_nothing_but_expand() -> None:
    own, X = Doubled(), torch.tensor([[0.5], [0.5]])
    assert not own.independent and own.num_inputs(1) == 2
    assert own.contains(X, torch.tensor([[-0.5], [0.4]])).tolist() == [True, False]
    rounded = torch.tensor([[0.5 + 1e-4], [0.5 + 1e-3]])  # of float32
    assert own.contains(X, rounded).tolist() == [True, False]
    batch = torch.tensor([[-0.5], [0.4]]).expand(3, 2, 1)
    assert own.contains(X.expand(3, 2, 1), batch).tolist() == 3 * [[True, False]]
    met = torch.cat([X, torch.tensor([[2.0], [3.0]])], dim=-1)  # two columns of W
    assert own.contains(met, -met).tolist() == [True, True]
    first = Summed().contains(met, torch.tensor([[2.5], [3.0]]))  # one column, of two of x
    assert first.tolist() == [True, False]
    with pytest.raises(UnsupportedError, match=r"with a known range\. Got Doubled"):
        own.range(torch.tensor([[0.0], [1.0]]))
