r"""The contract of every measure of risk."""

import pickle

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from botorch_risk.risk import RiskMeasure
from tests import oracles
from tests.contracts import BATCH_SHAPES, DTYPES
from tests.devices import home
from tests.risk.cases import RISK_MEASURES, RiskMeasureCase

pytestmark = pytest.mark.every_device

N_W = 7

every = pytest.mark.parametrize("case", RISK_MEASURES, ids=lambda case: case.name)
monotone = pytest.mark.parametrize(
    "case", [case for case in RISK_MEASURES if case.measure.monotone], ids=lambda case: case.name
)
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])
batches = pytest.mark.parametrize("batch_shape", BATCH_SHAPES, ids=str)
seeds = given(seed=st.integers(0, 2**31))
examples = settings(max_examples=25, deadline=None, derandomize=True)


def draw(
    *batch_shape: int, seed: int = 0, ties: bool = False, shared: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Values, weights and points; one point has weight 0, and some values may be equal."""
    generator = torch.Generator().manual_seed(seed)
    options = {"generator": generator, "dtype": torch.float64}
    values = torch.randn(*batch_shape, N_W, **options)
    if ties:
        values = values.round()
    weights = torch.rand(*(() if shared else batch_shape), N_W, **options)
    weights[..., 2] = 0.0
    points = torch.rand(N_W, 2, **options)
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return values.to(home()), weights.to(home()), points.to(home())


def close(ours: Tensor, theirs: Tensor, tolerance: float = 1e-6) -> None:
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


@every
@dtypes
@batches
@pytest.mark.parametrize("shared", [False, True], ids=["weights", "shared_weights"])
def test_equals_the_oracle(
    case: RiskMeasureCase, dtype: torch.dtype, batch_shape: tuple[int, ...], shared: bool
) -> None:
    values, weights, points = draw(*batch_shape, shared=shared)
    measure = case.bind(points)
    risk = measure(values.to(dtype), weights.to(dtype))
    assert risk.shape == batch_shape
    assert risk.dtype == dtype
    assert risk.device == home()
    each = weights.expand_as(values)

    def single(index: tuple[int, ...]) -> np.float64:
        row = (values[index], each[index], points)
        return np.float64(case.oracle(*map(oracles.to_numpy, row)))

    expected = oracles.loop(batch_shape, single)
    close(risk.double().cpu(), expected, 1e-6 if dtype == torch.float64 else 1e-3)


@every
def test_batch_equals_loop(case: RiskMeasureCase) -> None:
    values, weights, points = draw(2, 3)
    measure = case.bind(points)
    singly = oracles.loop((2, 3), lambda index: measure(values[index], weights[index]))
    close(measure(values, weights), singly, 1e-8)


@every
def test_gradient(case: RiskMeasureCase) -> None:
    values, weights, points = draw(2)
    measure, (step, tolerance) = case.bind(points), case.gradient
    values.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda v: measure(v, weights), values, eps=step, atol=tolerance, rtol=tolerance
    )


@every
def test_determinism_pickle_and_repr(case: RiskMeasureCase) -> None:
    values, weights, points = draw(3)
    measure = case.bind(points)
    risk = measure(values, weights)
    assert torch.equal(measure(values, weights), risk)
    assert torch.equal(pickle.loads(pickle.dumps(measure))(values, weights), risk)
    assert repr(measure) == repr(case.measure)
    assert repr(measure).startswith(type(measure).__name__)


@every
@examples
@seeds
def test_order_of_the_points_and_shift_of_the_values(case: RiskMeasureCase, seed: int) -> None:
    values, weights, points = draw(seed=seed, ties=True)
    risk = case.bind(points)(values, weights)
    order = torch.randperm(N_W, generator=torch.Generator().manual_seed(seed)).to(home())
    if "minimax" not in case.name:  # with ties, which point counts as the smallest depends on it
        close(case.bind(points[order])(values[order], weights[order]), risk)
    shifted = case.bind(points)(values + 2.5, weights)
    if case.is_a_share:
        close(type(case.measure)(case.measure.threshold + 2.5)(values + 2.5, weights), risk)
    else:
        close(shifted, risk + 2.5)


@every
@examples
@seeds
def test_points_of_weight_zero_and_copies(case: RiskMeasureCase, seed: int) -> None:
    values, weights, points = draw(seed=seed)
    risk = case.bind(points)(values, weights)
    if not case.sees_copies:
        again = [0, *range(N_W)]
        halved = weights[again]
        halved[:2] /= 2
        close(case.bind(points[again])(values[again], halved), risk)
    if not case.sees_weight_zero:
        changed = values.clone()
        changed[2] = -100.0
        close(case.bind(points)(changed, weights), risk, 1e-12)


@every
def test_a_constant_is_its_own_risk(case: RiskMeasureCase) -> None:
    _, weights, points = draw(3)
    equal, one = torch.full_like(weights[0], 1 / N_W), torch.eye(N_W).to(weights)[4]
    weights = torch.stack([*weights, equal, one])
    values = weights.new_tensor([-3.0, 0.0, 1e-3, 2.0, 1e4]).unsqueeze(-1).expand(-1, N_W)
    expected = values[:, 0] > case.measure.threshold if case.is_a_share else values[:, 0]
    close(case.bind(points)(values, weights), expected.to(values), 1e-7)


@every
def test_one_point_is_its_value(case: RiskMeasureCase) -> None:
    values = torch.tensor([[-2.0], [0.0], [0.5]], dtype=torch.float64, device=home())
    weights, points = values.new_ones(1), values.new_full((1, 2), 0.3)
    measure = case.bind(points)
    lower, upper = measure.bounds(values, values + 1, weights)
    ends = torch.cat([values, values + 1], dim=-1).T
    if case.is_a_share:
        ends = (ends > case.measure.threshold).to(ends)
    close(measure(values, weights), ends[0], 1e-8)
    assert (lower <= ends[0] + 1e-8).all()
    assert (upper >= ends[1] - 1e-8).all()
    if case.measure.monotone:
        close(torch.stack([lower, upper]), ends, 1e-8)


@monotone
@examples
@seeds
def test_monotone(case: RiskMeasureCase, seed: int) -> None:
    values, weights, points = draw(seed=seed, ties=True)
    measure = case.bind(points)
    raised = values + draw(seed=seed + 1, ties=True)[0].clamp_min(0)
    assert measure(raised, weights) >= measure(values, weights) - 1e-6


@every
@examples
@seeds
def test_bounds_hold_for_values_between_them(case: RiskMeasureCase, seed: int) -> None:
    values, weights, points = draw(seed=seed)
    measure = case.bind(points)
    generator = torch.Generator().manual_seed(seed)
    width = torch.rand(N_W, generator=generator, dtype=torch.float64).to(home()) * 2
    lower, upper = measure.bounds(values, values + width, weights)
    part = torch.rand(200, N_W, generator=generator, dtype=torch.float64).to(home())
    part[::2] = part[::2].round()  # the ends as well
    between = values + part * width
    if "mmd" in case.name:
        between = between[:10]
    risk = measure(between, weights)
    assert (lower - 1e-6 <= risk).all()
    assert (risk <= upper + 1e-6).all()
    same = measure.bounds(values, values, weights)
    if "minimax" not in case.name:
        close(torch.stack(same), measure(values, weights).expand(2))


@every
def test_bad_input(case: RiskMeasureCase) -> None:
    values, weights, points = draw(2)
    measure, first = case.bind(points), torch.tensor([1], device=home())
    with pytest.raises(BotorchTensorDimensionError, match=r"`weights` that broadcast"):
        measure(values, weights[..., :-1])
    with pytest.raises(BotorchTensorDimensionError, match=r"`weights` that broadcast"):
        measure(values, weights.expand(3, *values.shape))  # of more replicates than values
    with pytest.raises(InputDataError, match=r"finite `values`. Got nan"):
        measure(values.index_fill(-1, first, torch.nan), weights)
    with pytest.raises(InputDataError, match=r"finite `values`. Got inf"):
        measure.bounds(values, values.index_fill(-1, first, torch.inf), weights)
    with pytest.raises(InputDataError, match=r"floating-point `values`. Got values.dtype="):
        measure(values.long(), weights)
    with pytest.raises(InputDataError, match=r"Got the smallest weight -"):
        measure(values, weights - weights.amax(dim=-1, keepdim=True))
    for factor in (0.5, 2, 1 - 1.2e-6, 1 + 1.2e-6):
        for call in (measure, lambda v, w: measure.bounds(v, v + 1, w)):
            with pytest.raises(InputDataError, match=r"that sum to 1. Got .* sums [012]"):
                call(values, factor * weights)
    for factor in (1 - 8e-7, 1 + 8e-7):
        close(measure(values, factor * weights), measure(values, weights), 1e-4)


@every
def test_weights_of_single_precision_may_be_further_off(case: RiskMeasureCase) -> None:
    values, weights, points = (part.float() for part in draw(2))
    measure = case.bind(points)
    for factor in (1 - 3e-4, 1 + 3e-4):
        close(measure(values, factor * weights), measure(values, weights), 2e-2)
    for factor in (1 - 4e-4, 1 + 4e-4):
        with pytest.raises(InputDataError, match=r"that sum to 1. Got .* sums [01]"):
            measure(values, factor * weights)


@every
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_a_replicate_that_is_not_finite_leaves_the_others_alone(
    case: RiskMeasureCase, bad: float
) -> None:
    values, weights, points = draw(3, 4)
    measure, broken = case.bind(points), values.clone()
    broken[1, :, 5] = bad
    broken[2, 3, 2] = bad  # of weight 0
    failed = torch.zeros(3, 4, dtype=torch.bool, device=home())
    failed[1], failed[2, 3] = True, True
    broken.requires_grad_()
    width = draw(3, 4, seed=1)[0].abs()
    results = (
        (measure(broken, weights), measure(values, weights)),
        *zip(
            measure.bounds(broken, broken + width, weights),
            measure.bounds(values, values + width, weights),
            strict=True,
        ),
    )
    for found, expected in results:
        assert found[failed].isnan().all()
        close(found[~failed], expected[~failed], 1e-8)
    (gradient,) = torch.autograd.grad(results[0][0][~failed].sum(), broken)
    assert gradient.isfinite().all()
    assert (gradient[failed] == 0).all()


@every
@examples
@seeds
def test_huge_values_outside_the_support_are_not_seen(case: RiskMeasureCase, seed: int) -> None:
    if case.sees_weight_zero:
        return
    values, weights, points = draw(seed=seed)
    measure = case.bind(points)
    expected = (measure(values, weights), *measure.bounds(values, values + 1, weights))
    for huge in (1e300, -1e300, 1e200):
        lower, upper = values.clone(), values + 1
        lower[2] = upper[2] = huge
        lower.requires_grad_()
        found = (measure(lower, weights), *measure.bounds(lower, upper, weights))
        close(torch.stack(found), torch.stack(expected), 1e-12)
        (gradient,) = torch.autograd.grad(sum(found), lower)
        assert gradient.isfinite().all()
        assert gradient[2] == 0


@every
def test_measures_that_need_no_points_bind_to_themselves(case: RiskMeasureCase) -> None:
    values, weights, points = draw()
    bound = case.bind(points)
    assert isinstance(bound, RiskMeasure)
    if case.needs_points:
        with pytest.raises(RuntimeError, match=r"call `bind\(environment\)` first. Got [MW]"):
            case.measure(values, weights)
    else:
        assert bound is case.measure
