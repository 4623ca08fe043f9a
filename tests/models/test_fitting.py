r"""Fits of the two processes, with rows and outcomes missing."""

import copy

import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.models.transforms.outcome import ChainedOutcomeTransform
from gpytorch.kernels import RQKernel
from gpytorch.mlls import ExactMarginalLogLikelihood

from botorch_risk.engine import fit_exact_gp
from botorch_risk.models import MeanVarianceGP, RepeatedOutcomes
from botorch_risk.models.fixed_noise import mean_kernel
from tests.models.examples import (
    IDENTITY,
    SPREAD,
    UNSCALED,
    fit,
    noise_in_use,
    points,
    repeats,
    small_model,
)


@pytest.mark.parametrize("options", [{}, IDENTITY, {**IDENTITY, "sample_variance_noise": "bound"}])
def test_the_usual_line_fits_both_processes(options):
    if "sample_variance_noise" in options:
        options = {**options, "max_noise_variance": 1.0}
    model = small_model(**options)
    before = copy.deepcopy(model.state_dict())
    mll = fit(model)
    assert not mll.training
    for part in ("mean_model", "noise.model"):
        (key,) = (k for k in before if k.startswith(part) and k.endswith("raw_lengthscale"))
        assert not torch.equal(model.state_dict()[key], before[key])
    # Eq. (16) was evaluated with the newest noise process.
    expected = model.noise_of_means(model.train_X, model.train_counts)
    torch.testing.assert_close(noise_in_use(model), expected)


@UNSCALED
@pytest.mark.slow
def test_fits_equal_those_of_two_ordinary_models():
    model = small_model(variance_link="identity", min_noise_variance=1e-3)
    variances, means = model.train_variances, model.train_means
    fit(model, optimizer_kwargs={})  # by BoTorch, from the same start
    plain = SingleTaskGP(model.train_X, (variances / variances.mean()) - 1, outcome_transform=None)
    fit(plain)
    torch.testing.assert_close(
        model.noise_model.covar_module.lengthscale,
        plain.covar_module.lengthscale,
        rtol=1e-3,
        atol=1e-3,
    )
    noise = model.noise_of_means(model.train_X, model.train_counts).detach()
    kernel = mean_kernel(model.train_X)
    plain = SingleTaskGP(model.train_X, means, train_Yvar=noise, covar_module=kernel)
    fit(plain)
    X = points(5)
    torch.testing.assert_close(
        model.posterior(X).mean, plain.posterior(X).mean, rtol=1e-4, atol=1e-4
    )


def test_the_usual_line_is_the_closed_form():
    model = small_model()
    twin = copy.deepcopy(model)
    fit(model)
    assert twin.fit_processes()
    for key, value in twin.state_dict().items():
        assert torch.equal(model.state_dict()[key], value), key
    result = fit_exact_gp(small_model())
    assert result.method == "closed form" and result.status == ("converged",)


@pytest.mark.parametrize("options", [SPREAD, IDENTITY])
@pytest.mark.slow
def test_the_closed_form_is_no_worse_than_botorchs_fit(options):
    model = small_model(**options)
    by_botorch = copy.deepcopy(model)
    fit(model)
    fit(by_botorch, optimizer_kwargs={})
    losses = []
    for process in (model.noise_model, by_botorch.noise_model):  # of the same data
        mll = ExactMarginalLogLikelihood(process.likelihood, process).train()
        losses.append(mll(process(*process.train_inputs), process.train_targets).item())
    assert losses[0] >= losses[1] - 1e-6


@pytest.mark.parametrize(
    "options", [{"optimizer_kwargs": {"options": {"maxiter": 500}}}, {"max_attempts": 2}]
)
def test_options_of_botorch_are_given_to_botorch(options, monkeypatch):
    given = []

    def watched(mll, **kwargs):
        given.append(kwargs)
        return fit_gpytorch_mll(mll, **kwargs)

    monkeypatch.setattr("botorch.fit.fit_gpytorch_mll", watched)
    model = small_model(**SPREAD)
    twin = copy.deepcopy(model)
    fit(model, **options)
    assert given == [options, options]
    fit(twin)
    assert len(given) == 2
    X = points(5)
    torch.testing.assert_close(
        model.posterior(X).mean, twin.posterior(X).mean, rtol=1e-3, atol=1e-3
    )


def test_a_kernel_that_the_closed_form_does_not_know_is_fitted_by_botorch():
    model = small_model(covar_module=RQKernel(ard_num_dims=2))
    before = model.covar_module.lengthscale.clone()
    mll = fit(model)
    assert not mll.training
    assert not torch.equal(model.covar_module.lengthscale, before)


