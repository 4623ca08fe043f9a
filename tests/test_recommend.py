r"""Reporting rules and the worth of repeats."""

from __future__ import annotations

import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models import SingleTaskGP

from botorch_risk.acquisition import RiskAverseUpperConfidenceBound
from botorch_risk.models import MeanVarianceGP
from botorch_risk.recommend import recommend, repeat_advice
from tests.contracts import BATCH_SHAPES, RepeatedData, mean_variance_gp

WEIGHTS = {"risk_aversion": 0.7, "beta": 3.0, "noise_beta": 2.0}


@pytest.mark.parametrize("batch_shape", BATCH_SHAPES, ids=str)
@pytest.mark.parametrize("rule", ["lower_confidence_bound", "posterior_mean", "best_observed"])
def test_rules_pick_the_best_row(rule: str, batch_shape: tuple[int, ...]) -> None:
    data = RepeatedData.make(batch_shape)
    model = mean_variance_gp(data)
    bound = RiskAverseUpperConfidenceBound(model, **WEIGHTS)
    scores = {
        "lower_confidence_bound": bound.lower(data.X),
        "posterior_mean": bound.mean(data.X),
        "best_observed": data.Y.mean(dim=-1) - 0.7 * data.Y.var(dim=-1),
    }[rule]
    chosen = recommend(model, data.X, rule=rule, **WEIGHTS)
    assert chosen.point.shape == (*batch_shape, 2)
    torch.testing.assert_close(chosen.value, scores.amax(dim=-1))
    assert torch.equal(chosen.row, scores.argmax(dim=-1))
    rows = chosen.row[..., None, None].expand(*batch_shape, 1, 2)
    assert torch.equal(chosen.point, data.X.gather(-2, rows).squeeze(-2))


@pytest.mark.parametrize("rule", ["lower_confidence_bound", "posterior_mean", "best_observed"])
def test_minimisation_keeps_the_sign_of_the_penalty(rule: str) -> None:
    r"""Negated outcomes maximised are the outcomes minimised."""
    data = RepeatedData.make()
    minimise = ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.float64))
    model, negated = (mean_variance_gp(RepeatedData(data.X, sign * data.Y)) for sign in (1, -1))
    chosen = recommend(model, data.X, rule=rule, posterior_transform=minimise, **WEIGHTS)
    expected = recommend(negated, data.X, rule=rule, **WEIGHTS)
    assert torch.equal(chosen.point, expected.point)
    torch.testing.assert_close(chosen.value, expected.value)


def test_recorded_bounds_need_only_themselves() -> None:
    data = RepeatedData.make()
    recorded = torch.arange(9.0).flip(0)
    rule = "recorded_lower_confidence_bound"
    assert recommend(mean_variance_gp(data), data.X, rule=rule, recorded=recorded).row == 0
    with pytest.raises(ValueError, match=r"Expected `recorded` lower bounds.* Got None for 9"):
        recommend(mean_variance_gp(data), data.X, rule=rule)
    with pytest.raises(ValueError, match=r"Got \(4,\) for 9 points"):
        recommend(mean_variance_gp(data), data.X, rule=rule, recorded=recorded[:4])


def test_best_observed_with_pooled_and_single_rows() -> None:
    X = torch.tensor([[0.1], [0.5], [0.1], [0.9]], dtype=torch.float64)
    nan = torch.nan
    Y = torch.tensor([[1.0, 1.2], [5.0, nan], [1.1, 0.9], [0.0, 0.2]], dtype=torch.float64)
    model = MeanVarianceGP(X, Y)
    chosen = recommend(model, X, rule="best_observed", risk_aversion=1.0)
    assert chosen.row == 0  # the row of a single repeat, 5.0, shows nothing of its noise
    pooled = torch.tensor([1.0, 1.2, 1.1, 0.9], dtype=torch.float64)
    torch.testing.assert_close(chosen.value, pooled.mean() - pooled.var())
    assert recommend(model, X, rule="best_observed", risk_aversion=0.0).row == 1
    with pytest.raises(InputDataError, match=r"points that the model was built from.* Got 1 other"):
        recommend(model, X + torch.tensor([[0.0], [0.0], [0.0], [0.05]]), rule="best_observed")
    with pytest.raises(InputDataError, match="at least two repeats"):
        recommend(model, X[1:2], rule="best_observed")


