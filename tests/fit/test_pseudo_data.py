import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchError, BotorchTensorDimensionError, UnsupportedError
from botorch.fit import fit_gpytorch_mll
from botorch.models import MultiTaskGP, SingleTaskGP
from botorch.models.transforms import Normalize, Warp
from botorch.models.utils.gpytorch_modules import (
    get_gaussian_likelihood_with_gamma_prior,
    get_matern_kernel_with_gamma_prior,
)
from gpytorch.kernels import LinearKernel
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from gpytorch.mlls import ExactMarginalLogLikelihood
from scipy.stats import multivariate_normal
from torch import Tensor

from botorch_risk.engine import fit_exact_gp
from botorch_risk.fit import PseudoDataMarginalLogLikelihood, fit_pseudo_data
from botorch_risk.models import MeanVarianceGP
from tests.contracts import correlation_of, repeated_data

BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)


def data(*batch_shape: int, n: int = 9) -> tuple[Tensor, Tensor]:
    X = torch.rand(*batch_shape, n, 2, dtype=torch.double)
    return X, (5 * X).sin().sum(dim=-1, keepdim=True) + 0.1 * torch.randn_like(X[..., :1])


def scaled_matern(X: Tensor, Y: Tensor) -> SingleTaskGP:
    return SingleTaskGP(
        X,
        Y,
        covar_module=get_matern_kernel_with_gamma_prior(2, X.shape[:-2]),
        likelihood=get_gaussian_likelihood_with_gamma_prior(X.shape[:-2]),
    )


def fixed_noise(X: Tensor, Y: Tensor) -> SingleTaskGP:
    return SingleTaskGP(X, Y, 0.01 + 0.1 * X[..., :1])


def additional_noise(X: Tensor, Y: Tensor) -> SingleTaskGP:
    likelihood = FixedNoiseGaussianLikelihood(
        0.01 + 0.1 * X[..., 0], learn_additional_noise=True, batch_shape=X.shape[:-2]
    )
    likelihood.second_noise = 0.5
    return SingleTaskGP(X, Y, likelihood=likelihood)


MODELS: dict[str, Callable[[Tensor, Tensor], SingleTaskGP]] = {
    "default": SingleTaskGP,
    "scaled_matern": scaled_matern,
    "fixed_noise": fixed_noise,
    "additional_noise": additional_noise,
    "normalised": lambda X, Y: SingleTaskGP(
        X, Y, input_transform=Normalize(2, batch_shape=X.shape[:-2])
    ),
}
every = pytest.mark.parametrize("name", MODELS)


def value(mll: ExactMarginalLogLikelihood) -> Tensor:
    model = mll.train().model
    with torch.no_grad():
        inputs = [model.transform_inputs(X) for X in model.train_inputs]
        return mll(model(*model.train_inputs), model.train_targets, *inputs)


def losses(name: str, X: Tensor, Y: Tensor, **options: Any) -> tuple[Any, Any]:
    model = MODELS[name](X, Y)
    pseudo = PseudoDataMarginalLogLikelihood(
        model.likelihood, model, BOUNDS, **{"seeds": list(range(X[..., 0, 0].numel()))} | options
    )
    return pseudo, ExactMarginalLogLikelihood(model.likelihood, model)


