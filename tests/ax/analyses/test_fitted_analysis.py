r"""What all cards have in common."""

from typing import Any

import pytest
from ax.adapter.registry import Generators
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard
from ax.core.analysis_card import NotApplicableStateAnalysisCard
from ax.exceptions.core import DataRequiredError
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.storage.json_store.decoder import object_from_json
from ax.storage.json_store.encoder import object_to_json

from botorch_risk.ax import ContextDistributionPlot, NoiseSlicePlot, RiskFrontierPlot
from botorch_risk.diagnostics.with_ax import CalibrationPlot
from tests.ax.laboratory import adapter_of, card_of, complete, laboratory, play, with_table

ALL = [CalibrationPlot(), ContextDistributionPlot(), NoiseSlicePlot("heat"), RiskFrontierPlot()]


@pytest.mark.parametrize("analysis", ALL, ids=lambda each: type(each).__name__)
def test_without_trials_and_without_our_strategy(analysis: Any) -> None:
    found = card_of(laboratory(), analysis)
    assert isinstance(found, NotApplicableStateAnalysisCard)
    assert found.blob == "Experiment has no trials."
    sobol = GenerationNode(name="only", generator_specs=[GeneratorSpec(Generators.SOBOL)])
    client = laboratory(strategy=GenerationStrategy(name="plain", nodes=[sobol]))
    play(client, 1)
    assert card_of(client, analysis).blob == (
        "Expected a strategy of `botorch_risk.ax`. Got a last node 'only'."
    )


def test_computed_directly_it_raises_what_it_would_say() -> None:
    analysis = RiskFrontierPlot()
    client = laboratory()
    reason = analysis.validate_applicable_state(client._experiment, client._generation_strategy)
    with pytest.raises(DataRequiredError, match=reason):
        analysis.compute(client._experiment, client._generation_strategy)
    with pytest.raises(DataRequiredError, match="An Experiment must be provided"):
        analysis.compute()


@pytest.mark.parametrize("analysis", ALL, ids=lambda each: type(each).__name__)
def test_data_from_which_no_model_can_be_built_yet(analysis: Any) -> None:
    client = laboratory()
    for heat, purity in enumerate((0.2, 0.5, 0.3, 0.9, 1e30)):  # a failure that is no number
        parameters = {"heat": heat / 5, "stir": 1.0}
        client.complete_trial(client.attach_trial(parameters), {"purity": purity})
    found = card_of(client, analysis)
    assert isinstance(found, NotApplicableStateAnalysisCard)
    assert found.blob.startswith("Expected readings on one scale")


@pytest.mark.slow
def test_all_data_so_far_also_after_the_last_candidate() -> None:
    client = with_table()
    assert len(card_of(client, RiskFrontierPlot()).df) == 6
    parameters = {"heat": 0.5, "stir": 1.5}
    complete(client, client.attach_trial(parameters), parameters)
    found = card_of(client, RiskFrontierPlot()).df
    assert found["trial_index"].tolist() == list(range(7))


def test_an_adapter_takes_the_place_of_the_strategy() -> None:
    client = with_table()
    card = RiskFrontierPlot().compute(client._experiment, adapter=adapter_of(client))
    assert card.df.equals(card_of(client, RiskFrontierPlot()).df)
    reason = RiskFrontierPlot().validate_applicable_state(client._experiment)
    assert reason == "Expected a generation strategy or an adapter. Got none."


@pytest.mark.parametrize("analysis", [CalibrationPlot(), NoiseSlicePlot("heat")])
@pytest.mark.slow
def test_cards_are_stored_as_ax_stores_its_own(analysis: Any) -> None:
    card = card_of(with_table(), analysis)
    loaded = object_from_json(object_to_json(card))
    assert isinstance(loaded, PlotlyAnalysisCard)
    assert loaded.name == type(analysis).__name__
    assert len(loaded.get_figure().data) == len(card.get_figure().data) >= 3
