r"""Estimators of hyperparameters, and what fits report."""

import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import botorch.fit
import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.exceptions.warnings import OptimizationWarning
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize
from torch import Tensor

from botorch_risk.engine import FitResult, fit_exact_gp
from botorch_risk.fit import (
    Estimator,
    FullyBayesian,
    MaximumAPosteriori,
    PseudoData,
    compare_losses,
    estimators,
    fit_pseudo_data,
)
from botorch_risk.models import one_hot_inputs
from botorch_risk.seeding import streams
from tests.waves import BOUNDS
from tests.waves import model_of as model_of_waves

UNIT = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)


def model_of(*batch_shape: int) -> SingleTaskGP:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(*batch_shape, 8, 2, dtype=torch.double, generator=generator)
    return SingleTaskGP(X, (5 * X).sin().sum(dim=-1, keepdim=True))


def lengthscale(model: SingleTaskGP) -> Tensor:
    return model.covar_module.lengthscale.detach()


@pytest.mark.parametrize("estimator", [MaximumAPosteriori(), PseudoData(), FullyBayesian()])
def test_one_interface(estimator: Estimator) -> None:
    assert isinstance(estimator, Estimator)


def test_fits_in_place() -> None:
    for estimator, fit in (
        (MaximumAPosteriori(), fit_exact_gp),
        (
            PseudoData(),
            lambda model: fit_pseudo_data(model, UNIT, seeds=streams([0, 1], "estimate", 3)),
        ),
    ):
        ours, theirs = model_of(2), model_of(2)
        assert estimator(ours, [0, 1], 3) is ours
        fit(theirs)
        assert torch.equal(lengthscale(ours), lengthscale(theirs))


def test_points_are_redrawn_or_kept() -> None:
    fitted = {}
    for redraw in (True, False):
        for t in (1, 2):
            model = PseudoData(redraw=redraw, points="sobol")(model_of(), [0], t)
            fitted[redraw, t] = lengthscale(model)
    assert not torch.equal(fitted[True, 1], fitted[True, 2])
    assert torch.equal(fitted[False, 1], fitted[False, 2])


def test_pseudo_data_for_a_model_that_has_predicted() -> None:
    X = torch.rand(8, 2, generator=torch.Generator().manual_seed(0)).double()
    X[:, 1] = torch.arange(8) % 3 / 2
    fitted = []
    for mode in (True, False):
        encoded = one_hot_inputs(UNIT, [1])  # four columns of two
        model = SingleTaskGP(X, X.sum(dim=-1, keepdim=True), input_transform=encoded).train(mode)
        fitted.append(lengthscale(PseudoData()(model, [0], 1)))
    assert torch.equal(*fitted)


def test_a_failed_fit_is_named() -> None:
    model = model_of(2)
    model.train_targets[1, 0] = torch.nan
    with pytest.warns(OptimizationWarning, match="seed 7: the training data are not finite"):
        MaximumAPosteriori()(model, [3, 7], 1)


def test_mcmc_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpyro", None)  # as if it were not installed
    with pytest.raises(ImportError, match=r"botorch_risk\[bayesian\]"):
        FullyBayesian()(model_of(), [0], 1)


@pytest.mark.parametrize("known_noise", [True, False])
@pytest.mark.parametrize("has_predicted", [True, False])
def test_mcmc_has_the_data_the_transform_and_the_noise_of_the_model(
    monkeypatch: pytest.MonkeyPatch, known_noise: bool, has_predicted: bool
) -> None:
    made: dict[str, Any] = {}
    theirs = types.ModuleType("botorch.models.fully_bayesian")
    theirs.FullyBayesianSingleTaskGP = lambda *data, **given: made.update(given, data=data)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, theirs.__name__, theirs)
    monkeypatch.setattr(estimators.importlib.util, "find_spec", lambda name: True)
    monkeypatch.setattr(botorch.fit, "fit_fully_bayesian_model_nuts", lambda *_, **__: None)
    X = 10 * torch.rand(8, 1, generator=torch.Generator().manual_seed(0)).double()
    Y, Yvar = 5 * X.sin(), 0.1 + X if known_noise else None
    model = SingleTaskGP(X, Y, Yvar, input_transform=Normalize(1)).train(not has_predicted)
    observed = torch.arange(8) != 3
    FullyBayesian()(model, [0], 1, observed=observed)
    assert model.training is not has_predicted
    torch.testing.assert_close(made["data"], (X[observed], Y[observed]))
    transform = made["input_transform"]
    assert isinstance(transform, Normalize) and transform is not model.input_transform
    if Yvar is None:
        assert made["train_Yvar"] is None
    else:
        torch.testing.assert_close(made["train_Yvar"], Yvar[observed])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_mcmc_samples_hyperparameters() -> None:
    pytest.importorskip("numpyro")
    estimator = FullyBayesian(warmup_steps=16, num_samples=4)
    sampled = estimator(model_of(), [0], 1)
    assert sampled.covar_module.lengthscale.shape == (4, 1, 2)
    again = estimator(model_of(), [0], 1)
    assert torch.equal(sampled.covar_module.lengthscale, again.covar_module.lengthscale)
    with pytest.raises(UnsupportedError, match="a model of one replicate"):
        estimator(model_of(2), [0, 1], 1)


