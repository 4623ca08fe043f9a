r"""Environments of a kernel density, and rounded contexts."""

import math

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from scipy.stats import cauchy, norm
from torch import Tensor

from botorch_risk.environments import (
    KernelDensity,
    KernelDensityEnvironment,
    leave_one_out_bandwidth,
    silverman_bandwidth,
)
from botorch_risk.environments.kernel_density import copies, rounding_step, spread_within_cells

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
    with pytest.raises(InputDataError, match=r"Got 1\.5 at \(1, 2, 0\), outside \[0\.0, 1\.0\]"):
        environment(observed, seeds=[0, 1])


def test_a_value_that_is_outside_in_one_column_is_refused():
    observed = torch.tensor([[0.5, 0.5], [0.5, 1.5]]).double()
    with pytest.raises(InputDataError, match=r"Got 1\.5 at \(1, 1\), outside \[0\.0, 1\.0\]"):
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
    with pytest.raises(ValueError, match="each lower bound below its upper bound"):
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
        ({"n_w": 0}, "Expected `n_w` to be at least 1. Got 0"),
        ({"n_w": 0, "rule": "quadrature"}, "Expected `n_w` to be at least 1. Got 0"),
        ({"n_w": 2.5}, "Expected `n_w` to be an integer. Got 2.5"),
        ({"n_ball": -1}, "Expected `n_ball` to be at least 0. Got -1"),
        ({"ddof": 2}, "Expected `ddof` 0 or 1 .* Got ddof=2"),
        ({"relative_floor": math.inf}, "`relative_floor` > 0. Got ddof=0, relative_floor=inf"),
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


FLOOR = torch.tensor([1e-6], dtype=torch.double)


