r"""Starts of a fit, cold and warm."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.exceptions.warnings import InputDataWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models import ModelListGP, SingleTaskGP
from botorch.optim.core import OptimizationStatus
from gpytorch.mlls import ExactMarginalLogLikelihood, SumMarginalLogLikelihood
from torch import Tensor

from botorch_risk.engine import (
    FitResult,
    MarginalLikelihoodObjective,
    Optimum,
    Starts,
    fit_exact_gp,
)
from botorch_risk.engine.fit.results import FitStatus
from botorch_risk.engine.fit.starts import (
    IN_UNITS_OF_TARGETS,
    ROUGHER,
    draws_of_restarts,
    make_starts,
)
from botorch_risk.faster import WarmStartedFit
from botorch_risk.models import MeanVarianceGP
from tests.engine.fit.examples import scaled_matern


def starts(scale: list[float], num_restarts: int = 0) -> Starts:
    X = torch.rand(len(scale), 7, 2, dtype=torch.float64)
    Y = (4 * X).sin().sum(-1, keepdim=True)
    Y = (Y - Y.mean(dim=-2, keepdim=True)) / Y.std(dim=-2, correction=0, keepdim=True)
    Y = Y * torch.tensor(scale).view(-1, 1, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputDataWarning)  # raw outcomes, on purpose
        model = SingleTaskGP(X, Y, outcome_transform=None).train()
    loss = MarginalLikelihoodObjective.of(model)
    shape = X.shape[:-2]
    draws = draws_of_restarts(shape, num_restarts, range(len(scale)))
    return make_starts(loss, shape, ROUGHER, draws)


def test_the_rough_start_moves_faster_and_is_known_better() -> None:
    theta, rows, *_ = starts([1.0, 1.0, 1.0])
    assert rows.tolist() == [0, 1, 2, 3, 4, 5]
    shift = np.exp(theta[3:] - theta[:3])
    expected = [ROUGHER["lengthscale"], ROUGHER["lengthscale"], ROUGHER["noise"]]
    np.testing.assert_allclose(shift, np.tile(expected, (3, 1)))


def test_replicates_that_are_not_standard_have_more_starts_in_their_units() -> None:
    theta, rows, *_ = starts([1.0, 1e3, 1.0, 1e-3], num_restarts=1)
    assert rows.tolist() == [*range(12), 13, 15, 17, 19]
    for shares, block in zip(IN_UNITS_OF_TARGETS, (theta[12:14], theta[14:16]), strict=True):
        noise = shares["noise"] * np.array([1e6, 1e-6])
        np.testing.assert_allclose(np.exp(block[:, -1]), noise)
        lengthscales = shares["lengthscale"] * np.exp(theta[[1, 3], :2])
        np.testing.assert_allclose(np.exp(block[:, :2]), lengthscales)


def test_draws_depend_on_the_replicate_alone() -> None:
    theta, *_ = starts([1.0, 1.0], num_restarts=2)
    again, *_ = starts([1.0, 1.0, 1e6], num_restarts=2)
    np.testing.assert_array_equal(theta[4:6], again[6:8])


def test_starts_that_follow_others_count_on() -> None:
    first = starts([1.0, 1.0, 1.0])
    warm = Starts(first.theta[:3], np.arange(3), 3, np.ones((3, 3, 3)))
    both = warm.followed_by(first.of(np.array([True, False, True])))
    assert both.rows.tolist() == [0, 1, 2, 3, 5, 6, 8]
    np.testing.assert_array_equal(both.theta[3:], first.theta[[0, 2, 3, 5]])
    assert both.metric is not None
    assert (both.metric[:3] == 1).all()
    assert np.isnan(both.metric[3:]).all()


R = 6


def data(n: int, repeats: int = 1) -> tuple[Tensor, Tensor]:
    r"""The first rows of one table, `R x n x 2` and `R x n x repeats`."""
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(R, 60, 2, generator=generator, dtype=torch.double)
    noise = torch.randn(R, 60, repeats, generator=generator, dtype=torch.double)
    Y = (5 * X).sin().sum(dim=-1, keepdim=True) + 0.2 * noise
    return X[:, :n], Y[:, :n]


def rounds(first: int = 18, last: int = 44) -> list[tuple[FitResult, FitResult]]:
    r"""A fit from the last optimum and one from scratch, in each round of a loop."""
    results, previous = [], None
    for n in range(first, last):
        warm = fit_exact_gp(scaled_matern(*data(n)), previous=previous)
        results.append((warm, fit_exact_gp(scaled_matern(*data(n)))))
        previous = warm.optimum
    return results


@pytest.mark.slow
def test_as_good_as_from_scratch_in_a_fraction_of_the_evaluations() -> None:
    results = rounds()[1:]
    warm = torch.stack([each.num_evaluations for each, _ in results]).double()
    cold = torch.stack([each.num_evaluations for _, each in results]).double()
    assert warm.median() <= 8
    assert warm.median() <= cold.median() / 3
    gaps = torch.stack([one.objective - two.objective for one, two in results])
    assert (gaps > -1e-6).double().mean() > 0.95
    assert all(set(each.status) == {FitStatus.CONVERGED} for each, _ in results)


def test_the_same_data_again_take_next_to_nothing() -> None:
    first = fit_exact_gp(scaled_matern(*data(30)))
    model = scaled_matern(*data(30))
    again = fit_exact_gp(model, previous=first.optimum)
    torch.testing.assert_close(again.objective, first.objective, rtol=0, atol=1e-9)
    assert (again.num_evaluations <= 3).all()
    assert not model.training


def test_a_fresh_start_when_the_data_have_grown_by_a_quarter() -> None:
    first = fit_exact_gp(scaled_matern(*data(20)))
    assert first.optimum is not None
    assert first.optimum.fresh_at.tolist() == [20] * R
    for n, fresh in ((24, False), (25, True)):
        near = replace(first.optimum, theta=_optimum(n).theta)  # so that nothing moves
        result = fit_exact_gp(scaled_matern(*data(n)), previous=near)
        assert result.optimum is not None
        assert result.optimum.fresh_at.tolist() == [n if fresh else 20] * R


def _optimum(n: int) -> Optimum:
    optimum = fit_exact_gp(scaled_matern(*data(n))).optimum
    assert optimum is not None
    return optimum


def test_a_replicate_that_starts_far_off_starts_afresh_alone() -> None:
    optimum = _optimum(30)
    theta = optimum.theta.clone()
    theta[2] += 3.0
    theta[4] = math.nan
    cold = fit_exact_gp(scaled_matern(*data(31)))
    result = fit_exact_gp(scaled_matern(*data(31)), previous=replace(optimum, theta=theta))
    assert result.optimum is not None
    assert result.optimum.fresh_at.tolist() == [30, 30, 31, 30, 31, 30]
    assert (result.objective[[2, 4]] >= cold.objective[[2, 4]] - 1e-6).all()


def test_a_batch_is_its_replicates() -> None:
    optimum = _optimum(30)
    X, Y = data(31)
    together = fit_exact_gp(scaled_matern(X, Y), previous=optimum)
    for row in range(R):
        part = Optimum(optimum.theta[[row]], optimum.metric[[row]], optimum.fresh_at[[row]])
        alone = fit_exact_gp(scaled_matern(X[[row]], Y[[row]]), previous=part)
        assert alone.num_evaluations[0] == together.num_evaluations[row]
        torch.testing.assert_close(alone.objective[0], together.objective[row])


def test_a_failed_replicate_keeps_no_optimum_and_recovers() -> None:
    X, Y = data(20)
    broken = scaled_matern(X, Y)
    broken.train_targets[1, 0] = math.nan
    first = fit_exact_gp(broken)
    assert first.optimum is not None
    assert first.optimum.theta.isnan().any(dim=-1).tolist() == [row == 1 for row in range(R)]
    again = fit_exact_gp(scaled_matern(*data(21)), previous=first.optimum)
    cold = fit_exact_gp(scaled_matern(*data(21)))
    torch.testing.assert_close(again.objective[1], cold.objective[1])


def test_an_optimum_of_another_model_is_refused() -> None:
    optimum = _optimum(12)
    for X, Y in ((x[:3] for x in data(13)),):
        with pytest.raises(BotorchTensorDimensionError, match=r"`R x p` = \(3, 4\). Got \(6, 4\)"):
            fit_exact_gp(scaled_matern(X, Y), previous=optimum)
    with pytest.raises(BotorchTensorDimensionError, match=r"\(6, 3\). Got \(6, 4\)"):
        fit_exact_gp(SingleTaskGP(*data(13)), previous=optimum)


def test_an_optimum_survives_a_state() -> None:
    optimum = _optimum(12)
    state = {"another": torch.zeros(1), **optimum.state("noise")}
    back = Optimum.of_state("noise", state)
    assert back is not None
    assert all(torch.equal(value, vars(back)[name]) for name, value in vars(optimum).items())
    assert Optimum.of_state("mean", state) is None


def loss(model: SingleTaskGP) -> ExactMarginalLogLikelihood:
    return ExactMarginalLogLikelihood(model.likelihood, model)


@pytest.mark.slow
def test_in_a_loop_of_botorch() -> None:
    fit = WarmStartedFit()
    for n in range(18, 36):
        model = scaled_matern(*(x[0] for x in data(n)))
        fit_gpytorch_mll(loss(model), optimizer=fit)
        cold = scaled_matern(*(x[0] for x in data(n)))
        fit_exact_gp(cold)
        assert not model.training
    torch.testing.assert_close(
        model.covar_module.base_kernel.lengthscale,
        cold.covar_module.base_kernel.lengthscale,
        rtol=1e-3,
        atol=0,
    )
    assert sorted(fit.num_evaluations[1:])[len(fit.num_evaluations) // 2] <= 8


def test_several_models_keep_their_own_fits() -> None:
    fit = WarmStartedFit()
    for n in (20, 21, 22):
        X, Y = (x[0] for x in data(n))
        models = ModelListGP(SingleTaskGP(X, Y), SingleTaskGP(X, (9 * X[:, :1]).cos()))
        fit_gpytorch_mll(SumMarginalLogLikelihood(models.likelihood, models), optimizer=fit)
    first, later = fit.num_evaluations[:2], fit.num_evaluations[2:]
    assert len(later) == 4
    assert max(later) <= 16 < min(first)


def test_each_process_of_a_mean_variance_gp() -> None:
    fit = WarmStartedFit()
    for n in (20, 21, 22):
        X, Y = (x[0] for x in data(n, repeats=4))
        model = MeanVarianceGP(X, Y, noise_evidence="spread")
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model), optimizer=fit)
    assert len(fit.num_evaluations) == 6
    assert max(fit.num_evaluations[4:]) <= 12 < min(fit.num_evaluations[:2])


def test_both_processes_of_a_mean_variance_gp() -> None:
    fit = WarmStartedFit()
    for n in (20, 21, 22):
        X, Y = (x[0] for x in data(n, repeats=4))
        model = MeanVarianceGP(X, Y)
        mll = ExactMarginalLogLikelihood(model.likelihood, model)
        fit_gpytorch_mll(mll, optimizer=fit)
    assert not mll.training
    first, *later = fit.num_evaluations  # both at once
    assert len(later) == 2 and max(later) < first


def test_a_fit_that_goes_on_keeps_to_its_options() -> None:
    fit, model = WarmStartedFit(), SingleTaskGP(*(x[0] for x in data(20)))
    short = fit(loss(model), max_iterations=1)
    assert short.status == OptimizationStatus.STOPPED
    rough = fit(loss(model), tolerance=1e-1)
    assert fit(loss(model), tolerance=1e-10).fval < rough.fval


def test_other_data_start_afresh() -> None:
    fit = WarmStartedFit()
    for seed in (0, 1):
        X, Y = (x[seed] for x in data(20))
        fit_gpytorch_mll(loss(SingleTaskGP(X, Y)), optimizer=fit)
    assert min(fit.num_evaluations) > 8


def test_another_kernel_on_the_same_data_starts_afresh() -> None:
    fit = WarmStartedFit()
    X, Y = (x[0] for x in data(20))
    for _ in range(2):
        for make in (SingleTaskGP, scaled_matern):
            fit_gpytorch_mll(loss(make(X, Y)), optimizer=fit)
    assert min(fit.num_evaluations[:2]) > 8
    assert max(fit.num_evaluations[2:]) <= 3
