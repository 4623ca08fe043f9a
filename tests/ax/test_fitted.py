import pytest
import torch
from ax.adapter.registry import Generators
from ax.api.configs import RangeParameterConfig
from ax.exceptions.core import UnsupportedError, UserInputError
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec

from botorch_risk.ax import risk_averse
from botorch_risk.ax.fitted import confidence_bound, encoded, fitted_adapter, model_of
from botorch_risk.ax.trials import measured_arms
from botorch_risk.level_sets.with_ax import level_set
from botorch_risk.models import MeanVarianceGP
from tests.ax.laboratory import adapter_of, complete, laboratory, play, with_table


@pytest.mark.slow
def test_it_follows_the_data_and_fits_once() -> None:
    client = with_table()
    before = model_of(adapter_of(client), "purity")
    assert model_of(adapter_of(client), "purity") is before
    complete(client, client.attach_trial({"heat": 0.5, "stir": 1.0}), {"heat": 0.5, "stir": 1.0})
    after = model_of(adapter_of(client), "purity")
    assert isinstance(after, MeanVarianceGP) and len(after.train_X) == 7


def test_arms_that_came_back_and_arms_that_are_not_completed() -> None:
    client = laboratory()
    again = {"heat": 0.5, "stir": 1.0}
    for parameters in (again, {"heat": 0.2, "stir": 1.0}, again):
        complete(client, client.attach_trial(parameters), parameters)
    client.attach_trial({"heat": 0.9, "stir": 1.0})
    found = measured_arms(client._experiment)
    assert [(index, arm.parameters["heat"]) for index, arm in found] == [(0, 0.5), (1, 0.2)]


@pytest.mark.slow
def test_points_are_as_the_model_takes_them() -> None:
    heat = RangeParameterConfig(
        name="heat", bounds=(0.01, 1.0), parameter_type="float", scaling="log"
    )
    stir = RangeParameterConfig(name="stir", bounds=(0, 4), parameter_type="int")
    client = laboratory(parameters=(heat, stir), strategy=risk_averse("purity"))
    play(client, 4)
    adapter = adapter_of(client)
    arms = [arm.parameters for _, arm in measured_arms(client._experiment)]
    model = model_of(adapter, "purity")
    assert isinstance(model, MeanVarianceGP)
    torch.testing.assert_close(encoded(adapter, arms), model.train_X)


def test_one_metric_of_several() -> None:
    client = laboratory(constraints=["cost <= 1.5"], strategy=risk_averse("purity"))
    play(client, 4)
    adapter = adapter_of(client)
    assert isinstance(model_of(adapter, "purity"), MeanVarianceGP)
    assert not isinstance(model_of(adapter, "cost"), MeanVarianceGP)
    with pytest.raises(UserInputError, match=r"'humidity', 'purity'\]. Got 'weight'"):
        model_of(adapter, "weight")


def test_strategies_that_are_refused() -> None:
    sobol = GenerationNode(name="only", generator_specs=[GeneratorSpec(Generators.SOBOL)])
    client = laboratory(strategy=GenerationStrategy(name="plain", nodes=[sobol]))
    play(client, 2)
    with pytest.raises(UnsupportedError, match=r"`botorch_risk.ax`. Got a last node 'only'"):
        adapter_of(client)
    adapter = client._generation_strategy.adapter
    with pytest.raises(UnsupportedError, match=r"Got an adapter of SobolGenerator"):
        fitted_adapter(client._experiment, None, adapter)
    with pytest.raises(UserInputError, match=r"a generation strategy or an adapter. Got none"):
        fitted_adapter(client._experiment, None)
    client = laboratory(strategy=level_set(0.5, num_initial=2))
    play(client, 3)
    with pytest.raises(UnsupportedError, match=r"a confidence bound of a risk. Got Straddle"):
        confidence_bound(adapter_of(client))
