from __future__ import annotations

import pickle

import pytest
import torch
from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
from botorch.acquisition.multi_objective.objective import IdentityMCMultiOutputObjective
from botorch.exceptions.errors import UnsupportedError
from botorch.models import ModelListGP, SingleTaskGP
from botorch.optim import optimize_acqf
from torch import Tensor

from botorch_risk.acquisition import MultiOutputMeanVarianceObjective
from botorch_risk.models import MeanVarianceGP
from tests.contracts import RepeatedData, correlation_of, mean_variance_gp

BOUNDS = torch.tensor([[0.0], [1.0]], dtype=torch.double)


@pytest.fixture
def data() -> RepeatedData:
    return RepeatedData.make()


def two_outcomes(data: RepeatedData) -> tuple[MeanVarianceGP, SingleTaskGP, MeanVarianceGP]:
    other = RepeatedData(data.X, -2 * data.Y + 1)
    return mean_variance_gp(data), SingleTaskGP(data.X, data.X[:, :1]), mean_variance_gp(other)


def test_each_outcome_pays_for_its_own_noise(data: RepeatedData) -> None:
    first, plain, second = two_outcomes(data)
    model = ModelListGP(first, plain, second)
    X = torch.rand(3, 2, 2, dtype=torch.double)
    samples = model.posterior(X).rsample(torch.Size([4]))
    noise = [one.predicted_noise(X).squeeze(-1) for one in (first, second)]
    found = MultiOutputMeanVarianceObjective(model, [1.0, 0.0, 3.0])(samples, X)
    expected = [samples[..., 0] - noise[0], samples[..., 1], samples[..., 2] - 3 * noise[1]]
    torch.testing.assert_close(found, torch.stack(expected, dim=-1))
    chosen = MultiOutputMeanVarianceObjective(model, 2.0, outcomes=[-1, 0])(samples, X)
    expected = [samples[..., 2] - 2 * noise[1], samples[..., 0] - 2 * noise[0]]
    torch.testing.assert_close(chosen, torch.stack(expected, dim=-1))
    lower = [one.noise_confidence_bounds(X, 4.0)[0] for one in (first, second)]
    optimistic = MultiOutputMeanVarianceObjective(model, 2.0, noise_beta=4.0, outcomes=[0, 2])
    expected = [samples[..., 0] - 2 * lower[0], samples[..., 2] - 2 * lower[1]]
    torch.testing.assert_close(optimistic(samples, X), torch.stack(expected, dim=-1))


def test_without_aversion_it_is_the_identity(data: RepeatedData) -> None:
    model = ModelListGP(*two_outcomes(data))
    X = torch.rand(3, 2, 2, dtype=torch.double)
    samples = model.posterior(X).rsample(torch.Size([4]))
    objective = MultiOutputMeanVarianceObjective(model, 0.0)
    assert torch.equal(objective(samples), IdentityMCMultiOutputObjective()(samples))


@pytest.mark.filterwarnings("ignore:A not p.d.")  # smooth posterior samples at near points
def test_hypervolume_improvement_keeps_away_from_noise() -> None:
    r"""Two flat outcomes, both noisy on the right: improvement means the quiet left."""
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(20, 1, generator=generator, dtype=torch.double)
    models = []
    for slope in (0.01, -0.01):
        normal = torch.randn(20, 10, generator=generator, dtype=torch.double)
        model = MeanVarianceGP(X, slope * X + (0.05 + X) * normal)
        for process in (model.noise_model, model.mean_model):
            correlation_of(process).lengthscale = 0.5
        model.refresh_noise()
        models.append(model)
    together = ModelListGP(*models)
    acqf = qLogNoisyExpectedHypervolumeImprovement(
        together,
        ref_point=[-40.0, -40.0],
        X_baseline=X,
        objective=MultiOutputMeanVarianceObjective(together, risk_aversion=20.0),
        prune_baseline=True,
    )
    candidate, _ = optimize_acqf(acqf, BOUNDS, q=2, num_restarts=2, raw_samples=32, sequential=True)
    assert candidate.max() < 0.5


def test_pickles_with_its_models(data: RepeatedData) -> None:
    model = ModelListGP(*two_outcomes(data))
    objective = MultiOutputMeanVarianceObjective(model, [1.0, 0.0, 3.0])
    X = torch.rand(2, 2, dtype=torch.double)
    samples: Tensor = torch.rand(4, 2, 3, dtype=torch.double)
    copy = pickle.loads(pickle.dumps(objective))
    torch.testing.assert_close(copy(samples, X), objective(samples, X))


def test_refuses_what_it_cannot_weigh(data: RepeatedData) -> None:
    first, plain, _ = two_outcomes(data)
    model = ModelListGP(first, plain)
    with pytest.raises(UnsupportedError, match=r"`ModelListGP` of models of one.*Got MeanV"):
        MultiOutputMeanVarianceObjective(first, 1.0)
    with pytest.raises(UnsupportedError, match=r"Expected a MeanVarianceGP.*Got SingleTaskGP"):
        MultiOutputMeanVarianceObjective(model, 1.0)
    with pytest.raises(ValueError, match=r"for each of 2 objectives. Got \[1.0, 0.0, 0.0\]"):
        MultiOutputMeanVarianceObjective(model, [1.0, 0.0, 0.0])
    with pytest.raises(ValueError, match=r"`outcomes` among 2. Got \[0, 2\]"):
        MultiOutputMeanVarianceObjective(model, 0.0, outcomes=[0, 2])
    with pytest.raises(ValueError, match="`risk_aversion`"):
        MultiOutputMeanVarianceObjective(model, [-1.0, 0.0])
    with pytest.raises(UnsupportedError, match="passes its points"):
        MultiOutputMeanVarianceObjective(model, [1.0, 0.0])(torch.rand(4, 2, 2))
