from typing import Any

import pytest
import torch
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.exceptions.core import UserInputError
from botorch.exceptions.errors import UnsupportedError

from botorch_risk.acquisition import RiskUpperConfidenceBound, select_lacing_value
from botorch_risk.ax import value_at_risk
from botorch_risk.constraints import ConstrainedUpperConfidenceBound
from botorch_risk.gradients import condition
from botorch_risk.risk import ConditionalValueAtRisk, Expectation, MeanVariance, WorstCase
from tests.ax.laboratory import node_of

WINDS = {"wind": ([0.1, 5.0, 10.0], [0.2, 0.6, 0.2])}
ANGLE = RangeParameterConfig("angle", (0.0, 1.0), parameter_type="float")
WIND = RangeParameterConfig("wind", (0.0, 10.0), parameter_type="float")


def simulator(
    objective: str = "range", parameters: Any = (ANGLE, WIND), constraints: Any = (), **options: Any
) -> Client:
    client = Client()
    client.configure_experiment(name="simulator", parameters=parameters)
    client.configure_optimization(objective=objective, outcome_constraints=constraints)
    client.set_generation_strategy(value_at_risk(WINDS, num_initial=4, **options))
    return client


def play(client: Client, num_trials: int) -> list[Any]:
    asked = []
    for _ in range(num_trials):
        for index, parameters in client.get_next_trials(max_trials=1).items():
            angle, wind = float(parameters["angle"]), float(parameters["wind"])
            client.complete_trial(index, {"range": -((angle - 0.3) ** 2) - wind * angle / 20})
            asked.append(parameters)
    return asked


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["range", "-range"])
@pytest.mark.parametrize("measure", [None, ConditionalValueAtRisk(0.3)])
def test_the_context_is_a_lacing_value_of_the_decision(objective: str, measure: Any) -> None:
    client = simulator(objective, risk_measure=measure, rule="probability")
    *_, last = play(client, 6)
    assert node_of(client, 5) == "value_at_risk"
    assert last["wind"] in WINDS["wind"][0]
    adapter: Any = client._generation_strategy.adapter
    bound = adapter.generator._acquisition.acqf.bound
    assert isinstance(bound, RiskUpperConfidenceBound)
    decision = torch.tensor([[last["angle"]]], dtype=torch.double)
    expected = select_lacing_value(bound, decision, "probability", seeds=0)
    probability = dict(zip(*WINDS["wind"], strict=True))
    assert probability[last["wind"]] == probability[expected[0, 1].item()]  # ties are at random


def test_pending_trials_and_batches_are_kept_apart() -> None:
    client = simulator()
    play(client, 4)
    batch = client.get_next_trials(max_trials=2)
    later = client.get_next_trials(max_trials=1)
    points = [*batch.values(), *later.values()]
    assert {each["wind"] for each in points} <= set(WINDS["wind"][0])
    angles = torch.tensor([[each["angle"]] for each in points], dtype=torch.double)
    assert torch.pdist(angles).amin() >= 0.1 * (1 - 1e-4)  # of the range, as in a strategy


def test_a_context_that_is_fixed_stays() -> None:
    client = simulator()
    play(client, 4)
    (asked,) = client.get_next_trials(max_trials=1, fixed_parameters={"wind": 7.5}).values()
    assert asked["wind"] == 7.5


@pytest.mark.slow
def test_outcome_constraints_hold_under_the_risk() -> None:
    client = simulator(constraints=["cost <= 0.6"], risk_measure=WorstCase())
    for _ in range(6):
        for index, parameters in client.get_next_trials(max_trials=1).items():
            angle, wind = float(parameters["angle"]), float(parameters["wind"])
            client.complete_trial(index, {"range": angle, "cost": angle * (0.5 + wind / 20)})
    adapter: Any = client._generation_strategy.adapter
    acqf = adapter.generator._acquisition.acqf
    assert isinstance(acqf.bound, ConstrainedUpperConfidenceBound)
    assert parameters["wind"] in WINDS["wind"][0]
    # In the worst wind the cost is the angle.
    assert abs(float(parameters["angle"]) - 0.6) < 0.1


