from typing import Any

import numpy as np
import pytest
import torch
from ax.exceptions.core import UnsupportedError
from botorch.acquisition import UpperConfidenceBound
from botorch.models import SingleTaskGP

from botorch_risk.ax import under_uncertain_context, value_at_risk
from botorch_risk.ax.analyses.fitted_analysis import check_has_risk, trade_off
from botorch_risk.ax.fitted import confidence_bound, encoded, model_of
from botorch_risk.ax.trials import measured_arms
from botorch_risk.risk import ConditionalValueAtRisk, WorstCase
from tests import oracles
from tests.ax.laboratory import HUMIDITY, adapter_of, laboratory, play

WINDS = {"stir": ([0.0, 1.0, 2.0], [0.2, 0.6, 0.2])}


def found_and_posterior_means(
    strategy: Any, objective: str, points: Any = None
) -> tuple[Any, np.ndarray]:
    r"""The trade-off of five arms, and the mean of the outcome at each with each context."""
    client = laboratory(strategy=strategy, objective=objective)
    play(client, 5)
    adapter = adapter_of(client)
    X = encoded(adapter, [arm.parameters for _, arm in measured_arms(client._experiment)])
    model: Any = model_of(adapter, "purity")
    if points is None:
        points, process = model.reductions[0].environment.points, model.model
    else:
        points, process = torch.tensor(points).double(), model
    found = trade_off(confidence_bound(adapter), X, objective[0] == "-")
    decisions = X[:, : process.train_inputs[0].shape[-1] - 1]  # and one context
    rows = [
        process.posterior(torch.cat([x.expand(len(points), -1), points], dim=-1)) for x in decisions
    ]
    return found, np.array([row.mean.detach().flatten().tolist() for row in rows])


@pytest.mark.parametrize(("objective", "worst"), [("purity", np.min), ("-purity", np.max)])
def test_under_contexts_the_risk_is_of_the_bad_outcomes(objective: str, worst: Any) -> None:
    strategy = under_uncertain_context("purity", HUMIDITY, risk_measure=WorstCase())
    found, values = found_and_posterior_means(strategy, objective)
    np.testing.assert_allclose(found.mean, values.mean(axis=-1), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.risk, worst(values, axis=-1), rtol=1e-6, atol=1e-8)
    sign = 1 if objective == "purity" else -1
    assert (found.name, found.label, found.signs) == ("risk", "WorstCase", (sign, sign))


@pytest.mark.parametrize("objective", ["purity", "-purity"])
@pytest.mark.slow
def test_where_the_risk_is_the_expectation_it_is_the_spread(objective: str) -> None:
    found, values = found_and_posterior_means(
        under_uncertain_context("purity", HUMIDITY), objective
    )
    np.testing.assert_allclose(found.mean, values.mean(axis=-1), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.risk, values.std(axis=-1), rtol=1e-5)
    assert found.name == "context_sd" and found.signs[1] == -1 and found.feasible.all()


def test_contexts_that_are_chosen_have_their_weights() -> None:
    points, weights = [[each] for each in WINDS["stir"][0]], np.array(WINDS["stir"][1])
    strategy = value_at_risk(WINDS, risk_measure=ConditionalValueAtRisk(0.3))
    found, values = found_and_posterior_means(strategy, "purity", points)
    risks = [oracles.conditional_value_at_risk(row, weights, 0.3) for row in values]
    np.testing.assert_allclose(found.mean, values @ weights, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.risk, risks, rtol=1e-6, atol=1e-8)


def test_a_bound_without_a_risk_is_refused() -> None:
    X = torch.rand(5, 1, dtype=torch.double)
    bound = UpperConfidenceBound(SingleTaskGP(X, X.sin()), beta=4.0)
    with pytest.raises(UnsupportedError, match=r"a strategy for UpperConfidenceBound"):
        check_has_risk(bound)
