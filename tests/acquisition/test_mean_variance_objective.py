r"""Risk aversion in BoTorch's own Monte-Carlo acquisition functions."""

import pytest
import torch
from botorch.acquisition import qSimpleRegret
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.models import ModelListGP, SingleTaskGP
from botorch.optim import optimize_acqf

from botorch_risk.acquisition import MeanVarianceObjective
from botorch_risk.models import MeanVarianceGP
from tests.contracts import RepeatedData, correlation_of, mean_variance_gp, repeated_data


@pytest.fixture
def data() -> RepeatedData:
    return repeated_data()


def test_objective_weighs_one_outcome_of_a_list(data: RepeatedData) -> None:
    model = mean_variance_gp(data)
    constraint = SingleTaskGP(data.X, data.X[:, :1])
    X = torch.rand(3, 2, 2, dtype=torch.float64)
    for index, models in ((0, [model, constraint]), (1, [constraint, model])):
        objective = MeanVarianceObjective(model, 2.0, outcome_index=index)
        samples = ModelListGP(*models).posterior(X).rsample(torch.Size([4]))
        expected = samples[..., index] - 2.0 * model.predicted_noise(X).squeeze(-1)
        torch.testing.assert_close(objective(samples, X), expected)
        assert qSimpleRegret(ModelListGP(*models), objective=objective)(X).shape == (3,)
        from_the_end = MeanVarianceObjective(model, 2.0, outcome_index=index - 2)
        torch.testing.assert_close(from_the_end(samples, X), expected)
    for outcome in (2, -3):
        with pytest.raises(BotorchTensorDimensionError, match=f"with the outcome {outcome}"):
            MeanVarianceObjective(model, 2.0, outcome_index=outcome)(samples, X)


@pytest.mark.filterwarnings("ignore:A not p.d.")  # smooth posterior samples at near points
def test_objective_makes_qlognei_risk_averse() -> None:
    r"""On a flat f, improvement means less noise: the noisy half is left alone."""
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(20, 1, generator=generator, dtype=torch.float64)
    noise = torch.randn(20, 10, generator=generator, dtype=torch.float64)
    model = MeanVarianceGP(X, 0.01 * X + (0.05 + X) * noise, noise_evidence="spread")
    for process in (model.noise_model, model.mean_model):
        correlation_of(process).lengthscale = 0.5
    model.refresh_noise()
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    objective = MeanVarianceObjective(model, risk_aversion=20.0)
    acqf = qLogNoisyExpectedImprovement(model, X, objective=objective, prune_baseline=True)
    candidate, _ = optimize_acqf(acqf, bounds, q=2, num_restarts=2, raw_samples=32)
    assert candidate.max() < 0.5
    samples = torch.zeros(3, 5, 2, 1, dtype=torch.float64)
    at = torch.rand(5, 2, 1, dtype=torch.float64)
    torch.testing.assert_close(
        objective(samples, at), -20 * model.predicted_noise(at).squeeze(-1).expand(3, 5, 2)
    )
    lower, _ = model.noise_confidence_bounds(at, 4.0)
    optimistic = MeanVarianceObjective(model, risk_aversion=20.0, noise_beta=4.0)
    torch.testing.assert_close(optimistic(samples, at), -20 * lower.expand(3, 5, 2))
    with pytest.raises(UnsupportedError, match="passes its points"):
        objective(samples)
