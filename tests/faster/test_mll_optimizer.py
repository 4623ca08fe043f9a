r"""The closed form from within BoTorch's own function."""

import math

import pytest
import torch
from botorch.exceptions.errors import ModelFittingError, UnsupportedError
from botorch.exceptions.warnings import BotorchWarning, OptimizationWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.transforms.input import Warp
from botorch.optim.core import OptimizationStatus
from gpytorch.kernels import RQKernel
from gpytorch.mlls import (
    ExactMarginalLogLikelihood,
    LeaveOneOutPseudoLikelihood,
    SumMarginalLogLikelihood,
)
from torch import Tensor

from botorch_risk.engine import fit_exact_gp
from botorch_risk.faster import fit_gpytorch_mll_closed_form
from botorch_risk.models import MeanVarianceGP


def data(num_outputs: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(15, 2, generator=generator, dtype=torch.double)
    columns = [((3 + k) * X).sin().sum(dim=-1) for k in range(num_outputs)]
    return X, torch.stack(columns, dim=-1)


def model(num_outputs: int = 1) -> SingleTaskGP:
    return SingleTaskGP(*data(num_outputs))


def loss(fitted: SingleTaskGP) -> ExactMarginalLogLikelihood:
    return ExactMarginalLogLikelihood(fitted.likelihood, fitted)


def objective(fitted: SingleTaskGP) -> Tensor:
    mll = loss(fitted).train()
    with torch.no_grad():
        value: Tensor = mll(fitted(*fitted.train_inputs), fitted.train_targets)
    return value


@pytest.mark.parametrize("num_outputs", [1, 2])
def test_fits_as_the_closed_form_does(num_outputs: int) -> None:
    within, alone = model(num_outputs), model(num_outputs)
    mll = fit_gpytorch_mll(loss(within), optimizer=fit_gpytorch_mll_closed_form)
    fit_exact_gp(alone)
    assert not mll.training
    assert not within.training
    for one, two in zip(within.parameters(), alone.parameters(), strict=True):
        assert torch.equal(one, two)


def test_ends_no_worse_than_the_default() -> None:
    ours, default = model(), model()
    fit_gpytorch_mll(loss(ours), optimizer=fit_gpytorch_mll_closed_form)
    fit_gpytorch_mll(loss(default))
    assert objective(ours) >= objective(default) - 1e-6


def test_reports_in_the_words_of_botorch() -> None:
    fitted = model()
    result = fit_gpytorch_mll_closed_form(loss(fitted))
    assert result.status == OptimizationStatus.SUCCESS
    assert result.message == "1 converged"
    assert result.step > 1
    assert math.isclose(result.fval, -float(objective(fitted)), abs_tol=1e-9)
    short = fit_gpytorch_mll_closed_form(loss(model()), max_iterations=1)
    assert short.status == OptimizationStatus.STOPPED


def test_options_go_by_optimizer_kwargs() -> None:
    fitted = model()
    before = fitted.covar_module.lengthscale.clone()
    fit_gpytorch_mll(
        loss(fitted),
        optimizer=fit_gpytorch_mll_closed_form,
        optimizer_kwargs={"rough_start": False, "max_iterations": 1},
    )
    one_step = fitted.covar_module.lengthscale.clone()
    fit_gpytorch_mll(loss(fitted), optimizer=fit_gpytorch_mll_closed_form)
    assert not torch.allclose(before, one_step)
    assert not torch.allclose(one_step, fitted.covar_module.lengthscale)


def test_the_best_of_all_attempts() -> None:
    fitted = model()
    fit_gpytorch_mll(
        loss(fitted),
        optimizer=fit_gpytorch_mll_closed_form,
        max_attempts=2,
        pick_best_of_all_attempts=True,
    )
    alone = model()
    fit_exact_gp(alone)
    assert objective(fitted) >= objective(alone) - 1e-9


def test_lists_are_fitted_model_by_model() -> None:
    models = ModelListGP(model(), model())
    mll = SumMarginalLogLikelihood(models.likelihood, models)
    fit_gpytorch_mll(mll, optimizer=fit_gpytorch_mll_closed_form)
    alone = model()
    fit_exact_gp(alone)
    for each in models.models:
        assert torch.equal(each.covar_module.lengthscale, alone.covar_module.lengthscale)


def test_a_model_with_a_fit_of_its_own_takes_it_too() -> None:
    X, Y = data()
    repeats = Y + 0.1 * torch.randn(15, 3, dtype=torch.double)
    fitted, alone = MeanVarianceGP(X, repeats), MeanVarianceGP(X, repeats)
    before = {name: each.clone() for name, each in fitted.state_dict().items()}
    mll = ExactMarginalLogLikelihood(fitted.likelihood, fitted)
    fit_gpytorch_mll(mll, optimizer=fit_gpytorch_mll_closed_form)
    assert not mll.training
    fit_gpytorch_mll(ExactMarginalLogLikelihood(alone.likelihood, alone))
    for name, value in fitted.named_parameters():
        assert not torch.equal(value, before[name]), name
        torch.testing.assert_close(value, alone.get_parameter(name), rtol=1e-6, atol=1e-6)


def unknown_kernel() -> SingleTaskGP:
    return SingleTaskGP(*data(), covar_module=RQKernel(ard_num_dims=2).double())


def learnt_transform() -> SingleTaskGP:
    return SingleTaskGP(*data(), input_transform=Warp(2, indices=[0]).double())


@pytest.mark.parametrize("make", [unknown_kernel, learnt_transform])
def test_botorch_fits_what_is_not_known(make) -> None:  # type: ignore[no-untyped-def]
    ours, default = make(), make()
    with pytest.warns(BotorchWarning, match="scipy` fits what the closed form does not support: a"):
        fit_gpytorch_mll(loss(ours), optimizer=fit_gpytorch_mll_closed_form)
    fit_gpytorch_mll(loss(default))
    torch.testing.assert_close(objective(ours), objective(default), rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_botorch_fits_other_losses() -> None:
    fitted, default = (
        LeaveOneOutPseudoLikelihood(each.likelihood, each) for each in (model(), model())
    )
    before = [each.detach().clone() for each in fitted.parameters()]
    with pytest.warns(BotorchWarning, match="a loss of type LeaveOneOutPseudoLikelihood"):
        fit_gpytorch_mll(fitted, optimizer=fit_gpytorch_mll_closed_form)
    assert not fitted.training
    fit_gpytorch_mll(default)
    for was, own, other in zip(before, fitted.parameters(), default.parameters(), strict=True):
        assert not torch.equal(own, was)
        torch.testing.assert_close(own, other)


def test_closures_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="Expected no `closure`"):
        fit_gpytorch_mll_closed_form(loss(model()), closure=lambda: None)


def test_a_failed_fit_makes_botorch_try_again() -> None:
    fitted = model()
    fitted.train_targets[0] = math.nan
    with (
        pytest.warns(OptimizationWarning, match="A fit failed: the training data are not finite"),
        pytest.raises(ModelFittingError, match="All attempts to fit the model have failed"),
    ):
        fit_gpytorch_mll(loss(fitted), optimizer=fit_gpytorch_mll_closed_form)
