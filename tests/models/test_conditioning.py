r"""Training data in any form, and models that are conditioned on more of it."""

import pytest
import torch
from botorch.acquisition import qKnowledgeGradient
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.exceptions.warnings import InputDataWarning
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import Normalize
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from botorch.utils.datasets import SupervisedDataset
from torch import Tensor

from botorch_risk.engine import Belief
from botorch_risk.models import MeanVarianceGP, RepeatedOutcomes
from botorch_risk.models.hallucination import condition_on_mean
from botorch_risk.points import original_inputs
from tests.models.examples import (
    IDENTITY,
    SHAPES,
    UNIT_SQUARE,
    UNSCALED,
    assert_same,
    everything,
    fit,
    noise_in_use,
    points,
    repeats,
    small_model,
    with_missing,
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
    {"noise_evidence": "spread"},
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


@pytest.mark.filterwarnings("ignore:Non-strict enforcement of botorch tensor conventions")
def test_fantasies_at_no_points_are_the_model_itself():
    model, test_X = small_model(), points(3)
    fantasies = model.fantasize(points(0), SobolQMCNormalSampler(torch.Size([4]), seed=0))
    expected, found = model.posterior(test_X), fantasies.posterior(test_X)
    assert found.mean.shape == (4, 3, 1)
    torch.testing.assert_close(found.mean, expected.mean.expand_as(found.mean))
    torch.testing.assert_close(found.variance, expected.variance.expand_as(found.variance))


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


@pytest.mark.filterwarnings("ignore:Non-strict enforcement of botorch tensor conventions")
def test_fantasies_at_points_without_a_t_batch_keep_the_original_inputs():
    X, Y = repeats()
    sampler, new, at = SobolQMCNormalSampler(torch.Size([4]), seed=1), points(1), points(5)
    noisy = MeanVarianceGP(X, Y, input_transform=Normalize(2)).fantasize(new, sampler)
    assert noisy.posterior(at).mean.shape == (4, 5, 1)
    assert noisy.confidence_bounds(at, 4.0)[0].shape == (4, 5)
    model = SingleTaskGP(X, Y[:, :1], input_transform=Normalize(2))
    fantasies = model.fantasize(new, sampler)
    model.posterior(at)
    conditioned = model.condition_on_observations(new, torch.rand(3, 1, 1).double())
    with torch.no_grad():  # so that BoTorch can copy the fantasies
        both = SingleTaskGP(X, Y[:, :2], input_transform=Normalize(2)).fantasize(new, sampler)
    for each, batch in ((fantasies, 4), (conditioned, 3), (both.subset_output([1]), 4)):
        moments, own = Belief(each)(at), each.posterior(at)
        assert moments.mean.shape == (batch, 5)
        torch.testing.assert_close(moments.mean, own.mean.squeeze(-1))
        torch.testing.assert_close(moments.variance, own.variance.squeeze(-1))
        assert torch.equal(original_inputs(each), torch.cat([X, new]).expand(batch, -1, -1))


@pytest.mark.parametrize("batch_shape", SHAPES, ids=str)
@pytest.mark.parametrize("m", [1, 2])
def test_the_average_noise_of_each_outcome_is_that_of_its_pending_readings(m, batch_shape):
    X, Y = repeats(k=m, batch_shape=batch_shape)
    given = 0.1 + torch.rand_like(Y)
    model, pending, at = SingleTaskGP(X, Y, given), points(*batch_shape, 3), points(*batch_shape, 4)
    conditioned = condition_on_mean(model, pending)
    noise = conditioned.likelihood.noise  # `batch_shape x m x n`, without m if it is 1
    torch.testing.assert_close(
        noise[..., -3:], noise[..., :-3].mean(dim=-1, keepdim=True).expand(*noise.shape[:-1], 3)
    )
    before, after = model.posterior(at), conditioned.posterior(at)
    torch.testing.assert_close(after.mean, before.mean, rtol=1e-6, atol=1e-6)
    assert (after.variance < before.variance).all()


@pytest.mark.parametrize("noise", [None, 0.2], ids=["inferred", "fixed"])
def test_the_mean_stays_and_the_variance_shrinks(noise):
    X, Y = repeats()
    given = None if noise is None else torch.full_like(Y[:, :1], noise)
    model, pending, test_X = SingleTaskGP(X, Y[:, :1], given), points(3), points(5)
    conditioned = condition_on_mean(model, pending)
    before, after = model.posterior(test_X), conditioned.posterior(test_X)
    torch.testing.assert_close(after.mean, before.mean, rtol=1e-6, atol=1e-6)
    assert (after.variance < before.variance).all()


def test_fixed_noise_is_the_average_of_the_data():
    X, Y = repeats()
    given = 0.1 + X[:, :1]
    conditioned = condition_on_mean(SingleTaskGP(X, Y[:, :1], given), points(2))
    added = conditioned.likelihood.noise[-2:]
    torch.testing.assert_close(added, conditioned.likelihood.noise[:-2].mean().expand(2))


def test_a_mean_variance_model_conditions_both_processes():
    model, pending, test_X = small_model(), points(2), points(4)
    ours, own = condition_on_mean(model, pending), model.condition_on_pending(pending)
    assert torch.equal(ours.posterior(test_X).variance, own.posterior(test_X).variance)
    assert torch.equal(ours.noise_posterior(test_X).variance, own.noise_posterior(test_X).variance)


def test_pending_points_have_the_usual_repeats_of_their_replicate():
    X, Y = repeats(batch_shape=(2,))
    Y[0, :, 2:] = torch.nan
    together = MeanVarianceGP(X, Y)
    new, at = points(2, 1), points(2, 4)
    for r in range(2):
        alone = MeanVarianceGP(X[r], Y[r])
        expected = alone.condition_on_pending(new[r]).posterior(at[r])
        found = together.condition_on_pending(new).posterior(at)
        torch.testing.assert_close(found.variance[r], expected.variance, rtol=1e-6, atol=1e-9)
        noise = together.noise_of_means(at)[r]
        torch.testing.assert_close(noise, alone.noise_of_means(at[r]), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("counts", "error", "match"),
    [
        (0, ValueError, "whole numbers `num_repeats` >= 1"),
        (1.5, ValueError, "whole numbers `num_repeats` >= 1"),
        ([2, 3, 4], BotorchTensorDimensionError, r"shape `... x n x 1` with n = 3"),
        (torch.ones(2, 1), BotorchTensorDimensionError, r"shape `... x n x 1` with n = 3"),
    ],
)
def test_numbers_of_repeats_are_whole_and_of_rows(counts, error, match):
    model, X = small_model(), points(3)
    calls = [
        lambda: model.noise_of_means(X, counts),
        lambda: model.condition_on_pending(X, counts),
        lambda: model.condition_on_observations(X, torch.zeros(3, 1, dtype=X.dtype), counts),
    ]
    for call in calls:
        with pytest.raises(error, match=match):
            call()
    each = model.noise_of_means(X, [[2], [3], [4]])
    expected = torch.stack([model.noise_of_means(X, k)[i] for i, k in enumerate((2, 3, 4))])
    torch.testing.assert_close(each, expected)


def test_new_rows_come_in_every_form_and_are_finite():
    model, X = small_model(), points(3)
    Y = X.sum(dim=-1, keepdim=True)
    for form in (Tensor.tolist, Tensor.numpy, Tensor.float):
        found = model.condition_on_observations(form(X), form(Y), 2).posterior(X).mean
        expected = model.condition_on_observations(X, Y, 2).posterior(X).mean
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        pending = model.condition_on_pending(form(X)).posterior(X).variance
        expected = model.condition_on_pending(X).posterior(X).variance
        torch.testing.assert_close(pending, expected, rtol=1e-4, atol=1e-6)
    for bad in ((X, Y * torch.nan), (X / 0, Y)):
        with pytest.raises(InputDataError, match="`X` and `Y` to be finite"):
            model.condition_on_observations(*bad, 2)


def test_a_conditioned_model_refuses_a_state_before_it_changes():
    model, other, X = small_model(), small_model(), points(3)
    fit(other)
    conditioned = model.condition_on_pending(points(2))
    before = conditioned.predicted_noise(X)
    with pytest.raises(UnsupportedError):
        conditioned.load_state_dict(other.state_dict())
    assert torch.equal(conditioned.predicted_noise(X), before)


def test_pending_points_have_the_columns_of_the_model():
    with pytest.raises(BotorchTensorDimensionError, match="`X_pending` to have the 2 columns"):
        condition_on_mean(small_model(), torch.rand(3, 1, dtype=torch.double))


@pytest.mark.parametrize("options", [{}, IDENTITY])
def test_equal_rows_are_pooled(options):
    X, Y = repeats(n=8)
    doubled_X = torch.cat([X, X[[3, 1]]])
    extra = Y[[3, 1]] + 0.1 * torch.randn(2, 4, dtype=torch.double)
    doubled_Y = torch.cat([Y, extra])
    wide = torch.full((8, 8), torch.nan, dtype=torch.double)
    wide[:, :4] = Y
    wide[[3, 1], 4:] = extra
    pooled, together = (
        MeanVarianceGP(doubled_X, doubled_Y, **options),
        MeanVarianceGP(X, wide, **options),
    )
    assert torch.equal(pooled.train_X, X)
    assert_same(pooled, together, points(5))


def test_order_of_rows_and_repeats_does_not_matter():
    X, Y = repeats()
    Y = with_missing(Y)
    order, shuffled = torch.randperm(10), torch.randperm(4)
    first, second = MeanVarianceGP(X, Y), MeanVarianceGP(X[order], Y[order][:, shuffled])
    assert_same(first, second, points(4), rtol=1e-7, atol=1e-9)
    assert first.num_repeats == 4


def test_summaries_build_the_same_model():
    X, Y = repeats()
    Y = with_missing(Y)
    outcomes = RepeatedOutcomes.from_repeats(Y)
    raw = MeanVarianceGP(X, Y)
    parts = (outcomes.means, outcomes.variances.nan_to_num(nan=0.0), outcomes.counts)
    assert_same(raw, MeanVarianceGP.from_summary(X, *parts), points(4))
    negative = torch.full_like(outcomes.means, -1.0)
    with pytest.raises(InputDataError, match="variances >= 0"):
        MeanVarianceGP.from_summary(X, outcomes.means, negative, outcomes.counts)


def test_inputs_are_constructed_from_datasets():
    X, Y = repeats()
    names = {"feature_names": ["a", "b"]}
    dataset = SupervisedDataset(X, Y, outcome_names=list("pqrs"), **names)
    raw = MeanVarianceGP(**MeanVarianceGP.construct_inputs(dataset))
    means, variances = Y.mean(dim=-1, keepdim=True), Y.var(dim=-1, keepdim=True)
    dataset = SupervisedDataset(X, means, Yvar=variances / 4, outcome_names=["y"], **names)
    own_noise = MeanVarianceGP(**MeanVarianceGP.construct_inputs(dataset))
    expected = MeanVarianceGP(X, means, train_Yvar=variances / 4)
    assert_same(own_noise, expected, points(4))
    inputs = MeanVarianceGP.construct_inputs(dataset, counts=torch.full_like(means, 4))
    assert_same(raw, MeanVarianceGP(**inputs), points(4))
    with pytest.raises(BotorchTensorDimensionError, match="`counts` to have the shape"):
        MeanVarianceGP.construct_inputs(dataset, counts=torch.full((10,), 4.0))
    without = SupervisedDataset(X, means, outcome_names=["y"], **names)
    with pytest.raises(InputDataError, match="Expected `Yvar`"):
        MeanVarianceGP.construct_inputs(without, counts=torch.full_like(means, 4))


@pytest.mark.parametrize("options", [{}, IDENTITY])
def test_long_tables_and_lists_are_the_same_model(options):
    X, Y = repeats()
    wide = with_missing(Y)
    rows = [row[row.isfinite()] for row in wide]
    long_X = torch.cat([x.expand(len(row), 2) for x, row in zip(X, rows, strict=True)])
    long_Y = torch.cat(rows).unsqueeze(-1)
    # Readings as they come: the rows of one input need not stand together.
    order = torch.arange(len(long_X)).reshape(-1).roll(3).flip(0)
    expected, test_X = MeanVarianceGP(X, wide, **options), points(4)
    assert_same(expected, MeanVarianceGP(X, rows, **options), test_X)
    model = MeanVarianceGP(long_X[order], long_Y[order], **options)
    assert_same(expected, model, test_X, rtol=1e-6, atol=1e-8)
    assert model.train_X.shape == X.shape


def test_noise_levels_come_beside_readings():
    X, Y = repeats()
    with pytest.raises(ValueError, match="`train_Yvar` together with readings"):
        MeanVarianceGP(X, RepeatedOutcomes.from_repeats(Y), torch.ones_like(Y))
    with pytest.raises(InputDataError, match="finite noise variances > 0"):
        MeanVarianceGP(X, Y, torch.zeros_like(Y))


def test_data_with_a_history_of_gradients_are_detached():
    X, Y = repeats()
    model = MeanVarianceGP(X.requires_grad_(), Y.requires_grad_())
    fit(model)
    assert not model.train_X.requires_grad
    assert not model.posterior(points(3)).mean.detach().requires_grad


def changed(data, which, index, value):
    data = [tensor.clone() for tensor in data]
    data[which][index] = value
    return data


def erroneous_data():
    X, Y = one = repeats()
    many = repeats(batch_shape=(3,))
    dimension, data = BotorchTensorDimensionError, InputDataError
    yield (X[0], Y), dimension, "`train_X` of shape"
    yield (X[:5], Y), dimension, "one row for each row of repeats"
    yield (X, Y[0]), dimension, "`batch_shape x n x k`"
    yield (X.float(), Y), data, "one dtype"
    yield changed(one, 0, 2, torch.nan), data, "finite `train_X`.* in row 2"
    in_replicate = changed(many, 0, (1, 4), torch.inf)
    yield in_replicate, data, r"finite `train_X`.* in row 4 of replicate \(1,\)"
    yield changed(one, 1, (1, 2), torch.inf), data, "finite repeats.* row 1"
    yield changed(one, 1, 3, torch.nan), data, "at least one repeat.* row 3"


@pytest.mark.parametrize("case", range(8))
def test_refuses_data(case):
    data, error, message = list(erroneous_data())[case]
    with pytest.raises(error, match=message):
        MeanVarianceGP(*data)


@UNSCALED
def test_a_constant_replicate_is_named():
    X, Y = repeats(batch_shape=(3,))
    Y[1] = 2 + torch.tensor([0.5, -0.5, 0.25, -0.25], dtype=torch.double)
    with pytest.warns(InputDataWarning, match="constant in replicate 1: a model"):
        MeanVarianceGP(X, Y)
