r"""BoTorch's transforms and risk measures, where ours are expected."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.acquisition import risk_measures as of_one
from botorch.acquisition.multi_objective import multi_output_risk_measures as of_several
from botorch.acquisition.objective import GenericMCObjective
from botorch.models.transforms import input as transforms

from botorch_risk import environments as ours
from botorch_risk.acquisition import RiskUpperConfidenceBound
from botorch_risk.constraints import ConstrainedUpperConfidenceBound, RiskConstraint
from botorch_risk.models import Reduction, RobustModel
from botorch_risk.models.botorch_parts import as_environment, parts_of
from botorch_risk.papers import risk_kde
from botorch_risk.risk import ConditionalValueAtRisk, Expectation, WorstCase
from botorch_risk.robust import RiskObjective, pareto_search, robust
from botorch_risk.strategies import risk_search
from tests.models.risks import ENVIRONMENT, decisions, gp, two_outcomes

SHIFTS = 0.1 * torch.randn(5, 3, generator=torch.Generator().manual_seed(0)).double()
EQUAL = ours.DiscreteEnvironment(torch.linspace(0, 1, 5, dtype=torch.double)[:, None])
UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.double)
ALPHAS = (0.01, 0.2, 0.35, 0.5, 0.6, 0.8, 0.9, 1.0)  # on the edges of atoms, and between them


def doubled(X: Any) -> Any:
    return 2 * X


@pytest.mark.parametrize("n_w", [1, 5, 10, 49])
def test_measures_equal_botorchs_own(n_w: int) -> None:
    values = torch.randn(7, n_w, 1, dtype=torch.double)
    environment = ours.InputPerturbation(torch.zeros(n_w, 2, dtype=torch.double))
    measures = [kind(n_w) for kind in (of_one.WorstCase, of_one.Expectation)]
    measures += [kind(alpha, n_w) for alpha in ALPHAS for kind in (of_one.VaR, of_one.CVaR)]
    for measure in measures:
        _, counterpart = parts_of(environment, measure)
        found = counterpart(values.squeeze(-1), environment.weights)
        torch.testing.assert_close(found, measure(values).squeeze(-1), msg=repr(counterpart))


@pytest.mark.parametrize("n_w", [5, 10])
def test_measures_of_several_outcomes_are_taken_of_each(n_w: int) -> None:
    values = torch.randn(7, n_w, 2, dtype=torch.double)
    environment = ours.InputPerturbation(torch.zeros(n_w, 2, dtype=torch.double))
    measures = [of_several.MultiOutputWorstCase(n_w), of_several.MultiOutputExpectation(n_w)]
    kinds = (of_several.IndependentVaR, of_several.IndependentCVaR)
    measures += [kind(alpha, n_w) for alpha in ALPHAS for kind in kinds]
    for measure in measures:
        _, counterpart = parts_of(environment, measure)
        found = counterpart(values.mT, environment.weights)
        torch.testing.assert_close(found, measure(values).squeeze(-2))


@pytest.mark.parametrize("bounds", [None, torch.tensor([[0.0] * 3, [1.0] * 3]).double()])
def test_transforms_make_the_same_points(bounds: Any) -> None:
    X = decisions(2, 4, d=3)
    transform = transforms.InputPerturbation(SHIFTS, bounds=bounds).eval()
    points, weights = as_environment(transform).expand(X)
    assert torch.equal(points.flatten(-3, -2), transform(X))
    torch.testing.assert_close(weights, torch.full((1, 5), 0.2, dtype=torch.double))
    appended = transforms.AppendFeatures(EQUAL.points).eval()
    points, _ = as_environment(appended).expand(X)
    assert torch.equal(points.flatten(-3, -2), appended(X))


def test_every_place_of_a_measure_takes_botorchs_objects() -> None:
    shifts, cvar = transforms.InputPerturbation(SHIFTS), of_one.CVaR(0.8, 5)
    as_before = ours.InputPerturbation(SHIFTS), ConditionalValueAtRisk(0.4)
    X = decisions(4, 1, d=3)
    places: list[Callable[..., Any]] = [
        lambda *parts: robust(gp(), *parts).model.posterior(X).mean,
        lambda *parts: robust(two_outcomes(), *parts).model.posterior(X).mean,
        lambda one, two: robust(two_outcomes(), [one, one], [two, two]).model.posterior(X).mean,
        lambda *parts: RobustModel(gp(), [Reduction(0, *parts)]).posterior(X).mean,
        lambda *parts: RiskUpperConfidenceBound(gp(), *parts, beta=4.0)(X),
        lambda *parts: RiskConstraint(*parts, 0.1, outcome=0).bound(gp(), 1.0)(X),
        lambda *parts: RiskObjective(*parts)(decisions(20, d=1), X=X[:, 0]),
    ]
    for place in places:
        torch.testing.assert_close(place(shifts, cvar), place(*as_before))


def test_strategies_take_botorchs_objects() -> None:
    options: dict[str, Any] = {"environment": transforms.AppendFeatures(EQUAL.points)}
    measure = of_one.VaR(0.8, 5)
    strategy = risk_search(UNIT, 0, risk_measure=measure, num_initial=3, **options)
    assert strategy.ask().shape == (1, 3, 1)
    strategy = pareto_search(
        UNIT, 0, risk_measure=measure, reference_point=[0.0, 0.0], num_initial=3, **options
    )
    assert strategy.ask().shape == (1, 3, 1)


@pytest.mark.parametrize(
    "transform",
    [
        transforms.InputPerturbation(SHIFTS, multiplicative=True),
        transforms.InputPerturbation(doubled),
        transforms.InputPerturbation(SHIFTS, indices=[0, 1, 2]),
        transforms.AppendFeatures(f=doubled, indices=[0]),
        transforms.Normalize(3),
    ],
)
def test_a_transform_without_counterpart_is_refused_in_one_line(transform: Any) -> None:
    with pytest.raises(ValueError, match=r"subclass `botorch_risk.environments.Environment`"):
        robust(gp(), transform, WorstCase())


def test_what_botorch_would_ignore_is_not_ignored() -> None:
    with pytest.raises(ValueError, match=r"equal weights for BoTorch's `CVaR`.*ConditionalValueAt"):
        robust(gp(), ENVIRONMENT, of_one.CVaR(0.5, 4))
    with pytest.raises(ValueError, match=r"an environment of 7 values.*use `Expectation\(\)`"):
        robust(gp(), EQUAL, of_one.Expectation(7))
    weighted = of_one.CVaR(0.8, 5, GenericMCObjective(lambda samples, X=None: -samples[..., 0]))
    with pytest.raises(ValueError, match="without a `preprocessing_function`"):
        robust(gp(), EQUAL, weighted)
    for measure in (of_several.MVaR(5, 0.8), of_several.MARS(0.8, 5, [0.5, 0.5])):
        with pytest.raises(ValueError, match="Expected a measure of one outcome at a time"):
            robust(two_outcomes(), EQUAL, measure)
    with pytest.raises(TypeError, match=r"Use `ConditionalValueAtRisk\(risk_level=0.4\)`"):
        risk_kde(UNIT, 0, context_bounds=UNIT, risk_measure=of_one.CVaR(0.8, 5))  # type: ignore[arg-type]


def test_a_function_among_the_constraints_is_refused_in_one_line() -> None:
    def function(samples: Any) -> Any:
        return samples[..., 1]

    bound = RiskUpperConfidenceBound(gp(), EQUAL, Expectation(), beta=1.0)
    risks = [Expectation(), Expectation()]
    options: dict[str, Any] = {"environment": EQUAL, "constraints": [function]}
    for call in (
        lambda: robust(two_outcomes(), EQUAL, Expectation(), constraints=[function]),  # type: ignore[list-item]
        lambda: ConstrainedUpperConfidenceBound(two_outcomes(), bound, [function]),  # type: ignore[list-item]
        lambda: risk_search(UNIT, 0, risk_measure=Expectation(), **options),
        lambda: pareto_search(UNIT, 0, risk_measure=risks, reference_point=[0.0, 0.0], **options),
    ):
        with pytest.raises(TypeError, match="functions of samples are `constraints`"):
            call()  # type: ignore[no-untyped-call]
