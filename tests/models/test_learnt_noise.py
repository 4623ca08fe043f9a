r"""Noise that is learnt from sample variances and from the evidence of readings."""

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import InputDataError, UnsupportedError
from scipy import stats

from botorch_risk.models import MeanVarianceGP, RepeatedOutcomes
from tests.models import oracles
from tests.models.examples import SPREAD, matern, repeats, set_process, small_model, with_missing

NOISE = oracles.Process(np.array([0.4, 0.7]), 0.8, 0.1)
MEAN = oracles.Process(np.array([0.3, 0.5]), 1.4, -0.2)
LEVEL = 0.2

CASES = [
    ("log", None, True),
    ("identity", "inferred", False),
    ("identity", "inferred", True),
    ("identity", "bound", True),
    ("identity", "pointwise", False),
]


def example(link, sample_noise, missing, **options):
    X, Y = repeats()
    Y = with_missing(Y) if missing else Y
    model = MeanVarianceGP(
        X,
        Y,
        variance_link=link,
        sample_variance_noise=sample_noise,
        max_noise_variance=0.5,
        min_noise_variance=1e-3,
        covar_module=matern(),
        noise_covar_module=matern(),
        noise_evidence="spread",
        **{"noise_beta": 4.0, **options},
    )
    set_process(model.mean_model, MEAN.lengthscale, MEAN.outputscale, MEAN.constant)
    set_process(model.noise_model, NOISE.lengthscale, NOISE.outputscale, NOISE.constant)
    if sample_noise == "inferred":
        model.noise_model.likelihood.noise = LEVEL
    model.refresh_noise()
    return model, X.numpy(), Y.numpy()


def assert_close(actual, expected):
    np.testing.assert_allclose(actual.detach().numpy(), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("link", "sample_noise", "missing"), CASES)
@pytest.mark.parametrize("standardize", [False, True])
def test_model_equals_the_equations(link, sample_noise, missing, standardize):
    options = {} if standardize else {"outcome_transform": None}
    model, X, Y = example(link, sample_noise, missing, **options)
    test_X = np.random.default_rng(0).random((6, 2))
    points = torch.as_tensor(test_X)

    def process_at(points):
        return oracles.noise_process(X, Y, points, NOISE, link, sample_noise, 0.5, LEVEL)

    mean, variance = oracles.noise_moments(process_at(test_X), link)
    posterior = model.noise_posterior(points)
    assert_close(posterior.mean.squeeze(-1), mean)
    assert_close(posterior.variance.squeeze(-1), variance)
    assert_close(model.predicted_noise(points).squeeze(-1), mean.clip(1e-3, 0.5))
    for beta in (0.0, 1.96**2):
        bounds = oracles.noise_bounds(process_at(test_X), beta, link)
        for actual, expected in zip(
            model.noise_confidence_bounds(points, beta), bounds, strict=True
        ):
            assert_close(actual, expected)
    upper = oracles.noise_bounds(process_at(X), 4.0, link)[1].clip(1e-3, 0.5)  # Eq. (16)
    counts = oracles.statistics(Y)[2]
    assert_close(
        model.noise_of_means(torch.as_tensor(X), model.train_counts).squeeze(-1), upper / counts
    )
    mean, variance = oracles.mean_process(X, Y, upper, test_X, MEAN, standardize)
    posterior = model.posterior(points)
    assert_close(posterior.mean.squeeze(-1), mean)
    assert_close(posterior.variance.squeeze(-1), variance)
    lower_f, upper_f = model.confidence_bounds(points, 4.0)  # Eq. (7)
    assert_close(lower_f, mean - 2 * np.sqrt(variance))
    assert_close(upper_f, mean + 2 * np.sqrt(variance))


def test_bounds_are_quantiles_on_the_logarithmic_scale():
    model, X, Y = example("log", None, True)
    test_X = np.random.default_rng(0).random((6, 2))
    mean, variance = oracles.noise_process(X, Y, test_X, NOISE, "log", None)
    expected_noise = stats.lognorm(s=np.sqrt(variance), scale=np.exp(mean))
    z = stats.norm.ppf(0.975)
    for actual, level in zip(
        model.noise_confidence_bounds(torch.as_tensor(test_X), z**2), (0.025, 0.975), strict=True
    ):
        assert_close(actual, expected_noise.ppf(level))


