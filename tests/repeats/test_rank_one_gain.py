r"""The gain by readings, against models that are conditioned on the readings."""

import math

import pytest
import torch
from scipy.stats import norm

from botorch_risk.models import MeanVarianceGP
from botorch_risk.repeats import LogRiskAverseKnowledgeGradient
from botorch_risk.repeats.rank_one_gain import RankOneGain
from tests.contracts import mean_variance_gp, repeated_data

DATA = repeated_data()


def quantiles(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    r"""Standard normal quantiles and their weights."""
    steps = torch.linspace(-6, 6, count, dtype=torch.double)
    weights = torch.from_numpy(norm.pdf(steps))
    return steps, weights / weights.sum()


def _gains_by_fantasies(
    model: MeanVarianceGP,
    known: torch.Tensor,
    x: torch.Tensor,
    k: int,
    aversion: float,
    variances: torch.Tensor,
) -> torch.Tensor:
    r"""E max(V_k(a) - V_k(b), 0) of each a, over models that are conditioned on k readings at x.

    `known` are the points that may be recommended without them. The fantasies are a grid of
    quantiles of both outcomes; `variances` makes a sample variance of a quantile of the log noise.
    """

    def value(each: MeanVarianceGP, points: torch.Tensor) -> torch.Tensor:
        noise = each.predicted_noise(points).squeeze(-1)
        return each.mean_marginals(points).mean - aversion * noise

    points = torch.cat([known, x])
    b = value(model, known).argmax()
    deviation = (model.mean_marginals(x).variance + model.noise_of_means(x, k).squeeze()).sqrt()
    _, weights = quantiles(len(variances))
    fine, of_fine = quantiles(601)  # of the outcome, in which the gain has a kink
    total = torch.zeros(len(points), dtype=torch.double)
    for variance, weight in zip(variances, weights, strict=True):
        of_mean = [
            value(
                model.condition_on_observations(
                    x, y.reshape(1, 1), num_repeats=k, variances=variance.reshape(1, 1)
                ),
                points,
            )
            for y in (model.mean_marginals(x).mean, model.mean_marginals(x).mean + deviation)
        ]
        values = of_mean[0] + fine.unsqueeze(-1) * (of_mean[1] - of_mean[0])  # linear in y
        lead = (values - values[:, b : b + 1]).clamp_min(0)
        total += weight * (of_fine.unsqueeze(-1) * lead).sum(dim=0)
    return total


@pytest.mark.parametrize(
    "pending", [[], pytest.param([[0.35, 0.45], [0.9, 0.2]], marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("k", [3, pytest.param(8, marks=pytest.mark.slow)])
def test_gain_is_that_of_models_conditioned_on_the_readings(
    k: int, pending: list[list[float]]
) -> None:
    model = mean_variance_gp(DATA).eval()
    X_pending = torch.tensor(pending, dtype=torch.double).reshape(-1, 2)
    x = torch.tensor([[0.15, 0.55]], dtype=torch.double)
    acqf = LogRiskAverseKnowledgeGradient(
        model, 0.7, [k], 1.5, reading_cost=2.0, num_compared=11, X_pending=X_pending
    )
    known = torch.cat([model.train_X, X_pending])
    if pending:
        model = model.condition_on_pending(X_pending)
    half = torch.tensor((k - 1) / 2, dtype=torch.double)
    mean, variance = (part.squeeze() for part in model.noise.marginals(x))
    spread = (variance + torch.polygamma(1, half)).sqrt()
    logs = mean + spread * quantiles(31)[0]
    variances = (logs + half.digamma() - half.log()).exp()
    expected = _gains_by_fantasies(model, known, x, k, 0.7, variances).max()
    found = acqf.evaluate(x).squeeze()
    assert found.item() == pytest.approx(math.log(expected / (1.5 + 2 * k)), abs=2e-3)


def test_a_point_that_is_compared_already_has_a_gain() -> None:
    r"""Readings move it as they move itself, so that their lead is known."""
    model = mean_variance_gp(DATA).eval()
    acqf = LogRiskAverseKnowledgeGradient(model, 0.7, num_repeats=[2], num_compared=9)
    X = model.train_X.clone().requires_grad_()
    gains = acqf.evaluate(X)
    (slope,) = torch.autograd.grad(gains.sum(), X)
    assert gains.isfinite().all() and slope.isfinite().all()


def test_a_point_with_a_single_reading_is_compared() -> None:
    X = torch.linspace(0, 1, 3, dtype=torch.double).unsqueeze(-1)
    Y = torch.tensor([[0.1, 0.3], [0.2, 0.5], [3.0, math.nan]]).double()
    gain = RankOneGain.of(MeanVarianceGP(X, Y).eval(), 0.5, num_compared=3)
    assert gain.is_point.all()


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_gain_has_the_units_of_the_outcome(unit: float) -> None:
    def rates(scale: float) -> torch.Tensor:
        model = MeanVarianceGP(DATA.X, scale * DATA.Y).eval()
        acqf = LogRiskAverseKnowledgeGradient(model, 0.7 / scale, num_repeats=[2, 4])
        return acqf.log_rates(model.train_X + 0.01)

    torch.testing.assert_close(rates(unit), rates(1.0) + math.log(unit), rtol=1e-4, atol=1e-4)
