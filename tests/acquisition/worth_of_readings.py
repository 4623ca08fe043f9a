r"""An oracle of the worth of readings: the model is conditioned on their outcomes, row by row."""

from typing import Any

import numpy as np
from scipy.special import erfcx, polygamma

from tests import oracles


def knowledge_gradient_rate(
    model: Any, repeats: np.ndarray, X: np.ndarray, alpha: float, counts: list[int], start: float
) -> np.ndarray:
    r"""The logarithm of the largest gain per cost, with readings of cost 1, `m`.

    The model is conditioned on the outcomes explicitly, row by row.
    """
    train_X = oracles.to_numpy(model.train_X)
    now = oracles.rahbo_moments(model, repeats, train_X)
    values = now["mean"] - alpha * np.exp(now["log_mean"] + now["log_variance"] / 2)
    best = int(values.argmax())
    rates = []
    for x in X:
        points = np.vstack([train_X[best], np.delete(train_X, best, axis=0), x])
        gains = [
            _log_gain_of_readings(model, repeats, points, x, k, alpha) - np.log(start + k)
            for k in counts
        ]
        rates.append(max(gains))
    return np.array(rates)


def _log_gain_of_readings(
    model: Any, repeats: np.ndarray, points: np.ndarray, x: np.ndarray, k: int, alpha: float
) -> float:
    r"""log E max(V_k(a) - V_k(b), 0) of the best a, b being the first of the points."""
    own = {name: value[0] for name, value in oracles.rahbo_moments(model, repeats, x[None]).items()}
    upper = np.exp(own["log_mean"] + np.sqrt(model.noise_beta * own["log_variance"]))
    of_log = polygamma(1, (k - 1) / 2) if k > 1 else 0.0
    outcome = np.array([own["mean"], own["log_mean"]])
    deviation = np.sqrt([own["variance"] + upper / k, own["log_variance"] + of_log])
    # Both moments are linear in what is read: the expected outcome, and one deviation more.
    low, high = (
        oracles.rahbo_moments(
            model, repeats, points, oracles.FurtherReadings(x, k, *(outcome + step * deviation))
        )
        for step in (0, 1)
    )
    slopes = high["mean"] - low["mean"]
    spread = np.abs(slopes[1:] - slopes[0])
    steps = np.linspace(-8, 8, 401)
    column = steps[:, None]
    logs = low["log_mean"] + column * (high["log_mean"] - low["log_mean"])
    values = low["mean"] - alpha * np.exp(logs + low["log_variance"] / 2)
    u = (values[:, 1:] - values[:, :1]) / spread
    excess = np.log1p(u * np.sqrt(np.pi / 2) * erfcx(-u / np.sqrt(2)))  # of 1 + u cdf / pdf
    densities = -(column**2 + u**2) / 2 - np.log(2 * np.pi)  # of two normals, in logarithms
    gains = np.logaddexp.reduce(densities + excess + np.log(spread), axis=0)
    return float(gains.max() - np.log((np.exp(-(steps**2) / 2) / np.sqrt(2 * np.pi)).sum()))
