r"""Risk measures of weighted values."""

import itertools
import math
import random
import warnings
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from botorch.acquisition.risk_measures import VaR
from botorch.exceptions.errors import InputDataError
from botorch.exceptions.warnings import UserInputWarning
from torch import Tensor

from botorch_risk.risk import (
    ConditionalValueAtRisk,
    Expectation,
    MaximumMeanDiscrepancyBall,
    MeanVariance,
    MinimaxApproximation,
    RiskMeasure,
    ShareAbove,
    TotalVariationBall,
    ValueAtRisk,
    WassersteinBall,
    WassersteinRegularization,
    WorstCase,
)
from botorch_risk.risk.ball import Ball
from botorch_risk.risk.measure import PickingRiskMeasure
from botorch_risk.risk.value_at_risk import _warn_of_alpha
from botorch_risk.steady import steady
from tests.calls import called, first_call
from tests.public_objects import hints_of, public_objects
from tests.risk.cases import RISK_MEASURES

SAID = (
    "`risk_level` is the probability of the lower tail: at 0.9 the risk leaves out only the best "
    "0.1 of all outcomes. BoTorch's `alpha=0.9` is `risk_level=0.1`."
)


def draw(n_w: int = 8, seed: int = 0, rows: int = 20) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(rows, n_w, generator=generator, dtype=torch.float64)
    weights = torch.rand(rows, n_w, generator=generator, dtype=torch.float64)
    weights[:, 1] = 0.0
    return values, weights / weights.sum(dim=-1, keepdim=True)


@pytest.mark.parametrize("n_w", [1, 3, 7, 10, 20])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_value_at_risk_on_the_boundary_of_atoms(n_w: int, dtype: torch.dtype) -> None:
    values = torch.arange(n_w, dtype=dtype)
    weights = torch.full((n_w,), 1 / n_w, dtype=dtype)
    for k in range(1, n_w):
        assert ValueAtRisk(k / n_w)(values, weights) == k - 1
        assert ValueAtRisk(k / n_w, strict=True)(values, weights) == k
        theirs = VaR(alpha=(n_w - k) / n_w, n_w=n_w)(values.unsqueeze(-1))
        assert theirs.item() == k


@pytest.mark.parametrize("n_w", [2, 50, 999])
@pytest.mark.parametrize("shape", ["ascending", "descending", "equal", "waves", "steps"])
def test_the_value_at_risk_of_ordered_values_is_the_first_of_equal_ones(
    n_w: int, shape: str
) -> None:
    r"""In a `steady` block, where the place of the risk is known: against a sort of each row."""
    line = torch.linspace(0, 1, n_w, dtype=torch.double)
    row = {
        "ascending": line, "descending": -line, "equal": 0 * line,
        "waves": (9 * line).sin(), "steps": (7 * line).floor(),
    }[shape]  # fmt: skip
    values = torch.stack([row, row.flip(0), 2 * row + 1]).requires_grad_()
    weights = torch.full((n_w,), 1 / n_w, dtype=torch.double)
    for level in (0.1, 0.5, 0.9):
        with steady():
            risk, index = ValueAtRisk(level).pick(values, weights)
            (gradient,) = torch.autograd.grad(ValueAtRisk(level)(values, weights).sum(), values)
        for one, rows in enumerate(values.detach().numpy()):
            expected = np.sort(rows)[math.ceil(level * n_w - 1e-9) - 1]
            first = int(np.flatnonzero(rows == expected)[0])
            assert risk[one].item() == expected
            assert index[one].item() == first
            assert gradient[one].nonzero().flatten().tolist() == [first]


def test_no_selection_on_a_cpu_is_quadratic(monkeypatch: pytest.MonkeyPatch) -> None:
    r"""`torch.kthvalue` is, where rows are monotone."""

    def refuse(*args: object) -> None:
        raise AssertionError("Expected no `kthvalue` on a CPU.")

    monkeypatch.setattr(Tensor, "kthvalue", refuse)
    values = torch.arange(1000, dtype=torch.double).flip(0)
    with steady():
        assert ValueAtRisk(0.25)(values, torch.full((1000,), 1e-3, dtype=torch.double)) == 249.0


