r"""The models that are compared, each from a table of repeats to predictions of new readings."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from botorch.models import SingleTaskGP
from torch import Tensor

from botorch_risk.fit import fit_exact_gp
from botorch_risk.models import MeanVarianceGP


class Prediction(NamedTuple):
    r"""What a model predicts at `m` points.

    Attributes:
        mean: Of the function.
        variance: Of the function.
        noise: The variance of the noise of one reading.
        evidence: By which two kernels of one model are compared; NaN if nothing asks for it.
    """

    mean: Tensor
    variance: Tensor
    noise: Tensor
    evidence: float = math.nan


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


def mean_variance_gp(**options: Any) -> Method:
    r"""Our model, fitted in closed form, as the line `fit_gpytorch_mll(mll)` does."""

    def predict(X: Tensor, Y: Tensor, test_X: Tensor) -> Prediction:
        model = MeanVarianceGP(X, Y, **options)
        model.fit_processes()
        model.eval()
        with torch.no_grad():
            mean, variance = model.mean_marginals(test_X)
            return Prediction(mean, variance, model.predicted_noise(test_X).squeeze(-1))

    return predict


def hetgpy(kernel: str) -> Method:
    r"""hetGPy with its defaults and a kernel, its readings standardised as its authors advise."""

    def predict(X: Tensor, Y: Tensor, test_X: Tensor) -> Prediction:
        return _fit_hetgpy(kernel, X, Y, test_X)

    return predict


def better_of_hetgpy(X: Tensor, Y: Tensor, test_X: Tensor) -> Prediction:
    r"""hetGPy with whichever of two kernels has the higher likelihood, after a fit of each."""
    fits = [_fit_hetgpy(kernel, X, Y, test_X) for kernel in ("Gaussian", "Matern5_2")]
    return max(fits, key=lambda fit: fit.evidence)


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
    "hetGPy": hetgpy("Gaussian"),
    "hetGPy, Matern": hetgpy("Matern5_2"),
    "GP, s^2 / k": given_variances,
    "GP, inferred noise": inferred_noise,
}
NEEDS_REPEATS = ("ours, spread", "GP, s^2 / k")


@torch.no_grad()
def _moments(model: Any, test_X: Tensor) -> tuple[Tensor, Tensor]:
    posterior = model.posterior(test_X.unsqueeze(-2))  # points that do not interact
    return posterior.mean.flatten(), posterior.variance.flatten()


def _of_plain_gp(model: SingleTaskGP, test_X: Tensor, noise: Tensor | int) -> Prediction:
    r"""Fitted as ours; a whole number multiplies the inferred noise."""
    fit_exact_gp(model)
    mean, variance = _moments(model, test_X)
    if isinstance(noise, int):
        scale = model.outcome_transform.stdvs.squeeze().square()
        noise = noise * scale * model.likelihood.noise.detach().squeeze()
    return Prediction(mean, variance, noise.expand_as(mean))


def _fit_hetgpy(kernel: str, X: Tensor, Y: Tensor, test_X: Tensor) -> Prediction:
    r"""The prediction; the evidence is the log likelihood."""
    present = ~Y.isnan()
    model, readings = _new_hetgpy(), Y[present].numpy()
    centre, scale = readings.mean(), readings.std()
    rows = X.repeat_interleave(present.sum(dim=-1), dim=0).numpy()
    # Its default settings, in a fresh dictionary: it writes into the one that is its default.
    settings = {"returnKi": True, "factr": 1e9, "ignore_MLE_divide_invalid": True, "trace": -1}
    model.mle(rows, (readings - centre) / scale, covtype=kernel, settings=settings)
    found = model.predict(test_X.numpy())
    mean, variance, noise = (
        torch.as_tensor(np.array(found[name], dtype=float)).expand(len(test_X))
        for name in ("mean", "sd2", "nugs")
    )
    moments = centre + scale * mean, scale**2 * variance, scale**2 * noise
    return Prediction(*moments, evidence=float(model["ll"]))


def _new_hetgpy() -> Any:
    try:
        from hetgpy import hetGP
    except ImportError as error:
        raise ImportError(
            "Expected `hetgpy`, with which this study compares, from the extra `peers`: "
            f"pip install 'botorch-risk-bench[peers]'. Got {error}."
        ) from error
    return hetGP()
