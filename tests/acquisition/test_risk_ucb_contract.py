r"""The contract of every risk measure under every environment."""

import math
import pickle
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.exceptions.errors import UnsupportedError
from botorch.models import SingleTaskGP
from botorch_risk_testing.acquisition import LAWS, AcquisitionCase
from torch import Tensor

from botorch_risk.acquisition import RiskUpperConfidenceBound
from botorch_risk.environments import Environment
from botorch_risk.risk import (
    ChiSquareBall,
    ConditionalValueAtRisk,
    Expectation,
    KullbackLeiblerBall,
    MaximumMeanDiscrepancyBall,
    MeanVariance,
    MinimaxApproximation,
    RiskMeasure,
    TotalVariationBall,
    ValueAtRisk,
    WassersteinBall,
    WorstCase,
)
from botorch_risk.steady import steady
from tests import oracles
from tests.contracts import BATCH_SHAPES, DTYPES, gaussian_process
from tests.devices import home
from tests.engine.recorders import RECORDERS
from tests.environments.cases import ENVIRONMENTS, PERTURBATIONS, EnvironmentCase
from tests.risk.cases import RISK_MEASURES, RiskMeasureCase, risk_kernel

pytestmark = pytest.mark.every_device

BETA = 2.25
EVERY = [*ENVIRONMENTS, PERTURBATIONS]
WITH_OPTIMISERS = (
    "botorch_optimisers_maximise_it",
    "a_sequential_batch_repeats_no_point",
    "the_input_constructor_takes_what_ax_passes",
)


def meets(environment: EnvironmentCase, measure: RiskMeasureCase) -> bool:
    return environment is not PERTURBATIONS or not measure.needs_points


def marks_of(measure: RiskMeasureCase) -> list[pytest.MarkDecorator]:
    r"""One program per decision is slow; tests of the measure itself solve some in `make test`."""
    return [pytest.mark.slow] if "mmd_ball" in measure.name else []


every_pair = pytest.mark.parametrize(
    ("environment", "measure"),
    [
        pytest.param(
            environment, measure, id=f"{environment.name}-{measure.name}", marks=marks_of(measure)
        )
        for environment, measure in product(EVERY, RISK_MEASURES)
        if meets(environment, measure)
    ],
)
every_environment = pytest.mark.parametrize("environment", EVERY, ids=lambda case: case.name)
every_measure = pytest.mark.parametrize(
    "measure", [pytest.param(each, id=each.name, marks=marks_of(each)) for each in RISK_MEASURES]
)


def draw(*shape: int, seed: int = 1, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, generator=generator, dtype=torch.float64).to(home(), dtype)


def sizes(case: EnvironmentCase) -> tuple[int, int]:
    r"""Inputs of the model and decision variables; W, and each perturbation, has two."""
    return (2, 2) if case is PERTURBATIONS else (3, 1)


def build_model(case: EnvironmentCase, *batch: int, dtype: torch.dtype = torch.float64) -> Any:
    return gaussian_process(draw(*batch, 10, sizes(case)[0], seed=0, dtype=dtype))


def decisions(case: EnvironmentCase, *shape: int, **options: Any) -> Tensor:
    return draw(*shape, sizes(case)[1], seed=3, **options)


def environment_of(case: EnvironmentCase, *batch: int) -> Environment:
    return case.of(draw(*batch, 7, 2), n_w=case.few)


def build(
    environment: EnvironmentCase, measure: RiskMeasureCase, *batch: int, **options: Any
) -> RiskUpperConfidenceBound:
    model, space = build_model(environment, *batch), environment_of(environment, *batch)
    return RiskUpperConfidenceBound(model, space, measure.measure, beta=BETA, **options)


def pointwise_bounds(
    model: SingleTaskGP, environment: Environment, X: Tensor, index: tuple[int, ...]
) -> tuple[np.ndarray, ...]:
    r"""Mean, half-width, weights and points at the entry `index` of `X: batch_shape x m x d_x`."""
    inputs, weights = environment.expand(X)
    posterior = model.posterior(inputs[..., index[-1], :, :].movedim(-2, 0).unsqueeze(-2))
    entry = (slice(None), *index[:-1], 0, 0)
    mean, variance = posterior.mean[entry], posterior.variance[entry]
    distribution = weights.expand(inputs.shape[:-1])[index]
    points = inputs[(*index, slice(None), slice(X.shape[-1], None))]
    width = math.sqrt(BETA) * variance.sqrt()
    return tuple(map(oracles.to_numpy, (mean, width, distribution, points)))


