r"""Recommendations by what an acquisition function of BoTorch maximises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.acquisition import (
    LogExpectedImprovement,
    qKnowledgeGradient,
    qUpperConfidenceBound,
)
from botorch.acquisition.logei import qLogExpectedImprovement, qLogNoisyExpectedImprovement
from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError

from botorch_risk.acquisition import RiskUpperConfidenceBound
from botorch_risk.constraints import ConstrainedUpperConfidenceBound, RiskConstraint
from botorch_risk.recommend import recommend
from botorch_risk.recommend_everywhere import recommend_everywhere
from botorch_risk.repeats import LogRiskAverseKnowledgeGradient
from botorch_risk.risk import ConditionalValueAtRisk
from botorch_risk.robust import robust
from tests.acquisition.botorch_checks import MEASURE, noisy
from tests.models.risks import (
    ENVIRONMENT,
    batched,
    decisions,
    gp,
    shifts,
    two_outcomes,
    two_outputs,
)

X = decisions(9)
CHANCE = RiskConstraint.chance(ENVIRONMENT, 4.0, outcome=1, delta=0.3)
ACQUISITIONS: dict[str, Callable[[Any], Any]] = {
    "qLogNEI": lambda model: qLogNoisyExpectedImprovement(model, X),
    "qLogEI": lambda model: qLogExpectedImprovement(model, best_f=0.0),
    "qUCB": lambda model: qUpperConfidenceBound(model, beta=2.0),
    "KG": lambda model: qKnowledgeGradient(model, num_fantasies=2),
}
MODELS: dict[str, Callable[[], Any]] = {"gp": gp, "noisy": noisy}


@pytest.mark.parametrize("build", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("make", ACQUISITIONS.values(), ids=ACQUISITIONS)
def test_it_is_the_risk_of_the_posterior_mean(
    make: Callable[[Any], Any], build: Callable[[], Any]
) -> None:
    model = build()
    chosen = recommend(make(robust(model, ENVIRONMENT, MEASURE).model), X, "posterior_mean")
    pairs, weights = ENVIRONMENT.expand(X)
    means = model.posterior(pairs.flatten(0, 1)).mean.reshape(len(X), -1)
    risks = torch.stack([MEASURE(row, weights[0, :]) for row in means])
    assert chosen.row == risks.argmax()
    torch.testing.assert_close(chosen.value, risks.max())


def test_where_an_environment_perturbs_the_decision_too() -> None:
    at = decisions(9, d=3)
    acqf = qLogNoisyExpectedImprovement(robust(gp(), shifts(), MEASURE).model, at)
    bound = RiskUpperConfidenceBound(gp(), shifts(), MEASURE, beta=1.0)
    expected = recommend(bound, at, "posterior_mean")
    torch.testing.assert_close(recommend(acqf, at, "posterior_mean"), expected)


def test_a_model_without_risk_gives_its_posterior_mean() -> None:
    model, at = gp(), decisions(9, d=3)
    mean = model.posterior(at).mean.squeeze(-1)
    assert recommend(LogExpectedImprovement(model, 0.0), at, "posterior_mean").row == mean.argmax()
    minimised = LogExpectedImprovement(model, 0.0, maximize=False)
    assert recommend(minimised, at, "posterior_mean").row == mean.argmin()


def test_a_minimised_outcome_has_the_risk_of_its_negative() -> None:
    minus = ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.double))
    acqf = qUpperConfidenceBound(
        robust(gp(), ENVIRONMENT, MEASURE).model, 2.0, posterior_transform=minus
    )
    bound = RiskUpperConfidenceBound(gp(), ENVIRONMENT, MEASURE, 1.0, posterior_transform=minus)
    expected = recommend(bound, X, "posterior_mean")
    torch.testing.assert_close(recommend(acqf, X, "posterior_mean"), expected)


@pytest.mark.parametrize("build", [two_outcomes, two_outputs], ids=["list", "outputs"])
def test_the_objective_is_picked_among_several_risks(build: Callable[[], Any]) -> None:
    model = build()
    reduced, options = robust(model, ENVIRONMENT, MEASURE, [CHANCE])
    acqf = qLogNoisyExpectedImprovement(reduced, X, **options)
    first = model.models[0] if build is two_outcomes else model.subset_output([0])
    bound = RiskUpperConfidenceBound(first, ENVIRONMENT, MEASURE, beta=1.0)
    feasible = ConstrainedUpperConfidenceBound(model, bound, [CHANCE])
    chosen = recommend(acqf, X, "posterior_mean", feasible=feasible)
    expected = recommend(feasible, X, "posterior_mean")
    torch.testing.assert_close(chosen, expected)
    for call in (
        lambda: recommend(acqf, X, "posterior_mean"),
        lambda: recommend_everywhere(acqf, decisions(2), seeds=0),
    ):
        with pytest.raises(ValueError, match="Expected a `ConstrainedUpperConfidenceBound`"):
            call()


def test_a_batched_model_recommends_for_each_replicate() -> None:
    at = decisions(3, 6)
    reduced = robust(batched(), ENVIRONMENT, MEASURE).model
    acqf = qUpperConfidenceBound(reduced, beta=2.0)
    bound = RiskUpperConfidenceBound(batched(), ENVIRONMENT, MEASURE, beta=1.0)
    expected = recommend(bound, at, "posterior_mean")
    assert recommend(acqf, at, "posterior_mean").point.shape == (3, 2) == expected.point.shape


def test_a_decision_that_was_not_evaluated_is_at_least_as_good() -> None:
    acqf = qLogNoisyExpectedImprovement(robust(gp(), ENVIRONMENT, MEASURE).model, X)
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
    found = recommend_everywhere(acqf, bounds, seeds=0, evaluated=X[None], raw_samples=32)
    assert found.point.shape == (1, 2)
    assert found.value >= recommend(acqf, X, "posterior_mean").value


def test_what_has_no_such_objective_is_refused_in_one_line() -> None:
    acqf = qLogNoisyExpectedImprovement(robust(gp(), ENVIRONMENT, MEASURE).model, X)
    with pytest.raises(UnsupportedError, match="which has no lower bound"):
        recommend(acqf, X, "lower_confidence_bound")
    with pytest.raises(UnsupportedError, match="'best_observed'"):
        recommend(acqf, X, "best_observed")
    with pytest.raises(BotorchTensorDimensionError, match="Expected decisions and environment"):
        recommend(acqf, decisions(4, d=1), "posterior_mean")
    with pytest.raises(BotorchTensorDimensionError, match="Expected `X` to have shape"):
        recommend(acqf, X[0], "posterior_mean")
    both = robust(two_outcomes(), ENVIRONMENT, ConditionalValueAtRisk(0.5)).model
    several = qLogNoisyExpectedHypervolumeImprovement(both, [-2.0, -2.0], X)
    with pytest.raises(UnsupportedError, match="Expected one objective"):
        recommend(several, X, "posterior_mean")
    for wrong in (LogRiskAverseKnowledgeGradient, gp()):
        with pytest.raises(TypeError, match="Expected `bound` to be a confidence bound"):
            recommend(wrong, X, "posterior_mean")  # type: ignore[arg-type]
