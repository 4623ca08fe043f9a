r"""NumPy arrays, lists and whole numbers are taken wherever a user passes a tensor.

The example of each public name is called again with its tensors in the other forms that they have.
"""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchError
from botorch.models import SingleTaskGP
from botorch_risk_testing.environments import EnvironmentCase
from botorch_risk_testing.risk_measures import RiskMeasureCase
from torch import Tensor

from botorch_risk.acquisition import (
    JointRiskUpperConfidenceBound,
    RiskAverseUpperConfidenceBound,
    RiskUpperConfidenceBound,
    decisions_to_compare,
)
from botorch_risk.arguments import as_floating, as_tensor, check_finite, check_positive
from botorch_risk.constraints.noise_quantile import NoiseDeviationBound
from botorch_risk.engine import fit_exact_gp
from botorch_risk.environments import (
    DiscreteEnvironment,
    IndependentEnvironment,
    KernelDensityEnvironment,
)
from botorch_risk.level_sets import ExpectedClassification, RiskStraddle, Straddle
from botorch_risk.models import MeanVarianceGP, RepeatedOutcomes
from botorch_risk.papers import NoiseLevels
from botorch_risk.recommend import recommend, recommend_everywhere
from botorch_risk.repeats import next_readings, repeat_advice
from botorch_risk.risk import ConditionalValueAtRisk, Expectation
from botorch_risk.risk.ball import Ball
from botorch_risk.risk.measure import PickingRiskMeasure
from botorch_risk.risk.mmd import UncertifiedWorstCaseError
from botorch_risk.robust import robust
from botorch_risk.strategies import Strategy, risk_search
from tests.calls import called, first_call
from tests.environments.cases import ENVIRONMENTS, PERTURBATIONS
from tests.held_numbers import assert_equal_numbers
from tests.public_objects import Public, hints_of, holds_tensor, public_objects
from tests.risk.cases import RISK_MEASURES

PUBLIC: dict[str, Any] = {
    **public_objects(),
    **{each.__name__: each for each in (recommend, recommend_everywhere)},
    **{each.__name__: each for each in (next_readings, repeat_advice)},
}
FORMS: dict[str, Callable[[Tensor], Any]] = {
    "lists": Tensor.tolist,
    "arrays": lambda each: each.numpy(force=True),
    "integers": lambda each: each.long() if each.dtype == torch.bool else each.round().long(),
}
MADE_BY_OTHERS = {
    "papers.TruncatedVarianceState": "a state, whose classmethod takes the domain",
    "strategies.History": "a state, which a strategy makes",
}
SLOW = ("papers.maximize_value_at_risk",)
REFUSALS = (TypeError, ValueError, BotorchError, UncertifiedWorstCaseError)


def tensors_of(value: Public) -> list[str]:
    r"""The arguments that are tensors, by their types."""
    hints = hints_of(value)
    return [name for name, hint in hints.items() if name != "return" and holds_tensor(hint)]


CALLED_AGAIN = [
    pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])
    for name, value in PUBLIC.items()
    if tensors_of(value) and name not in MADE_BY_OTHERS
    if not (hasattr(value, "_fields") or inspect.isabstract(value))  # results, which nobody builds
]


def assert_same(expected: Any, found: Any) -> None:
    r"""The same kind, and the same numbers wherever it holds some; lists are float64."""
    if isinstance(expected, Strategy):
        assert_same(expected.ask(), found.ask())
    assert_equal_numbers(found, expected, rtol=1e-4, atol=1e-5)


def result(value: Public, arguments: dict[str, Any]) -> Any:
    r"""What a call gives from the same state of the generator, or the class of its refusal."""
    torch.manual_seed(0)
    try:
        return called(value, arguments)
    except REFUSALS as error:
        assert str(error).startswith("Expected")
        return type(error)


def example_of(value: Public) -> dict[str, Any]:
    torch.manual_seed(0)
    return first_call(value) or {}


def assert_taken_or_refused(value: Public, argument: str, form: str) -> None:
    r"""That an argument of its example, in another form, gives what its tensor gives."""
    arguments = example_of(value)
    given = arguments[argument]
    if form == "integers" and not given.isfinite().all():
        return  # no whole number is NaN
    if form == "integers" and given.is_floating_point():
        given = given.round()  # which may be out of range, and then in any form
    expected = result(value, {**arguments, argument: given})
    again = example_of(value)  # what a call has fitted is not fitted again
    found = result(value, {**again, argument: FORMS[form](given)})
    if form == "integers" and given.dtype == torch.bool and isinstance(found, type):
        return  # what is true or false may refuse numbers
    assert form == "integers" or not isinstance(expected, type)
    assert_same(expected, found)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CALLED_AGAIN)
