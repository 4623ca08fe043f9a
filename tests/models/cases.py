r"""Every model; `tests/posterior/test_contract.py` tests what they share."""

from typing import Any

import numpy as np
from torch import Tensor

from botorch_risk.models import FastMarginals, MeanVarianceGP
from tests import oracles
from tests.contracts import mean_variance_gp, of_decision
from tests.posterior.cases import ModelCase, Moments, rahbo_posterior


def _posterior(model: Any, X: Tensor) -> Moments:
    posterior = model.posterior(X)
    return posterior.mean.squeeze(-1), posterior.variance.squeeze(-1)


def _one_at_a_time(model: Any, X: Tensor) -> Moments:
    posterior = model.posterior(X.movedim(-2, 0).unsqueeze(-2))
    return posterior.mean[..., 0, 0].movedim(0, -1), posterior.variance[..., 0, 0].movedim(0, -1)


def _noise(model: MeanVarianceGP, X: Tensor) -> Moments:
    r"""The expected noise variance, and its upper bound two standard deviations of its log up."""
    return model.predicted_noise(X).squeeze(-1), model.noise_confidence_bounds(X, 4.0)[1]


def _noise_by_hand(model: Any, repeats: np.ndarray, X: np.ndarray) -> Moments:
    moments = oracles.rahbo_moments(model, repeats, X)
    mean, variance = moments["log_mean"], moments["log_variance"]
    return np.exp(mean + variance / 2), np.exp(mean + 2 * np.sqrt(variance))


def _itself(model: Any) -> Any:
    return model.eval()


MODELS = [
    ModelCase(
        "fast_marginals",
        FastMarginals,
        of_decision,
        FastMarginals,
        _one_at_a_time,
        oracles.variances_with,
    ),
    ModelCase(
        "mean_variance_gp", MeanVarianceGP, mean_variance_gp, _itself, _posterior, rahbo_posterior
    ),
    ModelCase(
        "noise_of_mean_variance_gp",
        MeanVarianceGP,
        mean_variance_gp,
        _itself,
        _noise,
        _noise_by_hand,
    ),
]