@every_pair
@pytest.mark.filterwarnings("ignore:The model inputs are of type torch.float32")
def test_bounds_equal_the_oracle(environment: EnvironmentCase, measure: RiskMeasureCase) -> None:
    for batch, dtype in zip(BATCH_SHAPES, [torch.float64, *DTYPES], strict=True):
        model = build_model(environment, *batch, dtype=dtype)
        observed = draw(*batch, 7, 2, dtype=dtype)
        space = environment.of(observed, n_w=environment.few)
        acqf = RiskUpperConfidenceBound(model, space, measure.measure, beta=BETA)
        X = decisions(environment, *batch, 2, dtype=dtype)
        bounds = torch.stack([acqf.lower(X), acqf.mean(X), acqf.upper(X)])
        assert bounds.shape == (3, *batch, 2)
        assert bounds.dtype == dtype
        assert bounds.device == home()
        last = (*(size - 1 for size in batch), 1)
        lower, centre, upper = bounds[(slice(None), *last)].tolist()
        mean, width, *rest = pointwise_bounds(model, space, X, last)
        tolerance = 1e-5 if dtype == torch.float64 else 1e-2
        assert lower - tolerance <= centre <= upper + tolerance
        assert centre == pytest.approx(measure.oracle(mean, *rest), abs=tolerance)
        if measure.measure.monotone:
            for found, values in ((lower, mean - width), (upper, mean + width)):
                assert found == pytest.approx(measure.oracle(values, *rest), abs=tolerance)


@pytest.mark.parametrize(
    ("environment", "measure"),
    [
        pair
        for pair in product(EVERY, RISK_MEASURES)
        if meets(*pair) and not pair[1].measure.monotone
    ],
    ids=lambda case: case.name,
)
def test_bounds_hold_where_the_measure_is_not_monotone(
    environment: EnvironmentCase, measure: RiskMeasureCase
) -> None:
    acqf, X = build(environment, measure), decisions(environment, 1)
    mean, width, *rest = pointwise_bounds(acqf.model, acqf.environment, X, (0,))
    share = np.random.default_rng(0).uniform(-1, 1, size=(10, len(mean)))
    share[::2] = np.sign(share[::2])  # the ends as well
    risks = [measure.oracle(mean + part * width, *rest) for part in share]
    assert acqf.lower(X).item() - 1e-6 <= min(risks)
    assert max(risks) <= acqf.upper(X).item() + 1e-6


@every_pair
def test_batch_equals_loop_and_nothing_is_random(
    environment: EnvironmentCase, measure: RiskMeasureCase
) -> None:
    acqf, X = build(environment, measure, 2), decisions(environment, 2, 3)
    values = acqf.evaluate(X)
    assert torch.equal(acqf.evaluate(X), values)
    assert torch.equal(build(environment, measure, 2).evaluate(X), values)
    for r in range(2):
        one = slice(r, r + 1)
        model = gaussian_process(acqf.model.train_inputs[0][one])
        for alone, together in zip(model.parameters(), acqf.model.parameters(), strict=True):
            alone.data.copy_(together[one])
        space = environment.of(draw(2, 7, 2)[one], seeds=[r], n_w=environment.few)
        alone = RiskUpperConfidenceBound(model, space, measure.measure, beta=BETA)
        torch.testing.assert_close(alone.evaluate(X[one]), values[one], rtol=1e-6, atol=1e-6)


@every_pair
def test_pickle_and_state(environment: EnvironmentCase, measure: RiskMeasureCase) -> None:
    acqf, X = build(environment, measure), decisions(environment, 3)
    acqf.set_X_pending(X[:1])
    values = acqf.evaluate(X)
    # A GPU adds in an order of its own each time.
    torch.testing.assert_close(pickle.loads(pickle.dumps(acqf)).evaluate(X), values)
    model = build_model(environment)
    for parameter in model.parameters():
        parameter.data.add_(0.3)
    space = environment.of(0.8 * draw(7, 2), seeds=[9], n_w=environment.few)
    other = RiskUpperConfidenceBound(model, space, measure.measure, beta=1.0, X_pending=X[:1])
    assert not torch.allclose(other.evaluate(X), values) or measure.threshold is not None
    other.load_state_dict(acqf.state_dict())
    torch.testing.assert_close(other.evaluate(X), values, rtol=1e-7, atol=1e-7)


@every_pair
def test_pending_decisions_narrow_the_bounds(
    environment: EnvironmentCase, measure: RiskMeasureCase
) -> None:
    X = decisions(environment, 2)
    free = build(environment, measure)
    conditioned = build(environment, measure, X_pending=X[:1])
    assert (conditioned.upper(X) <= free.upper(X)).all()
    assert (conditioned.lower(X) >= free.lower(X)).all()
    if not measure.threshold is not None:  # whose bounds may stay on a step of the staircase
        assert (conditioned.upper(X) < free.upper(X)).all()
        assert (conditioned.lower(X) > free.lower(X)).all()
    torch.testing.assert_close(conditioned.mean(X), free.mean(X), rtol=1e-6, atol=1e-6)
    before = free.evaluate(X)
    free.set_X_pending(X[:1])
    torch.testing.assert_close(free.evaluate(X), conditioned.evaluate(X))
    free.set_X_pending(None)
    torch.testing.assert_close(free.evaluate(X), before)


