from typing import Any

import pytest
import torch
from ax.core.search_space import SearchSpaceDigest
from ax.generators.torch_base import TorchOptConfig
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms import Normalize, Standardize
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood

from botorch_risk.acquisition import RiskAverseUpperConfidenceBound
from botorch_risk.ax import risk_averse
from botorch_risk.ax.generator import RiskGenerator, addressed_draws
from botorch_risk.ax.observed import ObservedDataset
from botorch_risk.models import MeanVarianceGP

BOUNDS = [(0.0, 2.0), (1.0, 3.0)]


def data() -> ObservedDataset:
    X = torch.rand(12, 2, dtype=torch.double) * 2 + torch.tensor([0.0, 1.0])
    table = X.sum(dim=-1, keepdim=True).sin() + 0.1 * X[:, :1] * torch.randn(12, 4)
    counts = torch.full((12, 1), 4.0, dtype=torch.double)
    return ObservedDataset(
        X,
        table.mean(dim=-1, keepdim=True),
        counts=counts,
        Yvar=table.var(dim=-1, keepdim=True) / 4,
        feature_names=["a", "b"],
        outcome_names=["y"],
    )


def generator(**options: Any) -> RiskGenerator:
    r"""As Ax builds it from the strategy."""
    (spec,) = (
        risk_averse("y", risk_aversion=2.0, **options).nodes_by_name["risk_averse"].generator_specs
    )
    return RiskGenerator(**spec.generator_kwargs)


def test_ax_and_plain_botorch_have_the_same_model_and_the_same_candidate() -> None:
    dataset, digest = data(), SearchSpaceDigest(feature_names=["a", "b"], bounds=BOUNDS)
    ours = generator(seed=7)
    ours.fit([dataset], digest)
    config = TorchOptConfig(objective_weights=torch.ones(1, 1, dtype=torch.double))
    found = ours.gen(1, digest, config).points

    bounds = torch.tensor(BOUNDS, dtype=torch.double).T
    plain = MeanVarianceGP.from_summary(
        dataset.X,
        dataset.Y,
        4 * dataset.Yvar,
        dataset.counts,
        input_transform=Normalize(2, bounds=bounds),
        outcome_transform=Standardize(1),
    )
    fit_gpytorch_mll(ExactMarginalLogLikelihood(plain.likelihood, plain))
    X = torch.rand(9, 2, dtype=torch.double) + 1
    model = ours.surrogate.model
    torch.testing.assert_close(model.posterior(X).mean, plain.posterior(X).mean)
    torch.testing.assert_close(model.posterior(X).variance, plain.posterior(X).variance)
    torch.testing.assert_close(model.noise_posterior(X).mean, plain.noise_posterior(X).mean)

    acqf = RiskAverseUpperConfidenceBound(plain, risk_aversion=2.0)
    with addressed_draws(7, "gen", 12):
        expected, _ = optimize_acqf(acqf, bounds, q=1, num_restarts=20, raw_samples=1024)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


@pytest.mark.filterwarnings("ignore:A not p.d.")  # smooth posterior samples at near points
@pytest.mark.slow
def test_an_acquisition_function_of_botorch_by_its_class() -> None:
    dataset, digest = data(), SearchSpaceDigest(feature_names=["a", "b"], bounds=BOUNDS)
    plain = RiskGenerator(
        surrogate_spec=generator().surrogate_spec, botorch_acqf_class=qLogNoisyExpectedImprovement
    )
    plain.fit([dataset], digest)
    config = TorchOptConfig(objective_weights=torch.ones(1, 1, dtype=torch.double))
    assert plain.gen(2, digest, config).points.shape == (2, 2)


def test_draws_are_addressed_and_leave_no_trace() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    with addressed_draws(1, "gen", 4):
        first = torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)
    with addressed_draws(1, "gen", 5):
        assert not torch.equal(first, torch.rand(3))