def with_repeats(X: Tensor) -> Tensor:
    r"""Some inputs several times, another pattern in each replicate."""
    first = torch.arange(X.shape[-2])
    patterns = [first.clamp_max(5), torch.where(first % 3 == 0, 0, first), first // 2, first]
    rows = [patterns[r % 4] for r in range(X[..., 0, 0].numel())]
    return torch.stack([x[i] for x, i in zip(X.flatten(0, -3), rows, strict=True)]).view_as(X)


@every
@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("batch_shape", [(), (2,), (2, 2)])
def test_of_the_data_themselves_is_the_ordinary_loss(
    name: str, batch_shape: tuple[int, ...], repeats: bool
) -> None:
    X, Y = data(*batch_shape)
    X = with_repeats(X.view(-1, 9, 2)).view_as(X) if repeats else X
    pseudo, ordinary = losses(name, X, Y, points=X)
    torch.testing.assert_close(value(pseudo), value(ordinary))
    assert any(name.endswith("noise") for name, _ in pseudo.named_parameters()) or "fixed" in name
    for left, right in zip(gradient(pseudo), gradient(ordinary), strict=True):
        assert (left != 0).all()
        torch.testing.assert_close(left, right)


def gradient(mll: ExactMarginalLogLikelihood) -> list[Tensor]:
    model = mll.train().model
    mll.zero_grad()
    inputs = [model.transform_inputs(X) for X in model.train_inputs]
    mll(model(*model.train_inputs), model.train_targets, *inputs).sum().backward()
    return [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in mll.parameters()]


@every
def test_equal_inputs_all_count_in_whatever_order(name: str) -> None:
    X, Y = data(2)
    X = with_repeats(X)
    found = []
    for order in (torch.arange(9), torch.arange(9).flip(0)):
        pseudo, _ = losses(name, X[:, order], Y[:, order], points="sobol")
        targets = pseudo.model.train_targets
        near = (pseudo.pseudo_inputs.unsqueeze(-2) - X[:, order].unsqueeze(-3)).norm(dim=-1)
        for r in range(2):  # every outcome of an input that is the nearest of any point
            inputs = {tuple(X[r, order][i].tolist()) for i in near[r].argmin(dim=-1)}
            mine = [tuple(x.tolist()) in inputs for x in X[r, order]]
            expected = set(targets[r, torch.tensor(mine)].tolist())
            assert set(pseudo.pseudo_targets[r].tolist()) == expected
            assert len(expected) > len(inputs)
        found.append((value(pseudo), *gradient(pseudo)))
        fitted = MODELS[name](X[:, order], Y[:, order])
        fit_pseudo_data(fitted, BOUNDS, seeds=[0, 1])
        found[-1] += tuple(p.detach() for p in fitted.parameters())
    for left, right in zip(*found, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-6)


def test_additional_noise_is_learnt() -> None:
    X, Y = data(n=20)
    Y = Y + torch.randn_like(Y)  # much more than what is known
    for fit in (
        lambda model: fit_pseudo_data(model, BOUNDS, seeds=0, points=X),
        lambda model: fit_gpytorch_mll(
            PseudoDataMarginalLogLikelihood(model.likelihood, model, BOUNDS, seeds=0, points=X)
        ),
    ):
        model, ordinary = (additional_noise(X, Y) for _ in range(2))
        model.likelihood.second_noise = ordinary.likelihood.second_noise = 0.01
        fit(model)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(ordinary.likelihood, ordinary))
        learnt = model.likelihood.second_noise.item()
        assert learnt == pytest.approx(ordinary.likelihood.second_noise.item(), rel=1e-2)
        assert learnt > 0.1


@pytest.mark.parametrize("name", ["default", "fixed_noise"])
def test_loss_equals_scipy(name: str) -> None:
    pseudo, _ = losses(name, *data(), points="uniform")
    model = pseudo.model
    with torch.no_grad():
        points, X = pseudo.pseudo_inputs, model.train_inputs[0]
        rows = torch.cdist(points, X).argmin(dim=-1)
        noise = model.likelihood.noise.expand(len(X))[rows]
        covariance = model.covar_module(points).to_dense() + noise.diag()
        prior = sum(p.log_prob(closure(m)).sum() for _, m, p, closure, _ in model.named_priors())
    outcomes = multivariate_normal(model.mean_module.constant.item() * torch.ones(18), covariance)
    expected = (outcomes.logpdf(model.train_targets[rows]) + float(prior)) / 18
    assert value(pseudo).item() == pytest.approx(expected)


@every
@pytest.mark.parametrize("batch_shape", [(), (3,)])
@pytest.mark.handful
def test_both_fits_maximise_one_objective(name: str, batch_shape: tuple[int, ...]) -> None:
    X, Y = data(*batch_shape)
    seeds = list(range(len(X) if batch_shape else 1))
    model = MODELS[name](X, Y)
    user, before = MODELS[name](X, Y), copy.deepcopy(model.state_dict())
    mll = PseudoDataMarginalLogLikelihood(user.likelihood, user, BOUNDS, seeds=seeds)
    fit_gpytorch_mll(mll)  # the user's line
    assert not user.training
    model.load_state_dict(user.state_dict())  # there may be several optima
    result = fit_pseudo_data(model, BOUNDS, seeds=seeds)
    assert {"iteration limit", "failed"}.isdisjoint(result.status)
    at_ours = PseudoDataMarginalLogLikelihood(model.likelihood, model, BOUNDS, seeds=seeds)
    torch.testing.assert_close(value(at_ours), result.objective)
    assert (result.objective >= value(mll) - 1e-5).all()
    for fitted in (user, model):
        assert any((fitted.state_dict()[key] != before[key]).any() for key in before)