@pytest.mark.parametrize(
    "environment",
    [case for case in EVERY if "quadrature" not in case.name],  # one node resolves no density
    ids=lambda case: case.name,
)
def test_one_point_is_botorchs_ucb(environment: EnvironmentCase) -> None:
    model, space = build_model(environment), environment.of(draw(7, 2), n_w=1)
    X = decisions(environment, 4)
    inputs, weights = space.expand(X)
    assert weights.unique().tolist() == [1.0]
    expected = UpperConfidenceBound(model, beta=BETA)(inputs)
    for measure in RISK_MEASURES:
        if environment is PERTURBATIONS and measure.needs_points:
            continue
        acqf = RiskUpperConfidenceBound(model, space, measure.measure, beta=BETA)
        bound = (
            (expected > measure.measure.threshold).to(X)
            if measure.threshold is not None
            else expected
        )
        torch.testing.assert_close(acqf.upper(X), bound, rtol=1e-6, atol=1e-6)


REDUCTIONS: list[tuple[RiskMeasure, RiskMeasure]] = [
    (TotalVariationBall(0.0), Expectation()),
    (TotalVariationBall(2.0), WorstCase(over="points")),
    (MaximumMeanDiscrepancyBall(0.0, risk_kernel), Expectation()),
    (MaximumMeanDiscrepancyBall(2.0, risk_kernel), WorstCase(over="points")),
    (KullbackLeiblerBall(0.0), Expectation()),
    (KullbackLeiblerBall(50.0), WorstCase()),
    (ChiSquareBall(0.0), Expectation()),
    (ChiSquareBall(1e9), WorstCase()),
    (WassersteinBall(0.0), Expectation()),
    (WassersteinBall(10.0), WorstCase(over="points")),
    (MinimaxApproximation(0.0, risk_kernel), Expectation()),
    (MinimaxApproximation(2.0, risk_kernel), WorstCase(over="points")),
    (MeanVariance(0.0), Expectation()),
    (ValueAtRisk(1e-9), WorstCase()),
    (ConditionalValueAtRisk(1e-9), WorstCase()),
]


@every_environment
def test_reductions(environment: EnvironmentCase) -> None:
    model, space = build_model(environment), environment_of(environment)
    X = decisions(environment, 3)
    for measure, limit in (*REDUCTIONS, (ConditionalValueAtRisk(1 - 1e-9), Expectation())):
        if environment is PERTURBATIONS and (
            hasattr(measure, "kernel") or hasattr(measure, "metric")
        ):
            continue
        ours, theirs = (
            RiskUpperConfidenceBound(model, space, each, beta=BETA) for each in (measure, limit)
        )
        torch.testing.assert_close(ours.mean(X), theirs.mean(X), rtol=1e-6, atol=1e-6)
        if not isinstance(measure, MinimaxApproximation):  # whose bounds are not tight
            torch.testing.assert_close(ours.upper(X), theirs.upper(X), rtol=1e-6, atol=1e-6)
            torch.testing.assert_close(ours.lower(X), theirs.lower(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "measure", [case for case in RISK_MEASURES if case.needs_points], ids=lambda case: case.name
)
def test_a_ball_over_points_cannot_meet_perturbations(measure: RiskMeasureCase) -> None:
    with pytest.raises(UnsupportedError, match=r"have no fixed `points`; use a risk measure that"):
        build(PERTURBATIONS, measure)


@every_pair
def test_a_bound_is_recorded_and_has_the_value_of_a_call(
    environment: EnvironmentCase, measure: RiskMeasureCase
) -> None:
    acqf, X = build(environment, measure), decisions(environment, 3)
    expected, record = (
        acqf.evaluate(0.9 * X),
        RECORDERS.get(home().type, lambda function, X: function),
    )
    with steady():
        acqf.evaluate(X)
        if measure.name.endswith("mmd_ball") and home().type in RECORDERS:  # its iterations look
            with pytest.raises(RuntimeError):
                record(acqf.evaluate, X)
        else:
            torch.testing.assert_close(record(acqf.evaluate, X)(0.9 * X), expected)


@every_measure
@pytest.mark.parametrize("name", WITH_OPTIMISERS)
def test_botorch_optimisers(measure: RiskMeasureCase, name: str) -> None:
    if measure.threshold is not None:  # flat at all raw samples, of which BoTorch warns
        return
    environment = environment_of(ENVIRONMENTS[0])
    arguments = {"environment": environment, "risk_measure": measure.measure, "beta": BETA}
    case = AcquisitionCase(
        name=measure.name,
        device=home(),
        build=lambda model: RiskUpperConfidenceBound(model, **arguments),
        model=lambda data: gaussian_process(draw(10, 4, seed=0)),
        arguments=arguments,
    )
    (law,) = (law for law in LAWS if law.name == name)
    law.check(case)
