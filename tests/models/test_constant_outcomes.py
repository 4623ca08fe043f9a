r"""Constant outcomes, such as zero yields at first: alone as in a batch, a warning and a model."""

from typing import Any

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from botorch_risk.engine import FastMarginals
from botorch_risk.models import MeanVarianceGP, RepeatedOutcomes
from botorch_risk.repeats import risk_averse_kg
from tests.models.examples import everything

pytestmark = [
    pytest.mark.filterwarnings("ignore:Expected repeats that differ"),
    pytest.mark.filterwarnings("ignore:The noise of"),
    pytest.mark.filterwarnings("ignore:Expected outcomes with a standard deviation"),
    pytest.mark.filterwarnings("ignore:Data .*not standardized"),
    pytest.mark.filterwarnings("ignore:Negative variance values"),  # GPyTorch's floor
]
D = torch.double
X = torch.rand(2, 6, 2, generator=torch.Generator().manual_seed(0), dtype=D)
OTHER = (4 * X[1]).sin().sum(dim=-1, keepdim=True) + torch.tensor([-0.1, 0.02, 0.1], dtype=D)


def tenth(X: Tensor) -> Tensor:
    return torch.full_like(X[..., :1], 0.1)


OPTIONS: dict[str, dict[str, Any]] = {
    "log": {},
    "identity": {"variance_link": "identity"},
    "spread": {"noise_evidence": "spread"},
    "known": {"known_noise": tenth},
    "limits": {"min_noise_variance": 1e-4, "max_noise_variance": 1.0},
    "plain": {"outcome_transform": None},
    "normalized": {"input_transform": Normalize(2)},
    "summary": {},
    "trim": {"trim": 5.0},
}


def built(name: str, X: Tensor, Y: Tensor) -> MeanVarianceGP:
    told: Any = RepeatedOutcomes.from_repeats(Y) if name == "summary" else Y
    options = dict(OPTIONS[name])
    if name == "normalized":
        options["input_transform"] = Normalize(2, batch_shape=X.shape[:-2])
    return MeanVarianceGP(X, told, **options)


@pytest.mark.parametrize("scatter", [0.0, 0.1])
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.handful
def test_a_model_of_constant_outcomes_is_that_of_a_batch(name: str, scatter: float) -> None:
    Y = 47.0 + scatter * torch.tensor([-1.0, 0.0, 1.0], dtype=D).expand(6, 3)
    found = []
    for inputs, told in ((X[0], Y), (X, torch.stack([Y, OTHER]))):
        with pytest.warns(match="outcomes are constant"):
            model = built(name, inputs, told)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        found.append(everything(model, X[0, :3].expand(*inputs.shape[:-2], 3, 2)))
    for alone, batch in zip(*found, strict=True):
        assert alone.isfinite().all()
        torch.testing.assert_close(alone, batch[0], rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(found[0][0], torch.full_like(found[0][0], 47.0))


def test_views_of_a_model_of_botorch_have_its_moments_alone_and_in_a_batch() -> None:
    constant = torch.full((6, 1), 3.0, dtype=D)
    for inputs, told in ((X[0], constant), (X, torch.stack([constant, OTHER[:, :1]]))):
        model = SingleTaskGP(inputs, told).eval()
        found, expected = (
            one.posterior(X[0, :1].expand(*inputs.shape[:-2], 1, 2))
            for one in (FastMarginals(model), model)
        )
        torch.testing.assert_close(found.mean, expected.mean, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(found.variance, expected.variance, rtol=1e-6, atol=1e-9)
        assert found.mean.flatten()[0].item() == pytest.approx(3.0)


def test_an_experiment_goes_on_after_equal_outcomes() -> None:
    bounds = torch.tensor([[0.0], [1.0]], dtype=D)
    strategy = risk_averse_kg(
        bounds, 0, num_repeats=2, risk_aversion=1.0, num_initial=4, num_restarts=2, raw_samples=16
    )
    with pytest.warns(match="outcomes are constant"):
        strategy.tell(strategy.ask(), torch.zeros(1, 4, 2, dtype=D))
        x = strategy.ask()
    strategy.tell(x, torch.tensor([[[0.3, 0.5]]], dtype=D))
    assert strategy.recommend().item() == pytest.approx(x.item())
