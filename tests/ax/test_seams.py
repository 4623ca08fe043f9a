r"""Where Ax and this package meet: what counts, what is refused, and what goes on."""

import math
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.core.parameter import ParameterType, RangeParameter
from ax.core.search_space import SearchSpace
from ax.exceptions.core import DataRequiredError, UnsupportedError, UserInputError
from botorch.acquisition import LogExpectedImprovement
from botorch.exceptions.warnings import BotorchWarning, InputDataWarning

from botorch_risk.ax import (
    NoiseSlicePlot,
    RiskFrontierPlot,
    best_arm,
    readings,
    risk_averse,
    under_perturbed_inputs,
    under_uncertain_context,
    value_at_risk,
    with_random_exploration,
)
from botorch_risk.ax.random_exploration import _best_outcomes
from botorch_risk.tables.with_ax import filled_table, finite_table
from tests.ax.laboratory import adapter_of, card_of

pytestmark = [pytest.mark.filterwarnings("ignore:Parameterization .* is in out-of-design")]
X = RangeParameterConfig("x", (0.0, 1.0), "float")
W = RangeParameterConfig("w", (0.0, 1.0), "float")
TABLE = [
    ChoiceParameterConfig("a", ["p", "q", "r"], "str", is_ordered=False),
    ChoiceParameterConfig("s", ["u", "v", "w"], "str", is_ordered=False),
]
ROWS = (("q", "u", 0.9), ("q", "v", 0.9), ("p", "v", 0.2), ("r", "u", 0.5))


def client_of(
    strategy: Any, parameters: Any = (X,), objective: str = "y", limits: Any = (), rules: Any = ()
) -> Client:
    client = Client()
    client.configure_experiment(list(parameters), parameter_constraints=list(rules))
    client.configure_optimization(objective, list(limits))
    client.set_generation_strategy(strategy)
    return client


def tell(client: Client, parameters: Any, outcome: Any) -> int:
    index = client.attach_trial(parameters)
    client.complete_trial(index, outcome)
    return index


def trend(limits: Any = (), **options: Any) -> Client:
    r"""The purer the larger x is, of the same noise; `k` is x."""
    client = client_of(risk_averse("y", num_initial=2), limits=limits, **options)
    for x in (0.1, 0.3, 0.5, 0.7, 0.9):
        tell(client, {"x": x}, {**readings({"y": [x, x + 0.01, x - 0.01]}), "k": x})
    return client


def filled(scale: float = 1.0) -> Client:
    client = client_of(finite_table(["a"], ["s"], num_initial=2), TABLE)
    for a, s, y in ROWS:
        tell(client, {"a": a, "s": s}, {"y": scale * (y - 0.5)})
    return client


@pytest.mark.parametrize("value_rule", ["lacing", "risk_variance", "outcome_variance"])
def test_a_constraint_on_a_context_that_is_chosen_is_refused(value_rule: Any) -> None:
    strategy = value_at_risk({"w": ([0.0, 0.5, 1.0], [0.2, 0.6, 0.2])}, value_rule=value_rule)
    client = client_of(strategy, [X, W], rules=["x + w <= 1.0"])
    with pytest.raises(UserInputError, match=r"constraints on decisions only .* with \['w'\]"):
        client.get_next_trials(max_trials=1)


def test_a_look_changes_nothing_and_the_present_objective_counts() -> None:
    client = trend()
    assert best_arm(client).parameters == {"x": 0.9}
    client.configure_optimization("-y")
    assert best_arm(client).parameters == {"x": 0.1}
    assert card_of(client, RiskFrontierPlot()).df.query("recommended")["trial_index"].item() == 0
    (asked,) = client.get_next_trials(max_trials=1).values()
    assert asked["x"] < 0.2


def test_the_present_limits_count() -> None:
    client = trend(limits=["k <= 0.8"])
    assert best_arm(client).parameters == {"x": 0.7}
    client.configure_optimization("y", ["k <= 0.4"])
    found = best_arm(client)
    assert (found.parameters, found.feasible) == ({"x": 0.3}, True)


@pytest.mark.parametrize("end", ["mark_trial_failed", "mark_trial_abandoned", "still running"])
def test_a_table_learns_from_completed_trials_alone(end: str) -> None:
    client = client_of(finite_table(["a"], ["s"], num_initial=2), TABLE)
    index = client.attach_trial({"a": "p", "s": "u"})
    client.attach_data(index, {"y": 99.0})
    if end != "still running":
        getattr(client, end)(index)
    for a, s, y in ROWS:
        tell(client, {"a": a, "s": s}, {"y": y})
    found = filled_table(client).recommend()
    assert found.condition == ("q",) and found.risk < 2


def test_the_bandit_learns_from_completed_trials_alone() -> None:
    client = client_of(with_random_exploration(risk_averse("y")))
    for end in ("mark_trial_failed", "mark_trial_abandoned"):
        index = client.attach_trial({"x": 0.5})
        client.attach_data(index, {"y": 99.0})
        getattr(client, end)(index)
    client.attach_data(client.attach_trial({"x": 0.4}), {"y": 99.0})
    index = tell(client, {"x": 0.3}, {"y": 1.0})
    assert _best_outcomes(client._experiment) == {index: 1.0}
    client.configure_optimization("-y")
    assert _best_outcomes(client._experiment) == {index: -1.0}


