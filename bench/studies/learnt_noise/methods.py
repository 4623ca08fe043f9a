r"""The models that are compared, each from a table of repeats to predictions of new readings."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from botorch_risk.fit import fit_exact_gp
from botorch_risk.models import MeanVarianceGP
from botorch_risk.models.fixed_noise import mean_kernel


class Prediction(NamedTuple):
    r"""What a model predicts at `m` points.

    Attributes:
        mean: Of the function.
        variance: Of the function.
        noise: The variance of the noise of one reading.
    """

    mean: Tensor
    variance: Tensor
    noise: Tensor


class Timed(NamedTuple):
    r"""A prediction, and the CPU seconds of the fit and of the prediction together."""

    prediction: Prediction
    seconds: float


Method = Callable[[Tensor, Tensor, Tensor], Prediction]


def timed(method: Method, X: Tensor, Y: Tensor, test_X: Tensor) -> Timed:
    r"""Runs a method on `n x d` inputs, `n x k` readings and `m x d` test inputs."""
    start = time.process_time()
    prediction = method(X, Y, test_X)
    return Timed(prediction, time.process_time() - start)


def mean_variance_gp(in_closed_form: bool = True, **options: Any) -> Method:
    r"""Our model, fitted in closed form or by BoTorch's line `fit_gpytorch_mll(mll)`."""

    def predict(X: Tensor, Y: Tensor, test_X: Tensor) -> Prediction:
        return _of_mean_variance_gp(MeanVarianceGP(X, Y, **options), in_closed_form, test_X)

    return predict


def with_kernel_of_botorch(X: Tensor, Y: Tensor, test_X: Tensor) -> Prediction:
    r"""Our model as it was: BoTorch's kernel without an output scale, and `noise_beta` of 4."""
    kernel = get_covar_module_with_dim_scaled_prior(ard_num_dims=X.shape[-1])
    return _of_mean_variance_gp(
        MeanVarianceGP(X, Y, covar_module=kernel, noise_beta=4.0), True, test_X
    )


def better_smoothness(X: Tensor, Y: Tensor, test_X: Tensor) -> Prediction:
    r"""Our model with the Matern kernel, 5/2 or 3/2, that has more evidence after a fit of each."""
    fits = []
    for nu in (2.5, 1.5):
        kernel = mean_kernel(X)
        kernel.base_kernel.nu = nu
        model = MeanVarianceGP(X, Y, covar_module=kernel)
        fits.append((float(fit_exact_gp(model).objective), model))
    _, best = max(fits, key=lambda fit: fit[0])
    return _predict(best, test_X)


def without_outliers(X: Tensor, Y: Tensor, test_X: Tensor) -> Prediction:
    r"""Our model of the readings within five deviations of their row's median.

    The deviation is the median absolute one, made consistent for normal readings.
    """
    centre = Y.median(dim=-1, keepdim=True).values
    distance = (Y - centre).abs()
    deviation = 1.4826 * distance.median(dim=-1, keepdim=True).values
    is_wrong = (distance > 5 * deviation) & (Y.shape[-1] >= 5)  # three readings cannot tell
    kept = Y.masked_fill(is_wrong, torch.nan)
    return mean_variance_gp()(X, kept, test_X)


def hetgpy(kernel: str) -> Method:
    r"""hetGPy with its defaults and a kernel, its readings standardised as its authors advise."""

    def predict(X: Tensor, Y: Tensor, test_X: Tensor) -> Prediction:
        return _fit_hetgpy(kernel, X, Y, test_X)[0]

    return predict


def better_of_hetgpy(X: Tensor, Y: Tensor, test_X: Tensor) -> Prediction:
    r"""hetGPy with whichever of two kernels has the higher likelihood, after a fit of each."""
    fits = [_fit_hetgpy(kernel, X, Y, test_X) for kernel in ("Gaussian", "Matern5_2")]
    return max(fits, key=lambda fit: fit[1])[0]


