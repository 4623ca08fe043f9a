r"""The acquisition functions of level sets, for the contract of all."""

from typing import Any

import numpy as np
import torch
from botorch_risk_testing.acquisition import AcquisitionCase
from scipy.stats import norm

from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.level_sets import ExpectedClassification, RiskStraddle
from botorch_risk.risk import Expectation
from tests import oracles
from tests.contracts import of_decision_and_context

COMPARED = torch.tensor([[0.1, 0.2], [0.5, 0.9], [0.8, 0.3], [0.4, 0.4]], dtype=torch.float64)
ENVIRONMENT = DiscreteEnvironment(
    torch.tensor([[0.1], [0.35], [0.5], [0.9]], dtype=torch.float64),
    torch.tensor([0.1, 0.25, 0.45, 0.2]),
)
LEVEL, BETA, WEIGHT = 1.2, 2.25, 0.1
KNOWN: dict[str, Any] = {
    "environment": ENVIRONMENT,
    "risk_measure": Expectation(),
    "threshold": LEVEL,
    "beta": BETA,
}


def moments(model: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    r"""Mean and covariance of the outcome over W at decisions, the weights, and the noise."""
    inputs, weights = ENVIRONMENT.expand(torch.from_numpy(X).double())
    pairs = inputs.flatten(0, 1).to(model.train_targets)
    with torch.no_grad():
        posterior = model.posterior(pairs)
        read = model.posterior(pairs, observation_noise=True)
    number, n_w = inputs.shape[:2]
    covariance = oracles.to_numpy(posterior.distribution.covariance_matrix)
    noise = oracles.to_numpy(read.variance - posterior.variance).reshape(number, n_w)
    mean = oracles.to_numpy(posterior.mean).reshape(number, n_w)
    shape = (number, n_w, number, n_w)
    return mean, covariance.reshape(shape), oracles.to_numpy(weights[0]), noise


def straddle(model: Any, repeats: np.ndarray, X: np.ndarray) -> np.ndarray:
    mean, covariance, weights, _ = moments(model, X)
    variance = np.einsum("ivij,v,j->i", covariance, weights, weights)
    return np.sqrt(BETA * variance) - np.abs(mean @ weights - LEVEL)


def newly_classified(model: Any, X: np.ndarray, w_is_chosen: bool) -> np.ndarray:
    scores = []
    for x in X:
        mean, covariance, weights, noise = moments(model, np.vstack([COMPARED.numpy(), x]))
        excess = mean[:-1] @ weights - LEVEL
        variance = np.einsum("pvpw,v,w->p", covariance, weights, weights)[:-1]
        deviation = np.sqrt(covariance[-1, range(4), -1, range(4)] + noise[-1])
        moved = np.einsum("pvw,v->wp", covariance[:-1, :, -1], weights) / deviation[:, None]
        edge = np.sqrt(BETA * (variance - moved**2))
        moved = np.abs(moved)
        after = norm.cdf((excess - edge) / moved) + norm.cdf((-excess - edge) / moved)
        count = (after - (np.abs(excess) > np.sqrt(BETA * variance))).sum(axis=-1)
        each = count + WEIGHT * (moved**2 / variance).sum(axis=-1)  # at each w
        scores.append(each.max() if w_is_chosen else each @ weights)
    return np.array(scores)


def classification(w_is_chosen: bool) -> AcquisitionCase:
    arguments = {
        **KNOWN,
        "X_compared": COMPARED,
        "w_is_chosen": w_is_chosen,
        "variance_weight": WEIGHT,
    }

    def build(model: Any, **options: Any) -> ExpectedClassification:
        compared = {"X_compared": COMPARED.to(model.train_targets)}
        return ExpectedClassification(model, **{**arguments, **compared, **options})

    return AcquisitionCase(
        name="expected_classification" + ("_at_the_best_w" if w_is_chosen else ""),
        build=build,
        oracle=lambda model, repeats, X: newly_classified(model, X, w_is_chosen),
        model=of_decision_and_context,
        arguments=arguments,
        batch_dims=1,
        tolerance=1e-6,
    )


LEVEL_SETS = [
    classification(w_is_chosen=False),
    classification(w_is_chosen=True),
    AcquisitionCase(
        name="risk_straddle",
        build=lambda model, **options: RiskStraddle(model, **{**KNOWN, **options}),
        oracle=straddle,
        model=of_decision_and_context,
        arguments=KNOWN,
    ),
]
