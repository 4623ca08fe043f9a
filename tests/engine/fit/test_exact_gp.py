import math
import pickle

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP, SingleTaskVariationalGP
from botorch.models.transforms import Log, Normalize, Warp
from gpytorch.constraints import GreaterThan, Interval
from gpytorch.kernels import LinearKernel, MaternKernel, RBFKernel, ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import LinearMean, ZeroMean
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.priors import NormalPrior, UniformPrior
from torch import Tensor

from botorch_risk.engine import FitResult, fit_exact_gp, fit_to_data
from botorch_risk.engine.fit.results import FitStatus
from tests.engine.fit.examples import Builder, data, objective, scaled_matern

# Some models here see raw outcomes or float32 on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")


def matern32_without_ard(X: Tensor, Y: Tensor) -> SingleTaskGP:
    kernel = MaternKernel(nu=1.5, batch_shape=X.shape[:-2])
    return SingleTaskGP(X, Y, covar_module=ScaleKernel(kernel, batch_shape=X.shape[:-2]))


def active_dimension(X: Tensor, Y: Tensor) -> SingleTaskGP:
    kernel = RBFKernel(active_dims=(1,), batch_shape=X.shape[:-2], ard_num_dims=1)
    return SingleTaskGP(X, Y, covar_module=kernel, mean_module=ZeroMean())


def intervals(X: Tensor, Y: Tensor) -> SingleTaskGP:
    kernel = RBFKernel(batch_shape=X.shape[:-2], lengthscale_constraint=Interval(0.1, 0.4))
    likelihood = GaussianLikelihood(
        batch_shape=X.shape[:-2],
        noise_constraint=GreaterThan(1e-3),
        noise_prior=NormalPrior(0.1, 0.1),
    )
    return SingleTaskGP(X, Y, covar_module=kernel, likelihood=likelihood)


BUILDERS: dict[str, Builder] = {
    "default": SingleTaskGP,
    "fixed noise": lambda X, Y: SingleTaskGP(X, Y, 0.01 + 0.05 * X[..., :1]),
    "scaled matern": scaled_matern,
    "matern 3/2 without ARD": matern32_without_ard,
    "active dimension": active_dimension,
    "intervals": intervals,
    "transforms": lambda X, Y: SingleTaskGP(
        10 * X,
        (Y + 5).abs(),
        input_transform=Normalize(2, batch_shape=X.shape[:-2]),
        outcome_transform=Log(),
    ),
}


builders = pytest.mark.parametrize("name", BUILDERS)


@builders
@pytest.mark.parametrize("batch_shape", [(), (2,), (2, 2)])
@pytest.mark.handful
def test_objective_is_that_of_gpytorch_and_no_worse_than_botorch(
    name: str, batch_shape: tuple[int, ...]
) -> None:
    ours, theirs = (BUILDERS[name](*data(*batch_shape)) for _ in range(2))
    result = fit_exact_gp(ours)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(theirs.likelihood, theirs))
    assert result.method == "closed form" and result.fallback_reason is None
    assert set(result.status) == {FitStatus.CONVERGED} and set(result.reasons) == {""}
    assert result.objective.shape == result.num_evaluations.shape == batch_shape
    torch.testing.assert_close(result.objective, objective(ours), rtol=0, atol=1e-10)
    assert (result.objective >= objective(theirs) - 1e-6).all()


