r"""The likelihood of many points, in panels of rows."""

import math

import numpy as np
import pytest
import torch

from botorch_risk.engine import MarginalLikelihoodObjective
from botorch_risk.engine.fit import large_matrices
from botorch_risk.engine.fit.marginal_likelihood import Hyperparameters, LogMarginalLikelihood
from botorch_risk.engine.fit.marginal_likelihood import log_marginal_likelihood as likelihood
from botorch_risk.steady import steady
from tests.engine.fit.examples import RAW, Builder, data
from tests.engine.fit.test_marginal_likelihood import SMOOTHNESS, dense, draw, profiles

# One block and less, whole blocks, and blocks and panels of several sizes with a rest.
SIZES = [(1, 100), (2, 256), (1, 517)]


@pytest.fixture(autouse=True)
def always_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_matrices, "LEAST", 1)


def in_one_piece(*arguments: object) -> LogMarginalLikelihood:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_matrices, "LEAST", math.inf)
        return likelihood(*arguments)


def assert_close(found: LogMarginalLikelihood, expected: LogMarginalLikelihood) -> None:
    torch.testing.assert_close(found.value, expected.value, rtol=1e-10, atol=1e-9)
    for mine, theirs in zip(found.gradient, expected.gradient, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-7, atol=1e-6)


@profiles
@pytest.mark.parametrize(("rows", "n"), SIZES)
@pytest.mark.parametrize(("ard", "fixed"), [(True, False), (False, True)])
def test_value_and_gradient_equal_dense_autograd(
    name: str, rows: int, n: int, ard: bool, fixed: bool
) -> None:
    X, Y, theta = draw(rows, n, 3, ard, fixed)
    found = likelihood(X, Y, theta, SMOOTHNESS[name])
    leaves = [tensor.requires_grad_() for tensor in theta]
    value = dense(name, X, Y, Hyperparameters(*leaves))
    torch.testing.assert_close(found.value, value, rtol=1e-10, atol=1e-8)
    gradients = torch.autograd.grad(value.sum(), leaves)
    for mine, theirs in zip(found.gradient, gradients, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-7, atol=1e-6)


@profiles
def test_points_that_were_observed_twice(name: str) -> None:
    X, Y, theta = draw(1, 150)
    X = X.repeat_interleave(2, dim=-2)
    Y = torch.cat([Y, Y + 0.1], dim=-1)
    assert_close(*(of(X, Y, theta, SMOOTHNESS[name]) for of in (likelihood, in_one_piece)))


def test_a_model_without_an_outputscale() -> None:
    X, Y, theta = draw(2, 150)
    theta = theta._replace(outputscale=None)
    found, expected = (of(X, Y, theta) for of in (likelihood, in_one_piece))
    assert found.gradient.outputscale is None
    assert_close(
        found._replace(gradient=found.gradient._replace(outputscale=theta.constant)),
        expected._replace(gradient=expected.gradient._replace(outputscale=theta.constant)),
    )


def test_a_matrix_that_is_not_positive_definite_fails_its_row_alone() -> None:
    X, Y, theta = draw(3, 200)
    expected = likelihood(X, Y, theta)
    theta.noise[1] = -5.0
    found = likelihood(X, Y, theta)
    assert found.value.isnan().tolist() == [False, True, False]
    torch.testing.assert_close(found.value[[0, 2]], expected.value[[0, 2]])


def test_rows_do_not_touch() -> None:
    X, Y, theta = draw(3, 200)
    together = likelihood(X, Y, theta, 2.5)
    for row in range(3):
        one = Hyperparameters(*(each[[row]] for each in theta))
        alone = likelihood(X[[row]], Y[[row]], one, 2.5)
        torch.testing.assert_close(alone.value[0], together.value[row], rtol=1e-13, atol=0)
        torch.testing.assert_close(
            alone.gradient.lengthscale[0], together.gradient.lengthscale[row]
        )


def test_memory_that_is_used_again_forgets_what_it_held() -> None:
    draws = [draw(1, 200) for _ in range(2)]
    first, second = (likelihood(*each, 2.5) for each in draws)
    with steady():
        broken = draws[1][2]._replace(noise=torch.full((1, 1), math.nan).double())
        assert likelihood(*draws[1][:2], broken, 2.5).value.isnan()
        for (X, Y, theta), expected in zip(draws, (first, second), strict=True):
            found = likelihood(X, Y, theta, 2.5)
            assert torch.equal(found.value, expected.value)
            assert torch.equal(found.gradient.lengthscale, expected.gradient.lengthscale)


def test_float32() -> None:
    X, Y, theta = draw(1, 200)
    single = Hyperparameters(*(tensor.float() for tensor in theta))
    found = likelihood(X.float(), Y.float(), single)
    assert found.value.dtype == torch.float32
    torch.testing.assert_close(
        found.value.double(), likelihood(X, Y, theta).value, rtol=1e-4, atol=1e-4
    )


@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")
@pytest.mark.parametrize("build", RAW.values(), ids=RAW)
def test_values_alone_are_those_with_gradients(build: Builder) -> None:
    model = build(*data(3, n=60)).train()
    model.train_targets[1, 4] = math.nan
    loss = MarginalLikelihoodObjective.of(model)
    rows = np.arange(6)
    theta = np.random.default_rng(0).normal(scale=0.3, size=(6, loss.num_parameters))
    found, (expected, _) = loss.values(theta, rows), loss(theta, rows)
    assert np.isfinite(expected).tolist() == [True, False, True] * 2
    np.testing.assert_allclose(found, expected, rtol=1e-11)  # NaN where it is expected
