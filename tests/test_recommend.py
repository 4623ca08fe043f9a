r"""Reporting rules: of bounds, of risks, of acquisition functions of BoTorch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.acquisition import LogExpectedImprovement, qKnowledgeGradient, qUpperConfidenceBound
from botorch.acquisition.logei import qLogExpectedImprovement, qLogNoisyExpectedImprovement
from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models import SingleTaskGP
from torch import Tensor

from botorch_risk.acquisition import RiskAverseUpperConfidenceBound, RiskUpperConfidenceBound
from botorch_risk.acquisition.without_compiling import without_compiling
from botorch_risk.constraints import ConstrainedUpperConfidenceBound, RiskConstraint
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.models import MeanVarianceGP
from botorch_risk.recommend import ObjectiveOfMean, recommend, recommend_everywhere
from botorch_risk.repeats import LogRiskAverseKnowledgeGradient
from botorch_risk.risk import ConditionalValueAtRisk, Expectation, ValueAtRisk
from botorch_risk.robust import robust
from tests import oracles
from tests.acquisition.botorch_checks import MEASURE, noisy
from tests.contracts import (
    BATCH_SHAPES,
    RepeatedData,
    correlation_of,
    mean_variance_gp,
    repeated_data,
)
from tests.models.risks import (
    ENVIRONMENT,
    batched,
    decisions,
    gp,
    shifts,
    two_outcomes,
    two_outputs,
)

bound_of = RiskAverseUpperConfidenceBound
WEIGHTS = {"risk_aversion": 0.7, "beta": 3.0, "noise_beta": 2.0}


@pytest.mark.parametrize("batch_shape", BATCH_SHAPES, ids=str)
@pytest.mark.parametrize("rule", ["lower_confidence_bound", "posterior_mean", "best_observed"])
def test_rules_pick_the_best_row(rule: str, batch_shape: tuple[int, ...]) -> None:
    data = repeated_data(batch_shape)
    model = mean_variance_gp(data)
    bound = RiskAverseUpperConfidenceBound(model, **WEIGHTS)
    scores = {
        "lower_confidence_bound": bound.lower(data.X),
        "posterior_mean": bound.mean(data.X),
        "best_observed": data.Y.mean(dim=-1) - 0.7 * data.Y.var(dim=-1),
    }[rule]
    chosen = recommend(bound, data.X, rule)
    assert chosen.point.shape == (*batch_shape, 2)
    torch.testing.assert_close(chosen.value, scores.amax(dim=-1))
    assert torch.equal(chosen.row, scores.argmax(dim=-1))
    rows = chosen.row[..., None, None].expand(*batch_shape, 1, 2)
    assert torch.equal(chosen.point, data.X.gather(-2, rows).squeeze(-2))


@pytest.mark.parametrize("rule", ["lower_confidence_bound", "posterior_mean", "best_observed"])
def test_minimisation_keeps_the_sign_of_the_penalty(rule: str) -> None:
    r"""Negated outcomes maximised are the outcomes minimised."""
    data = repeated_data()
    minimise = ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.float64))
    model, negated = (mean_variance_gp(RepeatedData(data.X, sign * data.Y)) for sign in (1, -1))
    chosen = recommend(bound_of(model, posterior_transform=minimise, **WEIGHTS), data.X, rule)
    expected = recommend(bound_of(negated, **WEIGHTS), data.X, rule)
    assert torch.equal(chosen.point, expected.point)
    torch.testing.assert_close(chosen.value, expected.value)


@pytest.mark.slow
def test_recorded_bounds_need_only_themselves() -> None:
    data = repeated_data()
    recorded = torch.arange(9.0).flip(0)
    rule = "recorded_lower_confidence_bound"
    assert recommend(bound_of(mean_variance_gp(data)), data.X, rule, recorded).row == 0
    with pytest.raises(ValueError, match=r"Expected `recorded` lower bounds.* Got None for points"):
        recommend(bound_of(mean_variance_gp(data)), data.X, rule)
    with pytest.raises(ValueError, match=r"Got \(4,\) for points of shape"):
        recommend(bound_of(mean_variance_gp(data)), data.X, rule, recorded[:4])


def test_best_observed_with_pooled_and_single_rows() -> None:
    X = torch.tensor([[0.1], [0.5], [0.1], [0.9]], dtype=torch.float64)
    nan = torch.nan
    Y = torch.tensor([[1.0, 1.2], [5.0, nan], [1.1, 0.9], [0.0, 0.2]], dtype=torch.float64)
    model = MeanVarianceGP(X, Y)
    chosen = recommend(bound_of(model, risk_aversion=1.0), X, "best_observed")
    assert chosen.row == 0  # the row of a single repeat, 5.0, shows nothing of its noise
    pooled = torch.tensor([1.0, 1.2, 1.1, 0.9], dtype=torch.float64)
    torch.testing.assert_close(chosen.value, pooled.mean() - pooled.var())
    assert recommend(bound_of(model, risk_aversion=0.0), X, "best_observed").row == 1
    with pytest.raises(InputDataError, match=r"training points of the model.* Got 1 other"):
        recommend(bound_of(model), X + torch.tensor([[0.0], [0.0], [0.0], [0.05]]), "best_observed")
    with pytest.raises(InputDataError, match="at least two repeats"):
        recommend(bound_of(model), X[1:2], "best_observed")


def test_confidence_prefers_the_known_point_to_the_lucky_one() -> None:
    r"""A single noisy draw that came out high is not reported by the bound."""
    generator = torch.Generator().manual_seed(0)
    X = torch.linspace(0, 1, 8, dtype=torch.float64).unsqueeze(-1)
    rho = torch.where(X > 0.6, 2.0, 0.1)
    Y = rho * torch.randn(8, 5, generator=generator, dtype=torch.float64)
    Y[-1] += 2 - Y[-1].mean()
    model = MeanVarianceGP(X, Y, noise_beta=4.0)
    for process in (model.noise_model, model.mean_model):
        correlation_of(process).lengthscale = 0.2
    model.refresh_noise()
    assert recommend(bound_of(model, risk_aversion=0.0), X, "best_observed").row == 7
    assert recommend(bound_of(model, risk_aversion=0.0), X, "lower_confidence_bound").row < 5


def test_bad_input() -> None:
    data = repeated_data()
    model = mean_variance_gp(data)
    with pytest.raises(ValueError, match=r"Expected `rule` in .* Got 'luck'"):
        recommend(bound_of(model), data.X, "luck")  # type: ignore[arg-type]
    with pytest.raises(BotorchTensorDimensionError, match="`batch_shape x m x d`"):
        recommend(bound_of(model), data.X[0], "posterior_mean")


def test_points_without_a_recorded_bound_are_not_offered() -> None:
    data = repeated_data((2,))
    model = mean_variance_gp(data)
    recorded = torch.full((2, 9), torch.nan, dtype=torch.float64)
    recorded[0, [2, 5]], recorded[1, 7] = torch.tensor([0.5, 0.2]).double(), -3.0
    rule = "recorded_lower_confidence_bound"
    chosen = recommend(bound_of(model), data.X, rule, recorded)
    assert chosen.row.tolist() == [2, 7]
    assert chosen.value.tolist() == [0.5, -3.0]
    recorded[1] = torch.nan
    with pytest.raises(InputDataError, match=r"at least one point in each .* 1 of 2: \[\[1\]\]"):
        recommend(bound_of(model), data.X, rule, recorded)


@pytest.mark.parametrize(
    "rule",
    [
        "lower_confidence_bound",
        "posterior_mean",
        "best_observed",
        "recorded_lower_confidence_bound",
    ],
)
def test_a_missing_column_is_refused(rule: str) -> None:
    data = repeated_data()
    with pytest.raises(BotorchTensorDimensionError, match="`X` to have the 2 columns of the model"):
        recommend(bound_of(mean_variance_gp(data)), data.X[:, :1], rule, torch.zeros(9))


POINTS = torch.linspace(0, 1, 10, dtype=torch.float64).unsqueeze(-1)


def risk_bound(batch: tuple[int, ...] = ()) -> RiskUpperConfidenceBound:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(*batch, 9, 2, generator=generator, dtype=torch.float64)
    model = SingleTaskGP(X, (5 * X).sin().sum(dim=-1, keepdim=True))
    return RiskUpperConfidenceBound(model, DiscreteEnvironment(POINTS), ValueAtRisk(0.2), beta=4.0)


def brute_force(acqf: RiskUpperConfidenceBound, x: Tensor, width: float) -> float:
    r"""The risk of the mean plus some standard deviations at one decision."""
    posterior = acqf.model.posterior(torch.cat([x.expand(10, 1), POINTS], dim=-1))
    values = posterior.mean + width * posterior.variance.sqrt()
    return oracles.value_at_risk(
        oracles.to_numpy(values)[:, 0], torch.full((10,), 0.1).numpy(), 0.2
    )


@pytest.mark.parametrize(
    ("rule", "width"), [("posterior_mean", 0.0), ("lower_confidence_bound", -2.0)]
)
def test_rules_for_a_risk_equal_brute_force(rule: Any, width: float) -> None:
    acqf, X = risk_bound(), torch.rand(12, 1, dtype=torch.float64)
    scores = [brute_force(acqf, x, width) for x in X]
    chosen = recommend(acqf, X, rule)
    assert chosen.value.item() == pytest.approx(max(scores))
    assert chosen.row.item() == scores.index(max(scores))
    assert torch.equal(chosen.point, X[chosen.row])


def test_the_expected_risk_is_the_mean_of_the_risks_of_samples() -> None:
    acqf, X = risk_bound(), torch.rand(12, 1, dtype=torch.float64)
    inputs, weights = acqf.environment.expand(X)
    posterior: Any = acqf.model.posterior(inputs)
    expected = acqf.risk_measure(posterior.rsample(torch.Size([20_000]))[..., 0], weights)
    torch.testing.assert_close(acqf.expected_risk(X), expected.mean(dim=0), rtol=0, atol=0.05)
    chosen = recommend(acqf, X, "expected_risk")
    assert chosen.value == acqf.expected_risk(X).amax()
    assert (acqf.expected_risk(X) - acqf.mean(X)).abs().amax() > 0.1  # another rule


def test_of_a_linear_risk_the_expected_one_is_that_of_the_mean() -> None:
    acqf = risk_bound((2,))
    of_mean = RiskUpperConfidenceBound(acqf.model, acqf.environment, Expectation(), beta=4.0)
    X = torch.rand(2, 3, 1, dtype=torch.float64)
    torch.testing.assert_close(of_mean.expected_risk(X), of_mean.mean(X))


def test_recorded_bounds_of_a_risk() -> None:
    X, recorded = torch.rand(2, 5, 1).double(), torch.rand(2, 5).double()
    chosen = recommend(risk_bound((2,)), X, "recorded_lower_confidence_bound", recorded)
    assert torch.equal(chosen.row, recorded.argmax(dim=-1))
    assert torch.equal(chosen.point, X[torch.arange(2), chosen.row])


def test_decisions_without_a_recorded_bound_are_not_offered() -> None:
    X = torch.rand(3, 1).double()
    recorded = torch.tensor([torch.nan, -2.0, torch.nan]).double()
    chosen = recommend(risk_bound(), X, "recorded_lower_confidence_bound", recorded)
    assert (chosen.row.item(), chosen.value.item()) == (1, -2.0)


def test_bad_input_for_a_risk() -> None:
    acqf, X = risk_bound(), torch.rand(4, 1, dtype=torch.float64)
    with pytest.raises(BotorchTensorDimensionError, match="`batch_shape x m x d_x`"):
        recommend(acqf, X[0], "posterior_mean")
    with pytest.raises(ValueError, match=r"Expected `rule` in .* Got 'best'"):
        recommend(acqf, X, "best")  # type: ignore[arg-type]
    for recorded in (None, torch.zeros(3)):
        with pytest.raises(ValueError, match="Expected `recorded` lower bounds"):
            recommend(acqf, X, "recorded_lower_confidence_bound", recorded)
    with pytest.raises(UnsupportedError, match=r"bound of mean minus variance.* Got RiskUpper"):
        recommend(acqf, X, "best_observed")
    for rule in ("posterior_mean", "expected_risk", "recorded_lower_confidence_bound"):
        with pytest.raises(BotorchTensorDimensionError, match="the 2 inputs of the model"):
            recommend(acqf, X.expand(4, 2), rule, torch.zeros(4))


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


def test_a_point_with_a_hole_is_not_recommended() -> None:
    acqf = LogExpectedImprovement(gp(), 0.0)
    at = decisions(5, d=acqf.model.train_inputs[0].shape[-1])
    best = int(recommend(acqf, at, "posterior_mean").row)
    others = torch.cat([at[:best], at[best + 1 :]])
    at[best, 0] = torch.nan
    found = recommend(acqf, at, "posterior_mean")
    assert torch.equal(found.point, recommend(acqf, others, "posterior_mean").point)
    torch.testing.assert_close(ObjectiveOfMean(acqf).mean(at).isnan(), at.isnan().any(dim=-1))


def test_what_has_no_expected_risk_is_refused() -> None:
    message = "bound of a risk over W.* for the rule 'expected_risk'. Got "
    for bound, name in (
        (LogExpectedImprovement(gp(), 0.0), "LogExpectedImprovement"),
        (bound_of(mean_variance_gp(repeated_data())), "RiskAverseUpperConfidenceBound"),
    ):
        with pytest.raises(UnsupportedError, match=message + name):
            recommend(bound, decisions(4, d=bound.model.train_inputs[0].shape[-1]), "expected_risk")


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
    with without_compiling():
        several = qLogNoisyExpectedHypervolumeImprovement(both, [-2.0, -2.0], X)
    with pytest.raises(UnsupportedError, match="Expected one objective"):
        recommend(several, X, "posterior_mean")
    for wrong in (LogRiskAverseKnowledgeGradient, gp()):
        with pytest.raises(TypeError, match="Expected `bound` to be a confidence bound"):
            recommend(wrong, X, "posterior_mean")  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", ["lower_confidence_bound", "posterior_maen"])
def test_another_rule_is_refused_before_the_search(rule: Any) -> None:
    bound = RiskUpperConfidenceBound(gp(), ENVIRONMENT, Expectation(), beta=4.0)
    unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    with pytest.raises(ValueError, match=r"`rule` to be one of .'posterior_mean', 'expected_risk'"):
        recommend_everywhere(bound, unit, seeds=0, rule=rule)


def test_recorded_bounds_fit_the_batch() -> None:
    rule = "recorded_lower_confidence_bound"
    data = repeated_data((2,))
    bound, recorded = bound_of(mean_variance_gp(data)), torch.arange(9.0).flip(0)
    found = recommend(bound, data.X, rule, recorded)
    assert found.row.tolist() == [0, 0] and torch.equal(found.point, data.X[:, 0])
    with pytest.raises(ValueError, match=r"Expected `recorded` lower bounds.* Got \(3, 9\)"):
        recommend(bound, data.X, rule, recorded.expand(3, -1))


def test_acquisition_functions_of_botorch_recommend_among_complete_rows_of_their_columns() -> None:
    X = torch.rand(9, 2, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    acqf = LogExpectedImprovement(SingleTaskGP(X, X.sin().sum(dim=-1, keepdim=True)), 1.0)
    best = recommend(acqf, X, "posterior_mean")
    missing = X.clone()
    missing[(best.row + 1) % 9] = torch.nan
    assert recommend(acqf, missing, "posterior_mean").row == best.row
    with pytest.raises(BotorchTensorDimensionError, match="2 columns of the model's inputs"):
        recommend(acqf, X[:, :1], "posterior_mean")
