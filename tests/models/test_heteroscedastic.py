r"""`MeanVarianceGP` as a BoTorch model: fitting, optimisers, samplers, states and shapes."""

import copy
import pickle

import pytest
import torch
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.exceptions.errors import UnsupportedError
from botorch.models.transforms.input import Normalize, Warp
from botorch.models.transforms.outcome import Log
from botorch.optim import optimize_acqf, optimize_acqf_discrete, optimize_acqf_mixed

from botorch_risk.acquisition import MeanVarianceObjective, RiskAverseUpperConfidenceBound
from botorch_risk.models import MeanVarianceGP
from tests.contracts import correlation_of
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
    {"noise_evidence": "spread"},
]


def build(X, Y, options):
    if options.get("input_transform") == "warp":
        options = {**options, "input_transform": Warp(2, indices=[0, 1])}
    return MeanVarianceGP(X, Y, **options)


@pytest.mark.parametrize("options", CHOICES)
@UNSCALED
@pytest.mark.handful
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
        correlation_of(other.mean_model).raw_lengthscale,
        correlation_of(model.mean_model).raw_lengthscale,
    )
    if "known_noise" not in options:
        assert torch.equal(
            correlation_of(other.noise_model).raw_lengthscale,
            correlation_of(model.noise_model).raw_lengthscale,
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
@pytest.mark.slow
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


def test_refuses_outcome_transforms_that_are_not_linear():
    with pytest.raises(UnsupportedError, match=r"linear `outcome_transform`.*Got Log"):
        small_model(outcome_transform=Log())


@pytest.mark.parametrize("batch_shape", SHAPES[1:], ids=str)
@pytest.mark.parametrize(
    "options", [{}, IDENTITY, {**IDENTITY, "sample_variance_noise": "pointwise"}]
)
@pytest.mark.slow
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
