r"""A Gaussian process with samples of its hyperparameters, in BoTorch's and in our functions."""

from typing import Any

import pytest
import torch
from botorch.acquisition import (
    LogExpectedImprovement,
    PosteriorMean,
    UpperConfidenceBound,
    qKnowledgeGradient,
    qLogExpectedImprovement,
    qUpperConfidenceBound,
)
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms import Normalize
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood, LeaveOneOutPseudoLikelihood
from torch import Tensor

from botorch_risk.acquisition import RiskUpperConfidenceBound, risk_samples
from botorch_risk.engine import Belief
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.models import SampledGP
from botorch_risk.recommend import recommend_everywhere
from botorch_risk.risk import ConditionalValueAtRisk, Expectation, RiskMeasure
from botorch_risk.robust import robust
from botorch_risk.stopping import regret_samples

UNIT = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
WEATHER = DiscreteEnvironment(torch.linspace(0, 1, 5, dtype=torch.double).unsqueeze(-1))
TAIL = ConditionalValueAtRisk(0.3)


def points(n: int, d: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(n)
    return torch.rand(n, d, generator=generator, dtype=torch.double)


def fitted(num_samples: int = 8, **options: Any) -> SampledGP:
    X = points(12)
    model = SampledGP(X, (5 * X).sin().sum(dim=-1, keepdim=True), num_samples=num_samples)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


def test_the_moments_are_those_of_the_mixture_of_the_members() -> None:
    model, X = fitted(), points(7)
    posterior, belief = model.posterior(X), Belief(model)
    mean, variance = belief(X)
    torch.testing.assert_close(mean, posterior.mixture_mean.squeeze(-1))
    torch.testing.assert_close(variance, posterior.mixture_variance.squeeze(-1))
    torch.testing.assert_close(belief.mean(X), mean)
    each = torch.stack([_alone(model, s).posterior(X).mean for s in range(8)])
    torch.testing.assert_close(posterior.mixture_mean, each.mean(dim=0), rtol=1e-6, atol=1e-8)
    assert model.posterior(X.expand(3, 7, 2)).mean.shape == (3, 8, 7, 1)


def _alone(model: SampledGP, s: int) -> Any:
    r"""One member as a model of its own."""
    from botorch_risk.models import scaled_gp

    X = model.train_inputs[0][s]
    alone = scaled_gp(X, (5 * X).sin().sum(dim=-1, keepdim=True))
    state = {
        name: value[s]
        if value.shape[:1] == (8,) and value.shape != alone.state_dict()[name].shape
        else value
        for name, value in model.state_dict().items()
        if name in alone.state_dict()
    }
    alone.load_state_dict(state)
    return alone.eval()


@pytest.mark.parametrize(
    "make",
    [
        lambda model: LogExpectedImprovement(model, 0.5),
        lambda model: UpperConfidenceBound(model, 4.0),
        PosteriorMean,
        lambda model: qLogExpectedImprovement(model, 0.5),
        lambda model: qUpperConfidenceBound(model, 4.0),
        lambda model: qLogNoisyExpectedImprovement(model, points(12)),
    ],
    ids=["LogEI", "UCB", "mean", "qLogEI", "qUCB", "qLogNEI"],
)
def test_acquisition_functions_of_botorch_accept_it(make: Any) -> None:
    acqf = make(fitted())
    x, value = optimize_acqf(acqf, UNIT, q=1, num_restarts=2, raw_samples=8)
    assert x.shape == (1, 2)
    assert value >= acqf(points(20).unsqueeze(-2)).median()


def test_its_bound_in_botorch_averages_the_members_and_ours_is_of_the_mixture() -> None:
    model, x = fitted(), points(4, 1)
    pairs = torch.cat([x, torch.full_like(x, 0.3)], dim=-1).unsqueeze(-2)
    now = DiscreteEnvironment(torch.tensor([[0.3]], dtype=torch.double))
    ours = RiskUpperConfidenceBound(model, now, Expectation(), beta=4.0)
    mixture = model.posterior(pairs)
    expected = mixture.mixture_mean + 2 * mixture.mixture_variance.sqrt()
    torch.testing.assert_close(ours(x.unsqueeze(-2)), expected.flatten())
    each = mixture.mean + 2 * mixture.variance.sqrt()
    theirs = UpperConfidenceBound(model, 4.0)(pairs)
    torch.testing.assert_close(theirs, each.mean(dim=-3).flatten())
    assert (ours(x.unsqueeze(-2)) >= theirs - 1e-9).all()


@pytest.mark.parametrize("measure", [Expectation(), TAIL])
def test_an_expected_risk_is_the_average_of_the_members(measure: RiskMeasure) -> None:
    model, x = fitted(), points(3, 1)
    found = RiskUpperConfidenceBound(model, WEATHER, measure, beta=4.0).expected_risk(x)
    members = RiskUpperConfidenceBound(model.members, WEATHER, measure, beta=4.0)
    torch.testing.assert_close(found, members.expected_risk(x.expand(8, 3, 1)).mean(dim=0))


def test_samples_of_risks_and_regrets_are_pooled() -> None:
    model, x = fitted(), points(3, 1)
    risks = risk_samples(model, WEATHER, TAIL, x, 32)
    assert risks.shape == (3, 8 * 32)
    each = risk_samples(model.members, WEATHER, TAIL, x.expand(8, 3, 1), 32)
    torch.testing.assert_close(risks.mean(dim=-1), each.mean(dim=(0, -1)))
    regrets = regret_samples(model, WEATHER, TAIL, x[0], x, 64)
    assert regrets.shape == (8 * 64,) and (regrets >= 0).all()


def test_our_functions_optimise_it_alone_and_with_pending_decisions() -> None:
    model, unit = fitted(), UNIT[:, :1]
    bound = RiskUpperConfidenceBound(model, WEATHER, TAIL, beta=4.0)
    batch, _ = optimize_acqf(bound, unit, q=2, num_restarts=2, raw_samples=8, sequential=True)
    assert batch.shape == (2, 1)
    best = recommend_everywhere(bound, unit, seeds=0, rule="expected_risk", num_restarts=2)
    grid = torch.linspace(0, 1, 41, dtype=torch.double).unsqueeze(-1)
    assert best.value >= bound.expected_risk(grid).max() - 1e-3
    risks, options = robust(model, WEATHER, TAIL, ())
    noisy = qLogNoisyExpectedImprovement(risks, points(4, 1), **options)
    values: Any = noisy(points(3, 1).unsqueeze(-2))
    assert values.isfinite().all()


def test_the_next_fit_begins_where_the_samples_were() -> None:
    model = fitted()
    first: Any = model.sampled
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    second: Any = model.sampled
    assert second is not first
    assert torch.allclose(first.location, second.location, atol=1.0)


def test_further_data_belong_to_all_members() -> None:
    model, X = fitted(), points(3)
    further = model.condition_on_observations(X, torch.ones(3, 1, dtype=torch.double))
    assert further.posterior(X).mixture_variance.max() < model.posterior(X).mixture_variance.max()
    assert further.train_inputs[0].shape == (8, 15, 2)
    assert model.subset_output([0]) is model


def test_inputs_are_transformed_and_noise_may_be_given() -> None:
    X = points(12)
    Y, noise = (5 * X).sin().sum(dim=-1, keepdim=True), torch.full((12, 1), 1e-2).double()
    wide = SampledGP(100 * X, Y, noise, num_samples=4, input_transform=Normalize(2))
    fit_gpytorch_mll(ExactMarginalLogLikelihood(wide.likelihood, wide))
    assert (wide.posterior(100 * X).mixture_mean - Y).abs().max() < 0.5


def test_what_it_does_not_support_is_refused() -> None:
    model = fitted(num_samples=2)
    with pytest.raises(UnsupportedError, match="fantasies"):
        qKnowledgeGradient(model, num_fantasies=2)(points(3).unsqueeze(0))
    with pytest.raises(UnsupportedError, match="members"):
        Belief(model).joint()
    with pytest.raises(UnsupportedError, match="one outcome"):
        model.subset_output([1])
    with pytest.raises(UnsupportedError, match="sampled"):
        fit_gpytorch_mll(LeaveOneOutPseudoLikelihood(model.likelihood, model))
    with pytest.raises(BotorchTensorDimensionError, match="only batch dimension"):
        SampledGP(points(6).expand(2, 6, 2), torch.ones(2, 6, 1).double())
    with pytest.raises(ValueError, match="num_samples"):
        SampledGP(points(6), torch.ones(6, 1).double(), num_samples=1)
