r"""Fits of both processes by the usual line."""

from __future__ import annotations

import copy

import pytest
import torch
from botorch.exceptions.errors import (
    UnsupportedError,
)
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from gpytorch.kernels import RQKernel
from gpytorch.mlls import ExactMarginalLogLikelihood

from botorch_risk.fit import fit_exact_gp
from botorch_risk.models.fixed_noise import mean_kernel
from tests.models.examples import (
    IDENTITY,
    UNSCALED,
    fit,
    noise_in_use,
    points,
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
    assert twin.fit_processes(lambda process: not fit_exact_gp(process).has_failed)
    for key, value in twin.state_dict().items():
        assert torch.equal(model.state_dict()[key], value), key


@pytest.mark.parametrize("options", [{}, IDENTITY])
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

    monkeypatch.setattr("botorch_risk.fit.exact_gp.fit_gpytorch_mll", watched)
    model = small_model()
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
    conditioned = model.condition_on_observations(points(1), points(1)[:, :1])
    for attempt in (conditioned.refresh_noise, lambda: fit(conditioned)):
        with pytest.raises(UnsupportedError, match="conditioned on further"):
            attempt()
