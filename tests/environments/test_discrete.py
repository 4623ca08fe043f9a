r"""Discrete environments, given or observed."""

import math

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError

from botorch_risk.environments import (
    DiscreteEnvironment,
    EmpiricalGrid,
    InputPerturbation,
    KernelDensityEnvironment,
    ObservedContexts,
    StandardDeviationBox,
    regular_grid,
    restricted,
)
from botorch_risk.risk import (
    Expectation,
    MaximumMeanDiscrepancyBall,
    TotalVariationBall,
    WassersteinBall,
)
from botorch_risk.strategies import risk_search

THREE = torch.tensor([[0.0], [0.5], [1.0]], dtype=torch.double)
UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.double)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_one_point_is_no_uncertainty():
    inputs, weights = DiscreteEnvironment(THREE[1:2]).expand(THREE)
    assert inputs[:, 0].tolist() == [[0.0, 0.5], [0.5, 0.5], [1.0, 0.5]]
    assert weights.tolist() == [[1.0]]


def test_a_point_without_probability_is_kept_but_never_drawn():
    environment = DiscreteEnvironment(THREE, torch.tensor([0.0, 1.0, 0.0]))
    assert environment.weights.tolist() == [0.0, 1.0, 0.0]
    assert (environment.sample(1000, generator()) == 0.5).all()


def test_some_entries_keep_their_points_probabilities_and_categories():
    lots = torch.tensor([[0.0], [4.0], [7.0]]).double()
    shares = torch.tensor([[0.5, 0.25, 0.25], [0.125, 0.0, 0.875]])
    both = DiscreteEnvironment(torch.stack([lots, lots + 1]), shares, categories=[0])
    one, alone = both.some([1]), both.some(1)
    assert one.points.tolist() == [alone.points.tolist()] == [[[1.0], [5.0], [8.0]]]
    assert one.weights.tolist() == [alone.weights.tolist()] == [[0.125, 0.0, 0.875]]
    assert one.categories == alone.categories == both.categories == (0,)


def test_draws_do_not_depend_on_the_other_generators():
    environment = DiscreteEnvironment(THREE)
    together = environment.sample(20, [generator(0), generator(1)])
    assert together.shape == (2, 20, 1)
    assert torch.equal(together[1], environment.sample(20, generator(1)))
    batched = DiscreteEnvironment(THREE.expand(2, 3, 1))
    assert batched.sample(20, generator()).shape == (2, 20, 1)
    with pytest.raises(
        BotorchTensorDimensionError, match=r"one generator for each replicate. Got 3"
    ):
        batched.sample(20, [generator()] * 3)


@pytest.mark.parametrize("probabilities", [[0.5, 0.6, -0.1], [0.5, 0.4, 0.0], [math.nan, 0.5, 0.5]])
def test_refuses_what_is_no_probability(probabilities):
    for distribution in (DiscreteEnvironment, InputPerturbation):
        with pytest.raises(ValueError, match="Expected probabilities of at least 0 that sum to 1"):
            distribution(THREE, torch.tensor(probabilities))


def test_refuses_points_that_are_none():
    for points in (torch.zeros(0, 1), torch.zeros(3), torch.zeros(3, 0)):
        with pytest.raises(BotorchTensorDimensionError, match=r"without an empty dimension. Got"):
            DiscreteEnvironment(points)
    with pytest.raises(InputDataError, match=r"Expected finite `points`. Got \[inf\] at \(1, 0\)"):
        DiscreteEnvironment(torch.tensor([[[0.0]], [[math.inf]]]))
    with pytest.raises(BotorchTensorDimensionError, match=r"columns 0 to 0 of W. Got \(1,\)"):
        DiscreteEnvironment(torch.rand(3, 1), categories=[1])
    with pytest.raises(InputDataError, match=r"whole numbers in the columns .* Got 0.5"):
        DiscreteEnvironment(torch.tensor([[0.0], [0.5]]), categories=[0])
    with pytest.raises(BotorchTensorDimensionError, match="Expected `probabilities` to have shape"):
        DiscreteEnvironment(THREE, torch.ones(2) / 2)