def variances_left(model: Any, angle: float) -> dict[float, float]:
    r"""The variance of the mean over the wind, once each wind was read, by conditioning."""
    winds, shares = (torch.tensor(each, dtype=torch.double) for each in WINDS["wind"])
    rows = torch.stack([torch.full_like(winds, angle), winds], dim=-1)
    left = {}
    for row, wind in zip(rows, winds.tolist(), strict=True):
        with torch.no_grad():
            told = condition(model, row[None], torch.zeros(1, 1).double())
            covariance = told.posterior(rows).distribution.covariance_matrix
        left[wind] = (shares @ covariance @ shares).item()
    return left


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["range", "-range"])
def test_the_context_may_be_the_one_that_tells_most_of_the_risk(objective: str) -> None:
    client = simulator(objective, risk_measure=Expectation(), value_rule="risk_variance")
    *_, last = play(client, 6)
    adapter: Any = client._generation_strategy.adapter
    bound = adapter.generator._acquisition.acqf.bound
    left = variances_left(bound.model, float(last["angle"]))
    assert last["wind"] == min(left, key=left.__getitem__)


@pytest.mark.slow
@pytest.mark.parametrize("value_rule", ["risk_variance", "outcome_variance"])
def test_other_rules_take_any_risk_with_constraints_and_pending_trials(value_rule: str) -> None:
    client = simulator(
        "-range",
        constraints=["cost <= 0.6"],
        risk_measure=MeanVariance(1.0),
        constraint_risk_measure=WorstCase(),
        value_rule=value_rule,
    )
    for _ in range(5):
        for index, parameters in client.get_next_trials(max_trials=1).items():
            angle, wind = float(parameters["angle"]), float(parameters["wind"])
            cost = angle * (0.5 + wind / 20)
            client.complete_trial(index, {"range": -angle * wind, "cost": cost})
    batch = client.get_next_trials(max_trials=3)
    points = [(each["angle"], each["wind"]) for each in batch.values()]
    assert len(set(points)) == 3  # what is pending counts as read
    assert {wind for _, wind in points} <= set(WINDS["wind"][0])


def test_bad_input() -> None:
    with pytest.raises(ValueError, match=r"`value_rule` to be one of .*Got 'best'"):
        value_at_risk(WINDS, value_rule="best")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"as many probabilities as values"):
        value_at_risk({"wind": ([0.0, 1.0], [1.0])})
    with pytest.raises(ValueError, match=r"probabilities of at least 0 that sum to 1"):
        value_at_risk({"wind": ([0.0, 1.0], [0.6, 0.6])})
    with pytest.raises(ValueError, match=r"`rule` to be one of"):
        value_at_risk(WINDS, rule="best")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match=r"a risk measure among .* Got MeanVariance"):
        value_at_risk(WINDS, risk_measure=MeanVariance(1.0))


def of_wind(**options: Any) -> RangeParameterConfig:
    return RangeParameterConfig(
        "wind", **{"bounds": (0.0, 10.0), "parameter_type": "float"} | options
    )


def choice_of(values: list[Any], kind: Any = "int", is_ordered: bool = True) -> Any:
    return ChoiceParameterConfig("wind", values, parameter_type=kind, is_ordered=is_ordered)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ((WIND, ANGLE), r"\['wind'\] to be the last parameters.*Got \['wind', 'angle'\]"),
        ((ANGLE, of_wind(bounds=(0.0, 8.0))), r"values within its bounds \[0, 8\]. Got 10"),
        (
            (ANGLE, of_wind(bounds=(0.01, 10.0), scaling="log")),
            r"a range on a linear scale .* Got a log scale",
        ),
        (
            (ANGLE, of_wind(bounds=(0, 10), parameter_type="int")),
            r"whole numbers within its bounds \[0, 10\]. Got 0.1",
        ),
        ((ANGLE, choice_of([5, 10, 20])), r"values among \[5, 10, 20\]. Got 0.1"),
        ((ANGLE, choice_of(["a", "b"], "str")), r"ordered numbers .* Got a choice of \['a', 'b'\]"),
        (
            (ANGLE, choice_of([1, 2, 3], is_ordered=False)),
            r"Got an unordered choice of \[1, 2, 3\]",
        ),
    ],
)
def test_a_context_that_cannot_be_set_ends_the_first_request(parameters: Any, message: str) -> None:
    client = simulator(parameters=parameters)
    with pytest.raises(UserInputError, match=message):
        client.get_next_trials(max_trials=1)


@pytest.mark.parametrize(
    "wind", [of_wind(bounds=(0, 20), parameter_type="int"), choice_of([5, 10])]
)
def test_whole_numbers_and_listed_values_can_be_set(wind: Any) -> None:
    client = Client()
    client.configure_experiment(name="simulator", parameters=(ANGLE, wind))
    client.configure_optimization(objective="range")
    client.set_generation_strategy(value_at_risk({"wind": ([5.0, 10.0], [0.5, 0.5])}))
    assert client.get_next_trials(max_trials=1)
