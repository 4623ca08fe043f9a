r"""The experiments of RAHBO start alike and know their optimum."""

from typing import Any

from botorch_risk_bench.experiments import get_experiment
from botorch_risk_bench.experiments.papers.rahbo import AS_IN_THE_PAPER, METHODS


def test_each_method_is_there_with_the_choices_of_the_paper() -> None:
    definition = get_experiment("sine")
    assert list(definition.strategies) == [*METHODS, *(f"{label}-paper" for label in METHODS)]
    weight = definition.settings["risk_aversion"]
    for label, factory in definition.strategies.items():
        chosen: Any = factory  # a partial
        assert chosen.keywords["risk_aversion"] == weight
        assert (chosen.keywords.items() >= AS_IN_THE_PAPER.items()) == label.endswith("-paper")