def test_refuses_decisions_of_another_batch():
    environment = DiscreteEnvironment(THREE.expand(2, 3, 1))
    with pytest.raises(BotorchTensorDimensionError, match=r"Got X.shape=torch.Size\(\[3, 4, 1\]\)"):
        environment.expand(torch.zeros(3, 4, 1))


def test_the_support_has_a_scale_for_each_column():
    r"""Pascal in one column must not make everything near in the other."""
    points = torch.tensor([[1e8, 0.1], [1e8, 0.2]], dtype=torch.double)
    environment = DiscreteEnvironment(points)
    W = torch.tensor([[1e8, 0.9], [1e8, 0.2], [1e8 + 0.5, 0.1], [2e8, 0.1]], dtype=torch.double)
    assert environment.supports(W).tolist() == [False, True, True, False]
    both = DiscreteEnvironment(torch.stack([points, points / 1e8]))
    assert both.supports(torch.stack([W, W / 1e8])).tolist() == [[False, True, True, False]] * 2
    shifted = torch.stack([W[1:2], W[1:2] / 1e8 + 1e-3])
    assert both.supports(shifted).tolist() == [[True], [False]]


def test_whole_numbers_have_equal_probabilities():
    environment = DiscreteEnvironment(torch.tensor([[0], [1], [3]]))
    assert environment.weights.tolist() == pytest.approx([1 / 3] * 3)
    grid = regular_grid(torch.tensor([[0], [1]]), 5)
    assert grid.flatten().tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_probabilities_of_a_replicate_are_divided_by_their_own_sum() -> None:
    probabilities = torch.tensor([[0.2, 0.5, 0.3 + 4e-6], [0.1, 0.6, 0.3 - 4e-6]]).double()
    points = torch.tensor([[0.0], [0.5], [1.0]]).double().expand(2, 3, 1)
    weights = DiscreteEnvironment(points, probabilities).weights
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2).double(), rtol=0, atol=1e-15)
    for row, alone in zip(weights, probabilities, strict=True):
        torch.testing.assert_close(row, DiscreteEnvironment(points[0], alone).weights)


def test_ties_go_to_the_first_point_of_the_grid():
    observed = torch.tensor([[0.25], [0.25], [0.75], [5.0]], dtype=torch.double)
    assert EmpiricalGrid(observed, THREE).weights.tolist() == [0.5, 0.25, 0.25]


@pytest.mark.parametrize(
    ("d_w", "num_points", "size"), [(1, 100, 100), (2, 1024, 1024), (3, 1000, 1000), (4, 100, 256)]
)
def test_regular_grids_have_the_sizes_of_the_paper(d_w, num_points, size):
    grid = regular_grid(UNIT.expand(2, d_w), num_points)
    assert grid.shape == (size, d_w)
    assert grid.unique(dim=0).shape == grid.shape


def test_a_regular_grid_reaches_from_bound_to_bound():
    bounds = torch.tensor([[3.0, -2.0], [5.0, -1.0]], dtype=torch.double)
    grid = regular_grid(bounds, 9)
    assert grid[:3].tolist() == [[3.0, -2.0], [3.0, -1.5], [3.0, -1.0]]
    assert grid[-1].tolist() == [5.0, -1.0]


def test_refuses_a_grid_of_another_space():
    with pytest.raises(
        BotorchTensorDimensionError, match="Expected `grid` to have shape `n_w x 1`"
    ):
        EmpiricalGrid(THREE, torch.zeros(3, 2))


def test_the_box_is_cut_at_the_bounds():
    observed = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    wide = StandardDeviationBox(observed, 512, seeds=0, num_deviations=3.0)
    assert wide.box.tolist() == [[-1.0], [2.0]]
    cut = StandardDeviationBox(observed, 512, seeds=0, num_deviations=3.0, bounds=UNIT)
    assert cut.box.tolist() == UNIT.tolist()
    assert ((cut.points >= 0) & (cut.points <= 1)).all()


@pytest.mark.parametrize("num_deviations", [-1.0, math.nan, math.inf])
def test_refuses_a_box_that_is_none(num_deviations):
    with pytest.raises(ValueError, match=r"Expected `num_deviations` to be finite and >= 0. Got"):
        StandardDeviationBox(THREE, 8, seeds=0, num_deviations=num_deviations)


