r"""Every model; `tests/engine/posterior/test_contract.py` tests what they share."""

from typing import Any

import numpy as np
from botorch_risk_testing.models import Moments, itself, posterior_moments
from torch import Tensor

from botorch_risk.engine import FastMarginals
from botorch_risk.models import MeanVarianceGP
from tests import oracles
from tests.contracts import mean_variance_gp, of_decision
from tests.engine.posterior.cases import predictor, rahbo_posterior


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


MODELS = [
    predictor("fast_marginals", of_decision, FastMarginals, _one_at_a_time, oracles.variances_with),
    predictor("mean_variance_gp", mean_variance_gp, itself, posterior_moments, rahbo_posterior),
    predictor("noise_of_mean_variance_gp", mean_variance_gp, itself, _noise, _noise_by_hand),
]