def test_pointwise_noise_follows_the_upper_bound():
    model, X, Y = example("identity", "pointwise", False)
    upper = oracles.noise_bounds(
        oracles.noise_process(X, Y, X, NOISE, "identity", "pointwise"), 4.0, "identity"
    )[1].clip(1e-3, 0.5)
    model.noise.refresh_pointwise_noise()
    scale = oracles.statistics(Y)[1].mean()
    expected = 2 * upper**2 / (Y.shape[-1] - 1) / scale**2
    assert_close(model.noise_model.likelihood.noise, expected)


@pytest.mark.parametrize(("link", "sample_noise", "missing"), CASES)
def test_bounds_after_repeats_are_those_of_a_conditioned_process(link, sample_noise, missing):
    model, _, _ = example(link, sample_noise, missing)
    X = torch.rand(3, 2, dtype=torch.double, requires_grad=True)
    counts = torch.tensor(5.0, dtype=torch.double)
    after = model.noise.bounds_after_repeats(X, 4.0, counts)
    for i in range(3):
        point = X[i : i + 1].detach()
        conditioned = model.noise.conditioned(point, counts, None).bounds(point, 4.0)
        for value, expected in zip(after, conditioned, strict=True):
            torch.testing.assert_close(value[i : i + 1], expected, rtol=1e-6, atol=1e-8)
    assert torch.autograd.grad(after[0].sum(), X)[0].isfinite().all()
    before = model.noise.bounds(X, 4.0)
    single = model.noise.bounds_after_repeats(X, 4.0, torch.ones(3, dtype=torch.double))
    for value, expected in zip(single, before, strict=True):
        torch.testing.assert_close(value, expected)
    assert torch.autograd.grad(single[0].sum(), X)[0].isfinite().all()


def test_single_repeats_have_no_spread():
    X, Y = repeats()
    missing = with_missing(Y)
    alone = torch.tensor([0, 4])
    several = torch.tensor([1, 2, 3, 5, 6, 7, 8, 9])
    moved = missing.clone()
    moved[alone] += 5
    models = [
        MeanVarianceGP(X, missing, **SPREAD),
        MeanVarianceGP(X, moved, **SPREAD),
        MeanVarianceGP(X[several], missing[several], **SPREAD),
    ]
    test_X = torch.rand(4, 2, dtype=torch.double)
    first, *others = (model.noise_posterior(test_X).mean for model in models)
    for other in others:
        torch.testing.assert_close(first, other)
    assert not torch.allclose(*(model.posterior(test_X).mean for model in models[:2]), rtol=1e-3)


@pytest.mark.parametrize("link", ["log", "identity"])
def test_entries_without_repeats_in_a_batch_are_worthless(link):
    X, Y = repeats(batch_shape=(2,))
    Y[1] = with_missing(Y[1])
    choice = None if link == "log" else "pointwise"
    options = {"variance_link": link, "sample_variance_noise": choice, "min_noise_variance": 1e-3}
    options |= SPREAD
    together = MeanVarianceGP(X, Y, **options)
    test_X = torch.rand(4, 2, dtype=torch.double)
    moved = Y.clone()
    moved[1, 0, 0] += 1.0  # the one repeat of its row
    other = MeanVarianceGP(X, moved, **options)
    torch.testing.assert_close(
        together.noise_posterior(test_X.expand(2, 4, 2)).variance,
        other.noise_posterior(test_X.expand(2, 4, 2)).variance,
    )
    torch.testing.assert_close(
        together.noise_posterior(test_X.expand(2, 4, 2)).mean,
        other.noise_posterior(test_X.expand(2, 4, 2)).mean,
    )


