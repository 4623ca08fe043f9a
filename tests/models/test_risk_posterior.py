r"""The posterior of a risk, and its paths."""

from typing import Any

import pytest
import torch
from botorch.acquisition.thompson_sampling import PathwiseThompsonSampling
from botorch.sampling.get_sampler import get_sampler
from botorch.sampling.normal import SobolQMCNormalSampler
from botorch.sampling.pathwise import draw_matheron_paths, get_matheron_path_model

from botorch_risk.models.risk_posterior import (
    Column,
    Reduction,
    RiskPosterior,
    SharedRisks,
    reduce_columns,
)
from botorch_risk.models.robust_model import RobustModel, RobustPath
from botorch_risk.risk import ConditionalValueAtRisk, Expectation, WorstCase
from tests.models.risks import DISTRIBUTION, ENVIRONMENT, W, decisions, gp, two_outputs


def posterior(q: int = 2) -> RiskPosterior:
    reductions = [Reduction(0, ENVIRONMENT, m) for m in (Expectation(), WorstCase())]
    return RobustModel(gp(), reductions).posterior(decisions(5, q))


def test_columns() -> None:
    values = torch.arange(12.0).reshape(2, 3, 2)
    columns = [Column(0, 0, 2, Expectation()), Column(1, 1, 3, WorstCase(), sign=-1.0)]
    risks = reduce_columns(values, [torch.tensor([0.5, 0.5])] * 2, columns)
    assert torch.equal(risks, torch.tensor([[1.0, -5.0], [7.0, -11.0]]))


def test_shapes_are_those_of_decisions() -> None:
    risks = posterior()
    assert risks._extended_shape(torch.Size([7])) == (7, 5, 2, 2)
    assert risks.batch_shape == (5,)
    assert risks.rsample().shape == (1, 5, 2, 2)
    assert risks.rsample(torch.Size([3, 4])).shape == (3, 4, 5, 2, 2)
    sampler = get_sampler(risks, torch.Size([8]), seed=1)
    assert isinstance(sampler, SobolQMCNormalSampler)
    assert sampler(risks).shape == (8, 5, 2, 2)
    generic = RobustModel(two_outputs(), [Reduction(1, ENVIRONMENT, Expectation())])
    assert generic.posterior(decisions(5, 2)).rsample(torch.Size([3])).shape == (3, 5, 2, 1)


def test_moments() -> None:
    model, X = gp(), decisions(4, 1)
    reductions = [
        Reduction(0, ENVIRONMENT, m) for m in (Expectation(), ConditionalValueAtRisk(0.5))
    ]
    risks = RobustModel(model, reductions).posterior(X)
    of_f = model.posterior(ENVIRONMENT.expand(X)[0].flatten(-3, -2))
    mean = (of_f.mean.squeeze(-1) * DISTRIBUTION).sum(dim=-1, keepdim=True)
    torch.testing.assert_close(risks.mean[..., 0], mean)  # exact: the samples are antithetic
    covariance = of_f.distribution.covariance_matrix
    variance = torch.einsum("i,bij,j->b", DISTRIBUTION, covariance, DISTRIBUTION)
    torch.testing.assert_close(risks.variance[..., 0, 0], variance, rtol=0.1, atol=0)
    torch.manual_seed(0)
    drawn = risks.rsample(torch.Size([20000]))
    spread = risks.variance.sqrt()
    assert ((risks.mean - drawn.mean(dim=0)).abs() < 0.2 * spread).all()
    torch.testing.assert_close(risks.variance, drawn.var(dim=0), rtol=0.25, atol=0)


def test_moments_have_gradients() -> None:
    X = decisions(2, 1).requires_grad_()
    model = RobustModel(gp(), [Reduction(0, ENVIRONMENT, ConditionalValueAtRisk(0.5))])
    assert torch.autograd.gradcheck(lambda x: model.posterior(x).mean, X)


def test_risks_of_shared_decisions_are_taken_once() -> None:
    shared = SharedRisks([DISTRIBUTION], 2)
    samples = torch.rand(6, 1, 2 * len(W), dtype=torch.float64)
    columns = [Column(0, 0, len(W), Expectation())]
    first = shared.risks(samples, columns)
    assert first.shape == (6, 1, 2, 1)
    assert shared.risks(samples, columns) is first
    assert shared.risks(samples.clone(), columns) is not first


def robust(model: Any, *outcomes: int) -> RobustModel:
    measure = ConditionalValueAtRisk(0.5)
    return RobustModel(model, [Reduction(i, ENVIRONMENT, measure) for i in outcomes])


def test_a_path_of_risks_is_the_risk_of_a_path() -> None:
    X, measure = decisions(6), ConditionalValueAtRisk(0.5)
    torch.manual_seed(1)
    path = draw_matheron_paths(gp(), sample_shape=torch.Size([]))
    values = path(ENVIRONMENT.expand(X)[0].flatten(0, 1)).unflatten(-1, (6, 4))
    torch.manual_seed(1)
    drawn = draw_matheron_paths(robust(gp(), 0), sample_shape=torch.Size([]))
    assert isinstance(drawn, RobustPath)
    torch.testing.assert_close(drawn(X), measure(values, ENVIRONMENT.weights))


def test_the_distribution_of_paths_is_the_posterior() -> None:
    X = decisions(4, 1)
    model = RobustModel(gp(), [Reduction(0, ENVIRONMENT, Expectation())])
    paths = get_matheron_path_model(model, sample_shape=torch.Size([2000]))
    values = paths(X.unsqueeze(1).expand(4, 2000, 1, 2)).squeeze(-1).squeeze(-1)  # 4 x 2000
    posterior = model.posterior(X)
    spread = posterior.variance.sqrt().squeeze(-1).squeeze(-1)
    error = (values.mean(dim=-1) - posterior.mean.squeeze(-1).squeeze(-1)).abs()
    assert (error < 0.3 * spread).all()
    torch.testing.assert_close(values.std(dim=-1), spread, rtol=0.2, atol=0)


@pytest.mark.parametrize("outcomes", [(0,), (0, 1)])
def test_shapes(outcomes: tuple[int, ...]) -> None:
    paths = get_matheron_path_model(robust(two_outputs(), *outcomes))
    assert paths(decisions(5, 3)).shape == (5, 3, len(outcomes))


def test_thompson_sampling() -> None:
    torch.manual_seed(2)
    acqf = PathwiseThompsonSampling(robust(gp(), 0))
    X = decisions(5, 2).requires_grad_()
    values = acqf(X)
    assert values.shape == (5,)
    assert torch.equal(acqf(X), values)
    assert torch.autograd.gradcheck(acqf, X)
