r"""A small experiment in Ax, whose trials are read three times."""

from typing import Any

import numpy as np
from ax.adapter.registry import Generators
from ax.analysis.analysis import Analysis
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec

from botorch_risk.ax import readings, risk_averse, with_random_exploration
from botorch_risk.ax.fitted import fitted_adapter
from botorch_risk.ax.nodes import after_sobol

PARAMETERS = (
    RangeParameterConfig(name="heat", bounds=(0.0, 1.0), parameter_type="float"),
    RangeParameterConfig(name="stir", bounds=(0.0, 2.0), parameter_type="float"),
)
HUMIDITY = {"humidity": (0.0, 100.0)}
# A noisy arm that was lucky, and a quiet one; around them, what tells noise from noise.
TABLE = [
    (0.1, [0.0, 0.1, -0.1]),
    (0.2, [0.5, 0.6, 0.55]),
    (0.3, [1.0, 1.02, 0.99]),
    (0.7, [0.2, 1.9, 1.5]),
    (0.8, [3.0, -1.0, 1.3]),
    (0.9, [-2.0, 1.5, 0.4]),
]


def laboratory(
    parameters: Any = PARAMETERS,
    objective: str = "purity",
    constraints: Any = (),
    strategy: Any = None,
    storage_config: Any = None,
    **experiment: Any,
) -> Client:
    r"""A client with a risk-averse strategy of three initial trials."""
    client = Client(storage_config=storage_config)
    client.configure_experiment(parameters=parameters, name="laboratory", **experiment)
    client.configure_optimization(objective=objective, outcome_constraints=constraints)
    client.configure_tracking_metrics(["purity_count", *HUMIDITY])
    chosen = strategy or risk_averse("purity", num_initial=3)
    client.set_generation_strategy(chosen)
    return client


def outcome(trial: int, parameters: dict[str, Any]) -> dict[str, Any]:
    r"""Three readings of the purity, the noisier the faster one stirs, and the cost."""
    numbers = [float(value) for value in parameters.values() if not isinstance(value, str)]
    heat, stir = numbers[0], numbers[-1]
    noise = np.random.default_rng(trial).standard_normal(3)
    values = -((heat - 0.4) ** 2) + 0.1 * stir + 0.1 * stir * noise
    humidity = float(np.random.default_rng(100 + trial).uniform(20.0, 60.0))
    values = values - 0.01 * humidity * heat
    return readings({"purity": values.tolist(), "cost": heat + stir, "humidity": humidity})


def play(client: Client, num_trials: int, first: int = 0) -> list[dict[str, Any]]:
    r"""Trials one by one; their parameters."""
    asked = []
    for _ in range(first, num_trials):
        for index, parameters in client.get_next_trials(max_trials=1).items():
            asked.append(dict(parameters))
            complete(client, index, parameters)
    return asked


def complete(client: Client, index: int, parameters: Any) -> None:
    r"""Completes a trial with what the optimisation asks for."""
    known = {*client._experiment.metrics}
    found = outcome(index, dict(parameters))
    client.complete_trial(index, {name: each for name, each in found.items() if name in known})


def node_of(client: Client, index: int) -> str | None:
    r"""The generation node that a trial is from."""
    (run,) = client._experiment.trials[index].generator_runs
    return run._generation_node_name


def exploring(seed: int = 0, **options: Any) -> GenerationStrategy:
    r"""Exploration about a node that needs no model."""
    sobol = GeneratorSpec(Generators.SOBOL, generator_kwargs={"seed": 9})
    inner = after_sobol("inner", sobol, num_initial=3, seed=8)
    return with_random_exploration(inner, seed=seed, **options)


def with_table(sign: float = 1.0, objective: str = "purity", **options: Any) -> Client:
    r"""A client whose trials are the rows of the table."""
    client = laboratory(objective=objective, **options)
    for heat, values in TABLE:
        index = client.attach_trial({"heat": heat, "stir": 1.0})
        found = readings({"purity": [sign * value for value in values]})
        client.complete_trial(
            index, {**found, **({"cost": heat} if "constraints" in options else {})}
        )
    return client


def card_of(client: Client, analysis: Analysis) -> Any:
    r"""The one card of an analysis."""
    (card,) = client.compute_analyses([analysis], display=False)
    return card


def adapter_of(client: Client) -> Any:
    r"""The adapter of the last node of a strategy, fitted to all data."""
    return fitted_adapter(client._experiment, client._generation_strategy)
