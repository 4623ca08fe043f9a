r"""The Gamma priors of UHE-BO's experiments."""

from typing import Literal

from botorch.exceptions.errors import UnsupportedError
from botorch.models import SingleTaskGP
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.priors import GammaPrior

from botorch_risk.arguments import check_positive, in_short


def set_gamma_priors(
    model: SingleTaskGP,
    shape: float = 1e-3,
    second: float = 10.0,
    *,
    reading: Literal["rate", "scale"] = "rate",
    density_of: Literal["log", "natural"] = "log",
    lower_bound: float = 1e-4,
) -> SingleTaskGP:
    r"""Put one Gamma prior on the lengthscales, the signal variance and the noise variance.

    Appendix C of [Ha2023uhe]_ uses Gamma(1e-3, 10) for all three without saying what 10 is. With a
    rate of 10 (GPy's convention, on which its code is built, and the default) the mean is 1e-4, and
    lengthscales are drawn to 0 by `-10 theta`; with a scale of 10 the prior is nearly flat.

    Nor does the paper say which variable has this density. As a density of theta, it has a pole at
    0, `theta^(shape - 1)`, and the posterior has no maximum without lower bounds. As a density of
    log theta, the default, it is `theta^shape exp(-rate theta)`, without a pole: a `GammaPrior`
    with a shape larger by 1, since GPyTorch's objectives contain densities of theta. Either way all
    three are kept above `lower_bound`.

    Args:
        model: The model, changed in place: priors and constraints of these hyperparameters are
            replaced. Values below the bound are raised to twice the bound.
        shape: The first parameter.
        second: The second parameter.
        reading: Whether the second parameter is a rate or a scale.
        density_of: Whether the prior is a density of the logarithm or of the hyperparameter.
        lower_bound: The lower bound of all three, in units of the unit cube and of standardised
            outcomes.

    Raises:
        UnsupportedError: If the kernel has no lengthscale.
    """
    if reading not in ("rate", "scale") or density_of not in ("log", "natural"):
        raise ValueError(
            "Expected `reading` 'rate' or 'scale' and `density_of` 'log' or 'natural'. "
            f"Got reading={in_short(reading)}, density_of={in_short(density_of)}."
        )
    check_positive(shape=shape, second=second, lower_bound=lower_bound)
    kernel = model.covar_module
    scaled = isinstance(kernel, ScaleKernel)
    correlation = kernel.base_kernel if scaled else kernel
    if not correlation.has_lengthscale:
        raise UnsupportedError(
            f"Expected a kernel with a lengthscale. Got {type(correlation).__name__}."
        )
    owners = [(correlation, "lengthscale")]
    if scaled:
        owners.append((kernel, "outputscale"))
    if isinstance(model.likelihood, GaussianLikelihood):
        owners.append((model.likelihood.noise_covar, "noise"))
    concentration = shape + 1 if density_of == "log" else shape
    rate = second if reading == "rate" else 1 / second
    for module, name in owners:
        value = getattr(module, name).detach().clamp_min(2 * lower_bound)
        prior = GammaPrior(value.new_tensor(concentration), value.new_tensor(rate))
        module.register_constraint(f"raw_{name}", GreaterThan(lower_bound).to(value))
        module.register_prior(f"{name}_prior", prior, name)
        module.initialize(**{name: value})
    return model
