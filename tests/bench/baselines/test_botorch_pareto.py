r"""Risks of several objectives by BoTorch's own measures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from botorch.acquisition.multi_objective.multi_output_risk_measures import IndependentCVaR
from botorch.models import ModelListGP
from botorch.utils.sampling import manual_seed
from botorch_risk_bench.baselines import conditional_value_at_risk_log_nehvi, mars_log_nei
from botorch_risk_bench.baselines.appended_values import (
    model_with_values,
    without_numerical_warnings,
)
from botorch_risk_bench.baselines.botorch_pareto import (
    BoTorchDecision,
    IndependentRiskHypervolume,
    ScalarizedRiskImprovement,
)

from botorch_risk.seeding import generators
from botorch_risk.strategies import pareto_search
from botorch_risk.strategies.pareto_search import HypervolumeImprovement
from tests.strategies.cases import OBJECTIVES

OPTIONS: dict[str, Any] = {
    "environment": OBJECTIVES.environment,
    "risk_level": 0.4,
    "reference_point": (-5.0, -5.0),
    "n_w": 3,
    "num_samples": 4,
    "num_initial": 5,
    "num_restarts": 1,
    "raw_samples": 4,
    "max_iterations": 2,
}


def models(w_set: torch.Tensor) -> tuple[ModelListGP, torch.Tensor]:
    r"""Two outcomes of six pairs, with values of W appended, and the decisions."""
    X = torch.rand(6, 2, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
    values = (X.sin(), -X.square())
    parts = [model_with_values(X, each.sum(-1, keepdim=True), w_set, bounds) for each in values]
    return ModelListGP(*parts).eval(), X[:, :1]


@pytest.mark.parametrize("n_w, number", [(19, 2), (29, 3), (39, 4), (20, 3), (33, 4)])
def test_botorchs_measure_takes_as_many_values_as_the_docstring_says(n_w: int, number: int) -> None:
    values = torch.randn(1, n_w, 2, dtype=torch.double)
    found = IndependentCVaR(alpha=0.9, n_w=n_w)(values)
    expected = values.sort(dim=-2).values[:, :number].mean(dim=-2, keepdim=True)
    torch.testing.assert_close(found, expected)
    assert number == n_w - int(np.ceil(0.9 * n_w)) + 1


def test_both_are_acquisition_functions_of_decisions() -> None:
    model, X = models(OBJECTIVES.environment.points)
    parts = (-5.0, -5.0), 0.6, 3, 4
    for build in (IndependentRiskHypervolume(*parts), ScalarizedRiskImprovement(*parts)):
        with manual_seed(0), without_numerical_warnings():
            acquisition = build(model, X, X_pending=X[:1] + 0.1)
            assert acquisition(torch.rand(3, 1, 1, dtype=torch.double)).shape == (3,)


@pytest.mark.slow
@pytest.mark.parametrize("make", [conditional_value_at_risk_log_nehvi, mars_log_nei])
def test_it_meets_the_contexts_that_our_search_meets(make: Any) -> None:
    r"""The same initial decisions, decisions alone asked for, and several at once."""
    strategy = make(OBJECTIVES.bounds, [0, 1], batch_size=2, **OPTIONS)
    ours = pareto_search(
        OBJECTIVES.bounds,
        [0, 1],
        environment=OBJECTIVES.environment,
        risk_measure=strategy.method.search.recipe.risk_measures,
        acquisition=HypervolumeImprovement((-5.0, -5.0)),
        num_initial=5,
    )
    X = strategy.ask()
    assert torch.equal(X, ours.ask())
    pairs = torch.cat([X, OBJECTIVES.environment.sample(5, generators([0, 1], "w"))], dim=-1)
    Y = OBJECTIVES.sample_outcomes(pairs, 2, generators([0, 1], "y"))
    for each in (strategy, ours):
        each.tell(pairs, Y)
    assert torch.equal(strategy.recommend().nan_to_num(), ours.recommend().nan_to_num())
    asked = strategy.ask()
    assert asked.shape == (2, 2, 1)
    assert not torch.equal(asked[:, 0], asked[:, 1])


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"`n_w` to be at least 1\. Got 0"):
        BoTorchDecision(IndependentRiskHypervolume((0.0, 0.0), 0.9, 1, 1), n_w=0)
    with pytest.raises(ValueError, match="risk_level"):
        mars_log_nei(OBJECTIVES.bounds, 0, **{**OPTIONS, "risk_level": 1.5})