def test_value_at_risk_ignores_points_of_weight_zero_at_both_ends() -> None:
    values, weights = torch.arange(4.0), torch.tensor([0.0, 0.5, 0.5, 0.0])
    for level in (1e-9, 0.5, 1 - 1e-9):
        for strict in (False, True):
            assert ValueAtRisk(level, strict)(values, weights) in (1.0, 2.0)


def test_conditional_value_at_risk_counts_a_part_of_the_boundary_atom() -> None:
    values = torch.tensor([4.0, 1.0, 2.0], dtype=torch.float64)
    weights = torch.tensor([0.3, 0.2, 0.5], dtype=torch.float64)
    risk = ConditionalValueAtRisk(0.4)(values, weights)
    torch.testing.assert_close(risk, torch.tensor(1.5, dtype=torch.float64))


@pytest.mark.parametrize(
    ("measure", "limit"),
    [
        (ConditionalValueAtRisk(1e-9), WorstCase()),
        (ValueAtRisk(1e-9), WorstCase()),
        (MeanVariance(0.0), Expectation()),
        (TotalVariationBall(0.0), Expectation()),
        (TotalVariationBall(2.0), WorstCase(over="points")),
        (TotalVariationBall(1.0, half_convention=True), WorstCase(over="points")),
    ],
    ids=repr,
)
def test_limits(measure: RiskMeasure, limit: RiskMeasure) -> None:
    values, weights = draw()
    torch.testing.assert_close(measure(values, weights), limit(values, weights))


@pytest.mark.parametrize("n_w", [1, 2, 7, 40])
@pytest.mark.parametrize(
    "measure", [ConditionalValueAtRisk(0.2), ConditionalValueAtRisk(0.5), WorstCase()]
)
def test_a_risk_without_a_gradient_is_the_risk_with_one(measure: RiskMeasure, n_w: int) -> None:
    generator = torch.Generator().manual_seed(n_w)
    values = torch.randn(5, 3, n_w, generator=generator, dtype=torch.double).round(decimals=1)
    random = torch.rand(n_w, generator=generator, dtype=torch.double)
    for weights in (torch.full((n_w,), 1 / n_w).double(), random / random.sum()):
        tracked = measure(values.clone().requires_grad_(), weights)
        torch.testing.assert_close(measure(values, weights), tracked.detach())
        torch.testing.assert_close(measure(values[0, 0], weights), tracked.detach()[0, 0])


def test_the_tail_of_all_outcomes_is_their_expectation() -> None:
    values, weights = draw()
    found = ConditionalValueAtRisk(1 - 1e-12)(values, weights)
    torch.testing.assert_close(found, Expectation()(values, weights))


@pytest.mark.filterwarnings("default:.risk_level. is the probability of the lower tail")
@pytest.mark.parametrize("measure", [ValueAtRisk, ConditionalValueAtRisk])
def test_a_level_that_may_be_the_alpha_of_botorch_is_pointed_out_once(
    measure: type[ValueAtRisk | ConditionalValueAtRisk],
) -> None:
    r"""On 0, .., 9 BoTorch's VaR(0.9) is 1; the lower quantile of level 0.9 is 8."""
    _warn_of_alpha.cache_clear()
    values = torch.arange(10.0, dtype=torch.float64)
    tenth = torch.full((10,), 0.1, dtype=torch.float64)
    assert VaR(alpha=0.9, n_w=10)(values.unsqueeze(-1)).item() == 1.0
    message = r"lower tail: at 0.9 .* BoTorch's `alpha=0.9` is `risk_level=0.1`"
    with pytest.warns(UserInputWarning, match=message):
        high = measure(0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert measure(0.9) == high  # once
        for level in (0.1, 0.5):
            measure(level)
    assert ValueAtRisk(0.9)(values, tenth) == 8.0
    _warn_of_alpha.cache_clear()


@pytest.mark.parametrize(
    "name", [name for name, value in public_objects().items() if "risk_level" in hints_of(value)]
)
def test_every_argument_that_is_a_risk_level_points_it_out(name: str) -> None:
    value = public_objects()[name]
    arguments = first_call(value)
    if arguments is None:  # it has no example to call again
        return
    _warn_of_alpha.cache_clear()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        called(value, {**arguments, "risk_level": 0.9})
    _warn_of_alpha.cache_clear()
    assert [str(each.message) for each in seen].count(SAID) == 1


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, float("nan")])
def test_risk_level_outside_the_unit_interval(level: float) -> None:
    with pytest.raises(ValueError, match=r"`risk_level` in \(0, 1\). Got risk_level="):
        ValueAtRisk(level)
    with pytest.raises(ValueError, match=r"`risk_level` in \(0, 1\). Got risk_level="):
        ConditionalValueAtRisk(level)


