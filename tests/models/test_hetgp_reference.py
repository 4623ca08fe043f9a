r"""The likelihood of all readings against numbers that R's hetGP found on the motorcycle data.

`hetgp_motorcycle.csv` has one row per time: the statistics of its accelerations ([Silverman1985],
as in R's MASS), the noise variances of R's fit in units of its scale (`hetGP_mcycle_fit.mat`), and
other log variances before they are smoothed with the derivatives of R's log likelihood in them
(`checkGrad.mat`). The files are in `tests/data` of the wheel of hetgpy 1.0.6. R's likelihood
[Binois2018hetgp]_ profiles the scale, and has a penalty on the log variances that are smoothed.

[Silverman1985]: Some aspects of the spline smoothing approach to non-parametric regression curve
fitting, JRSS B 47.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy import ndarray

from botorch_risk.models.laplace_evidence import Likelihood, LogLikelihood, Readings

TABLE = np.genfromtxt(Path(__file__).with_name("hetgp_motorcycle.csv"), delimiter=",", names=True)
TIME, COUNT, MEAN, SQUARES = (TABLE[name] for name in ("time", "count", "mean", "squares"))
LENGTHSCALE, BETA, SCALE = 53.17709094, -7.329047, 3532.84360288  # of R's fit
LENGTHSCALE_OF_GRADIENT, NUGGET, RATIO = 34.01107949, 1.0, 1.0
JITTER = np.sqrt(np.finfo(float).eps)


def correlation(lengthscale: float) -> ndarray:
    r"""R's `covtype="Gaussian"`, whose lengthscale is ours squared, twice."""
    square = np.subtract.outer(TIME, TIME) ** 2
    return np.asarray(np.exp(-square / lengthscale))


def found(lengthscale: float, variances: ndarray, scale: float, beta: float) -> Likelihood:
    r"""Ours, from noise variances in units of the scale."""
    rows = (torch.as_tensor(part)[None] for part in (MEAN - beta, COUNT, SQUARES))
    level, floor = torch.zeros(1).double(), torch.tensor([scale * JITTER]).double()
    covariance = torch.as_tensor(scale * correlation(lengthscale))[None]
    h = torch.as_tensor(np.log(scale * variances))[None]
    return LogLikelihood(covariance, Readings(*rows, level, floor))(h)


def test_scale_and_constant_of_the_fit_are_the_best_ones() -> None:
    part = found(LENGTHSCALE, TABLE["variance"], SCALE, BETA)
    assert part.weights.sum().item() == pytest.approx(0.0, abs=1e-8)  # the slope in the constant
    within = (SQUARES / (SCALE * TABLE["variance"])).sum()
    between = (part.weights[0] * torch.as_tensor(MEAN - BETA)).sum().item()
    assert within + between == pytest.approx(COUNT.sum(), rel=1e-8)  # and in the scale


def test_slope_in_the_log_noise_variances() -> None:
    n, delta = len(TIME), TABLE["delta"]
    smooth = correlation(RATIO * LENGTHSCALE_OF_GRADIENT)
    inverse = np.linalg.inv(smooth + np.diag(JITTER + NUGGET / COUNT))
    average = np.outer(np.ones(n), inverse.sum(axis=1) / inverse.sum())
    smoother = average + smooth @ inverse @ (np.eye(n) - average)
    variances = np.exp(smoother @ delta)
    of_means = np.linalg.inv(
        correlation(LENGTHSCALE_OF_GRADIENT) + np.diag(variances / COUNT + JITTER)
    )
    beta = of_means.sum(axis=1) @ MEAN / of_means.sum()
    about = MEAN - beta
    scale = ((SQUARES / variances).sum() + about @ of_means @ about) / COUNT.sum()
    part = found(LENGTHSCALE_OF_GRADIENT, variances, scale, beta)
    residual = inverse @ (delta - average @ delta)
    penalty = n * residual / ((delta - average @ delta) @ residual)
    ours = smoother.T @ part.slope[0].numpy() - penalty
    np.testing.assert_allclose(ours, TABLE["slope"], rtol=1e-6, atol=1e-6)
