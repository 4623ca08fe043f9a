r"""The nodes of a strategy; what they do in an experiment is in `test_experiments.py`."""

import pytest
from ax.generation_strategy.generator_spec import GeneratorSpec

from botorch_risk.ax import RiskGenerators
from botorch_risk.ax.nodes import KnownNames, after_sobol

SPEC = GeneratorSpec(RiskGenerators.RISK)


def test_names_are_looked_for_before_anything_else() -> None:
    strategy = after_sobol("mine", SPEC, num_initial=3, seed=0, metrics=["purity"])
    first, *_ = strategy.nodes_by_name["Sobol"].transition_criteria
    assert isinstance(first, KnownNames)
    assert (first.transition_to, first.metrics, first.contexts) == ("mine", ["purity"], [])


def test_bad_input() -> None:
    with pytest.raises(ValueError, match=r"`num_initial` to be at least 1\. Got 0"):
        after_sobol("mine", SPEC, num_initial=0, seed=0)
    with pytest.raises(ValueError, match=r"`seed` to be an integer. Got 0.5"):
        after_sobol("mine", SPEC, num_initial=1, seed=0.5)  # type: ignore[arg-type]
