r"""The process of a table is the one that BoTorch's kernels make, and its fit the maximum."""

from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from botorch.models.kernels import CategoricalKernel
from gpytorch.kernels import RBFKernel
from scipy.stats import multivariate_normal, norm

from botorch_risk.tables import fit_table
from botorch_risk.tables.kernel import (
    TableHyperparameters,
    TableLoss,
    TableReadings,
    whole_correlation,
)
from botorch_risk.tables.posterior import TablePosterior
from tests.tables import examples
from tests.tables.examples import CONDITIONS, CONTEXTS


def test_correlations_are_those_of_the_kernels_of_botorch_and_gpytorch() -> None:
    rates = torch.tensor([[0.3, 1.7]]).double()
    kernel = CategoricalKernel(ard_num_dims=2).double()
    kernel.lengthscale = 1 / (2 * rates)  # which averages over the columns
    codes = torch.tensor([[int(part[-1]) for part in name] for name in CONDITIONS.names]).double()
    ours = whole_correlation(rates, CONDITIONS)[0]
    torch.testing.assert_close(ours, kernel(codes).to_dense().detach())
    smooth = RBFKernel(ard_num_dims=2).double()
    smooth.lengthscale = (2 / rates).sqrt()  # two columns share the distance
    ours = whole_correlation(rates, CONTEXTS)[0]
    torch.testing.assert_close(ours, smooth(CONTEXTS.features).to_dense().detach())


@pytest.mark.parametrize("repeated", [False, True])
def test_the_loss_is_the_density_of_the_readings_times_the_prior(repeated: bool) -> None:
    data, theta = examples.readings(), examples.hyperparameters()
    if repeated:
        pairs = data.pairs.clone()
        pairs[0, 1] = pairs[0, 0]
        data = TableReadings(CONDITIONS, CONTEXTS, pairs, data.Y, 0.3)
    logs = torch.cat([theta.rates, theta.variances, theta.own[:, None]], dim=-1).log()
    loss = TableLoss(data)
    value, gradient = loss.evaluate(logs, torch.tensor([0]))

    def expected(at: np.ndarray) -> float:
        own = TableHyperparameters.of(torch.tensor(at[None]))
        pairs, Y = data.pairs[0].numpy(), data.Y[0].numpy()
        y = (Y - Y.mean()) / Y.std()
        A = examples.prior_covariance(own, data.noise_share)[np.ix_(pairs, pairs)]
        A = A + (data.noise_share * float(own.own[0]) + 1e-6) * np.eye(len(y))
        inverse, one = np.linalg.inv(A), np.ones(len(y))
        constant = one @ inverse @ y / (one @ inverse @ one)
        prior = norm.logpdf(at, loss.location.numpy()).sum()
        return float(-multivariate_normal.logpdf(y, constant * one, A) - prior)

    at = logs[0].numpy()
    constants = 0.5 * np.log(2 * np.pi) * (data.Y.shape[-1] + len(at))
    assert value.item() + constants == pytest.approx(expected(at), rel=1e-9)
    step = 1e-5
    for i, slope in enumerate(gradient[0].tolist()):
        unit = step * np.eye(len(at))[i]
        difference = (expected(at + unit) - expected(at - unit)) / (2 * step)
        assert slope == pytest.approx(difference, rel=1e-5, abs=1e-7)


def test_the_fit_is_a_minimum_and_the_same_alone_and_from_elsewhere() -> None:
    data = examples.readings(3, n=12)
    fitted, loss = fit_table(data), TableLoss(data)
    value, gradient = loss.evaluate(fitted.theta, torch.arange(3))
    lower, upper = map(torch.tensor, loss.bounds)
    inside = (fitted.theta > lower + 1e-6) & (fitted.theta < upper - 1e-6)
    assert (gradient.abs() < 1e-3)[inside].all()
    near = fitted.theta + 0.1 * torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
    assert (loss.evaluate(near, torch.arange(3))[0] > value).all()
    alone = TableReadings(CONDITIONS, CONTEXTS, data.pairs[1:2], data.Y[1:2])
    torch.testing.assert_close(fit_table(alone).theta, fitted.theta[1:2], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(fit_table(data, fitted).theta, fitted.theta, rtol=1e-3, atol=1e-3)


def test_constant_outcomes_are_fitted_and_units_do_not_matter() -> None:
    data = examples.readings()
    constant = TableReadings(CONDITIONS, CONTEXTS, data.pairs, torch.full_like(data.Y, 3.0))
    assert fit_table(constant).theta.isfinite().all()
    scaled = TableReadings(CONDITIONS, CONTEXTS, data.pairs, 1e3 * data.Y - 7)
    torch.testing.assert_close(fit_table(scaled).theta, fit_table(data).theta, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"pairs": [[0, 1, 99]]}, InputDataError, "`pairs` to be whole numbers from 0 to"),
        ({"pairs": [[0, -1, 3]]}, InputDataError, "`pairs` to be whole numbers from 0 to"),
        ({"pairs": [[0.0, 1.0, 2.0]]}, InputDataError, "`pairs` to be whole numbers from 0 to"),
        ({"Y": [[1.0, float("nan"), 3.0]]}, InputDataError, "`Y` to be finite"),
        ({"Y": [[1.0, 2.0]]}, BotorchTensorDimensionError, "one shape `R x n`"),
        ({"noise_share": 3.0}, ValueError, r"`noise_share` in \[0, 1\]"),
    ],
)
def test_readings_are_checked(changes: dict[str, Any], error: type[Exception], match: str) -> None:
    given = {"pairs": np.array([[0, 1, 3]]), "Y": [[1.0, 2.0, 3.0]]}
    readings = TableReadings(CONDITIONS, CONTEXTS, **given)  # type: ignore[arg-type]
    assert (readings.Y.dtype, readings.pairs.tolist()) == (torch.double, [[0, 1, 3]])
    with pytest.raises(error, match=match):
        TableReadings(CONDITIONS, CONTEXTS, **{**given, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("noise_share", [0.3, 1.0])
def test_means_with_their_counts_say_what_all_readings_say(noise_share: float) -> None:
    data = examples.readings()
    pairs = data.pairs.clone()
    pairs[0, [1, 2, 5]] = pairs[0, [0, 0, 4]]
    every = TableReadings(CONDITIONS, CONTEXTS, pairs, data.Y, noise_share)
    means = every.averaged()
    assert means.counts.tolist() == [[pairs[0].tolist().count(p) for p in means.pairs[0].tolist()]]
    logs = torch.randn(5, 8, generator=torch.Generator().manual_seed(0)).double() * 0.5 - 0.5
    first = torch.zeros(5, dtype=torch.long)
    (values, slopes), (expected, of_all) = (
        TableLoss(each).evaluate(logs, first) for each in (means, every)
    )
    constant = 0.5 * means.counts.log().sum()
    torch.testing.assert_close(values + constant, expected, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(slopes, of_all, rtol=1e-6, atol=1e-6)
    theta = examples.hyperparameters()
    posterior = TablePosterior.of(means, theta)
    mean, covariance, _ = examples.moments(every, theta)
    np.testing.assert_allclose(posterior.mean.flatten(), mean, rtol=1e-7)
    np.testing.assert_allclose(
        posterior.variance.flatten(), covariance.diagonal(), rtol=1e-6, atol=1e-9
    )