def test_prediction_keeps_the_data() -> None:
    X, Y = data()
    model = SingleTaskGP(X, Y)
    fit_pseudo_data(model, BOUNDS, seeds=0)
    with_same_hyperparameters = SingleTaskGP(X, Y)
    with_same_hyperparameters.load_state_dict(model.state_dict())
    points = torch.rand(5, 2, dtype=torch.double)
    for name in ("mean", "variance"):
        torch.testing.assert_close(
            getattr(model.posterior(points), name),
            getattr(with_same_hyperparameters.eval().posterior(points), name),
        )
    assert model.train_inputs[0].shape == (9, 2)


def test_a_learnt_range_of_the_inputs_is_that_of_the_data() -> None:
    X, Y = data()
    for fit in (
        lambda model: fit_pseudo_data(model, BOUNDS, seeds=0),
        lambda model: fit_gpytorch_mll(
            PseudoDataMarginalLogLikelihood(model.likelihood, model, BOUNDS, seeds=0)
        ),
    ):
        model = SingleTaskGP(X, Y, input_transform=Normalize(2))
        fit(model)
        assert torch.equal(model.input_transform.offset, X.amin(dim=0, keepdim=True))
        assert model.input_transform.learn_coefficients


@every
@pytest.mark.slow
def test_batch_equals_the_loop_over_replicates(name: str) -> None:
    X, Y = data(3)
    together = MODELS[name](X, Y)
    result = fit_pseudo_data(together, BOUNDS, seeds=[5, 0, 2])
    for r, seed in enumerate((5, 0, 2)):
        alone = MODELS[name](X[r], Y[r])
        single = fit_pseudo_data(alone, BOUNDS, seeds=seed)
        torch.testing.assert_close(single.objective, result.objective[r], rtol=1e-9, atol=1e-9)
        for one, many in zip(alone.parameters(), together.parameters(), strict=True):
            torch.testing.assert_close(one, many[r], rtol=1e-5, atol=1e-6)


def test_a_replicate_with_fewer_inputs_has_the_loss_that_it_has_alone() -> None:
    X, Y = data(2)
    X[1, 5:] = X[1, :4]
    together, _ = losses("default", X, Y, seeds=[3, 4])
    for r, seed in enumerate((3, 4)):
        alone, _ = losses("default", X[r], Y[r], seeds=seed)
        torch.testing.assert_close(value(together)[r], value(alone))


def test_masked_rows_do_not_count() -> None:
    X, Y = data(2)
    observed = torch.ones(2, 9, dtype=torch.bool)
    observed[1, 4:] = False
    model = fixed_noise(X, Y)
    result = fit_pseudo_data(model, BOUNDS, seeds=[0, 1], observed=observed)
    alone = fixed_noise(X[1, :4], Y[1, :4])
    alone.likelihood.noise_covar.noise = model.likelihood.noise[1, :4]
    alone.set_train_data(X[1, :4], model.train_targets[1, :4], strict=False)
    single = fit_pseudo_data(alone, BOUNDS, seeds=1)
    torch.testing.assert_close(result.objective[1], single.objective)


def test_more_starts_are_never_worse() -> None:
    X, Y = data()
    few, many = (
        fit_pseudo_data(SingleTaskGP(X, Y), BOUNDS, seeds=3, num_restarts=k).objective
        for k in (0, 4)
    )
    assert many >= few - 1e-9


@pytest.mark.parametrize("batch_shape", [(), (3,)])
def test_it_goes_on_where_the_last_fit_ended(batch_shape: tuple[int, ...]) -> None:
    X, Y = data(*batch_shape, n=12)
    seeds = list(range(math.prod(batch_shape)))
    first = fit_pseudo_data(SingleTaskGP(X, Y), BOUNDS, seeds=seeds)
    again = fit_pseudo_data(SingleTaskGP(X, Y), BOUNDS, seeds=seeds, previous=first.optimum)
    torch.testing.assert_close(again.objective, first.objective, rtol=0, atol=1e-7)
    assert first.num_evaluations is not None and again.num_evaluations is not None
    assert (4 * again.num_evaluations <= first.num_evaluations).all()