def test_refuses_what_is_no_data():
    for build in (lambda w: EmpiricalGrid(w, THREE), lambda w: StandardDeviationBox(w, 8, 0)):
        with pytest.raises(InputDataError, match=r"finite `observed`. Got \[nan\] at \(1,\)"):
            build(torch.tensor([[0.5], [math.nan]]).double())
        with pytest.raises(BotorchTensorDimensionError, match=r"without an empty dimension. Got"):
            build(THREE[:0])
    with pytest.raises(InputDataError, match=r"Expected finite `perturbations`. Got \[nan\]"):
        InputPerturbation(THREE * math.nan)
    for name, build in (
        ("num_points", lambda n: regular_grid(UNIT, n)),
        ("n_w", lambda n: StandardDeviationBox(THREE, n, 0)),
    ):
        with pytest.raises(ValueError, match=f"Expected `{name}` to be at least 1. Got 0"):
            build(0)
        with pytest.raises(ValueError, match=f"Expected `{name}` to be an integer. Got 2.5"):
            build(2.5)


def test_a_box_of_no_deviations_is_the_mean():
    box = StandardDeviationBox(THREE[1:], 4, seeds=0, num_deviations=0.0)
    assert (box.points == 0.75).all()


def test_one_observed_value_is_its_own_box():
    assert (StandardDeviationBox(THREE[1:2], 4, seeds=0).points == 0.5).all()


def dry(W):
    return W[..., 0] >= W[..., 1]


SQUARE = regular_grid(torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double(), 25)


@pytest.mark.parametrize(
    "ball",
    [
        WassersteinBall(10.0),
        TotalVariationBall(2.0),
        MaximumMeanDiscrepancyBall(10.0, lambda v, w: torch.exp(-torch.cdist(v, w).square())),
    ],
)
def test_no_ball_puts_mass_on_an_impossible_point(ball):
    at_one_corner = (torch.tensor([1.0, 0.0]) == SQUARE).all(dim=-1).double()
    days = restricted(DiscreteEnvironment(SQUARE, at_one_corner), dry)
    values = days.points @ torch.tensor([1.0, -1.0]).double()  # below 0 if W is impossible
    assert ball.bind(days)(values, days.weights) == pytest.approx(0.0, abs=1e-6)


def test_a_restricted_distribution_never_draws_an_impossible_value():
    days = restricted(DiscreteEnvironment(SQUARE.expand(2, 25, 2)), dry)
    assert dry(days.sample(200, generator())).all()
    assert days.supports(SQUARE).tolist() == [dry(SQUARE).tolist()] * 2


def test_a_strategy_learns_a_restricted_distribution():
    def learn(observed, *, bounds, seeds):
        return restricted(KernelDensityEnvironment(observed, bounds, 32, seeds), dry)

    contexts = ObservedContexts(torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double(), learn)
    search = risk_search(
        UNIT, [0, 1], environment=contexts, risk_measure=Expectation(), num_initial=4
    )
    drawn = torch.rand(2, 4, 2, dtype=torch.double, generator=generator()).sort(descending=True)
    X = torch.cat([search.ask(), drawn.values], dim=-1)
    search.tell(X, X.sum(dim=-1, keepdim=True))
    search.ask()
    days = search.belief.environment
    assert dry(days.points).all()
    assert days.weights.shape == (2, 32)
    assert (days.weights > 0).sum(dim=-1).lt(32).all()


def test_a_label_stays_a_label_if_the_distribution_is_restricted():
    lots = DiscreteEnvironment(torch.tensor([[0.0, 0.0], [4.0, 1.0]]), categories=[0])
    assert restricted(lots, lambda W: W[..., 1] > 0).categories == (0,)


def test_a_restriction_that_leaves_nothing_names_the_replicate():
    days = DiscreteEnvironment(torch.stack([SQUARE, SQUARE - 2]))
    with pytest.raises(InputDataError, match=r"possible point.*none among 25 of entry \(1,\)"):
        restricted(days, lambda W: W[..., 0] >= 0)
    with pytest.raises(BotorchTensorDimensionError, match=r"return \(2, 25\) booleans"):
        restricted(days, lambda W: W[0, :, 0] >= 0)
    with pytest.raises(TypeError, match="IndependentEnvironment"):
        restricted(InputPerturbation(THREE), dry)