def test_posterior_is_that_of_a_model_fitted_by_botorch() -> None:
    X, Y = data(n=20)
    ours, theirs = SingleTaskGP(X, Y), SingleTaskGP(X, Y)
    new = torch.rand(7, 2).double()
    ours.posterior(new)  # leaves caches behind
    fit_exact_gp(ours, tolerance=1e-8)
    options = {"gtol": 1e-8, "ftol": 1e-14}
    fit_gpytorch_mll(
        ExactMarginalLogLikelihood(theirs.likelihood, theirs), optimizer_kwargs={"options": options}
    )
    assert not ours.training
    mine, reference = ours.posterior(new), theirs.posterior(new)
    torch.testing.assert_close(mine.mean, reference.mean, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(mine.variance, reference.variance, rtol=1e-3, atol=1e-5)


@builders
def test_batched_equals_looped(name: str) -> None:
    X, Y = data(3)
    result = fit_exact_gp(BUILDERS[name](X, Y))
    for replicate in range(3):
        alone = fit_exact_gp(BUILDERS[name](X[replicate], Y[replicate]))
        torch.testing.assert_close(alone.objective, result.objective[replicate], atol=1e-9, rtol=0)


def test_a_replicate_with_data_that_are_not_finite_fails_alone() -> None:
    X, Y = data(3)
    model, healthy = SingleTaskGP(X, Y), SingleTaskGP(X, Y)
    before = model.covar_module.raw_lengthscale.detach().clone()
    model.train_targets[1, 4] = math.nan
    result, expected = fit_exact_gp(model), fit_exact_gp(healthy)
    assert [status.value for status in result.status] == ["converged", "failed", "converged"]
    assert result.reasons == ("", "the training data are not finite", "")
    assert result.objective.isnan().tolist() == [False, True, False]
    assert result.num_evaluations[1] == 2  # one for each start, and no more
    lengthscale = model.covar_module.raw_lengthscale
    assert torch.equal(lengthscale[1], before[1])
    torch.testing.assert_close(
        lengthscale[[0, 2]], healthy.covar_module.raw_lengthscale[[0, 2]], rtol=1e-6, atol=0
    )
    torch.testing.assert_close(result.objective[[0, 2]], expected.objective[[0, 2]])


def test_a_covariance_that_is_not_positive_definite_fails_alone() -> None:
    X, Y = data(2)
    model = SingleTaskGP(X, Y, torch.full_like(Y, 0.01))
    model.likelihood.noise_covar.noise[0] = -5.0
    result = fit_exact_gp(model)
    assert [status.value for status in result.status] == ["failed", "converged"]
    assert result.reasons[0].startswith("the objective is not finite at any start")


@pytest.mark.parametrize("name", [name for name in BUILDERS if name != "transforms"])
def test_masked_rows_do_not_count(name: str) -> None:
    X, Y = data(2)
    observed = torch.ones(2, 15, dtype=torch.bool)
    observed[0, 10:] = False
    model = BUILDERS[name](X, Y)
    fitted = fit_exact_gp(model, observed=observed)
    short = BUILDERS[name](X[0, :10], Y[0, :10])
    # The short model standardises by itself: it gets the targets of the long one.
    short.set_train_data(X[0, :10], model.train_targets[0, :10])
    if name == "fixed noise":
        short.likelihood.noise_covar.noise = model.likelihood.noise_covar.noise[0, :10]
    alone = fit_exact_gp(short)
    torch.testing.assert_close(fitted.objective[0], alone.objective, rtol=0, atol=1e-9)


def test_missing_targets_may_be_masked_and_an_empty_mask_fails_its_replicate() -> None:
    X, Y = data(2)
    model = SingleTaskGP(X, Y)
    model.train_targets[0, 3] = math.nan
    observed = torch.ones(2, 15, dtype=torch.bool)
    observed[0, 3] = False
    assert set(fit_exact_gp(model, observed=observed).status) == {FitStatus.CONVERGED}
    observed[0] = False
    result = fit_exact_gp(model, observed=observed)
    assert result.reasons == ("no point is observed", "")


def test_parameters_without_gradients_stay() -> None:
    model = SingleTaskGP(*data(2))
    model.likelihood.noise = 0.3
    model.likelihood.noise_covar.raw_noise.requires_grad_(False)
    result = fit_exact_gp(model)
    assert torch.equal(model.likelihood.noise, torch.full((2, 1), 0.3).double())
    torch.testing.assert_close(result.objective, objective(model), rtol=0, atol=1e-10)


def test_restarts_never_lose_and_depend_on_the_seed_of_the_replicate_alone() -> None:
    X, Y = data(3, n=8)
    plain = fit_exact_gp(scaled_matern(X, Y), rough_start=False)
    restarted = fit_exact_gp(scaled_matern(X, Y), num_restarts=3, seeds=[5, 6, 7])
    assert (restarted.objective >= plain.objective - 1e-9).all()
    assert (restarted.num_evaluations > plain.num_evaluations).all()
    alone = fit_exact_gp(scaled_matern(X[1], Y[1]), num_restarts=3, seeds=6)
    torch.testing.assert_close(alone.objective, restarted.objective[1], rtol=0, atol=1e-9)
    assert alone.num_evaluations == restarted.num_evaluations[1]


def test_the_same_fit_twice_is_bitwise_the_same() -> None:
    first, second = (SingleTaskGP(*data(3)) for _ in range(2))
    assert torch.equal(fit_exact_gp(first).objective, fit_exact_gp(second).objective)
    assert torch.equal(first.covar_module.lengthscale, second.covar_module.lengthscale)


def test_it_runs_without_gradients_and_the_result_pickles() -> None:
    with torch.no_grad():
        result = fit_exact_gp(SingleTaskGP(*data()))
    again = pickle.loads(pickle.dumps(result))
    assert isinstance(again, FitResult) and again.status == result.status


def test_the_iteration_limit_is_told() -> None:
    result = fit_exact_gp(SingleTaskGP(*data()), max_iterations=1)
    assert result.status == (FitStatus.ITERATION_LIMIT,)


def test_float32_and_device(device: torch.device) -> None:
    X, Y = data(2)
    expected = fit_exact_gp(SingleTaskGP(X, Y))
    model = SingleTaskGP(X.float().to(device), Y.float().to(device))
    result = fit_exact_gp(model)
    assert result.objective.dtype == torch.float32
    assert result.objective.device.type == model.covar_module.lengthscale.device.type == device.type
    assert FitStatus.FAILED not in result.status
    torch.testing.assert_close(
        result.objective.cpu().double(), expected.objective, atol=1e-3, rtol=0
    )


class OwnForward(SingleTaskGP):
    def forward(self, x: Tensor) -> object:
        return super().forward(x)


UNKNOWN: dict[str, tuple[Builder, str]] = {
    "kernel": (
        lambda X, Y: SingleTaskGP(X, Y, covar_module=ScaleKernel(LinearKernel())),
        "a kernel of type LinearKernel",
    ),
    "mean": (
        lambda X, Y: SingleTaskGP(X, Y, mean_module=LinearMean(2)),
        "a mean of type LinearMean",
    ),
    "warping": (
        lambda X, Y: SingleTaskGP(X, Y, input_transform=Warp(d=2, indices=[0, 1])),
        "an input transform with learnable parameters",
    ),
    "bounded prior": (
        lambda X, Y: SingleTaskGP(
            X, Y, covar_module=RBFKernel(lengthscale_prior=UniformPrior(0.0, 5.0))
        ),
        "a prior covar_module.lengthscale_prior of bounded support",
    ),
    "model": (OwnForward, "a model of type OwnForward of its own"),
}


@pytest.mark.filterwarnings("ignore:`scipy_minimize` terminated")
@pytest.mark.parametrize("name", UNKNOWN)
@pytest.mark.slow
def test_what_it_does_not_know_is_fitted_by_botorch_and_it_says_so(name: str) -> None:
    build, reason = UNKNOWN[name]
    model, reference = build(*data()), build(*data())
    result = fit_exact_gp(model)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(reference.likelihood, reference))
    assert result.method == "fit_gpytorch_mll" and result.fallback_reason == reason
    assert result.status == (FitStatus.NOT_REPORTED,) and result.num_evaluations is None
    assert not model.training
    torch.testing.assert_close(result.objective, objective(model))
    torch.testing.assert_close(result.objective, objective(reference), atol=1e-4, rtol=0)