def test_both_processes_of_a_mean_variance_model() -> None:
    repeated = repeated_data()
    bounds = BOUNDS
    user, ours = (MeanVarianceGP(repeated.X, repeated.Y) for _ in range(2))
    fit_gpytorch_mll(PseudoDataMarginalLogLikelihood(user.likelihood, user, bounds, seeds=0))
    assert ours.fit_processes(
        lambda process: "failed" not in fit_pseudo_data(process, bounds, seeds=0).status
    )
    ordinary = MeanVarianceGP(repeated.X, repeated.Y)
    ordinary.fit_processes(lambda process: bool(fit_exact_gp(process).status))
    for process in ("mean_model", "noise_model"):
        lengthscales = [
            correlation_of(getattr(model, process)).lengthscale for model in (user, ours, ordinary)
        ]
        torch.testing.assert_close(lengthscales[0], lengthscales[1], rtol=5e-2, atol=0)
        assert not torch.allclose(lengthscales[1], lengthscales[2], rtol=5e-2)


@pytest.mark.slow
def test_what_the_closed_form_does_not_know_is_fitted_by_botorch() -> None:
    X, Y = data()
    for options in ({"covar_module": LinearKernel()}, {"input_transform": Warp(2, [0, 1])}):
        model = SingleTaskGP(X, Y, **options)
        result = fit_pseudo_data(model, BOUNDS, seeds=0)
        assert result.method == "fit_gpytorch_mll"
        with pytest.raises(UnsupportedError, match="for `num_restarts` and `observed`"):
            fit_pseudo_data(model, BOUNDS, seeds=0, num_restarts=1)


def test_bad_input() -> None:
    X, Y = data()
    model = SingleTaskGP(X, Y)
    for build in (
        lambda **options: PseudoDataMarginalLogLikelihood(model.likelihood, model, **options),
        lambda **options: fit_pseudo_data(model, **options),
    ):
        with pytest.raises(ValueError, match="M_t >="):
            build(bounds=BOUNDS, num_pseudo=3, seeds=0)
        with pytest.raises(BotorchTensorDimensionError, match="`2 x 2`"):
            build(bounds=BOUNDS[:, :1], seeds=0)
    tasks = MultiTaskGP(torch.cat([X, (X[:, :1] > 0.5).double()], dim=-1), Y, task_feature=-1)
    with pytest.raises(UnsupportedError, match="a model with a single task"):
        PseudoDataMarginalLogLikelihood(tasks.likelihood, tasks, BOUNDS, seeds=0)
    repeated = repeated_data()
    two = MeanVarianceGP(repeated.X, repeated.Y)
    mll = PseudoDataMarginalLogLikelihood(two.likelihood, two, BOUNDS, seeds=0)
    with pytest.raises(UnsupportedError, match="Expected no closure"):
        fit_gpytorch_mll(mll, closure=lambda: (torch.tensor(math.nan), []))


def loss_of(model: Any, bounds: Tensor) -> PseudoDataMarginalLogLikelihood:
    return PseudoDataMarginalLogLikelihood(model.likelihood, model, bounds, seeds=0)


def test_what_is_refused_leaves_the_model_in_its_mode() -> None:
    X, Y = data()
    plain = SingleTaskGP(X, Y, input_transform=Normalize(2))
    linear = SingleTaskGP(X, Y, covar_module=LinearKernel())
    noisy = MeanVarianceGP(X, Y, input_transform=Normalize(2))
    refused = (
        (plain, lambda: fit_pseudo_data(plain, BOUNDS / 2, seeds=0)),
        (plain, lambda: fit_pseudo_data(plain, BOUNDS, seeds=0, points=X[:3])),
        (linear, lambda: fit_exact_gp(linear, num_restarts=1, seeds=0)),
        (plain, lambda: fit_exact_gp(plain, observed=torch.ones(3, dtype=torch.bool))),
        (noisy, lambda: loss_of(noisy, BOUNDS / 2)),
    )
    for model, call in refused:
        for mode in (True, False):
            model.train(mode)
            with pytest.raises((BotorchError, ValueError), match="Expected"):
                call()
            assert all(each.training is mode for each in model.modules())


def test_a_model_that_has_predicted_has_the_same_pseudo_data() -> None:
    X, Y = data()
    for model in (
        SingleTaskGP(X, Y, input_transform=Normalize(2)),
        MeanVarianceGP(X, Y, input_transform=Normalize(2)),
    ):
        drawn = []
        for mode in (True, False):
            model.train(mode)
            drawn.append(loss_of(model, BOUNDS).pseudo_targets)
        assert torch.equal(*drawn)