def test_what_is_recommended_was_measured_in_the_search_space() -> None:
    client = trend()
    tell(client, {"x": 1.5}, readings({"y": [9.0, 9.1]}))
    tell(client, {"x": 0.95}, {"k": 0.9})  # without the objective
    assert best_arm(client).parameters == {"x": 0.9}


def test_a_category_that_left_the_space_is_not_recommended() -> None:
    kinds = ChoiceParameterConfig("u", ["a", "b"], "str", is_ordered=False)
    client = client_of(risk_averse("y", num_initial=2), [X, kinds])
    for x, u in ((0.1, "a"), (0.3, "b"), (0.5, "a"), (0.9, "old")):
        tell(client, {"x": x, "u": u}, readings({"y": [x, x + 0.01]}))
    assert best_arm(client).parameters == {"x": 0.5, "u": "a"}


def test_nothing_to_recommend_says_so() -> None:
    client = client_of(risk_averse("y", num_initial=2))
    for x in (1.2, 1.4, 1.6):
        tell(client, {"x": x}, readings({"y": [x, x + 0.01]}))
    with pytest.raises(DataRequiredError, match=r"inside the search space with \['y'\]"):
        best_arm(client)


def said(call: Callable[[], Any]) -> str:
    r"""The warnings of BoTorch's classes that a call gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    ours = (BotorchWarning, InputDataWarning)
    return " ".join(str(each.message) for each in caught if issubclass(each.category, ours))


def test_decimals_that_are_lost_are_warned_of_in_tables_and_contexts() -> None:
    assert said(lambda: filled_table(filled())) == ""
    assert "10 decimals are enough" in said(lambda: filled_table(filled(1e-10)))
    strategy = under_uncertain_context("y", {"h": (0.0, 1e-9)}, num_initial=2)
    client = client_of(strategy)
    for x in (0.1, 0.5, 0.9):
        tell(client, {"x": x}, {"y": x, "h": 0.37e-9 * (1 + x)})
    assert re.search("10 decimals are enough.*'h'", said(lambda: adapter_of(client)))


def test_the_runner_up_is_another_decision() -> None:
    strategy = value_at_risk({"w": ([0.0, 0.5, 1.0], [0.2, 0.6, 0.2])}, num_initial=2)
    client = client_of(strategy, [X, W])
    for x, w in ((0.5, 0.0), (0.5, 0.5), (0.1, 0.5), (0.9, 1.0)):
        tell(client, {"x": x, "w": w}, {"y": 1 - (x - 0.5) ** 2 - 0.3 * w})
    found = best_arm(client)
    assert found.runner_up is not None
    assert found.parameters["x"] != found.runner_up.parameters["x"]


@pytest.mark.parametrize("end", ["complete", "abandon"])
def test_a_pair_outside_the_table_is_named_and_left_out(end: str) -> None:
    client = filled()
    index = client.attach_trial({"a": "old", "s": "u"})
    if end == "complete":
        client.complete_trial(index, {"y": 9.0})
    else:
        client.mark_trial_abandoned(index)
    asked: list[Any] = []
    told = said(lambda: asked.extend(client.get_next_trials(max_trials=1).values()))
    assert f"Got other pairs in the trials [{index}]" in told
    assert asked[0]["a"] in "pqr"


@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")
@pytest.mark.parametrize("values", [[0.0, 0.0], [1.0, -1.0]])
def test_equal_first_outcomes_do_not_stop_an_experiment(values: list[float]) -> None:
    client = client_of(risk_averse("y", num_initial=3))
    for x in (0.1, 0.5, 0.9):
        tell(client, {"x": x}, readings({"y": values}))
    assert 0 <= client.get_next_trials(max_trials=1)[3]["x"] <= 1


def test_a_switch_to_observed_contexts_waits_for_some() -> None:
    client = client_of(risk_averse("y", num_initial=2))
    for x in (0.1, 0.5, 0.9):
        tell(client, {"x": x}, {"y": x, "k": x})
    client.set_generation_strategy(under_uncertain_context("y", {"h": (0.0, 1.0)}, num_initial=3))
    client.configure_tracking_metrics(["h"])
    asked: dict[int, Any] = {}
    for h in (0.2, 0.6):
        told = said(lambda: asked.update(client.get_next_trials(max_trials=1)))
        assert "Expected the contexts ['h'] next to the objective" in told
        index = max(asked)
        client.complete_trial(index, {"y": asked[index]["x"], "h": h})
    assert "Got 3 without" in said(lambda: asked.update(client.get_next_trials(max_trials=1)))
    assert max(asked) == 5


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        ((0.4, 0.0), r"positive standard errors of 'y' .* Got 0.0 in trial 3"),
        (0.4, r"positive standard errors of 'y' .* Got nan in trial 3"),
    ],
)
def test_a_standard_error_that_cannot_be_names_trial_and_metric(outcome: Any, message: str) -> None:
    client = client_of(risk_averse("y", num_initial=2))
    for x in (0.1, 0.5, 0.9):
        tell(client, {"x": x}, {"y": (x, 0.1)})
    tell(client, {"x": 0.4}, {"y": outcome})
    with pytest.raises(UserInputError, match=message):
        client.get_next_trials(max_trials=1)


CONTEXT = {"h": (0.0, 1.0)}
LATE = [
    (lambda: risk_averse("y"), "y + k", (), (X,), UnsupportedError, r"one metric .*'y \+ k'"),
    (
        lambda: under_uncertain_context("h", CONTEXT),
        "h",
        (),
        (X,),
        UserInputError,
        r"neither the objective nor constrained\. Got \['h'\]",
    ),
    (
        lambda: under_uncertain_context("y", CONTEXT),
        "y",
        ("h <= 0.4",),
        (X,),
        UserInputError,
        r"neither the objective nor constrained\. Got \['h'\]",
    ),
    (
        lambda: value_at_risk({"x": ([0.0, 1.0], [0.5, 0.5])}),
        "y",
        (),
        (X,),
        UserInputError,
        r"parameters other than the contexts \['x'\]",
    ),
]


@pytest.mark.parametrize(("strategy", "objective", "limits", "parameters", "kind", "message"), LATE)
def test_what_cannot_be_done_fails_the_first_request(
    strategy: Any, objective: str, limits: Any, parameters: Any, kind: Any, message: str
) -> None:
    with pytest.raises(kind, match=message):
        client_of(strategy(), parameters, objective, limits).get_next_trials(max_trials=1)


WRONG: list[tuple[Any, Any, str]] = [
    (lambda: risk_averse(["y"]), TypeError, r"`metric` to be the name .* Got \['y'\]"),
    (lambda: risk_averse("y", acquisition="qLogEI"), TypeError, r"a class\. Got 'qLogEI'"),
    (
        lambda: risk_averse("y", acquisition=LogExpectedImprovement),
        TypeError,
        r"arguments of LogExpectedImprovement: .* Got \['risk_aversion'\]",
    ),
    (
        lambda: risk_averse("y", acquisition_options={"betta": 3.0}),
        TypeError,
        r"arguments of RiskAverseUpperConfidenceBound: .*'beta'.* Got \['betta'\]",
    ),
    (lambda: under_uncertain_context("y", ["h"]), ValueError, r"by name\. Got \['h'\]"),
    (lambda: under_uncertain_context("y", {"h": 3.0}), ValueError, r"bounds of each context"),
    (
        lambda: under_uncertain_context("y", {"h": (0.0, math.inf)}),
        ValueError,
        r"finite bounds of the context 'h', .* Got \(0.0, inf\)",
    ),
    (lambda: under_perturbed_inputs({"x": "0.1"}), TypeError, r"deviations\['x'\].* number"),
    (lambda: value_at_risk({"w": (0.0, 1.0)}), ValueError, r"values of each context and their"),
    (lambda: with_random_exploration(None), TypeError, r"a generation strategy\. Got None"),
    (lambda: best_arm(None), TypeError, r"a client of Ax\. Got None"),
]


@pytest.mark.parametrize(("call", "kind", "message"), WRONG)
def test_wrong_arguments_are_named(call: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


def test_parameters_that_depend_on_others_make_no_table() -> None:
    parameters = [
        ChoiceParameterConfig(
            "a", ["p", "q"], "str", is_ordered=False, dependent_parameters={"p": ["s"], "q": []}
        ),
        TABLE[1],
    ]
    client = client_of(finite_table(["a"], ["s"], num_initial=2), parameters)
    with pytest.raises(UserInputError, match="Got a hierarchical space"):
        client.get_next_trials(max_trials=1)


def test_a_card_says_why_it_does_not_apply() -> None:
    client = trend()
    assert "Expected a parameter in ['x']. Got 'X'" in card_of(client, NoiseSlicePlot("X")).blob


def test_the_present_search_space_counts(tmp_path: Path) -> None:
    client = trend()
    best_arm(client)
    client._experiment.search_space = SearchSpace(
        [RangeParameter("x", ParameterType.FLOAT, lower=0.0, upper=2.0)]
    )
    client.save_to_json_file(str(tmp_path / "client.json"))
    loaded = Client.load_from_json_file(str(tmp_path / "client.json"))
    asked = [each.get_next_trials(max_trials=1)[5]["x"] for each in (client, loaded)]
    assert asked[0] == asked[1] > 1.0


def test_data_that_are_attached_later_count() -> None:
    client = trend()
    index = tell(client, {"x": 0.95}, {"k": 0.95})
    assert best_arm(client).parameters == {"x": 0.9}
    client.attach_data(index, readings({"y": [5.0, 5.01]}))
    assert best_arm(client).trial_index == index