def test_a_prior_on_a_function_of_a_parameter_is_not_known() -> None:
    model = SingleTaskGP(*data(), covar_module=RBFKernel())
    model.covar_module.register_prior(
        "square", NormalPrior(1.0, 1.0), lambda module: module.lengthscale**2, lambda m, v: None
    )
    model.covar_module.lengthscale = 1.0  # its own square
    reason = fit_exact_gp(model).fallback_reason
    assert reason == "a prior covar_module.square on a function of the parameters"


@pytest.mark.parametrize("options", [{"num_restarts": 1, "seeds": 0}, {"observed": torch.ones(15)}])
def test_options_that_botorch_cannot_serve_are_refused(options: dict) -> None:
    with pytest.raises(UnsupportedError, match="a mean of type LinearMean"):
        fit_exact_gp(SingleTaskGP(*data(), mean_module=LinearMean(2)), **options)


def test_a_model_that_is_no_exact_process_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="Got SingleTaskVariationalGP: fit this model"):
        fit_exact_gp(SingleTaskVariationalGP(*data(), inducing_points=4))


def test_bad_options() -> None:
    model = SingleTaskGP(*data(2))
    with pytest.raises(BotorchTensorDimensionError, match="`observed` to be boolean"):
        fit_exact_gp(model, observed=torch.ones(15, dtype=torch.bool))
    with pytest.raises(BotorchTensorDimensionError, match="`observed` to be boolean"):
        fit_exact_gp(model, observed=torch.ones(2, 15))
    with pytest.raises(ValueError, match="Expected `seeds`"):
        fit_exact_gp(model, num_restarts=1)
    with pytest.raises(ValueError, match="one seed for each of 2 replicates"):
        fit_exact_gp(model, num_restarts=1, seeds=[1])


@pytest.mark.parametrize("fixed", [False, True])
def test_other_data_equal_to_its_own_give_the_same_fit(fixed: bool) -> None:
    X, Y = data(2)
    noise = [torch.full_like(Y, 0.01)] if fixed else []
    own, other = (SingleTaskGP(X, Y, *noise, outcome_transform=None) for _ in range(2))
    expected = fit_exact_gp(own)
    mll = lambda: ExactMarginalLogLikelihood(other.likelihood, other)  # noqa: E731
    given = [each.squeeze(-1) for each in noise]
    found = fit_to_data(other, X, Y.squeeze(-1), *given, make_mll=mll)
    torch.testing.assert_close(found.objective, expected.objective)
    torch.testing.assert_close(other.covar_module.lengthscale, own.covar_module.lengthscale)
    if fixed:
        with pytest.raises(InputDataError, match="`noise` of the data, as the model's is fixed"):
            fit_to_data(other, X, Y.squeeze(-1), make_mll=mll)
