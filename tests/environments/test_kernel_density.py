r"""The learnt distribution: floors, balls, conditioning, and the errors of the paper's Table 2."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from scipy.stats import cauchy, norm

from botorch_risk.environments import (
    KernelDensityEnvironment,
    leave_one_out_bandwidth,
    silverman_bandwidth,
)

UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.double)


def values(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, generator=generator, dtype=torch.double)


def environment(observed, bounds=UNIT, n_w=64, seeds=0, **options):
    return KernelDensityEnvironment(observed, bounds, n_w, seeds, **options)


@pytest.mark.parametrize("bandwidth", ["silverman", "leave_one_out"])
@pytest.mark.parametrize("num_values", [1, 2, 5])
def test_identical_values_are_given_the_floor(num_values, bandwidth):
    distribution = environment(torch.full((num_values, 1), 0.3).double(), bandwidth=bandwidth)
    assert distribution.at_floor.all()
    assert distribution.bandwidth.item() == 1e-3
    assert (distribution.points - 0.3).abs().max() < 5e-3
    assert not environment(values(5, 1), bandwidth=bandwidth).at_floor.any()


@pytest.mark.parametrize("at_bounds", ["truncate", "reflect", "clip"])
def test_a_value_on_a_bound_is_well(at_bounds):
    distribution = environment(torch.tensor([[0.0], [1.0]]).double(), at_bounds=at_bounds, n_ball=8)
    assert distribution.points.isfinite().all()
    assert ((distribution.points >= 0) & (distribution.points <= 1)).all()


def test_points_of_the_ball_have_no_weight_and_fill_the_box():
    observed = 0.5 + 0.01 * values(2, 6, 1)
    distribution = environment(observed, seeds=[0, 1], n_ball=256)
    plain = environment(observed, seeds=[0, 1])
    assert torch.equal(distribution.points[:, :64], plain.points)
    assert torch.equal(distribution.weights[:, :64], plain.weights)
    assert (distribution.weights[:, 64:] == 0).all()
    ball = distribution.points[:, 64:, 0].sort(dim=-1).values
    assert ball.diff(dim=-1).max() < 0.01


def test_condition_equals_a_new_environment():
    observed, new = values(2, 6, 2), values(2, 3, 2, seed=1)
    box = UNIT.expand(2, 2)
    options = {"bandwidth": "leave_one_out", "at_bounds": "reflect", "n_ball": 4}
    distribution = environment(observed, box, seeds=[3, 4], **options)
    before = distribution.points.clone()
    expected = environment(torch.cat([observed, new], dim=1), box, seeds=[3, 4], **options)
    assert torch.equal(distribution.condition(new).points, expected.points)
    assert torch.equal(distribution.points, before)
    assert not torch.equal(distribution.condition(new, seeds=[5, 6]).points, expected.points)


def test_quasi_random_points_and_quadrature_beat_independent_draws():
    observed = values(30, 1)
    exact = environment(observed, n_w=400, rule="quadrature")
    target = (exact.weights @ exact.points.sin()).item()

    def error(n_w, rule):
        distributions = [
            environment(observed, n_w=n_w, seeds=seed, rule=rule) for seed in range(30)
        ]
        means = np.array(
            [
                (distribution.weights @ distribution.points.sin()).item()
                for distribution in distributions
            ]
        )
        return np.sqrt(np.mean((means - target) ** 2))

    assert error(256, "sobol") < error(1024, "monte_carlo") / 2
    assert error(64, "quadrature") < 1e-9


def test_outside_values_are_welcome_only_when_clipped():
    observed = torch.tensor([[0.5], [1.2]]).double()
    with pytest.raises(InputDataError, match=r"within the bounds unless at_bounds='clip'. .*1.2"):
        environment(observed)
    assert environment(observed, at_bounds="clip").points.max() == 1.0


def test_the_first_value_that_is_not_finite_is_named():
    observed = torch.full((4, 1), 0.5, dtype=torch.double)
    observed[1], observed[3] = torch.nan, torch.inf
    with pytest.raises(InputDataError, match=r"Got \[nan\] at \(1,\)"):
        environment(observed)


def test_outside_values_are_named_by_replicate_and_row():
    observed = torch.full((2, 4, 1), 0.5, dtype=torch.double)
    observed[1, 2] = 1.5
    with pytest.raises(InputDataError, match=r"Got \[1\.5\] at \(1, 2\)"):
        environment(observed, seeds=[0, 1])


def test_a_value_that_is_outside_in_one_column_is_refused():
    observed = torch.tensor([[0.5, 0.5], [0.5, 1.5]]).double()
    with pytest.raises(InputDataError, match=r"Got \[0\.5, 1\.5\] at \(1,\)"):
        environment(observed, UNIT.expand(2, 2))


def test_a_bandwidth_at_the_floor_is_chosen_by_the_rule_that_was_asked_for():
    observed = values(6, 1)
    floor = silverman_bandwidth(observed)
    chosen = environment(observed, bandwidth="leave_one_out", relative_floor=floor.item()).bandwidth
    expected = leave_one_out_bandwidth(observed, floor, UNIT)
    assert expected > floor
    torch.testing.assert_close(chosen, expected)


def test_no_graph_of_the_arguments_is_kept():
    bounds = UNIT.clone().requires_grad_()
    observed = torch.rand(5, 1, dtype=torch.double).requires_grad_()
    density = environment(observed, bounds, n_w=8)
    assert not any(each.requires_grad for each in density.state_dict(keep_vars=True).values())
    assert not density.log_density(torch.tensor([[0.5]]).double()).requires_grad


def test_on_the_whole_space():
    distribution = environment(10 * values(20, 2), bounds=None)
    assert distribution.points.shape == (64, 2)
    assert distribution.density.bounds is None


@pytest.mark.parametrize("options", [{"n_ball": 8}, {"rule": "quadrature"}])
def test_bounds_are_needed_for_a_ball_and_a_quadrature(options):
    with pytest.raises(ValueError, match=r"Expected `bounds` for a ball or a quadrature. Got"):
        environment(values(5, 1), bounds=None, **options)


def test_refuses_what_is_no_data():
    with pytest.raises(BotorchTensorDimensionError, match=r"Expected `observed` to have shape"):
        environment(torch.zeros(0, 1).double())
    with pytest.raises(InputDataError, match=r"Expected finite `observed`. Got \[nan\] at \(1,\)"):
        environment(torch.tensor([[0.5], [math.nan]]).double())
    with pytest.raises(BotorchTensorDimensionError, match=r"`bounds` to have shape `2 x 2`"):
        environment(values(5, 2))
    with pytest.raises(InputDataError, match=r"Expected `bounds`, or values of W that differ"):
        environment(torch.ones(4, 1).double(), bounds=None)
    with pytest.raises(InputDataError, match=r"Expected `bounds`, or values of W that differ"):
        environment(torch.tensor([[1e8], [1e8 + 1e-8]], dtype=torch.double), bounds=None)
    with pytest.raises(ValueError, match="Expected finite lower bounds below the upper ones"):
        environment(values(5, 1), bounds=UNIT.flip(0))


def test_refuses_unknown_options():
    for options, message in (
        ({"rule": "grid"}, "Expected `rule` to be one of"),
        ({"bandwidth": "scott"}, "Expected `bandwidth` to be a tensor or one of"),
        ({"bandwidth": torch.tensor([0.0])}, "Expected a finite `bandwidth` > 0"),
        ({"bandwidth": torch.tensor([math.inf])}, "Expected a finite `bandwidth` > 0"),
        ({"bandwidth": torch.tensor([math.nan])}, "Expected a finite `bandwidth` > 0"),
        ({"at_bounds": "fold"}, "Expected `at_bounds` to be one of"),
        ({"seeds": [0, 1]}, "Expected one seed for each of 1 replicates"),
        ({"n_w": 0}, "Expected at least one point or node. Got 0"),
        ({"n_w": 0, "rule": "quadrature"}, "Expected at least one point or node. Got 0"),
        ({"n_ball": -1}, "Expected at least one point or node. Got -1"),
        ({"ddof": 2}, "Expected `ddof` 0 or 1 .* Got ddof=2"),
        (
            {"relative_floor": math.inf},
            "`relative_floor` > 0. Got ddof=0, relative_floor=inf",
        ),
        ({"relative_floor": 0.0}, "finite `relative_floor` > 0. Got ddof=0, relative_floor=0.0"),
    ):
        with pytest.raises(ValueError, match=message):
            environment(values(5, 1), **options)


def test_a_quadrature_that_misses_the_density_says_so():
    with pytest.raises(ValueError, match="Expected enough nodes for the quadrature to resolve"):
        environment(torch.tensor([[0.3123]]).double(), rule="quadrature")


NORMAL = [norm(0.5, 0.1)]
COMPLICATED = [
    *(norm(m, s) for m, s in ((0.1, 0.02), (0.3, 0.075), (0.4, 0.1), (0.5, 0.1))),
    *(norm(m, s) for m, s in ((0.7, 0.075), (0.8, 0.03))),
    *(cauchy(m, 0.02) for m in (0.2, 0.8)),
]


def distances(distributions, num_values, num_runs=60):
    r"""Between estimate and truth over the whole line, as the l1 norm of the densities."""
    rng = np.random.default_rng(0)
    tail = torch.logspace(0.5, 4, 500, dtype=torch.double)
    grid = torch.cat([1 - tail.flip(0), torch.linspace(-2, 3, 5001).double(), tail])
    truth = torch.as_tensor(
        np.mean([distribution.pdf(grid.numpy()) for distribution in distributions], axis=0)
    )
    for _ in range(num_runs):
        kinds = rng.integers(len(distributions), size=num_values)
        observed = torch.tensor([[distributions[kind].rvs(random_state=rng)] for kind in kinds])
        distribution = environment(observed, bounds=None, n_w=1, relative_floor=1e-9)
        estimate = distribution.density.log_prob(grid.unsqueeze(-1)).exp()
        yield torch.trapezoid((estimate - truth).abs(), grid).item()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("distributions", "num_values", "mean", "standard_error"),
    [
        (NORMAL, 10, 0.3222, 0.0327),
        (NORMAL, 100, 0.1315, 0.0088),
        (NORMAL, 200, 0.1156, 0.0079),
        (NORMAL, 300, 0.0962, 0.0083),
        (COMPLICATED, 10, 0.6216, 0.0190),
        (COMPLICATED, 100, 0.5380, 0.0333),
        (COMPLICATED, 200, 0.4853, 0.0233),
        (COMPLICATED, 300, 0.4724, 0.0258),
    ],
)
def test_distances_are_those_of_table_2(distributions, num_values, mean, standard_error):
    r"""[Huang2024kde]_: 20 runs, mean and standard error."""
    found = list(distances(distributions, num_values))
    spread = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - mean) < 3 * math.hypot(spread, standard_error)


def test_a_bandwidth_that_is_the_floor_was_not_raised_to_it() -> None:
    floor = torch.tensor([1e-3], dtype=torch.double)
    assert not environment(values(5, 1), bandwidth=floor, relative_floor=1e-3).at_floor
    assert environment(values(5, 1), bandwidth=floor / 2, relative_floor=1e-3).at_floor


def test_a_bandwidth_that_the_caller_changes_later_stays_what_it_was() -> None:
    width = torch.tensor([0.2], dtype=torch.double)
    distribution = environment(values(5, 1), bandwidth=width)
    width.fill_(0.4)
    assert distribution.bandwidth.item() == 0.2
    assert distribution.condition(values(1, 1, seed=1)).bandwidth.item() == 0.2