def given_variances(X: Tensor, Y: Tensor, test_X: Tensor) -> Prediction:
    r"""`SingleTaskGP` of the means with `train_Yvar = s^2 / k`; new noise is the average s^2."""
    variances = Y.var(dim=-1, keepdim=True)
    model = SingleTaskGP(X, Y.mean(dim=-1, keepdim=True), variances / Y.shape[-1])
    return _of_plain_gp(model, test_X, variances.mean())


def inferred_noise(X: Tensor, Y: Tensor, test_X: Tensor) -> Prediction:
    r"""`SingleTaskGP` of the means with one inferred noise, k times that for a new reading."""
    model = SingleTaskGP(X, Y.mean(dim=-1, keepdim=True))
    return _of_plain_gp(model, test_X, Y.shape[-1])


METHODS: dict[str, Method] = {
    "ours": mean_variance_gp(),
    "ours, spread": mean_variance_gp(noise_evidence="spread"),
    "ours, BoTorch's fit": mean_variance_gp(in_closed_form=False),
    "ours, kernel of BoTorch": with_kernel_of_botorch,
    "ours, better kernel": better_smoothness,
    "ours, without outliers": without_outliers,
    "hetGPy": hetgpy("Gaussian"),
    "hetGPy, Matern": hetgpy("Matern5_2"),
    "hetGPy, better kernel": better_of_hetgpy,
    "GP, s^2 / k": given_variances,
    "GP, inferred noise": inferred_noise,
}


@torch.no_grad()
def _moments(model: Any, test_X: Tensor) -> tuple[Tensor, Tensor]:
    posterior = model.posterior(test_X.unsqueeze(-2))  # points that do not interact
    return posterior.mean.flatten(), posterior.variance.flatten()


def _of_mean_variance_gp(model: MeanVarianceGP, in_closed_form: bool, test_X: Tensor) -> Prediction:
    if in_closed_form:
        model.fit_processes()
        model.eval()
    else:
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return _predict(model, test_X)


def _predict(model: MeanVarianceGP, test_X: Tensor) -> Prediction:
    with torch.no_grad():
        mean, variance = model.mean_marginals(test_X)
        return Prediction(mean, variance, model.predicted_noise(test_X).squeeze(-1))


def _of_plain_gp(model: SingleTaskGP, test_X: Tensor, noise: Tensor | int) -> Prediction:
    r"""Fitted as ours; a whole number multiplies the inferred noise."""
    fit_exact_gp(model)
    mean, variance = _moments(model, test_X)
    if isinstance(noise, int):
        scale = model.outcome_transform.stdvs.squeeze().square()
        noise = noise * scale * model.likelihood.noise.detach().squeeze()
    return Prediction(mean, variance, noise.expand_as(mean))


def _fit_hetgpy(kernel: str, X: Tensor, Y: Tensor, test_X: Tensor) -> tuple[Prediction, float]:
    r"""The prediction and the log likelihood."""
    model, readings = _new_hetgpy(), Y.flatten().numpy()
    centre, scale = readings.mean(), readings.std()
    rows = X.repeat_interleave(Y.shape[-1], dim=0).numpy()
    # Its default settings, in a fresh dictionary: it writes into the one that is its default.
    settings = {"returnKi": True, "factr": 1e9, "ignore_MLE_divide_invalid": True, "trace": -1}
    model.mle(rows, (readings - centre) / scale, covtype=kernel, settings=settings)
    found = model.predict(test_X.numpy())
    mean, variance, noise = (
        torch.as_tensor(np.array(found[name], dtype=float)).expand(len(test_X))
        for name in ("mean", "sd2", "nugs")
    )
    prediction = Prediction(centre + scale * mean, scale**2 * variance, scale**2 * noise)
    return prediction, float(model["ll"])


def _new_hetgpy() -> Any:
    try:
        from hetgpy import hetGP
    except ImportError as error:
        raise ImportError(
            "Expected `hetgpy`, with which this study compares, from the extra `peers`: "
            f"pip install 'botorch-risk-bench[peers]'. Got {error}."
        ) from error
    return hetGP()