def test_identity_link_refuses_a_noise_that_is_not_positive_once_it_is_needed():
    # Sixteen quiet points and a loud one: the process falls below zero between them.
    X = torch.linspace(0, 1, 17, dtype=torch.double).unsqueeze(-1)
    Y = X.sin() + 0.01 * torch.randn(17, 5, dtype=torch.double)
    Y[8] = 5 * torch.randn(5, dtype=torch.double)
    options = {"variance_link": "identity", "noise_beta": 0.0}
    refused = MeanVarianceGP(X, Y, **options)  # the bound is not needed before the fit
    assert refused.predicted_noise(X).shape == (17, 1)
    for need in (
        lambda: refused.posterior(X),
        lambda: refused.confidence_bounds(X, 4.0),
        lambda: refused(X),
        refused.refresh_noise,
    ):
        with pytest.raises(ValueError, match=r"positive upper bound.*set `min_noise_variance`"):
            need()
    model = MeanVarianceGP(X, Y, min_noise_variance=1e-4, **options)
    noise = model.noise_of_means(X, 5)
    assert noise.min().item() == pytest.approx(1e-4 / 5)
    assert (model.noise_confidence_bounds(X, 4.0)[0] < 0).any()  # as in the paper


def test_spread_refuses_single_readings():
    X, Y = repeats(k=1)
    many = repeats(batch_shape=(3,))
    many[1][1, :, 1:] = torch.nan
    with pytest.raises(InputDataError, match=r"two repeats or more.*or give `known_noise`"):
        MeanVarianceGP(X, Y, noise_evidence="spread")
    with pytest.raises(InputDataError, match=r"two repeats or more.*"):
        MeanVarianceGP(X, Y, variance_link="identity")
    with pytest.raises(InputDataError, match=r"two repeats or more.* in replicate 1"):
        MeanVarianceGP(*many, noise_evidence="spread")


def test_bad_choices():
    X, Y = repeats()
    with pytest.raises(ValueError, match=r"`noise_evidence` to be one of .*Got 'all'"):
        MeanVarianceGP(X, Y, noise_evidence="all")
    with pytest.raises(UnsupportedError, match="Expected the log link"):
        MeanVarianceGP(X, Y, noise_evidence="readings", variance_link="identity")
    with pytest.raises(UnsupportedError, match="unknown noise"):
        MeanVarianceGP(X, Y, torch.ones_like(Y), noise_evidence="readings")


def test_the_default_evidence():
    X, Y = repeats()
    assert MeanVarianceGP(X, Y).noise.evidence == "readings"
    assert MeanVarianceGP(X, Y, variance_link="identity").noise.evidence == "spread"
    assert MeanVarianceGP(X, Y, torch.ones_like(Y)).noise.evidence == "spread"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variance_link": "sqrt"}, "`variance_link` to be one of .*'sqrt'"),
        ({"sample_variance_noise": "bound"}, "no `sample_variance_noise` with the log link"),
        (
            {"variance_link": "identity", "sample_variance_noise": "other"},
            "`sample_variance_noise` to be one of .*'other'",
        ),
        (
            {"variance_link": "identity", "sample_variance_noise": "bound"},
            "`max_noise_variance` with",
        ),
        ({"noise_beta": -1.0}, "`noise_beta` to be finite and >= 0. Got -1.0"),
        ({"noise_beta": float("nan")}, "`noise_beta` to be finite and >= 0. Got nan"),
        ({"min_noise_variance": 0.0}, "`min_noise_variance` to be finite and > 0"),
        ({"max_noise_variance": float("inf")}, "`max_noise_variance` to be finite and > 0"),
        (
            {"min_noise_variance": 2.0, "max_noise_variance": 1.0},
            "`min_noise_variance` <= `max_noise_variance`",
        ),
    ],
)
def test_refuses_choices_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        small_model(**options)


def test_refuses_one_noise_level_for_ragged_batches():
    X, Y = repeats(batch_shape=(2,))
    Y[1] = with_missing(Y[1])
    with pytest.raises(UnsupportedError, match="same rows of every replicate"):
        MeanVarianceGP(X, Y, variance_link="identity")


def test_known_levels_are_those_of_every_row_of_every_replicate():
    X, Y = repeats(batch_shape=(2,))
    Y[1, 3] = torch.nan
    outcomes = RepeatedOutcomes.from_repeats(Y, Y.square(), allow_missing=True)
    with pytest.raises(UnsupportedError, match=r"every row of every replicate.* one by one"):
        MeanVarianceGP(X, outcomes)