def test_fitting_refuses_what_it_cannot_do():
    model = small_model()
    for options in ({"closure": lambda: None}, {"closure_kwargs": {}}):
        with pytest.raises(UnsupportedError, match="no closure"):
            fit(model, **options)
    for options in ({"num_restarts": 1, "seeds": 0}, {"observed": torch.ones(10).bool()}):
        with pytest.raises(UnsupportedError, match="one process for `num_restarts` and `observed`"):
            fit_exact_gp(model, **options)
    conditioned = model.condition_on_observations(points(1), points(1)[:, :1])
    for attempt in (conditioned.refresh_noise, lambda: fit(conditioned)):
        with pytest.raises(UnsupportedError, match="not the result of `condition_on"):
            attempt()


PATTERNS = ["rows", "single repeats", "both", "most", "none"]


def with_gaps(Y, pattern):
    r"""The repeats with gaps that differ between replicates."""
    Y = Y.clone()
    if pattern in ("rows", "both"):
        Y[0, [0, 3]] = torch.nan
        Y[1, 5:] = torch.nan
    if pattern in ("single repeats", "both"):
        Y[0, 6:, 1:] = torch.nan
        Y[1, :2, 1:] = torch.nan
    if pattern == "most":
        Y[0, 2:] = torch.nan
        Y[1, 1:, 2:] = torch.nan
    return Y


def predictions(model, X):
    return (
        *model.mean_marginals(X),
        *model.noise_confidence_bounds(X, 4.0),
        model.predicted_noise(X).squeeze(-1),
        model.posterior(X).mean.squeeze(-1),
    )


OPTIONS = [
    {},
    {"input_transform": True},
    {"outcome_transform": Standardize(1, batch_shape=torch.Size([2]))},
    {"outcome_transform": None},
    SPREAD,
    {"variance_link": "identity", "sample_variance_noise": "pointwise", "min_noise_variance": 1e-3},
]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.filterwarnings("ignore:Data .outcome observations. is not standardized")
def test_a_replicate_in_a_batch_is_the_replicate_alone(pattern, options):
    torch.manual_seed(1)
    X, Y = repeats(n=10, batch_shape=(2,))
    Y, test_X = with_gaps(Y, pattern), torch.rand(2, 6, 2, dtype=torch.double)
    if options.get("input_transform"):
        X, test_X = 7 * X - 2, 7 * test_X - 2

    def build(X, Y, batch_shape=()):
        chosen = dict(options)
        if chosen.get("input_transform"):
            chosen["input_transform"] = Normalize(2, batch_shape=torch.Size(batch_shape))
        if chosen.get("outcome_transform") is not None and not batch_shape:
            chosen["outcome_transform"] = Standardize(1)
        return MeanVarianceGP(X, RepeatedOutcomes.from_repeats(Y, allow_missing=True), **chosen)

    together = predictions(build(X, Y, (2,)), test_X)
    for i in range(2):
        observed = Y[i].isfinite().any(dim=-1)
        alone = predictions(build(X[i, observed], Y[i, observed]), test_X[i])
        for a, b in zip(together, alone, strict=True):
            torch.testing.assert_close(a[i], b, rtol=1e-6, atol=1e-8)


def test_the_typical_number_of_repeats_is_that_of_rows_with_outcomes():
    Y = torch.randn(3, 6, 4, dtype=torch.double)
    Y[1, :4], Y[2, :, 3:] = torch.nan, torch.nan
    outcomes = RepeatedOutcomes.from_repeats(Y, allow_missing=True)
    model = MeanVarianceGP(torch.rand(3, 6, 1, dtype=torch.double), outcomes)
    assert model.num_repeats.shape == (3, 1, 1)
    assert model.num_repeats.flatten().tolist() == [4, 4, 3]


def test_transforms_that_learn_from_fillers_are_refused():
    X, Y = repeats(batch_shape=(2,))
    outcomes = RepeatedOutcomes.from_repeats(with_gaps(Y, "rows"), allow_missing=True)
    chained = ChainedOutcomeTransform(first=Standardize(1, batch_shape=torch.Size([2])))
    with pytest.raises(UnsupportedError, match="if a replicate misses rows"):
        MeanVarianceGP(X, outcomes, outcome_transform=chained)
    whole = ChainedOutcomeTransform(first=Standardize(1, batch_shape=torch.Size([2])))
    assert MeanVarianceGP(X, Y, outcome_transform=whole).batch_shape == (2,)
