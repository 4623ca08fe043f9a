r"""Arguments that are refused in one line, and those that are right in any form."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import pytest
import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.exceptions.errors import BotorchError
from torch import Tensor

from botorch_risk.acquisition import RiskAverseUpperConfidenceBound, RiskUpperConfidenceBound
from botorch_risk.acquisition.pointwise import as_finite
from botorch_risk.arguments import (
    as_floating,
    check_arguments,
    check_bounds,
    check_counts,
    check_finite,
    check_integers,
    check_nonnegative,
    check_positive,
    check_probability,
    check_rows,
)
from botorch_risk.ax import readings
from botorch_risk.bandits import Exp3
from botorch_risk.constraints import ConstrainedUpperConfidenceBound, RiskConstraint
from botorch_risk.engine import gen_candidates_quasi_newton
from botorch_risk.frames import SingleExperiment
from botorch_risk.models import MeanVarianceGP
from botorch_risk.papers import rahbo
from botorch_risk.recommend import recommend, recommend_everywhere
from botorch_risk.risk import Expectation, WorstCase
from botorch_risk.robust import robust
from botorch_risk.strategies import Box
from botorch_risk.strategies.states import sealed
from botorch_risk.test_functions import FiniteDomainProblem
from tests.acquisition.botorch_checks import noisy
from tests.models.risks import ENVIRONMENT, batched, decisions, gp, shifts, two_outcomes

RIGHT: list[tuple[Callable[..., None], list[float]]] = [
    (check_finite, [-1.0, 0.0, 1e300]),
    (check_nonnegative, [0.0, 5e-324, 1e300]),
    (check_positive, [5e-324, 1e300]),
    (check_probability, [5e-324, 1 - 2**-53]),
    (check_integers, [-1, 0, True, np.int32(3), torch.tensor(3)]),
    (check_counts, [1, np.int64(1), torch.tensor(2)]),
]

WRONG: list[tuple[Callable[..., None], list[float], str]] = [
    (check_finite, [math.nan, math.inf, -math.inf], "a finite `size`"),
    (check_nonnegative, [math.nan, math.inf, -5e-324], "`size` to be finite and >= 0"),
    (check_positive, [math.nan, math.inf, 0.0, -0.0], "`size` to be finite and > 0"),
    (check_probability, [math.nan, 0.0, 1.0, math.inf], r"`size` in \(0, 1\)"),
    (check_integers, [math.nan, 1.0, np.float64(2)], "`size` to be an integer"),
    (check_counts, [math.nan, 1.5, 1.0], "`size` to be an integer"),
    (check_counts, [0, -1, torch.tensor(0)], "`size` to be at least 1"),
]


@pytest.mark.parametrize(("check", "numbers"), RIGHT)
def test_right_numbers_pass(check: Callable[..., None], numbers: list[float]) -> None:
    for number in numbers:
        check(other=numbers[0], size=number)


@pytest.mark.parametrize(("check", "numbers", "said"), WRONG)
def test_wrong_numbers_are_named(
    check: Callable[..., None], numbers: list[float], said: str
) -> None:
    for number in numbers:
        with pytest.raises(ValueError, match=f"Expected {said}. Got ") as error:
            check(size=number)
        assert str(number).strip("tensor()") in str(error.value)


def test_the_least_count_is_the_callers() -> None:
    check_counts(0, size=0)
    check_counts(3, size=3, other=4)
    with pytest.raises(ValueError, match=r"`other` to be at least 3\. Got 2\."):
        check_counts(3, size=3, other=2)


def pause(rule: Literal["short", "long"], steps: int | None = None, then: Any = None) -> None:
    check_arguments(pause, locals())


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"rule": "never"}, ValueError, r"Expected `rule` to be one of \('short', 'long'\)\. Got"),
        ({"rule": 3}, ValueError, r"Expected `rule` to be one of .* Got 3\."),
        ({"rule": "short", "steps": "2"}, TypeError, r"`steps` to be an integer or None. Got '2'"),
    ],
)
def test_the_signature_says_what_an_argument_may_be(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        pause(**options)


def test_complex_numbers_are_refused_whole() -> None:
    for values in (torch.ones(2, 1, dtype=torch.complex64), np.ones((2, 1), dtype=complex)):
        with pytest.raises(TypeError, match=r"`points` to (hold real numbers|be a tensor).*Got"):
            as_floating(values, "points")


def test_numbers_of_any_library_are_numbers() -> None:
    def count(
        n: int, x: float, values: Sequence[int], flag: bool, table: Tensor, call: Callable[[], int]
    ) -> None:
        check_arguments(count, locals())

    count(np.int64(3), np.float32(0.5), np.array([1, 2]), np.bool_(True), [[1.0]], len)
    count(torch.tensor(3), torch.tensor(0.5), torch.tensor([1, 2]), False, np.eye(2), pause)
    with pytest.raises(TypeError, match=r"`values` to be a sequence, each an integer. Got 'ab'"):
        count(1, 1.0, "ab", True, torch.ones(1), len)  # type: ignore[arg-type]


X = decisions(5)
UNIT = [[0.0, 0.0], [1.0, 1.0]]
BOUND = RiskUpperConfidenceBound(gp(), ENVIRONMENT, Expectation(), beta=4.0)
CHANCE = RiskConstraint.chance(ENVIRONMENT, 4.0, outcome=1, delta=0.3)
MODELS: dict[str, Callable[[], Any]] = {"one": gp, "list": two_outcomes, "batched": batched}


def experiment(seed: int = 0) -> SingleExperiment:
    line = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    return SingleExperiment(rahbo(line, seed, num_repeats=2, risk_aversion=1.0, num_initial=3))


@pytest.mark.parametrize("build", MODELS.values(), ids=MODELS)
def test_a_model_of_risks_takes_the_points_that_botorchs_models_take(
    build: Callable[[], Any],
) -> None:
    model = robust(build(), ENVIRONMENT, WorstCase()).model
    batch = tuple(model.batch_shape)
    points = decisions(2, *batch, 1)
    expected = model.posterior(points.float().double()).mean
    torch.testing.assert_close(model.posterior(points.float()).mean, expected)
    torch.testing.assert_close(model.posterior(points.float().tolist()).mean, expected)
    torch.testing.assert_close(model.posterior(points.float().numpy()).mean, expected)
    none = model.posterior(points[:0])
    assert none.mean.shape == none.variance.shape == (0, *batch, 1, model.num_outputs)
    assert none.rsample(torch.Size([3])).shape == (3, 0, *batch, 1, model.num_outputs)
    for wrong in (points[..., :0, :], torch.rand(2, dtype=torch.double)):
        with pytest.raises(BotorchError, match="Expected decisions"):
            model.posterior(wrong)


@pytest.mark.parametrize("method", ["evaluate", "upper", "lower", "mean"])
def test_bounds_take_arrays_and_other_dtypes(method: str) -> None:
    constrained = ConstrainedUpperConfidenceBound(two_outcomes(), BOUND, [CHANCE])
    for bound in (BOUND, constrained, RiskAverseUpperConfidenceBound(noisy())):
        at = decisions(4, d=3) if bound.model.num_outputs == 1 and bound is not BOUND else X
        found = getattr(bound, method)(at)
        for other in (at.numpy(), at.tolist(), at.float()):
            torch.testing.assert_close(getattr(bound, method)(other), found, rtol=1e-4, atol=1e-4)


def test_environments_expand_arrays() -> None:
    for environment, at in ((ENVIRONMENT, X), (shifts(), decisions(4, d=3))):
        torch.testing.assert_close(environment.expand(at.tolist()), environment.expand(at))


def test_recommendations_take_arrays_and_whole_numbers() -> None:
    rule: Any = "recorded_lower_confidence_bound"
    for recorded in (torch.arange(5), [0, 1, 2, 3, 4], np.arange(5)):
        assert recommend(BOUND, X.tolist(), rule, recorded=recorded).row == 4  # type: ignore[arg-type]
    options: dict[str, Any] = {"seeds": 0, "num_restarts": 2, "raw_samples": 8}
    for evaluated in (X, X.tolist(), X[None].numpy()):
        found = recommend_everywhere(BOUND, UNIT, evaluated=evaluated, **options)  # type: ignore[arg-type]
        assert found.point.shape == (1, 2)


@pytest.mark.parametrize("points", [(torch.zeros(2, 1, 3).long()), [[[0.1, 0.2, 0.3]]]])
def test_starts_may_be_lists_or_whole_numbers(points: Any) -> None:
    acqf = UpperConfidenceBound(gp(), beta=2.0)
    ends, values = gen_candidates_quasi_newton(points, acqf, [0.0] * 3, np.ones(3))  # type: ignore[arg-type]
    assert ends.dtype == values.dtype == torch.double


@pytest.mark.parametrize("form", [lambda each: each.numpy(), lambda each: each.tolist()])
def test_an_experiment_is_told_arrays(form: Callable[[Any], Any]) -> None:
    by_tensor, by_array = experiment(), experiment()
    points = by_tensor.ask().repeat(2, 1)
    outcomes = points.sum(dim=-1) + 0.1 * torch.randn(6).double()
    by_tensor.tell(points, outcomes)
    by_array.tell(form(points), form(outcomes))
    assert torch.equal(by_array.ask(), by_tensor.ask())


def test_a_model_takes_rows_of_readings_of_several_lengths_as_lists() -> None:
    ragged = [[1.0, 2.0], [1.0, 2.0, 3.0], [0.0, 1.0]]
    model = MeanVarianceGP([[0], [1], [2]], ragged)  # type: ignore[arg-type]
    assert model.train_counts.flatten().tolist() == [2, 3, 2]
    assert model.posterior([[0.5]]).mean.shape == (1, 1)  # type: ignore[arg-type]


def test_readings_may_be_arrays_and_large() -> None:
    assert readings({"y": np.array([1.0, 3.0])}) == {"y": (2.0, 1.0), "y_count": 2}  # type: ignore[dict-item]
    assert readings({"y": [1e308, 1e308]}) == {"y": (1e308, 0.0), "y_count": 2}
    assert readings({"y": [-1e308, 1e308]}) == {"y": (0.0, 1e308), "y_count": 2}


STATE: Any = experiment().state_dict()

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no points": (lambda: recommend(BOUND, X[:0], "posterior_mean"), "at least one point"),
    "no points, with constraints": (
        lambda: recommend(
            ConstrainedUpperConfidenceBound(two_outcomes(), BOUND, [CHANCE]),
            X[:0],
            "posterior_mean",
        ),
        "at least one point",
    ),
    "one recorded number": (
        lambda: recommend(BOUND, X, "recorded_lower_confidence_bound", recorded=torch.tensor(1.0)),
        "Expected `recorded` lower bounds of shape",
    ),
    "evaluated is no table": (
        lambda: recommend_everywhere(BOUND, UNIT, seeds=0, raw_samples=10, evaluated=X[0]),  # type: ignore[arg-type]
        r"Expected `evaluated` to have shape `1 x n x 2`",
    ),
    "no starts": (
        lambda: gen_candidates_quasi_newton(X[:0, None], UpperConfidenceBound(gp(), 2.0)),
        "with at least one start",
    ),
    "an empty state": (
        lambda: experiment().load_state_dict({}),
        "Expected a state from `state_dict",
    ),
    "half a state": (
        lambda: experiment().load_state_dict(sealed({**STATE, "history": {}})),
        "Expected tensors named",
    ),
    "rounds of text": (
        lambda: experiment().load_state_dict(sealed({**STATE, "rounds": "x"})),
        "Expected the 'rounds' of",
    ),
    "an infinite reading": (lambda: readings({"y": [torch.inf, 1.0]}), "Expected finite readings"),
    "a table of readings": (lambda: readings({"y": [[1.0]]}), "Expected a list of the readings"),  # type: ignore[list-item]
    "text among readings": (lambda: readings({"y": ["a"]}), "Expected `y` to be a tensor"),  # type: ignore[list-item]
    "the threshold is text": (
        lambda: RiskConstraint(ENVIRONMENT, Expectation(), "1", 0),  # type: ignore[arg-type]
        "Expected `threshold` to be a number",
    ),
    "a category by its name": (
        lambda: Box(UNIT, categories=["Pd"]),  # type: ignore[arg-type,list-item]
        r"Expected `categories` to be a sequence, each an integer. Got \['Pd'\]",
    ),
    "one column": (lambda: Box(UNIT, integers=0), "Expected `integers` to be a sequence"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("call", "match"), REFUSED.values(), ids=REFUSED)
def test_it_is_refused_in_one_line(call: Callable[[], Any], match: str) -> None:
    with pytest.raises((TypeError, ValueError, BotorchError), match=match) as caught:
        call()
    assert "\n" not in str(caught.value)


MANY = torch.arange(5000.0).double()
WRONG_AT_7 = MANY.index_fill(0, torch.tensor(7), -math.inf)
EVEN = torch.full((5000, 2), 0.5)
NAMED: list[tuple[str, Callable[[], Any]]] = [
    ("noise", lambda: check_nonnegative(noise=WRONG_AT_7)),
    ("levels", lambda: as_finite("levels", WRONG_AT_7)),
    ("contexts", lambda: check_rows("contexts", WRONG_AT_7[:, None])),
    ("noise variances", lambda: FiniteDomainProblem(MANY[:, None], MANY, WRONG_AT_7)),
    ("purity", lambda: readings({"purity": WRONG_AT_7.tolist()})),
    ("column 7", lambda: check_bounds(torch.stack([MANY - 1, WRONG_AT_7]))),
    ("arms", lambda: Exp3.start(5000, 2).update(MANY.long() - 8, MANY, EVEN, 0.1)),
]


@pytest.mark.parametrize(("culprit", "call"), NAMED, ids=[name for name, _ in NAMED])
def test_an_error_names_the_first_wrong_entry_of_thousands(
    culprit: str, call: Callable[[], Any]
) -> None:
    with pytest.raises((ValueError, BotorchError), match=culprit) as raised:
        call()
    assert len(str(raised.value)) < 200