def test_other_bad_arguments() -> None:
    with pytest.raises(ValueError, match=r"`over` to be one of .* Got 'all'"):
        WorstCase(over="all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"`risk_aversion` to be finite and >= 0. Got -1"):
        MeanVariance(-1.0)
    values, weights = draw()
    with pytest.raises(ValueError, match=r"`lower <= upper`. Got `lower` 1\.0\d* larger"):
        MeanVariance(1.0).bounds(values, values - 1.0, weights)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.slow
def test_value_at_risk_with_ties_and_atoms_is_exact(strict: bool) -> None:
    r"""Values that tie and probabilities in twentieths, some 0, against fractions."""
    rng = random.Random(0)
    for _ in range(300):
        values = [rng.randint(-2, 2) for _ in range(6)]
        cuts = sorted(rng.randint(0, 20) for _ in range(5))
        shares = [b - a for a, b in itertools.pairwise([0, *cuts, 20])]
        weights = torch.tensor([share / 20 for share in shares], dtype=torch.float64)
        for k in range(1, 20):
            reached = [
                v
                for v in values
                if sum(s for s, u in zip(shares, values, strict=True) if u <= v) >= k + strict
            ]
            found = ValueAtRisk(k / 20, strict)(torch.tensor(values).double(), weights)
            assert found == min(reached)


@pytest.mark.parametrize("measure", [ValueAtRisk(0.3), ValueAtRisk(0.3, strict=True), WorstCase()])
def test_the_value_that_is_picked_is_the_risk(measure: PickingRiskMeasure) -> None:
    values = torch.randn(4, 5, 9, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    weights = torch.rand(4, 1, 9, dtype=torch.double)
    weights[..., 3] = 0.0
    weights /= weights.sum(dim=-1, keepdim=True)
    risk, index = measure.pick(values, weights)
    torch.testing.assert_close(risk, measure(values, weights), rtol=0, atol=0)
    torch.testing.assert_close(values.gather(-1, index.unsqueeze(-1)).squeeze(-1), risk)
    values[0, 0, 0] = torch.nan
    for own in (weights, weights[0, 0]):  # of each row, and of all
        expected = [each.numpy() for each in measure.pick(values, own)]
        found = measure.pick_on_host(values.numpy(), own.numpy())
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize("measure", [Expectation(), ConditionalValueAtRisk(0.3), MeanVariance(1.0)])
def test_arrays_have_the_risk_and_the_slope_of_tensors(measure: RiskMeasure) -> None:
    values = torch.randn(4, 5, 9, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    values[0, 0, 0] = torch.nan
    weights = torch.softmax(values[1, :1], dim=-1)
    expected = measure.value_and_slope(values, weights)
    found = measure.value_and_slope_on_host(values.numpy(), weights.numpy())
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-12)


def test_a_row_without_a_value_picks_nothing() -> None:
    values = torch.tensor([[1.0, 3.0, 2.0], [1.0, torch.nan, 2.0]])
    risk, index = WorstCase().pick(values, torch.full((3,), 1 / 3))
    assert risk[0] == 1.0 and risk[1].isnan() and index.tolist() == [0, 0]
    with pytest.raises(InputDataError, match="finite"):
        WorstCase().pick(values[1:], torch.full((3,), 1 / 3))


def grid_extremes(
    measure: MeanVariance, lower: Tensor, upper: Tensor, weights: Tensor, steps: int
) -> tuple[Tensor, Tensor]:
    axes = [np.linspace(*ends, steps) for ends in zip(lower.tolist(), upper.tolist(), strict=True)]
    values = torch.tensor(list(product(*(axis.tolist() for axis in axes))), dtype=torch.float64)
    risk = measure(values, weights)
    return risk.min(), risk.max()


@pytest.mark.parametrize("risk_aversion", [1e-9, 0.3, 2.0, 100.0])
@pytest.mark.parametrize("seed", range(5))
def test_bounds_of_mean_variance_against_a_grid(risk_aversion: float, seed: int) -> None:
    measure = MeanVariance(risk_aversion)
    lower, weights = draw(n_w=4, seed=seed, rows=1)
    lower, weights = lower[0], weights[0]
    upper = lower + torch.rand(4, dtype=torch.float64)
    least, most = measure.bounds(lower, upper, weights)
    lowest, highest = grid_extremes(measure, lower, upper, weights, 21)
    slack = 1e-9 * (1 + risk_aversion)
    assert least <= lowest + slack
    assert most >= highest - slack
    # Moving a value by half a step of the grid from the maximum costs little: the bound is exact.
    assert most - highest <= 0.03 * (1 + risk_aversion)
    # Dividing one point between its ends changes the variance by a quarter of its width squared.
    part = (weights * (upper - lower).square()).max() / 4
    assert lowest - least <= 1e-6 + risk_aversion * part
    plain = Expectation()(upper, weights)
    assert most <= plain + slack


@pytest.mark.parametrize(
    "risk_aversion", [1.0, *(pytest.param(each, marks=pytest.mark.slow) for each in (0.1, 10.0))]
)
@pytest.mark.slow
def test_upper_bound_of_mean_variance_is_attained(risk_aversion: float) -> None:
    measure = MeanVariance(risk_aversion)
    lower, weights = draw(rows=50, n_w=10)
    upper = lower + torch.rand_like(lower)
    values = ((lower + upper) / 2).requires_grad_()
    bound = measure.bounds(lower, upper, weights)[1]
    for _ in range(3_000):  # projected gradient ascent
        (gradient,) = torch.autograd.grad(measure(values, weights).sum(), values)
        step = gradient / weights.clamp_min(1e-3) / (2 * risk_aversion)
        values = (values + step).clamp(lower, upper).detach().requires_grad_()
    torch.testing.assert_close(measure(values, weights).detach(), bound, rtol=1e-6, atol=1e-6)


def test_bounds_of_mean_variance_are_differentiable() -> None:
    lower, weights = draw(rows=3)
    upper = (lower + torch.rand_like(lower)).requires_grad_()
    lower.requires_grad_()
    measure = MeanVariance(0.7)
    assert torch.autograd.gradcheck(
        lambda low, up: measure.bounds(low, up, weights), (lower, upper)
    )


def test_bounds_in_float32_and_of_equal_values() -> None:
    values, weights = draw()
    single = MeanVariance(0.7).bounds(values.float(), values.float() + 1, weights.float())
    double = MeanVariance(0.7).bounds(values, values + 1, weights)
    for ours, theirs in zip(single, double, strict=True):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-5)


def test_bounds_do_not_see_points_of_weight_zero_beside_values_of_zero() -> None:
    lower, upper = torch.tensor([0.0, -1.0, 5.0]), torch.tensor([0.0, 2.0, 6.0])
    measure, weights = MeanVariance(0.7), torch.tensor([0.5, 0.5, 0.0])
    found = measure.bounds(lower, upper, weights)
    expected = measure.bounds(lower[:2], upper[:2], weights[:2])
    torch.testing.assert_close(torch.stack(found), torch.stack(expected))


def test_without_aversion_the_bounds_are_the_means() -> None:
    lower, upper = torch.tensor([[0.0, 1.0, 2.0]]), torch.tensor([[0.5, 1.5, 4.0]])
    weights = torch.tensor([0.5, 0.25, 0.25])
    found = MeanVariance(0.0).bounds(lower, upper, weights)
    torch.testing.assert_close(torch.stack(found).flatten(), torch.tensor([0.75, 1.625]))


def test_the_expected_share_above_is_the_average_over_normal_values() -> None:
    generator = torch.Generator().manual_seed(0)
    mean, weights = (
        torch.randn(4, 6, generator=generator).double(),
        torch.rand(4, 6, generator=generator).double(),
    )
    weights = weights / weights.sum(dim=-1, keepdim=True)
    variance, measure = torch.rand(4, 6, generator=generator).double() + 0.1, ShareAbove(0.3)
    normal = torch.randn(40_000, 4, 6, generator=generator).double()
    sampled = measure(mean + variance.sqrt() * normal, weights)
    error = 5 * sampled.std(dim=0) / 40_000**0.5
    mean.requires_grad_()
    expected = measure.expected(mean, variance, weights)
    assert ((expected - sampled.mean(dim=0)).abs() < error).all()
    (slopes,) = torch.autograd.grad(expected.sum(), mean)  # Stein's identity: cov(risk, f) / var(f)
    covariance = ((sampled - expected).unsqueeze(-1) * variance.sqrt() * normal).mean(dim=0)
    assert (slopes * variance - covariance).abs().max() < 5 * 0.5 / 40_000**0.5
    assert torch.autograd.gradcheck(lambda m: measure.expected(m, variance, weights), mean)


def test_the_expected_share_above_of_known_values_is_their_share() -> None:
    values, weights = torch.tensor([-1.0, 0.29, 0.31, 4.0]).double(), torch.full((4,), 0.25)
    values.requires_grad_()
    measure, weights = ShareAbove(0.3), weights.double()
    expected = measure.expected(values, torch.zeros_like(values), weights)
    assert expected == measure(values, weights) == 0.5
    (slopes,) = torch.autograd.grad(expected, values)
    assert (slopes == 0).all()


BALLS = [case for case in RISK_MEASURES if isinstance(case.measure, Ball)]


@pytest.mark.parametrize("case", BALLS, ids=[case.name for case in BALLS])
@pytest.mark.parametrize("missing", [torch.nan, torch.inf, -torch.inf])
def test_a_row_that_is_not_finite_has_no_worst_distribution(case: Any, missing: float) -> None:
    r"""Also where the value has no weight; the other rows have theirs."""
    values, weights, points = case.draw(3)
    ball = case.bind(points)
    expected = ball.worst_distribution(values, weights)
    holed = values.clone()
    holed[0, 2] = holed[2, 1] = missing
    assert weights[0, 2] == 0 < weights[2, 1]
    found = ball.worst_distribution(holed, weights)
    assert found[[0, 2]].isnan().all()
    torch.testing.assert_close(found[1], expected[1], rtol=0, atol=1e-6)
    torch.testing.assert_close(expected.sum(dim=-1), torch.ones(3).double())


@pytest.mark.parametrize("no_function", ["l2", None, 2.0])
def test_metrics_and_kernels_are_functions(no_function: Any) -> None:
    for measure in (WassersteinBall, WassersteinRegularization):
        with pytest.raises(TypeError, match=r"Expected `metric` to be a function\. Got"):
            measure(0.1, metric=no_function)
    for measure in (MaximumMeanDiscrepancyBall, MinimaxApproximation):
        with pytest.raises(TypeError, match=r"Expected `kernel` to be a function\. Got"):
            measure(0.1, kernel=no_function)


def test_a_share_needs_a_finite_threshold() -> None:
    for threshold in (torch.nan, torch.inf):
        with pytest.raises(ValueError, match=r"Expected a finite `threshold`. Got"):
            ShareAbove(threshold)
    for under in (None, 0.1, "expectation", Expectation):
        with pytest.raises(TypeError, match="Expected `under` to be a risk measure"):
            ShareAbove(0.5, under=under)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"a monotone measure as `under`\. Got MeanVariance"):
        ShareAbove(0.5, under=MeanVariance(1.0))
    assert ShareAbove(2.0)(torch.tensor([2.0, 3.0]), torch.tensor([0.5, 0.5])) == 0.5
