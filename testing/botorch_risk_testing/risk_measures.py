r"""The laws of measures of risk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from botorch_risk.gradients import differentiated
from botorch_risk.risk import RiskMeasure
from botorch_risk_testing.laws import (
    Case,
    Laws,
    Report,
    by_pickle,
    each_entry,
    expect,
    expect_close,
    expect_error,
    expect_gradient,
    expect_kind,
    expect_same,
    numpy,
)

N_W = 7


@dataclass(frozen=True, kw_only=True)
class RiskMeasureCase(Case):
    r"""A measure of risk; see `check_risk_measure`.

    Args:
        threshold: The threshold of a share of outcomes, which has no unit; otherwise None.
    """

    measure: Any
    oracle: Callable[[Any, Any, Any], float] | None = None
    sees_weight_zero: bool = False
    sees_copies: bool = False
    sees_ties: bool = False
    bounds_are_tight: bool = True
    equal_weights: bool = False
    threshold: float | None = None
    gradient: tuple[float, float] = (1e-6, 1e-6)

    def bind(self, points: Tensor) -> Any:
        r"""The measure at points of the environment, `n_w x d_w`."""
        if not isinstance(self.measure, RiskMeasure):
            return self.measure
        return self.measure.bind(SimpleNamespace(points=points))

    @property
    def needs_points(self) -> bool:
        r"""Whether it has to be bound to points."""
        return self.bind(self.draw()[-1]) is not self.measure

    def draw(
        self, *batch_shape: int, seed: int = 0, ties: bool = False, shared: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        r"""Values, weights and points; one point has weight 0, and some values may be equal."""
        generator = torch.Generator().manual_seed(seed)
        options: dict[str, Any] = {"generator": generator, "dtype": torch.float64}
        values = torch.randn(*batch_shape, N_W, **options)
        weights = torch.rand(*(() if shared else batch_shape), N_W, **options)
        weights[..., 2] = 0.0
        points = torch.rand(N_W, 2, **options)
        if self.equal_weights:
            weights = torch.ones_like(weights)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        values = values.round() if ties else values
        return values.to(self.device), weights.to(self.device), points.to(self.device)

    def of_constant(self, values: Tensor) -> Tensor:
        r"""The risk of outcomes that are the same everywhere."""
        return values if self.threshold is None else (values > self.threshold).to(values)


LAWS = Laws()


def _ours(case: RiskMeasureCase) -> bool:
    return isinstance(case.measure, RiskMeasure)


def _unequal(case: RiskMeasureCase) -> bool:
    return _ours(case) and not case.equal_weights


@LAWS()
def a_risk_has_the_shape_of_the_batch(
    case: RiskMeasureCase, dtype: torch.dtype, batch_shape: tuple[int, ...]
) -> None:
    r"""Values `batch_shape x n_w` have a risk `batch_shape`, with weights of their own or shared.

    It is the oracle's, if one is given.
    """
    for shared in (False, True):
        values, weights, points = case.draw(*batch_shape, shared=shared)
        risk = case.bind(points)(values.to(dtype), weights.to(dtype))
        expect_kind("a risk", risk, batch_shape, dtype, values)
        if (oracle := case.oracle) is None:
            continue
        each = weights.expand_as(values)

        def single(index: tuple[int, ...], rows: tuple[Tensor, Tensor] = (values, each)) -> Any:
            return oracle(*numpy(rows[0][index], rows[1][index], points))  # noqa: B023

        expected = each_entry(batch_shape, single)
        tolerance = 1e-6 if dtype == torch.float64 else 1e-3
        expect_close("the oracle's risk", risk.double().cpu(), expected, tolerance)


@LAWS()
def a_row_has_the_risk_that_it_has_alone(case: RiskMeasureCase) -> None:
    r"""The other rows of its batch change nothing."""
    values, weights, points = case.draw(2, 3)
    measure = case.bind(points)
    singly = each_entry((2, 3), lambda index: measure(values[index], weights[index]))
    expect_close("the risk of the row alone", measure(values, weights).cpu(), singly, 1e-8)


@LAWS()
def gradients_are_those_of_finite_differences(case: RiskMeasureCase) -> None:
    r"""A risk can be differentiated in the values, away from ties."""
    values, weights, points = case.draw(2)
    measure = case.bind(points)
    expect_gradient(lambda v: measure(v, weights), values, *case.gradient)


@LAWS(_ours)
def a_slope_is_the_gradient_of_the_risk(case: RiskMeasureCase) -> None:
    r"""`value_and_slope` is what autograd finds, with weights of each row or shared ones."""
    for shared in (False, True):
        values, weights, points = case.draw(2, 3, shared=shared)
        measure: Any = case.bind(points)
        expected, gradient = differentiated(lambda values: measure(values, weights), values)  # noqa: B023
        risk, slope = measure.value_and_slope(values, weights)
        expect_close("the risk", risk, expected, 1e-10)
        expect_close("its slope", slope, gradient, 1e-8)


@LAWS()
def risks_are_repeatable_and_survive_pickling(case: RiskMeasureCase) -> None:
    r"""Nothing is drawn, and a copy by pickle gives the same risk."""
    values, weights, points = case.draw(3)
    measure = case.bind(points)
    risk = measure(values, weights)
    expect_same("the same risk again", measure(values, weights), risk)
    copy = by_pickle(measure)
    expect_same("the risk after pickling", copy(values, weights), risk)


@LAWS(_ours)
def a_measure_says_what_it_is(case: RiskMeasureCase) -> None:
    r"""Bound to points it reads as before, and without need of points it stays what it is."""
    values, weights, points = case.draw()
    bound = case.bind(points)
    expect(isinstance(bound, RiskMeasure), "a RiskMeasure from `bind`", bound)
    expect(repr(bound) == repr(case.measure), f"`bind` to keep {case.measure}", bound)
    name = type(bound).__name__
    expect(repr(bound).startswith(name), f"a text that starts with {name}", repr(bound))
    if bound is not case.measure:
        message = r"call `bind\(environment\)` first. Got \w"
        expect_error("no points", RuntimeError, message, lambda: case.measure(values, weights))


@LAWS()
def the_order_of_the_points_is_nothing(case: RiskMeasureCase, seed: int) -> None:
    r"""Values with their weights may come in any order."""
    values, weights, points = case.draw(seed=seed, ties=not case.sees_ties)
    order = torch.randperm(N_W, generator=torch.Generator().manual_seed(seed)).to(case.device)
    found = case.bind(points[order])(values[order], weights[order])
    expect_close("the risk in another order", found, case.bind(points)(values, weights), 1e-6)


@LAWS()
def a_shift_of_the_values_shifts_the_risk(case: RiskMeasureCase, seed: int) -> None:
    r"""A sure gain is worth what it is; a share moves with its threshold."""
    values, weights, points = case.draw(seed=seed, ties=True)
    risk = case.bind(points)(values, weights)
    has_unit = case.measure.in_unit_of_outcome if _ours(case) else True
    expect(has_unit == (case.threshold is None), "a unit, unless it is a share", has_unit)
    if case.threshold is None:
        found = case.bind(points)(values + 2.5, weights) - 2.5
    else:
        moved = copy(case.measure)
        object.__setattr__(moved, "threshold", case.threshold + 2.5)  # it may be frozen
        found = replace(case, measure=moved).bind(points)(values + 2.5, weights)
    expect_close("the risk before the shift", found, risk, 1e-6)


@LAWS(lambda case: not case.sees_copies)
def a_point_may_be_given_as_two(case: RiskMeasureCase, seed: int) -> None:
    r"""Two copies of a point, each with half of its weight, are the point."""
    values, weights, points = case.draw(seed=seed)
    again = torch.tensor([*(range(N_W) if case.equal_weights else [0]), *range(N_W)])
    copies = again.bincount()[again].to(weights)
    again = again.to(case.device)
    found = case.bind(points[again])(values[again], weights[again] / copies)
    expect_close("the risk without copies", found, case.bind(points)(values, weights), 1e-6)


@LAWS(lambda case: not case.sees_weight_zero and not case.equal_weights)
def points_of_weight_zero_are_not_seen(case: RiskMeasureCase, seed: int) -> None:
    r"""Whatever their values are, large ones included, and the gradient there is 0."""
    values, weights, points = case.draw(seed=seed)
    measure = case.bind(points)

    def results(values: Tensor) -> Tensor:
        bounds = measure.bounds(values, values + 1, weights) if _ours(case) else ()
        return torch.stack([measure(values, weights), *bounds])

    expected = results(values)
    for other in (-100.0, 1e300, -1e300, 1e200):
        changed = values.clone()
        changed[2] = other
        changed.requires_grad_()
        found = results(changed)
        expect_close(f"the risk with no value {other:g} of weight 0", found, expected, 1e-12)
        (gradient,) = torch.autograd.grad(found.sum(), changed)
        expect(gradient.isfinite().all() and gradient[2] == 0, "no gradient there", gradient)


@LAWS()
def a_constant_is_its_own_risk(case: RiskMeasureCase) -> None:
    r"""Outcomes that are the same everywhere have that risk, under any weights."""
    _, weights, points = case.draw(3)
    equal, one = torch.full_like(weights[0], 1 / N_W), torch.eye(N_W).to(weights)[4]
    weights = torch.stack([*weights, equal, equal if case.equal_weights else one])
    values = weights.new_tensor([-3.0, 0.0, 1e-3, 2.0, 1e4])
    found = case.bind(points)(values.unsqueeze(-1).expand(-1, N_W), weights)
    expect_close("the constant", found, case.of_constant(values), 1e-7)


@LAWS()
def one_point_is_its_value(case: RiskMeasureCase) -> None:
    r"""Without uncertainty there is no risk, and bounds are the bounds of the value."""
    values = torch.tensor([[-2.0], [0.0], [0.5]], dtype=torch.float64, device=case.device)
    weights, points = values.new_ones(1), values.new_full((1, 2), 0.3)
    measure = case.bind(points)
    ends = case.of_constant(torch.cat([values, values + 1], dim=-1).T)
    expect_close("the value", measure(values, weights), ends[0], 1e-8)
    if not _ours(case):
        return
    lower, upper = measure.bounds(values, values + 1, weights)
    expect((lower <= ends[0] + 1e-8).all(), f"a lower bound of {ends[0]}", lower)
    expect((upper >= ends[1] - 1e-8).all(), f"an upper bound of {ends[1]}", upper)
    if case.measure.monotone:
        expect_close("tight bounds", torch.stack([lower, upper]), ends, 1e-8)


@LAWS(lambda case: case.measure.monotone if _ours(case) else True)
def raising_a_value_does_not_lower_the_risk(case: RiskMeasureCase, seed: int) -> None:
    r"""Of a measure that calls itself `monotone`; of others than a `RiskMeasure`, always."""
    values, weights, points = case.draw(seed=seed, ties=True)
    raised = values + case.draw(seed=seed + 1, ties=True)[0].clamp_min(0)
    gain = case.bind(points)(raised, weights) - case.bind(points)(values, weights)
    expect(gain >= -1e-6, "a risk that does not fall", f"{-gain} less")


@LAWS(_ours)
def bounds_hold_for_values_between_them(case: RiskMeasureCase, seed: int) -> None:
    r"""The risk of any values between `lower` and `upper` lies between its bounds."""
    values, weights, points = case.draw(seed=seed)
    measure = case.bind(points)
    generator = torch.Generator().manual_seed(seed)
    width = torch.rand(N_W, generator=generator, dtype=torch.float64).to(case.device) * 2
    lower, upper = measure.bounds(values, values + width, weights)
    few = 10 if measure.is_a_program else 200
    part = torch.rand(few, N_W, generator=generator, dtype=torch.float64).to(case.device)
    part[::2] = part[::2].round()  # the ends as well
    risk = measure(values + part * width, weights)
    expect((lower - 1e-6 <= risk).all(), f"risks above {lower}", risk.min())
    expect((risk <= upper + 1e-6).all(), f"risks below {upper}", risk.max())
    if case.bounds_are_tight:
        same = torch.stack(measure.bounds(values, values, weights))
        expect_close("the risk where the bounds meet", same, measure(values, weights).expand(2))


@LAWS(_unequal)
def bad_input_is_refused(case: RiskMeasureCase) -> None:
    r"""What is no table of numbers, or no distribution, has no risk."""
    values, weights, points = case.draw(2)
    measure, first = case.bind(points), torch.tensor([1], device=case.device)
    wrong, data = BotorchTensorDimensionError, InputDataError
    not_a_number = values.index_fill(-1, first, torch.nan)
    infinite = values.index_fill(-1, first, torch.inf)
    negative = weights - weights.amax(dim=-1, keepdim=True)
    for what, kind, message, call in (
        ("too few weights", wrong, "`weights` that broadcast", (values, weights[..., :-1])),
        (
            "weights of more replicates than values",
            wrong,
            "`weights` that broadcast",
            (values, weights.expand(3, *values.shape)),
        ),
        ("NaN", data, "finite `values`. Got nan", (not_a_number, weights)),
        (
            "whole numbers",
            data,
            "floating-point `values`. Got values.dtype=",
            (values.long(), weights),
        ),
        ("negative weights", data, "Got the smallest weight -", (values, negative)),
    ):
        expect_error(what, kind, message, lambda call=call: measure(*call))  # type: ignore[misc]
    message = "finite `values`. Got inf"
    expect_error("infinity", data, message, lambda: measure.bounds(values, infinite, weights))


@LAWS(_unequal)
def weights_sum_to_one(case: RiskMeasureCase, dtype: torch.dtype) -> None:
    r"""To rounding: the sum of weights may be off by 8e-7, and by 3e-4 in single precision."""
    values, weights, points = (part.to(dtype) for part in case.draw(2))
    measure, expected = case.bind(points), case.bind(points)(values, weights)
    near, far, tolerance = (8e-7, 1.2e-6, 1e-4) if dtype == torch.float64 else (3e-4, 4e-4, 2e-2)
    message = "that sum to 1. Got .* sums [012]"
    for factor in (1 - near, 1 + near):
        expect_close("the risk", measure(values, factor * weights), expected, tolerance)
    for factor in (0.5, 2, 1 - far, 1 + far):
        off = factor * weights
        for call in (
            lambda off=off: measure(values, off),
            lambda off=off: measure.bounds(values, values + 1, off),
        ):
            expect_error(f"weights {factor} times as large", InputDataError, message, call)


@LAWS(_ours)
def a_row_that_is_not_finite_leaves_the_others_alone(case: RiskMeasureCase) -> None:
    r"""Its risk is NaN, and its gradient 0."""
    values, weights, points = case.draw(3, 4)
    width, measure = case.draw(3, 4, seed=1)[0].abs(), case.bind(points)

    def results(values: Tensor) -> Tensor:
        bounds = measure.bounds(values, values + width, weights)
        return torch.stack([measure(values, weights), *bounds])

    for bad in (torch.nan, torch.inf, -torch.inf):
        broken, failed = values.clone(), torch.zeros(3, 4, dtype=torch.bool, device=case.device)
        broken[1, :, 5] = bad
        broken[2, 3, 2] = bad  # of weight 0
        failed[1], failed[2, 3] = True, True
        broken.requires_grad_()
        found, expected = results(broken), results(values)
        expect(found[:, failed].isnan().all(), "NaN", found[:, failed])
        expect_close("the risk of the others", found[:, ~failed], expected[:, ~failed], 1e-8)
        (gradient,) = torch.autograd.grad(found[0][~failed].sum(), broken)
        expect(gradient.isfinite().all(), "finite gradients", gradient)
        expect((gradient[failed] == 0).all(), "no gradient there", gradient[failed])

    means = measure.expected(values, width, weights)
    if means is not None:
        values[1] = torch.nan
        found = measure.expected(values, width, weights)
        expect(found[1].isnan().all(), "NaN", found[1])
        expect_close("the expected risk of the others", found[::2], means[::2], 1e-8)


def check_risk_measure(
    measure: Callable[..., Tensor], *, skip: Mapping[str, str] | None = None, **options: Any
) -> Report:
    r"""Checks a measure of risk against the laws that ours obey.

    Args:
        measure: A `RiskMeasure`, or a function of values `... x n_w` and their weights to a `...`
            tensor; larger values are better.
        skip: Laws that are known to be broken, and why.
        **options: `oracle`, which maps `n_w` values, their weights and their points as arrays to a
            number; `equal_weights`, whether it only supports these; `sees_copies`, whether
            splitting a point into two halves matters; `sees_weight_zero`, whether points of weight
            0 matter; `sees_ties`, whether the order of equal values does; `bounds_are_tight`,
            whether the bounds of a value known for sure are its risk; `threshold` of a share of
            outcomes; `gradient`, the step and tolerance of its check; `device`; `name`.

    Returns:
        The laws that hold.

    Raises:
        LawsBrokenError: If a law does not hold; the message gives the expected and the found
            values.

    Example:
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> check_risk_measure(ConditionalValueAtRisk(0.3)).broken
        {}
        >>> try:
        ...     check_risk_measure(lambda values, weights: values.mean(dim=-1))
        ... except AssertionError as error:
        ...     print(str(error).splitlines()[0])
        Expected 11 laws to hold. Got 3 broken:
    """
    options = {"name": "the risk measure", **options}
    return LAWS.check(RiskMeasureCase(measure=measure, **options), skip)
