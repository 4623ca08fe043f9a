import math
from typing import Any

import numpy as np
import pytest
import torch
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.exceptions.core import UserInputError

from botorch_risk.ax import best_arm, under_perturbed_inputs
from botorch_risk.constraints import ConstrainedUpperConfidenceBound
from botorch_risk.risk import ConditionalValueAtRisk, ValueAtRisk

HEAT = RangeParameterConfig("heat", (0.0, 1.0), parameter_type="float")
DOSE = RangeParameterConfig("dose", (0.01, 100.0), parameter_type="float", scaling="log")
STEPS = RangeParameterConfig("steps", (1, 9), parameter_type="int")
KIND = ChoiceParameterConfig("kind", values=["a", "b"], parameter_type="str", is_ordered=False)


def outcome(heat: float) -> float:
    r"""A narrow peak at 0.2, and a wide and lower one at 0.7."""
    return math.exp(-(((heat - 0.2) / 0.06) ** 2)) + 0.8 * math.exp(-(((heat - 0.7) / 0.25) ** 2))


def furnace(
    strategy: Any, parameters: Any = (HEAT,), objective: str = "purity", constraints: Any = ()
) -> Client:
    client = Client()
    client.configure_experiment(name="furnace", parameters=parameters)
    client.configure_optimization(objective=objective, outcome_constraints=constraints)
    client.set_generation_strategy(strategy)
    return client


def play(client: Client, num_trials: int, sign: float = 1.0) -> list[Any]:
    asked = []
    for _ in range(num_trials):
        for index, parameters in client.get_next_trials(max_trials=1).items():
            heat = float(parameters["heat"])
            found = {"purity": sign * outcome(heat), "cost": heat}
            known = client._experiment.metrics
            client.complete_trial(index, {name: found[name] for name in found if name in known})
            asked.append(parameters)
    return asked


def environment_of(client: Client) -> Any:
    adapter: Any = client._generation_strategy.adapter
    acqf = adapter.generator._acquisition.acqf
    return acqf.environment


@pytest.mark.slow
@pytest.mark.parametrize(("objective", "sign"), [("purity", 1.0), ("-purity", -1.0)])
def test_the_wide_peak_is_recommended(objective: str, sign: float) -> None:
    strategy = under_perturbed_inputs(
        {"heat": 0.1}, risk_measure=ConditionalValueAtRisk(0.3), num_initial=8
    )
    client = furnace(strategy, objective=objective)
    play(client, 14, sign)
    assert abs(float(best_arm(client).parameters["heat"]) - 0.7) < 0.1


@pytest.mark.slow
def test_errors_are_normal_and_stay_in_the_search_space() -> None:
    strategy = under_perturbed_inputs({"dose": 0.5, "heat": 0.2}, n_w=256, num_initial=3)
    client = furnace(strategy, parameters=(HEAT, STEPS, DOSE))
    play(client, 4)
    environment = environment_of(client)
    spread = environment.perturbations.std(dim=0)  # heat, steps, log10 of the dose
    np.testing.assert_allclose(spread, [0.2, 0.0, 0.5], rtol=0.05)
    assert environment.perturbations.mean(dim=0).abs().max() < 0.01
    carried_out, _ = environment.expand(torch.tensor([[0.95, 4.0, 1.9]], dtype=torch.double))
    assert carried_out[..., 0].max() == 1.0 and carried_out[..., 2].max() == 2.0


def test_constraints_hold_under_a_risk_over_the_errors() -> None:
    strategy = under_perturbed_inputs(
        {"heat": 0.1}, constraint_risk_measure=ValueAtRisk(0.1), num_initial=4
    )
    client = furnace(strategy, constraints=["cost <= 0.5"])
    play(client, 5)
    adapter: Any = client._generation_strategy.adapter
    acqf = adapter.generator._acquisition.acqf
    assert isinstance(acqf, ConstrainedUpperConfidenceBound)
    # The cost is the heat, of which the 0.9-quantile is 1.28 deviations above.
    X = torch.linspace(0.2, 0.5, 31, dtype=torch.double)[:, None]
    holds = acqf.constraint_bounds[0].mean(X) >= acqf.risk_constraints[0].limit
    assert abs(X[holds].max().item() - (0.5 - 0.128)) < 0.02


def test_bad_input() -> None:
    with pytest.raises(ValueError, match=r"positive deviations by name. Got {}"):
        under_perturbed_inputs({})
    for wrong in (0.0, math.inf):
        with pytest.raises(ValueError, match=rf"`deviations\['heat'\]` .* > 0. Got {wrong}"):
            under_perturbed_inputs({"heat": wrong})
    with pytest.raises(ValueError, match=r"`n_w` to be at least 1\. Got 0"):
        under_perturbed_inputs({"heat": 0.1}, n_w=0)
    with pytest.raises(TypeError, match=r"Expected a `RiskMeasure`"):
        under_perturbed_inputs({"heat": 0.1}, constraint_risk_measure="mean")  # type: ignore[arg-type]
    for name in ("steps", "kind"):
        client = furnace(
            under_perturbed_inputs({name: 0.1}, num_initial=3), parameters=(HEAT, STEPS, KIND)
        )
        message = rf"a continuous range, \['heat'\]. Got \['{name}'\]"
        with pytest.raises(UserInputError, match=message):
            client.get_next_trials(max_trials=1)