def test_mcmc_is_of_one_replicate() -> None:
    pytest.importorskip("numpyro")
    with pytest.raises(UnsupportedError, match=r"a model of one replicate: .*\[2\]"):
        FullyBayesian()(model_of(2), [0, 1], 1)


def test_mcmc_lets_jax_forget_what_it_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    jax = pytest.importorskip("jax")
    pytest.importorskip("numpyro")
    cleared: list[int] = []
    monkeypatch.setattr(jax, "clear_caches", lambda: cleared.append(1))
    monkeypatch.setattr(botorch.fit, "fit_fully_bayesian_model_nuts", lambda *_, **__: None)
    for t in range(2 * estimators.FITS_BETWEEN_CLEARING):
        FullyBayesian()(model_of(), [0], t)
    assert len(cleared) == 2


def result(*status: str) -> FitResult:
    reasons = tuple("not finite" if one == "failed" else "" for one in status)
    return FitResult(torch.zeros(len(status)), status, reasons, None, "closed form")


def test_the_warning_names_the_seeds_that_failed() -> None:
    fit = result("failed", "converged", "failed")
    assert fit.has_failed
    with pytest.warns(OptimizationWarning, match="seed 3: not finite; seed 5: not finite"):
        fit.warn_of_failures([3, 4, 5])


def test_no_warning_where_none_failed() -> None:
    fit = result("converged", "stalled", "not reported")
    assert not fit.has_failed
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit.warn_of_failures([3, 4, 5])


@pytest.mark.parametrize("batch_shape", [(), (2,)])
def test_both_losses_side_by_side(batch_shape: tuple[int, ...]) -> None:
    model, seeds = model_of_waves(*batch_shape), list(range(*batch_shape)) if batch_shape else 0
    before = {key: value.clone() for key, value in model.state_dict().items()}
    table = compare_losses(model, BOUNDS, seeds=seeds)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    fit_pseudo_data(model, BOUNDS, seeds=seeds)
    lengthscale = model.covar_module.lengthscale.detach().squeeze(-2)
    torch.testing.assert_close(table["lengthscale"].pseudo_data, lengthscale)
    assert (table["lengthscale"].ordinary != lengthscale).all()


def test_one_data_set_and_several_seeds() -> None:
    model = model_of_waves()
    several = compare_losses(model, BOUNDS, seeds=[3, 5, 8])
    for index, seed in enumerate((3, 5, 8)):
        alone = compare_losses(model, BOUNDS, seeds=seed)
        for name, (ordinary, pseudo_data) in alone.items():
            torch.testing.assert_close(several[name].ordinary, ordinary)
            torch.testing.assert_close(several[name].pseudo_data[index], pseudo_data)
    assert several["lengthscale"].pseudo_data.std(dim=0).min() > 0


@pytest.mark.parametrize(
    "build",
    [
        lambda: PseudoData(points="halton"),  # type: ignore[arg-type]
        lambda: PseudoData(bounds=torch.tensor([[1.0], [0.0]])),
        lambda: FullyBayesian(warmup_steps=-1),
        lambda: FullyBayesian(num_samples=0),
    ],
)
def test_options_are_checked_before_anything_is_measured(build: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="Expected"):
        build()
