r"""Further observations, pending points and fantasies."""

from __future__ import annotations

import pytest
import torch
from botorch.acquisition import qKnowledgeGradient
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler

from botorch_risk.models import MeanVarianceGP
from tests.models.examples import (
    IDENTITY,
    SHAPES,
    UNIT_SQUARE,
    everything,
    noise_in_use,
    points,
    small_model,
)

SEARCH = {"num_restarts": 2, "raw_samples": 8, "options": {"maxiter": 5}}


CHOICES = [
    {},
    IDENTITY,
    {**IDENTITY, "sample_variance_noise": "pointwise"},
    {**IDENTITY, "sample_variance_noise": "bound", "max_noise_variance": 1.0},
    {"known_noise": lambda X: 0.1 + X[..., :1]},
    {"input_transform": "warp"},
    {"outcome_transform": None},
    {"noise_evidence": "readings"},
]


def test_knowledge_gradient():
    acqf = qKnowledgeGradient(small_model(), num_fantasies=2)
    candidate, value = optimize_acqf(
        acqf, UNIT_SQUARE, q=1, num_restarts=1, raw_samples=2, options={"maxiter": 2}
    )
    assert candidate.shape == (1, 2)
    assert value.isfinite()


@pytest.mark.parametrize("batch_shape", SHAPES[:2], ids=str)
@pytest.mark.parametrize("options", [{}, IDENTITY])
def test_fantasies_condition_on_means_of_repeats(options, batch_shape):
    model = small_model(batch_shape=batch_shape, **options)
    X, test_X = points(*batch_shape, 2), points(*batch_shape, 3)
    sampler = SobolQMCNormalSampler(torch.Size([3]), seed=0)
    means = sampler(model.posterior(X, observation_noise=False))
    fantasies = model.fantasize(X, sampler, num_repeats=8)
    assert isinstance(fantasies, MeanVarianceGP)
    assert fantasies.posterior(test_X).mean.shape == (3, *batch_shape, 3, 1)
    assert means.shape == (3, *batch_shape, 2, 1)
    scale = model.mean_model.outcome_transform.stdvs.square()
    added = fantasies.likelihood.noise[..., -2:].unsqueeze(-1) * scale
    expected = (model.predicted_noise(X) / 8).detach()
    torch.testing.assert_close(added, expected.expand_as(added))
    # The noise process stays; it has nothing to learn from a mean.
    torch.testing.assert_close(fantasies.predicted_noise(test_X), model.predicted_noise(test_X))
    few = model.fantasize(X, sampler, num_repeats=1).posterior(test_X).variance
    assert (fantasies.posterior(test_X).variance < few).all()


def test_conditioned_models_leave_the_original_alone():
    model, X = small_model(), points(5)
    before = everything(model, X)
    conditioned = model.condition_on_observations(X, X[:, :1], variances=torch.ones(5, 1)).float()
    assert conditioned.train_X.dtype == torch.float32
    for tensor in (*model.buffers(), *model.parameters()):
        assert tensor.dtype in (torch.double, torch.bool)
    for a, b in zip(before, everything(model, X), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_numbers_of_repeats_may_differ_between_new_rows():
    model, X = small_model(), points(2)
    Y, test_X = X[:, :1], points(4)
    counts = torch.tensor([[3.0], [5.0]], dtype=torch.double)
    together = model.condition_on_observations(X, Y, num_repeats=counts)
    torch.testing.assert_close(noise_in_use(together)[-2:], model.noise_of_means(X, counts))
    one_by_one = model
    for i, k in enumerate((3, 5)):
        one_by_one = one_by_one.condition_on_observations(X[[i]], Y[[i]], num_repeats=k)
    torch.testing.assert_close(together.posterior(test_X).mean, one_by_one.posterior(test_X).mean)
    fantasies = model.fantasize(X, SobolQMCNormalSampler(torch.Size([2])), num_repeats=counts)
    assert fantasies.posterior(test_X).mean.shape == (2, 4, 1)
    assert model.condition_on_pending(X, counts).posterior(test_X).mean.shape == (4, 1)
    for refused in (
        model.condition_on_pending,
        lambda X, k: model.condition_on_observations(X, Y, k),
    ):
        with pytest.raises(ValueError, match=r"`num_repeats` >= 1. Got 0"):
            refused(X, 0)


@pytest.mark.parametrize("batch_shape", SHAPES, ids=str)
@pytest.mark.parametrize("options", CHOICES[:4])
def test_pending_points_keep_means_and_shrink_variances(options, batch_shape):
    model = small_model(batch_shape=batch_shape, **options)
    pending, X = points(*batch_shape, 2), points(*batch_shape, 4)
    conditioned = model.condition_on_pending(pending)
    for predict in ("mean_marginals", "noise"):
        before, after = (getattr(m, predict) for m in (model, conditioned))
        before, after = (getattr(p, "marginals", p)(X) for p in (before, after))
        torch.testing.assert_close(after.mean, before.mean, rtol=1e-6, atol=1e-6)
        assert (after.variance < before.variance).all()
    assert model.posterior(X).variance.shape == conditioned.posterior(X).variance.shape
    single = model.condition_on_pending(pending, num_repeats=1)
    torch.testing.assert_close(single.predicted_noise(X), model.predicted_noise(X))


def test_observations_with_variances_inform_both_processes():
    model, X, test_X = small_model(), points(2), points(4)
    Y = model.posterior(X).mean.detach() + 1
    only_mean = model.condition_on_observations(X, Y, num_repeats=5)
    both = model.condition_on_observations(X, Y, num_repeats=5, variances=torch.full_like(Y, 3.0))
    torch.testing.assert_close(only_mean.predicted_noise(test_X), model.predicted_noise(test_X))
    assert (both.predicted_noise(X) > model.predicted_noise(X)).all()
    torch.testing.assert_close(both.posterior(test_X).mean, only_mean.posterior(test_X).mean)
    # Eq. (16) at the new rows, with the noise as it was known before.
    expected = model.noise_of_means(X, 5).detach()
    torch.testing.assert_close(noise_in_use(only_mean)[-2:], expected)