def test_other_forms_of_the_numbers_are_taken_or_refused(name: str, form: str) -> None:
    arguments = example_of(PUBLIC[name])
    for argument in tensors_of(PUBLIC[name]):
        if isinstance(arguments.get(argument), Tensor):
            assert_taken_or_refused(PUBLIC[name], argument, form)


def test_most_public_names_with_tensors_are_called_again() -> None:
    examples = {row.values[0]: first_call(PUBLIC[row.values[0]]) for row in CALLED_AGAIN}
    assert len([name for name, arguments in examples.items() if arguments]) > 80


@pytest.mark.parametrize("values", [[[1.0], [2.0, 3.0]], "abc", ["a"], [None], object(), {"a": 1}])
@pytest.mark.parametrize("convert", [as_tensor, lambda name, values: as_floating(values, name)])
def test_what_is_no_table_of_numbers_is_refused_by_its_name(
    convert: Callable[..., Any], values: Any
) -> None:
    with pytest.raises(TypeError, match="Expected `bounds` to be a tensor, or an array or a list"):
        convert("bounds", values)


def test_forms_keep_their_numbers() -> None:
    array = np.array([[0.1], [0.2]], dtype=np.float32)
    found = as_tensor("X", array)
    array[0] = 9.0
    assert found.dtype == torch.float32 and found[0] == np.float32(0.1)  # a copy
    assert as_tensor("X", [[1, 2]]).dtype == torch.int64
    assert as_tensor("X", [True]).dtype == torch.bool
    assert as_tensor("X", [[0.5]]).dtype == as_floating([[1]]).dtype == torch.float64
    assert as_tensor("X", None) is None
    tensor = torch.ones(2, requires_grad=True)
    assert as_tensor("X", tensor) is as_floating(tensor) is tensor
    with pytest.raises(TypeError, match=r"Expected `X` to be a tensor, .* Got None"):
        as_floating(None, "X")


@pytest.mark.parametrize("number", ["1", b"1", None, [1.0, 2.0], torch.ones(2)])
def test_what_is_no_number_is_refused_by_its_name(number: Any) -> None:
    for check in (check_finite, check_positive):
        with pytest.raises(TypeError, match=r"Expected `threshold` to be a number. Got"):
            check(threshold=number)


def test_numbers_are_not_rounded_to_float32() -> None:
    X = torch.linspace(0, 1, 18, dtype=torch.double).reshape(9, 2)
    model = SingleTaskGP(X, X.sum(dim=-1, keepdim=True).sin())
    straddle = RiskStraddle(model, DiscreteEnvironment(X[:4, :1]), Expectation(), threshold=0.3)
    assert straddle.threshold.item() == 0.3


def of_measure(case: RiskMeasureCase) -> dict[str, tuple[Any, ...]]:
    r"""What a measure is asked: methods with their arguments."""
    values, weights, points = case.draw(2)
    measure = case.bind(points)
    asked: dict[str, tuple[Any, ...]] = {
        "__call__": (measure, values, weights),
        "bounds": (measure.bounds, values, values + 1, weights),
    }
    if measure.expected(values, values.abs(), weights) is not None:
        asked["expected"] = (measure.expected, values, values.abs(), weights)
    if isinstance(measure, PickingRiskMeasure):
        asked["pick"] = (measure.pick, values, weights)
    if isinstance(measure, Ball):
        asked["worst_distribution"] = (measure.worst_distribution, values, weights)
        asked["distance"] = (measure.distance, weights, weights.roll(1, dims=-1))
    return asked


def of_environment(case: EnvironmentCase) -> dict[str, tuple[Any, ...]]:
    r"""What an environment is asked: methods with their arguments."""
    environment: Any = case.of(case.values(2, 7))
    X = torch.rand(2, 3, 2, dtype=torch.double)
    asked: dict[str, tuple[Any, ...]] = {
        "expand": (environment.expand, X),
        "range": (environment.range, torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double()),
        "contains": (environment.contains, X, X),
    }
    if isinstance(environment, IndependentEnvironment):
        asked["supports"] = (environment.supports, X)
        if case.density != "refused":
            asked["log_density"] = (environment.log_density, X)
    if isinstance(environment, KernelDensityEnvironment):
        asked["condition"] = (lambda new: environment.condition(new).points, X)
    return asked