def test_confidence_prefers_the_known_point_to_the_lucky_one() -> None:
    r"""A single noisy draw that came out high is not reported by the bound."""
    generator = torch.Generator().manual_seed(0)
    X = torch.linspace(0, 1, 8, dtype=torch.float64).unsqueeze(-1)
    rho = torch.where(X > 0.6, 2.0, 0.1)
    Y = rho * torch.randn(8, 5, generator=generator, dtype=torch.float64)
    Y[-1] += 2 - Y[-1].mean()
    model = MeanVarianceGP(X, Y)
    for process in (model.noise_model, model.mean_model):
        process.covar_module.lengthscale = 0.2
    model.refresh_noise()
    assert recommend(model, X, rule="best_observed", risk_aversion=0.0).row == 7
    assert recommend(model, X, rule="lower_confidence_bound", risk_aversion=0.0).row < 5


def test_bad_input() -> None:
    data = RepeatedData.make()
    model = mean_variance_gp(data)
    with pytest.raises(ValueError, match=r"Expected `rule` in .* Got 'luck'"):
        recommend(model, data.X, rule="luck")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="risk_aversion"):
        recommend(model, data.X, risk_aversion=-1.0)
    with pytest.raises(BotorchTensorDimensionError, match="`batch_shape x m x d`"):
        recommend(model, data.X[0])
    with pytest.raises(UnsupportedError, match="Expected a MeanVarianceGP"):
        recommend(SingleTaskGP(data.X, data.Y[:, :1]), data.X)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"`max_repeats` to be at least 2. Got 1"):
        repeat_advice(model, data.X, max_repeats=1)
    with pytest.raises(ValueError, match="setup_cost"):
        repeat_advice(model, data.X, setup_cost=-1.0)


@pytest.mark.parametrize("link", ["log", "identity"])
def test_width_after_repeats_is_that_of_the_conditioned_model(link: str) -> None:
    data = RepeatedData.make()
    model = mean_variance_gp(
        data,
        variance_link=link,
        sample_variance_noise="pointwise" if link == "identity" else None,
        min_noise_variance=1e-3,
    )
    x = torch.tensor([[0.3, 0.6]], dtype=torch.float64)
    conditioned = model.condition_on_pending(x, num_repeats=6)
    expected = conditioned.noise_confidence_bounds(x, 4.0)
    counts = torch.tensor([6.0], dtype=torch.float64)
    for ours, theirs in zip(
        model.noise.bounds_after_repeats(x, 4.0, counts), expected, strict=True
    ):
        torch.testing.assert_close(ours, theirs)


def test_advice_repeats_where_noise_dominates() -> None:
    generator = torch.Generator().manual_seed(0)
    X = torch.linspace(0, 1, 12, dtype=torch.float64).unsqueeze(-1)
    rho = torch.where(X > 0.5, 1.0, 0.01)
    Y = (3 * X).sin() + rho * torch.randn(12, 4, generator=generator, dtype=torch.float64)
    model = MeanVarianceGP(X, Y)
    for process in (model.noise_model, model.mean_model):
        process.covar_module.lengthscale = 0.2
    model.refresh_noise()
    at = torch.tensor([[0.05], [0.95]], dtype=torch.float64)
    free = repeat_advice(model, at, risk_aversion=1.0, setup_cost=0.0)
    assert free.rate[1] > free.rate[0]
    dear = repeat_advice(model, at, risk_aversion=1.0, setup_cost=10.0)
    assert (dear.num_repeats >= free.num_repeats).all()
    assert (dear.rate < free.rate).all()
    assert (dear.num_repeats > 1).all()


def test_points_without_a_recorded_bound_are_not_offered() -> None:
    data = RepeatedData.make((2,))
    model = mean_variance_gp(data)
    recorded = torch.full((2, 9), torch.nan, dtype=torch.float64)
    recorded[0, [2, 5]], recorded[1, 7] = torch.tensor([0.5, 0.2]).double(), -3.0
    options = {"rule": "recorded_lower_confidence_bound"}
    chosen = recommend(model, data.X, recorded=recorded, **options)
    assert chosen.row.tolist() == [2, 7]
    assert chosen.value.tolist() == [0.5, -3.0]
    recorded[1] = torch.nan
    with pytest.raises(InputDataError, match=r"at least one point in each .* 1 of 2: \[\[1\]\]"):
        recommend(model, data.X, recorded=recorded, **options)


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
    data = RepeatedData.make()
    with pytest.raises(BotorchTensorDimensionError, match="`X` to have the 2 columns of the model"):
        recommend(mean_variance_gp(data), data.X[:, :1], rule=rule, recorded=torch.zeros(9))
