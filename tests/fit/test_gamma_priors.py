r"""The Gamma priors of UHE-BO."""

from typing import Any

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
    SmoothedBoxPrior,
)
from scipy.stats import gamma

from botorch_risk.engine import fit_exact_gp
from botorch_risk.fit import set_gamma_priors

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
