r"""Risks of several outcomes as one model."""

import pytest
import torch
from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
from botorch.models.deterministic import GenericDeterministicModel
from botorch.posteriors.posterior_list import PosteriorList
from botorch.sampling.get_sampler import get_sampler
from botorch.sampling.normal import SobolQMCNormalSampler

from botorch_risk.acquisition.without_compiling import without_compiling
from botorch_risk.models.risk_posterior import Reduction
from botorch_risk.models.robust_model import RobustModel
from botorch_risk.risk import Expectation, WorstCase
from botorch_risk.robust.model_list import JoinedPosterior, RobustModelList
from tests.models.risks import ENVIRONMENT, EnsembleGP, decisions, gp, two_outputs


def models() -> RobustModelList:
    worst = [Reduction(i, ENVIRONMENT, WorstCase()) for i in (0, 1)]
    return RobustModelList(
        RobustModel(gp(), [Reduction(0, ENVIRONMENT, Expectation())]),
        RobustModel(two_outputs(), worst),
    )


@pytest.mark.parametrize("front", [False, True])
def test_samples_are_those_of_each_model(front: bool) -> None:
    model, X = models(), decisions(3, 2)
    if front:  # shared by the t-batch
        X = torch.cat([decisions(4, seed=1).expand(3, 4, 2), X], dim=-2)
    posterior = model.posterior(X)
    assert isinstance(posterior, JoinedPosterior)
    q = X.shape[1]
    base = torch.randn(5, 3, 3 * q * 4, dtype=torch.float64)
    samples = posterior.rsample_from_base_samples(torch.Size([5]), base)
    first, second = (each.posterior(X) for each in model.models)
    by_decision = base.unflatten(-1, (q, 12))  # four values of W and one output, then two
    own = (by_decision[..., :4].flatten(-2), by_decision[..., 4:].reshape(5, 3, q * 4, 2))
    expected = [
        each.rsample_from_base_samples(torch.Size([5]), part)
        for each, part in zip((first, second), own, strict=True)
    ]
    torch.testing.assert_close(samples, torch.cat(expected, dim=-1))
    assert samples.shape == posterior._extended_shape(torch.Size([5])) == (5, 3, q, 3)


def test_evaluated_decisions_have_the_same_samples_beside_any_candidate() -> None:
    r"""As noisy acquisition functions need them; and so no gain is expected of their repetition."""
    single = [Reduction(0, ENVIRONMENT, Expectation())]
    model = RobustModelList(*(RobustModel(gp(seed), single) for seed in (0, 1)))
    evaluated, candidates = decisions(4, seed=1), decisions(3, 2)
    for number in (1, 2):
        X = torch.cat([evaluated.expand(3, 4, 2), candidates[:, :number]], dim=-2)
        base, sampler = (SobolQMCNormalSampler(torch.Size([8]), seed=s) for s in (0, 1))
        alone = base(model.posterior(evaluated))
        joint = model.posterior(X)
        sampler._update_base_samples(posterior=joint, base_sampler=base)
        found = sampler(joint)[..., :4, :]
        torch.testing.assert_close(found, alone.unsqueeze(1).expand(8, 3, 4, 2))
    options = {"prune_baseline": False, "cache_root": False}
    with without_compiling():
        acqf = qLogNoisyExpectedHypervolumeImprovement(model, [-9.0, -9.0], evaluated, **options)
    assert (acqf(evaluated.unsqueeze(-2)) < acqf(candidates[:, :1]).min() - 2).all()


def test_it_takes_the_samplers_of_one_model() -> None:
    posterior = models().posterior(decisions(3, 2))
    sampler = get_sampler(posterior, torch.Size([8]), seed=0)
    assert type(sampler) is SobolQMCNormalSampler
    assert sampler(posterior).shape == (8, 3, 2, 3)
    assert posterior.rsample().shape == (1, 3, 2, 3)
    assert posterior.mean.shape == posterior.variance.shape == (3, 2, 3)
    assert posterior.batch_shape == (3,)
    assert (posterior.dtype, posterior.device.type) == (torch.float64, "cpu")


def test_subsets() -> None:
    alone = models().subset_output([1, 2])
    assert isinstance(alone, RobustModel)
    assert isinstance(models().subset_output([0, 2]), RobustModelList)
    assert models().posterior(decisions(3, 2), output_indices=[2]).mean.shape == (3, 2, 1)


def test_ensembles_keep_their_list() -> None:
    reduction = Reduction(0, ENVIRONMENT, Expectation())
    several = RobustModelList(*(RobustModel(EnsembleGP(), [reduction]) for _ in range(2)))
    posterior = several.posterior(decisions(3, 2))
    assert type(posterior) is PosteriorList
    sampler = get_sampler(posterior, torch.Size([8]), seed=0)
    assert sampler(posterior).shape == (8, 3, 4, 2, 2)
    beside = RobustModelList(
        RobustModel(gp(), [reduction]), GenericDeterministicModel(lambda X: X[..., :1])
    )
    assert beside.posterior(decisions(3, 2)).mean.shape[-1] == 2
