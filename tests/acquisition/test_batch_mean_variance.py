r"""What the joint form of the risk-averse bound reduces to."""

from typing import Any

import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.fit import fit_gpytorch_mll
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood

from botorch_risk.acquisition import RiskAverseUpperConfidenceBound, qRiskAverseUpperConfidenceBound
from botorch_risk.models import MeanVarianceGP
from botorch_risk.seeding import generators
from botorch_risk.test_functions import HeteroscedasticSine
from tests.contracts import RepeatedData, correlation_of, mean_variance_gp, repeated_data

TWICE = ScalarizedPosteriorTransform(torch.tensor([-2.0], dtype=torch.float64))  # and minimised


def draw_points(n: int = 7) -> torch.Tensor:
    return torch.rand(n, 1, 2, dtype=torch.float64)


@pytest.fixture
def data() -> RepeatedData:
    return repeated_data()


@pytest.fixture(params=["log", "identity"])
def model(request: pytest.FixtureRequest, data: RepeatedData) -> MeanVarianceGP:
    return mean_variance_gp(data, variance_link=request.param, min_noise_variance=1e-3)


@pytest.mark.parametrize("options", [{}, {"noise_beta": None}, {"posterior_transform": TWICE}])
@pytest.mark.parametrize("link", ["log", "identity"])
@pytest.mark.parametrize("batch_shape", [(), (2,)], ids=str)
@pytest.mark.handful
def test_joint_form_is_the_average_of_the_sequential_bounds(
    batch_shape: tuple[int, ...], link: str, options: dict[str, Any]
) -> None:
    r"""Each point is scored as if those before it, pending ones first, were pending."""
    data = repeated_data(batch_shape)
    model = mean_variance_gp(data, variance_link=link, min_noise_variance=1e-3)
    X = torch.rand(*batch_shape, 4, 2, dtype=torch.float64)
    pending, candidates = X[..., :1, :], X[..., 1:, :]
    terms = [
        RiskAverseUpperConfidenceBound(
            model, risk_aversion=1.5, X_pending=X[..., :j, :], **options
        ).evaluate(X[..., j : j + 1, :])
        for j in (1, 2, 3)
    ]
    acqf = qRiskAverseUpperConfidenceBound(model, risk_aversion=1.5, X_pending=pending, **options)
    expected = torch.cat(terms, dim=-1).mean(dim=-1)
    torch.testing.assert_close(acqf(candidates), expected.reshape(acqf(candidates).shape))


def test_joint_form_at_q_one_is_the_analytic_bound(model: MeanVarianceGP) -> None:
    joint = qRiskAverseUpperConfidenceBound(model, risk_aversion=1.5)
    analytic = RiskAverseUpperConfidenceBound(model, risk_aversion=1.5)
    X = draw_points()
    torch.testing.assert_close(joint(X), analytic(X))


def test_joint_form_rewards_spreading_out_over_unknown_noise(data: RepeatedData) -> None:
    r"""Where f is known and only the noise is not, a twin adds nothing and a far point does."""
    model = mean_variance_gp(data)
    correlation_of(model.mean_model).lengthscale = 50.0
    model.refresh_noise()
    acqf = qRiskAverseUpperConfidenceBound(model, beta=0.0, risk_aversion=1.0)
    point = torch.tensor([[0.02, 0.95]], dtype=torch.float64)
    far = torch.tensor([[0.95, 0.02]], dtype=torch.float64)
    alone, far_alone, twin, spread = (
        acqf(X.unsqueeze(0))
        for X in (point, far, torch.cat([point, point]), torch.cat([point, far]))
    )
    assert twin < alone - 0.001  # the second look at the same unknown noise counts less
    torch.testing.assert_close(spread, (alone + far_alone) / 2, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.slow
def test_joint_value_never_rises_with_the_aversion(k: int) -> None:
    r"""No sample of a variance is negative, so that more aversion is never worth more."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        X = torch.rand(15, 2, generator=generator, dtype=torch.float64)
        noise = torch.randn(15, k, generator=generator, dtype=torch.float64)
        model = MeanVarianceGP(X, (5 * X.sum(-1, keepdim=True)).sin() + (0.1 + X[:, 1:]) * noise)
        corners = torch.tensor([[[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]]).double()
        values = torch.cat(
            [
                qRiskAverseUpperConfidenceBound(model, risk_aversion=a)(corners)
                for a in (0.0, 1.0, 5.0, 20.0, 100.0)
            ]
        )
        assert (values.diff() < 0).all()


@pytest.mark.slow
def test_joint_batch_on_the_sine_is_as_averse_as_the_sequential_one() -> None:
    problem = HeteroscedasticSine()
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    differences = []
    for seed in (0, 5, 6, 9):  # with a maximum over the batch some points went to the noisy end
        torch.manual_seed(seed)
        X = 2 * torch.rand(12, 1, dtype=torch.float64)
        Y = problem.sample_repeats(X.unsqueeze(0), 4, generators([seed], "x"))[0]
        model = MeanVarianceGP(X / 2, Y)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        batches = []
        for acqf, sequential in (
            (qRiskAverseUpperConfidenceBound(model, risk_aversion=20.0), False),
            (RiskAverseUpperConfidenceBound(model, risk_aversion=20.0), True),
        ):
            torch.manual_seed(0)
            batch, _ = optimize_acqf(
                acqf, bounds, q=4, num_restarts=12, raw_samples=1024, sequential=sequential
            )
            batches.append(problem.mean_variance(2 * batch, 20.0).mean())
        differences.append(batches[0] - batches[1])
    assert torch.stack(differences).mean() > -0.1  # of a range of 25
