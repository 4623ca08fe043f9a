r"""Every predictor of a model; `test_contract.py` tests what they and the models share."""

from typing import Any

import numpy as np
import torch
from botorch_risk_testing.data import RepeatedData
from botorch_risk_testing.models import ModelCase, Moments
from torch import Tensor

from botorch_risk.engine import Belief, DomainPosterior
from tests import oracles
from tests.contracts import mean_variance_gp, of_decision
from tests.engine.posterior.examples import OwnForward, of_kind


def rahbo_posterior(model: Any, repeats: np.ndarray, X: np.ndarray) -> Moments:
    moments = oracles.rahbo_moments(model, repeats, X)
    return moments["mean"], moments["variance"]


def predictor(
    name: str, build: Any, predictor: Any, predict: Any, oracle: Any, **options: Any
) -> Any:
    return ModelCase(
        name=name,
        build=build,
        predictor=predictor,
        predict=predict,
        oracle=oracle,
        follows_at_once=True,
        **options,
    )


def _marginals(predictor: Belief, X: Tensor) -> Moments:
    return predictor(X)


def _own_forward(data: RepeatedData) -> OwnForward:
    return of_kind(OwnForward, data.X, data.means)


def _on_a_domain(model: Any) -> DomainPosterior:
    points = torch.rand(12, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return DomainPosterior(model, points.to(model.train_targets))


def _at(posterior: DomainPosterior, X: Tensor) -> Moments:
    points = posterior.at(X)
    shape = (*posterior.batch_shape, X.shape[-2])
    return points.mean.reshape(shape), points.variance.reshape(shape)


POSTERIORS = [
    predictor("marginal_predictor", of_decision, Belief, _marginals, oracles.variances_with),
    predictor(
        "marginal_predictor_of_mean_variance_gp",
        mean_variance_gp,
        Belief,
        _marginals,
        rahbo_posterior,
    ),
    ModelCase(
        name="marginal_predictor_of_own_forward",
        build=_own_forward,
        predictor=Belief,
        predict=_marginals,
    ),
    predictor(
        "domain_posterior", of_decision, _on_a_domain, _at, oracles.variances_with, batch_dims=1
    ),
]