def of_others() -> dict[str, tuple[Any, ...]]:
    X = torch.linspace(0, 1, 18, dtype=torch.double).reshape(9, 2)
    observed = torch.arange(9) < 7
    w = DiscreteEnvironment(X[:4, :1])

    def fitted(observed: Any) -> Tensor:
        model = SingleTaskGP(X, X.sum(dim=-1, keepdim=True).sin())
        fit_exact_gp(model, observed=observed)
        return model.covar_module.lengthscale

    def summarised(*statistics: Any) -> tuple[Tensor, ...]:
        outcomes = RepeatedOutcomes.from_summary(*statistics)
        return outcomes.means, outcomes.variances, outcomes.counts

    model = SingleTaskGP(X, X.sum(dim=-1, keepdim=True).sin())
    bound = RiskUpperConfidenceBound(model, w, Expectation(), beta=4.0)
    return {
        "fit_exact_gp": (fitted, observed),
        "from_summary": (summarised, X[:, :1], X[:, 1:] + 0.1, torch.full((9, 1), 3)),
        "decisions_to_compare": (lambda X: decisions_to_compare(bound, X, 4), X[:, :1]),
    }


def of_replicates() -> dict[str, tuple[Any, ...]]:
    r"""One number for each replicate, and lists that examples give as tuples or leave out."""
    X = torch.rand(3, 9, 2, dtype=torch.double)
    Y = X.sin().sum(dim=-1, keepdim=True)
    model = SingleTaskGP(X, Y).eval()
    noisy = MeanVarianceGP(X, Y + 0.1 * torch.randn(3, 9, 4).double()).eval()
    w, beta = DiscreteEnvironment(X[0, :4, 1:]), torch.tensor([1.0, 2.0, 3.0]).double()
    parts = model, w, ConditionalValueAtRisk(0.3)
    box, x = torch.tensor([[0.0], [1.0]]).double(), X[..., :1]

    def levels(variances: Any, costs: Any) -> tuple[float, ...]:
        known = NoiseLevels(variances, costs)
        return (*known.variances, *known.costs)

    def searched(beta: Any) -> Any:
        return risk_search(box, [0, 1, 2], environment=w, risk_measure=Expectation(), beta=beta)

    return {
        "bound": (lambda beta: RiskUpperConfidenceBound(*parts, beta).evaluate(x), beta),
        "joint": (lambda beta: JointRiskUpperConfidenceBound(*parts, beta).evaluate(x), beta),
        "straddle": (lambda h, beta: Straddle(model, h, beta).evaluate(X), beta, beta),
        "straddle of a risk": (lambda h: RiskStraddle(*parts, h).evaluate(x), beta),
        "classes": (lambda h: ExpectedClassification(*parts, x, h).evaluate(x), beta),
        "mean and noise": (
            lambda *each: RiskAverseUpperConfidenceBound(noisy, *each).evaluate(X),
            *(beta, beta, beta),
        ),
        "noise": (lambda beta: NoiseDeviationBound(noisy, beta).evaluate(X), beta),
        "levels": (levels, torch.tensor([0.25, 0.5]), torch.tensor([2.0, 1.0])),
        "objectives": (
            lambda rows: robust(*parts, objectives=rows).model.posterior(x[:, :1]).mean,
            torch.tensor([0]),
        ),
        "search": (lambda beta: torch.as_tensor(searched(beta).method.recipe.beta), beta),
    }


ASKED: dict[str, Callable[[], dict[str, tuple[Any, ...]]]] = {
    **{case.name: partial(of_measure, case) for case in RISK_MEASURES},
    **{case.name: partial(of_environment, case) for case in (*ENVIRONMENTS, PERTURBATIONS)},
    "others": of_others,
    "replicates": of_replicates,
}


@pytest.mark.parametrize("form", ["lists", "arrays"])
@pytest.mark.parametrize("name", ASKED)
def test_methods_take_the_forms_that_constructors_take(name: str, form: str) -> None:
    for method, (call, *tensors) in ASKED[name]().items():
        try:
            found = call(*(FORMS[form](each) for each in tensors))
        except (*REFUSALS, AttributeError, RuntimeError) as error:
            raise AssertionError(f"{method} refuses {form}") from error
        assert_same(call(*tensors), found)
