r"""Random trials among those of a strategy."""

import numpy as np
import pytest
from ax.adapter.registry import Generators
from ax.exceptions.core import UnsupportedError
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec

from botorch_risk.ax import best_arm, risk_averse, with_random_exploration
from tests.ax.laboratory import exploring, laboratory, node_of, play


@pytest.mark.slow
def test_the_inner_strategy_asks_for_its_own_trials_and_has_the_best_arm() -> None:
    strategy = with_random_exploration(risk_averse("purity", num_initial=3), seed=0)
    client = laboratory(strategy=strategy)
    play(client, 9)
    nodes = [node_of(client, index) for index in range(9)]
    assert set(nodes[3::2]) == {"Random", "risk_averse"} and set(nodes[4::2]) == {"risk_averse"}
    assert best_arm(client).lower < best_arm(client).mean


@pytest.mark.slow
def test_trials_of_one_request_are_of_one_kind() -> None:
    client = laboratory(strategy=exploring(seed=1))
    nodes = []
    for _ in range(12):
        asked = list(client.get_next_trials(max_trials=3))
        for index in asked:
            client.complete_trial(index, {"purity": float(np.sin(7.0 * index))})
        nodes.append({node_of(client, index) for index in asked})
    assert all(len(each) == 1 for each in nodes)
    assert {"Random"} in nodes and {"inner"} in nodes


def test_bad_input() -> None:
    sobol = GenerationNode("Sobol", [GeneratorSpec(Generators.SOBOL)])
    with pytest.raises(UnsupportedError, match=r"an initial node and a last node"):
        with_random_exploration(GenerationStrategy(nodes=[sobol], name="alone"))
    with pytest.raises(UnsupportedError, match=r"an initial node and a last node"):
        with_random_exploration(exploring())  # again
    client = laboratory(strategy=exploring(), objective="purity, cost")
    for _ in range(3):
        for index in client.get_next_trials(max_trials=1):
            client.complete_trial(index, {"purity": 0.0, "cost": 1.0})
    with pytest.raises(
        UnsupportedError,
        match=r"an objective of one metric for random exploration. Got 'purity, cost'",
    ):
        client.get_next_trials(max_trials=1)
