r"""`MeanVarianceGP` as a BoTorch model: fitting, optimisers, samplers, states and shapes."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from botorch.acquisition import qKnowledgeGradient
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions.errors import (
    BotorchTensorDimensionError,
    InputDataError,
    UnsupportedError,
)
from botorch.exceptions.warnings import InputDataWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import InputPerturbation, Normalize, Warp
from botorch.models.transforms.outcome import Log, Standardize
from botorch.optim import optimize_acqf, optimize_acqf_discrete, optimize_acqf_mixed
from botorch.sampling import SobolQMCNormalSampler
from botorch.sampling.pathwise import get_matheron_path_model
from botorch.utils.datasets import SupervisedDataset
from gpytorch.mlls import ExactMarginalLogLikelihood

from botorch_risk.acquisition import MeanVarianceObjective, RiskAverseUpperConfidenceBound
from botorch_risk.fit import fit_exact_gp
from botorch_risk.models import MeanVarianceGP, RepeatedOutcomes
from tests.models.examples import UNIT_SQUARE, repeats, small_model, with_missing

SHAPES = [(), (2,), (2, 3)]
SEARCH = {"num_restarts": 2, "raw_samples": 8, "options": {"maxiter": 5}}
UNSCALED = pytest.mark.filterwarnings("ignore:Data .outcome observations. is not standardized")
IDENTITY = {"variance_link": "identity", "min_noise_variance": 1e-3}


def points(*shape):
    return torch.rand(*shape, 2, dtype=torch.double)


def fit(model, **options):
    return fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model), **options)


def noise_in_use(model):
    r"""The noise of the means that the mean process works with, in the units of the outcome."""
    noise = model.likelihood.noise.unsqueeze(-1)
    transform = model.mean_model._modules.get("outcome_transform")
    return noise if transform is None else noise * transform.stdvs.square()


def everything(model, X):
    r"""All that a model says at some points."""
    posterior, noise = model.posterior(X), model.noise_posterior(X)
    moments = [m for p in (posterior, noise) for m in (p.mean, p.variance)]
    bounds = [*model.confidence_bounds(X, 4.0), *model.noise_confidence_bounds(X, 4.0)]
    predicted = model.posterior(X, observation_noise=True).variance
    return [*moments, *bounds, predicted, model.predicted_noise(X)]


def assert_same(first, second, X, **tolerance):
    for a, b in zip(everything(first, X), everything(second, X), strict=True):
        torch.testing.assert_close(a, b, **tolerance)


# Fitting


@pytest.mark.parametrize("options", [{}, IDENTITY, {**IDENTITY, "sample_variance_noise": "bound"}])
def test_the_usual_line_fits_both_processes(options):
    if "sample_variance_noise" in options:
        options = {**options, "max_noise_variance": 1.0}
    model = small_model(**options)
    before = copy.deepcopy(model.state_dict())
    mll = fit(model)
    assert not mll.training
    for part in ("mean_model", "noise.model"):
        key = f"{part}.covar_module.raw_lengthscale"
        assert not torch.equal(model.state_dict()[key], before[key])
    # Eq. (16) was evaluated with the newest noise process.
    expected = model.noise_of_means(model.train_X, model.train_counts)
    torch.testing.assert_close(noise_in_use(model), expected)


@UNSCALED
def test_fits_equal_those_of_two_ordinary_models():
    model = small_model(variance_link="identity", min_noise_variance=1e-3)
    variances, means = model.train_variances, model.train_means
    fit(model)
    plain = SingleTaskGP(model.train_X, (variances / variances.mean()) - 1, outcome_transform=None)
    fit(plain)
    torch.testing.assert_close(
        model.noise_model.covar_module.lengthscale,
        plain.covar_module.lengthscale,
        rtol=1e-3,
        atol=1e-3,
    )
    noise = model.noise_of_means(model.train_X, model.train_counts).detach()
    plain = SingleTaskGP(model.train_X, means, train_Yvar=noise)
    fit(plain)
    X = points(5)
    torch.testing.assert_close(
        model.posterior(X).mean, plain.posterior(X).mean, rtol=1e-4, atol=1e-4
    )


def test_fitting_refuses_what_it_cannot_do():
    model = small_model()
    for options in ({"closure": lambda: None}, {"closure_kwargs": {}}):
        with pytest.raises(UnsupportedError, match="no closure"):
            fit(model, **options)
    conditioned = model.condition_on_observations(points(1), points(1)[:, :1])
    for attempt in (conditioned.refresh_noise, lambda: fit(conditioned)):
        with pytest.raises(UnsupportedError, match="conditioned on further"):
            attempt()


# BoTorch's optimisers, acquisition functions and samplers


# The candidates of a search may meet, and GPyTorch then adds jitter to their covariance.
@pytest.mark.filterwarnings("ignore:A not p.d., added jitter")
def test_joint_batches_of_log_ei():
    model = small_model()
    acqf = qLogNoisyExpectedImprovement(
        model, model.train_X, objective=MeanVarianceObjective(model, risk_aversion=1.0)
    )
    candidates, value = optimize_acqf(acqf, UNIT_SQUARE, q=2, **SEARCH)
    assert candidates.shape == (2, 2)
    assert value.isfinite()


@pytest.mark.parametrize("options", [{}, IDENTITY])
def test_sequential_batches_of_the_bound(options):
    acqf = RiskAverseUpperConfidenceBound(small_model(**options))
    candidates, _ = optimize_acqf(acqf, UNIT_SQUARE, q=4, sequential=True, **SEARCH)
    assert candidates.shape == (4, 2)
    assert torch.pdist(candidates).min() > 1e-3


def test_discrete_and_mixed_optimisers():
    acqf = RiskAverseUpperConfidenceBound(small_model())
    choices = points(12)
    candidates, _ = optimize_acqf_discrete(acqf, q=2, choices=choices)
    assert all((choices == c).all(dim=-1).any() for c in candidates)
    best, _ = optimize_acqf_discrete(acqf, q=1, choices=choices)
    torch.testing.assert_close(best[0], choices[acqf.evaluate(choices).argmax()])
    fixed = [{0: 0.0}, {0: 1.0}]
    candidate, _ = optimize_acqf_mixed(acqf, UNIT_SQUARE, q=1, fixed_features_list=fixed, **SEARCH)
    assert candidate[0, 0].item() in (0.0, 1.0)


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


def test_pathwise_samples_are_those_of_f():
    model = small_model()
    X = points(4)
    paths = get_matheron_path_model(model, sample_shape=torch.Size([4000]))
    samples = paths(X).reshape(4000, 4)
    posterior = model.posterior(X)
    error = posterior.variance.sqrt().squeeze(-1) / 4000**0.5
    assert ((samples.mean(dim=0) - posterior.mean.squeeze(-1)).abs() < 5 * error).all()
    torch.testing.assert_close(
        samples.var(dim=0), posterior.variance.squeeze(-1), rtol=0.15, atol=1e-6
    )


# States


@pytest.mark.parametrize("copy_of", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
@pytest.mark.parametrize("options", [{}, IDENTITY])
def test_copies_are_equal_and_independent(copy_of, options):
    model = small_model(**options)
    X = points(5)
    before = everything(model, X)
    twin = copy_of(model)
    assert_same(model, twin, X, rtol=0, atol=0)
    fit(twin)
    for a, b in zip(everything(model, X), before, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


CHOICES = [
    {},
    IDENTITY,
    {**IDENTITY, "sample_variance_noise": "pointwise"},
    {**IDENTITY, "sample_variance_noise": "bound", "max_noise_variance": 1.0},
    {"known_noise": lambda X: 0.1 + X[..., :1]},
    {"input_transform": "warp"},
    {"outcome_transform": None},
]


def build(X, Y, options):
    if options.get("input_transform") == "warp":
        options = {**options, "input_transform": Warp(2, indices=[0, 1])}
    return MeanVarianceGP(X, Y, **options)


@pytest.mark.parametrize("options", CHOICES)
@UNSCALED
def test_state_of_a_fitted_model_is_restored(options):
    X, Y = repeats()
    model, twin = build(X, Y, options), build(X, Y, options)
    fit(model)
    twin.load_state_dict(model.state_dict())
    assert_same(model, twin, points(5), rtol=1e-12, atol=1e-12)
    # A model of other rows takes the hyperparameters, and Eq. (16) is that of its own rows.
    other = build(X[:7], Y[:7], options)
    other.load_state_dict(model.state_dict())
    expected = other.noise_of_means(other.train_X, other.train_counts)
    torch.testing.assert_close(noise_in_use(other), expected)
    assert torch.equal(
        other.mean_model.covar_module.raw_lengthscale, model.mean_model.covar_module.raw_lengthscale
    )
    if "known_noise" not in options:
        assert torch.equal(
            other.noise_model.covar_module.raw_lengthscale,
            model.noise_model.covar_module.raw_lengthscale,
        )
    with pytest.raises(RuntimeError, match="Expected keys of the parts"):
        twin.load_state_dict({**model.state_dict(), "other": torch.ones(1)})


def test_state_is_restored_through_an_acquisition_function():
    X, Y = repeats()
    model = MeanVarianceGP(X, Y)
    fit(model)
    acqf = RiskAverseUpperConfidenceBound(model)
    twin = RiskAverseUpperConfidenceBound(MeanVarianceGP(X, Y))
    test_X = points(5)
    assert not torch.allclose(twin.evaluate(test_X), acqf.evaluate(test_X))
    twin.load_state_dict(acqf.state_dict())
    torch.testing.assert_close(twin.evaluate(test_X), acqf.evaluate(test_X))


# Transforms and types


@pytest.mark.filterwarnings(
    "ignore:The model inputs are of type torch.float32:botorch.exceptions.warnings.InputDataWarning"
)
def test_single_precision():
    X, Y = repeats(dtype=torch.float32)
    model = MeanVarianceGP(X, Y)
    fit(model)
    test_X = points(5).float()
    for value in everything(model, test_X):
        assert value.dtype == torch.float32
        assert value.isfinite().all()


@pytest.mark.parametrize("transform", ["normalize", "warp"])
def test_each_process_owns_its_input_transform(transform):
    X, Y = repeats()
    if transform == "normalize":
        model = MeanVarianceGP(10 * X - 3, Y, input_transform=Normalize(2))
        plain = MeanVarianceGP(Normalize(2)(X), Y)
        test_X = points(4)
        span = X.amax(dim=0) - X.amin(dim=0)
        for a, b in zip(
            everything(model, 10 * test_X - 3),
            everything(plain, (test_X - X.amin(dim=0)) / span),
            strict=True,
        ):
            torch.testing.assert_close(a, b)
        return
    model = MeanVarianceGP(X, Y, input_transform=Warp(2, indices=[0, 1]))
    warps = [m.input_transform for m in (model.mean_model, model.noise_model)]
    assert warps[0] is not warps[1]
    fit(model)
    assert not torch.equal(warps[0].concentration0, warps[1].concentration0)
    assert all(value.isfinite().all() for value in everything(model, points(4)))


@UNSCALED
def test_noise_follows_the_outcome_transform_squared():
    X, Y = repeats()
    for transform in (None, Standardize(1)):
        model = MeanVarianceGP(X, Y, outcome_transform=transform)
        expected = model.noise_of_means(model.train_X, model.train_counts)
        torch.testing.assert_close(noise_in_use(model), expected)
    test_X = points(5)
    shifted = MeanVarianceGP(X, 100 * Y + 7)
    model = MeanVarianceGP(X, Y)
    torch.testing.assert_close(
        shifted.posterior(test_X).mean, 100 * model.posterior(test_X).mean + 7
    )
    torch.testing.assert_close(shifted.predicted_noise(test_X), 1e4 * model.predicted_noise(test_X))


def test_refuses_outcome_transforms_that_are_not_linear():
    with pytest.raises(UnsupportedError, match=r"linear `outcome_transform`.*Got Log"):
        small_model(outcome_transform=Log())


# Rows, repeats and batches


@pytest.mark.parametrize("batch_shape", SHAPES[1:], ids=str)
@pytest.mark.parametrize(
    "options", [{}, IDENTITY, {**IDENTITY, "sample_variance_noise": "pointwise"}]
)
def test_batched_models_equal_a_loop(batch_shape, options):
    X, Y = repeats(batch_shape=batch_shape)
    if not options:
        Y = with_missing(Y)
    batched = MeanVarianceGP(X, Y, **options)
    assert batched.batch_shape == torch.Size(batch_shape)
    test_X = points(*batch_shape, 4)
    together = everything(batched, test_X)
    for index in torch.cartesian_prod(*(torch.arange(s) for s in batch_shape)).reshape(
        -1, len(batch_shape)
    ):
        i = tuple(index.tolist())
        alone = MeanVarianceGP(X[i], Y[i], **options)
        for a, b in zip(together, everything(alone, test_X[i]), strict=True):
            torch.testing.assert_close(a[i], b, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("batch_shape", SHAPES, ids=str)
def test_shapes(batch_shape):
    model = small_model(batch_shape=batch_shape)
    X = points(*batch_shape, 3)
    assert model.num_outputs == 1
    assert model.posterior(X).mean.shape == (*batch_shape, 3, 1)
    assert model.noise_posterior(X).mean.shape == (*batch_shape, 3, 1)
    assert model.predicted_noise(X).shape == (*batch_shape, 3, 1)
    for bounds in (model.confidence_bounds(X, 1.0), model.noise_confidence_bounds(X, 1.0)):
        assert all(bound.shape == (*batch_shape, 3) for bound in bounds)
        assert (bounds[0] < bounds[1]).all()
    beta = torch.full((*batch_shape, 1), 1.0)
    torch.testing.assert_close(model.confidence_bounds(X, beta), model.confidence_bounds(X, 1.0))


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


@pytest.mark.parametrize("link", ["log", "identity"])
@pytest.mark.parametrize("batch_shape", SHAPES[:2], ids=str)
def test_known_noise_levels_weigh_the_mean_and_are_interpolated(link, batch_shape):
    X, _ = repeats(n=25, batch_shape=batch_shape)
    levels = 0.1 + X[..., :1].square()
    Y = (3 * X).sin().sum(dim=-1, keepdim=True) + levels.sqrt() * torch.randn_like(levels)
    model = MeanVarianceGP(X, Y, levels, variance_link=link)
    torch.testing.assert_close(noise_in_use(model), levels)  # not Eq. (16), which is cautious
    fit(model)
    torch.testing.assert_close(noise_in_use(model), levels)
    test_X = 0.1 + 0.8 * points(*batch_shape, 6)
    truth = 0.1 + test_X[..., :1].square()
    torch.testing.assert_close(model.predicted_noise(test_X), truth, rtol=0.05, atol=0.02)
    if not batch_shape:
        plain = SingleTaskGP(X, Y, levels, covar_module=copy.deepcopy(model.covar_module))
        plain.load_state_dict(model.mean_model.state_dict(), strict=False)
        plain.outcome_transform.load_state_dict(model.outcome_transform.state_dict())
        torch.testing.assert_close(plain.posterior(test_X).mean, model.posterior(test_X).mean)
        again = model.condition_on_observations(test_X[:1], Y[:1])
        assert again.posterior(test_X).mean.isfinite().all()
        with pytest.raises(UnsupportedError, match="no `variances` where noise levels came"):
            model.condition_on_observations(test_X[:1], Y[:1], variances=levels[:1])


def test_noise_levels_come_beside_readings():
    X, Y = repeats()
    with pytest.raises(ValueError, match="`train_Yvar` beside readings"):
        MeanVarianceGP(X, RepeatedOutcomes.from_repeats(Y), torch.ones_like(Y))
    with pytest.raises(InputDataError, match="finite noise variances > 0"):
        MeanVarianceGP(X, Y, torch.zeros_like(Y))


@pytest.mark.parametrize("scale", [1e-20, 1e-8, 1.0, 1e20])
@pytest.mark.parametrize("options", [{}, {"variance_link": "identity"}])
def test_predictions_follow_the_scale_of_the_outcome(scale, options):
    X, Y = repeats()
    test_X = points(5)
    models = [MeanVarianceGP(X, s * Y, **options) for s in (1.0, scale)]
    for model in models:
        model.fit_processes(lambda process: bool(fit_exact_gp(process)))
    plain, scaled = models
    mean, variance = scaled.mean_marginals(test_X)
    torch.testing.assert_close(
        mean / scale, plain.mean_marginals(test_X).mean, rtol=1e-4, atol=1e-6
    )
    torch.testing.assert_close(
        variance / scale**2, plain.mean_marginals(test_X).variance, rtol=1e-3, atol=1e-9
    )
    for a, b in zip(
        plain.noise_confidence_bounds(test_X, 4.0),
        scaled.noise_confidence_bounds(test_X, 4.0),
        strict=True,
    ):
        torch.testing.assert_close(b / scale**2, a, rtol=1e-3, atol=1e-9)


def test_warns_where_gpytorchs_floors_reach_the_outcome():
    X, Y = repeats()
    with pytest.warns(InputDataWarning, match=r"standard deviation above 1e-04. Got .*e-06"):
        MeanVarianceGP(X, 1e-6 * Y).posterior(X)


# As a model of BoTorch's


@UNSCALED
def test_parts_of_a_single_task_gp_are_there():
    model = small_model()
    for name in ("mean_module", "covar_module", "outcome_transform", "likelihood"):
        assert getattr(model, name) is getattr(model.mean_model, name)
    assert not hasattr(small_model(outcome_transform=None), "outcome_transform")
    with pytest.raises(UnsupportedError, match=r"build a new MeanVarianceGP.*Got `set_train_data`"):
        model.set_train_data(points(3), points(3)[:, :1])


@pytest.mark.parametrize("n", [5, 10])  # 10: as many as training rows
def test_the_likelihood_refuses_noise_that_it_does_not_know(n):
    model, X = small_model().eval(), points(n)
    with pytest.raises(UnsupportedError, match=r"`model.posterior\(X, observation_noise=True\)`"):
        model.likelihood(model(X))
    with pytest.raises(UnsupportedError, match="noise at new points"):
        model.likelihood(model(X), X)
    noise = torch.full((n,), 0.3, dtype=torch.double)
    added = model.likelihood(model(X), noise=noise).variance - model(X).variance
    torch.testing.assert_close(added, noise)


@pytest.mark.parametrize("batch_shape", SHAPES, ids=str)
def test_bounds_have_one_beta_a_replicate_whatever_the_number_of_points(batch_shape):
    model = small_model(batch_shape=batch_shape)
    beta = torch.arange(1.0, 1 + torch.Size(batch_shape).numel()).reshape(batch_shape)
    for m in (3, 5):
        X = points(*batch_shape, m)
        for bounds in (model.confidence_bounds, model.noise_confidence_bounds):
            for value, column in zip(
                bounds(X, beta), bounds(X, beta.unsqueeze(-1).expand(*batch_shape, m)), strict=True
            ):
                torch.testing.assert_close(value, column)
                assert value.shape == (*batch_shape, m)
        with pytest.raises(BotorchTensorDimensionError, match="`beta` to be a number, or to have"):
            model.confidence_bounds(X, torch.ones(7))


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


def test_data_with_a_history_of_gradients_are_detached():
    X, Y = repeats()
    model = MeanVarianceGP(X.requires_grad_(), Y.requires_grad_())
    fit(model)
    assert not model.train_X.requires_grad
    assert not model.posterior(points(3)).mean.detach().requires_grad


def test_perturbed_inputs_are_carried_through_as_in_botorch():
    X, Y = repeats()
    shifts = 0.1 * torch.randn(4, 2, dtype=torch.double)
    model = MeanVarianceGP(X, Y, input_transform=InputPerturbation(shifts)).eval()
    plain = MeanVarianceGP(X, Y).eval()
    torch.testing.assert_close(noise_in_use(model), noise_in_use(plain))  # at X itself
    test_X = points(3)
    perturbed = (test_X.unsqueeze(-2) + shifts).reshape(12, 2)
    torch.testing.assert_close(model.posterior(test_X).mean, plain.posterior(perturbed).mean)
    torch.testing.assert_close(model.predicted_noise(test_X), plain.predicted_noise(perturbed))
    for value, expected in zip(
        (
            model.posterior(test_X, observation_noise=True).variance,
            model.noise_posterior(test_X).mean,
        ),
        (
            plain.posterior(perturbed, observation_noise=True).variance,
            plain.noise_posterior(perturbed).mean,
        ),
        strict=True,
    ):
        torch.testing.assert_close(value, expected)


# Conditioning


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


# Predictions


@pytest.mark.parametrize("options", CHOICES[:5])
def test_observation_noise_is_the_predicted_noise(options):
    model = small_model(**options)
    X = points(2, 3)
    clean, noisy = model.posterior(X), model.posterior(X, observation_noise=True)
    torch.testing.assert_close(noisy.mean, clean.mean)
    torch.testing.assert_close(noisy.variance - clean.variance, model.predicted_noise(X))
    given = torch.full((2, 3, 1), 0.5, dtype=torch.double)
    added = model.posterior(X, observation_noise=given).variance - clean.variance
    scale = model.mean_model.outcome_transform.stdvs.square()
    torch.testing.assert_close(added, (given * scale).expand_as(added))


def test_posterior_transforms_and_outputs():
    model, X = small_model(), points(3)
    transform = ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.double))
    negated = model.posterior(X, posterior_transform=transform)
    torch.testing.assert_close(negated.mean, -model.posterior(X, output_indices=[0]).mean)
    assert_same(model, model.subset_output([0]), X)
    with pytest.raises(UnsupportedError, match=r"`output_indices` None or \[0\]. Got \[1\]"):
        model.posterior(X, output_indices=[1])
    with pytest.raises(UnsupportedError, match=r"one output `\[0\]`"):
        model.subset_output([1])


@pytest.mark.parametrize("options", CHOICES[:5])
def test_gradients_are_those_of_finite_differences(options):
    model = small_model(n=6, **options)
    X = (0.1 + 0.8 * points(2)).requires_grad_()

    def predictions(X):
        posterior = model.posterior(X)
        bounds = (*model.confidence_bounds(X, 4.0), *model.noise_confidence_bounds(X, 4.0))
        return (posterior.mean, posterior.variance, model.predicted_noise(X), *bounds)

    assert torch.autograd.gradcheck(predictions, X)


# Errors


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
    yield (X, Y[:, :1]), data, "two repeats or more.*or give `known_noise`"
    single = changed(many, 1, (1, slice(None), slice(1, None)), torch.nan)
    yield single, data, "two repeats or more.* in replicate 1"
    yield (X, torch.ones_like(Y)), data, "outcomes that differ.*mean 1.0 in all 10 rows"


@pytest.mark.parametrize("case", range(11))
def test_refuses_data(case):
    data, error, message = list(erroneous_data())[case]
    with pytest.raises(error, match=message):
        MeanVarianceGP(*data)


@UNSCALED
def test_a_constant_replicate_is_named():
    X, Y = repeats(batch_shape=(3,))
    Y[1] = 2 + torch.tensor([0.5, -0.5, 0.25, -0.25], dtype=torch.double)
    with pytest.warns(InputDataWarning, match="constant in replicate 1; its model"):
        MeanVarianceGP(X, Y)