def normal(t: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (0.5 + 0.1 * torch.randn(t, 1, generator=generator, dtype=torch.double)).clamp(0, 1)


def rounded(W: Tensor, step: float) -> Tensor:
    return (W / step).round() * step


def l1_error(observed: Tensor, bandwidth: Tensor) -> float:
    r"""Between the density and the distribution of `normal`, by the trapezoidal rule."""
    grid = torch.linspace(0, 1, 2001, dtype=torch.double).unsqueeze(-1)
    density = KernelDensity(observed, bandwidth, UNIT).log_prob(grid).exp()
    truth = torch.distributions.Normal(0.5, 0.1).log_prob(grid.squeeze(-1)).exp()
    return torch.trapezoid((density - truth).abs(), grid.squeeze(-1)).item()


@pytest.mark.parametrize("bounds", [None, UNIT], ids=["whole line", "box"])
@pytest.mark.parametrize(("t", "step"), [(30, 0.1), (100, 0.1), (100, 0.02), (300, 0.02)])
@pytest.mark.handful
def test_rounding_does_not_collapse_the_bandwidth(
    t: int, step: float, bounds: Tensor | None
) -> None:
    for seed in range(4):
        W = normal(t, seed)
        exact = leave_one_out_bandwidth(W, FLOOR, bounds).item()
        found = leave_one_out_bandwidth(rounded(W, step), FLOOR, bounds).item()
        assert max(0.4 * step, 0.6 * exact) - 1e-9 <= found <= 1.6 * max(exact, 0.4 * step)


@pytest.mark.slow
def test_rounding_hardly_changes_the_density() -> None:
    for t, step, most in ((100, 0.02, 1.15), (300, 0.02, 1.15), (100, 0.1, 1.6)):
        errors = []
        for seed in range(6):
            W = normal(t, seed)
            coarse = rounded(W, step)
            errors.append(
                [l1_error(w, leave_one_out_bandwidth(w, FLOOR, UNIT)) for w in (W, coarse)]
            )
        exact, found = torch.tensor(errors).mean(dim=0).tolist()
        assert found <= most * exact + 0.01


def test_repeated_contexts_are_one_piece_of_evidence_each() -> None:
    W = normal(40)
    exact = leave_one_out_bandwidth(W, FLOOR)
    for copies_of in (torch.cat([W, W]), W.repeat_interleave(5, dim=0)):
        torch.testing.assert_close(
            leave_one_out_bandwidth(copies_of, FLOOR), exact, rtol=1e-3, atol=0
        )
    # Some at a bound, as where contexts are clipped.
    clipped = (4 * (W - 0.5)).clamp(0.0, 1.0)
    width = leave_one_out_bandwidth(clipped, FLOOR, UNIT)
    inside = clipped[(clipped > 0) & (clipped < 1)].unsqueeze(-1)
    assert width > 0.3 * leave_one_out_bandwidth(inside, FLOOR, UNIT)


def test_every_value_the_same_is_not_learnt_from() -> None:
    W = torch.full((5, 2), 0.3, dtype=torch.double)
    W[:, 1] = normal(5).squeeze(-1)
    floor = torch.full((2,), 1e-3, dtype=torch.double)
    widths = leave_one_out_bandwidth(W, floor)
    assert widths[0] <= 3e-3
    alone = leave_one_out_bandwidth(W[:, 1:], floor[1:])
    torch.testing.assert_close(widths[1:], alone, rtol=1e-3, atol=0)
    distribution = KernelDensityEnvironment(W, UNIT.expand(2, 2), 8, 0, bandwidth="leave_one_out")
    assert distribution.at_floor.tolist() == [True, False]


def test_replicates_are_rounded_each_by_itself() -> None:
    exact = torch.stack([normal(60, 0), normal(60, 1)])
    W = torch.stack([exact[0], rounded(exact[1], 0.1)])
    together = leave_one_out_bandwidth(W, FLOOR.expand(2, 1), UNIT)
    for r in range(2):
        torch.testing.assert_close(together[r], leave_one_out_bandwidth(W[r], FLOOR, UNIT))


STEPS = [
    ([0.1, 0.3, 0.1, 0.8], 0.0),  # 0.8 is no multiple of 0.2 from 0.1
    ([0.1, 0.3, 0.1, 0.9], 0.2),
    ([0.1, 0.3, 0.5, 0.9], 0.0),  # nothing repeats
    ([0.1, 0.30000000000000004, 0.3, 0.2], 0.1),  # equal but for rounding
    ([-3.0, 5.0, -3.0], 8.0),
    ([0.7, 0.7, 0.7], 0.0),
    ([1e6, 1e6 + 0.5, 1e6 + 0.5, 1e6 + 2], 0.5),
]


@pytest.mark.parametrize(("values", "step"), STEPS, ids=str)
def test_the_step_is_the_common_divisor_of_values_that_repeat(
    values: list[float], step: float
) -> None:
    found = rounding_step(torch.tensor(values, dtype=torch.double).unsqueeze(-1)).item()
    assert math.isclose(found, step, rel_tol=1e-6)


def test_each_column_of_each_replicate_has_its_own_step() -> None:
    columns = [torch.tensor(values, dtype=torch.double) for values, _ in STEPS if len(values) == 4]
    steps = [step for values, step in STEPS if len(values) == 4]
    pairs = torch.stack([torch.stack(columns, dim=-1), torch.stack(columns[::-1], dim=-1)])
    expected = torch.tensor([steps, steps[::-1]], dtype=torch.double)
    torch.testing.assert_close(rounding_step(pairs), expected, rtol=1e-6, atol=0)


def test_values_spread_within_their_cells_and_the_bounds() -> None:
    W = rounded(torch.rand(200, 2, dtype=torch.double), 0.25)
    step = torch.tensor([0.25, 0.0], dtype=torch.double)
    spread = spread_within_cells(W, step, UNIT.expand(2, 2))
    assert torch.equal(spread[:, 1], W[:, 1])
    assert ((spread - W).abs() <= 0.125).all()
    assert ((spread >= 0) & (spread <= 1)).all()
    assert spread[:, 0].unique().numel() == 200
    inner = spread[(W[:, 0] == 0.5), 0] - 0.5
    assert inner.min() < -0.08 and inner.max() > 0.08 and inner.mean().abs() < 0.03
    assert (spread[W[:, 0] == 0.0, 0] > 0).all()  # folded back
    assert torch.equal(
        spread_within_cells(W[:50], step, None)[10], spread_within_cells(W, step, None)[10]
    )


def test_copies_are_equal_in_a_column_that_tells() -> None:
    W = torch.tensor([[0.5, 0.123, 1.0], [0.5, 0.123, 2.0], [0.5, 0.777, 1.0], [0.5, 0.901, 3.0]])
    found = copies(W.double(), torch.tensor([0.0, 0.0, 1.0]).double())
    expected = torch.eye(4, dtype=torch.bool)
    expected[0, 1] = expected[1, 0] = True
    assert torch.equal(found, expected)


def test_values_as_near_as_the_tolerance_are_one() -> None:
    W = torch.tensor([[0.0], [1e-9], [3e-9], [1.0]], dtype=torch.double)
    expected = torch.eye(4, dtype=torch.bool)
    expected[0, 1] = expected[1, 0] = True
    assert torch.equal(copies(W, torch.zeros(1).double()), expected)
