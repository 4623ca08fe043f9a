r"""Priors whose densities have a closed form."""

from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.utils.gpytorch_modules import get_matern_kernel_with_gamma_prior
from gpytorch.kernels import LinearKernel
from gpytorch.priors import (
    GammaPrior,
    HalfCauchyPrior,
    LogNormalPrior,
    NormalPrior,
    Prior,
    SmoothedBoxPrior,
)
from scipy.stats import gamma

from botorch_risk.fit import fit_exact_gp, set_gamma_priors
from botorch_risk.fit.priors import draw, log_density

BATCH = torch.Size([3])
SHAPE = torch.Size([3, 1, 2])

PRIORS = {
    "log normal": lambda: LogNormalPrior(0.3, 3**0.5),
    "gamma": lambda: GammaPrior(3.0, 6.0),
    "normal": lambda: NormalPrior(0.2, 0.7),
    "per replicate": lambda: LogNormalPrior(torch.arange(3.0).view(3, 1, 1), torch.tensor(0.7)),
    "half cauchy": lambda: HalfCauchyPrior(0.8),
    "smoothed box": lambda: SmoothedBoxPrior(0.1, 2.0),
    "transformed": lambda: NormalPrior(0.0, 1.0, transform=torch.log),
}


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("rows", [[0, 1, 2], [2], [0, 1, 2, 3, 4, 5], [1, 5]])
def test_value_and_gradient_equal_those_of_gpytorch(name: str, rows: list[int]) -> None:
    prior = PRIORS[name]().double()
    index = np.array(rows)
    x = np.random.default_rng(0).uniform(0.2, 2.0, (len(rows), 2))
    value, gradient = log_density(prior, SHAPE, BATCH)(x, index)
    whole = torch.ones(SHAPE).double()
    for row, values in enumerate(x):
        whole[rows[row] % 3, 0] = torch.tensor(values)
        natural = whole.clone().requires_grad_()
        expected = prior.log_prob(natural).reshape(3, -1).sum(-1)[rows[row] % 3]
        (slope,) = torch.autograd.grad(expected, natural)
        np.testing.assert_allclose(value[row], expected.item(), atol=1e-12)
        np.testing.assert_allclose(gradient[row], slope[rows[row] % 3, 0], atol=1e-12)


@pytest.mark.parametrize(
    ("prior", "mean"), [(GammaPrior(3.0, 6.0), 0.5), (NormalPrior(0.2, 0.7), 0.2)]
)
def test_draws_have_the_mean_of_the_prior(prior: Prior, mean: float) -> None:
    generator = np.random.default_rng(0)
    drawn = [draw(prior, SHAPE, BATCH, generator, replicate=1) for _ in range(2000)]
    np.testing.assert_allclose(np.mean(drawn), mean, atol=0.05)


def test_draws_of_a_log_normal_have_its_median() -> None:
    prior, generator = LogNormalPrior(-4.0, 1.0), np.random.default_rng(0)
    drawn = [draw(prior, SHAPE, BATCH, generator, replicate=0) for _ in range(2000)]
    np.testing.assert_allclose(np.median(np.log(drawn)), -4.0, atol=0.1)


def test_other_priors_are_not_drawn_from() -> None:
    generator = np.random.default_rng(0)
    assert draw(HalfCauchyPrior(1.0), SHAPE, BATCH, generator, replicate=0) is None


def scaled_matern(*batch_shape: int) -> SingleTaskGP:
    X = torch.rand(*batch_shape, 8, 2, dtype=torch.double)
    kernel = get_matern_kernel_with_gamma_prior(2, torch.Size(batch_shape))
    return SingleTaskGP(X, (5 * X).sin().sum(dim=-1, keepdim=True), covar_module=kernel)


@pytest.mark.parametrize("reading", ["rate", "scale"])
@pytest.mark.parametrize("density_of", ["log", "natural"])
def test_densities_are_those_of_scipy(reading: Any, density_of: Any) -> None:
    model = set_gamma_priors(scaled_matern(), 0.4, 3.0, reading=reading, density_of=density_of)
    priors = list(model.named_priors())
    assert len(priors) == 3
    theta = torch.linspace(0.1, 5, 20, dtype=torch.double)
    prior = gamma(0.4, scale=1 / 3 if reading == "rate" else 3)
    expected = torch.from_numpy(prior.logpdf(theta))
    if density_of == "log":
        expected += theta.log()  # d theta / d log theta
    for _, _, prior, _, _ in priors:
        density = prior.log_prob(theta)
        torch.testing.assert_close(density - density[0], expected - expected[0])


@pytest.mark.parametrize("batch_shape", [(), (3,)])
def test_fits_stay_in_closed_form_above_the_bound(batch_shape: tuple[int, ...]) -> None:
    model = set_gamma_priors(scaled_matern(*batch_shape), density_of="natural", lower_bound=1e-3)
    assert fit_exact_gp(model).method == "closed form"
    for values in (model.likelihood.noise, model.covar_module.base_kernel.lengthscale):
        assert (values >= 1e-3).all()


def test_without_a_scale_and_with_fixed_noise_only_lengthscales_have_a_prior() -> None:
    X = torch.rand(5, 1, dtype=torch.double)
    model = set_gamma_priors(SingleTaskGP(X, X.sin(), torch.full_like(X, 0.01)))
    assert [name for name, *_ in model.named_priors()] == ["covar_module.lengthscale_prior"]


def test_bad_input() -> None:
    model = scaled_matern()
    with pytest.raises(ValueError, match="`reading` 'rate' or 'scale'"):
        set_gamma_priors(model, reading="mode")
    with pytest.raises(ValueError, match="`lower_bound` to be finite and > 0"):
        set_gamma_priors(model, lower_bound=0.0)
    X = torch.rand(5, 1, dtype=torch.double)
    with pytest.raises(UnsupportedError, match=r"kernel with a lengthscale\. Got LinearKernel"):
        set_gamma_priors(SingleTaskGP(X, X.sin(), covar_module=LinearKernel()))
