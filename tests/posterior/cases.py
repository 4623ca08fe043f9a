r"""Every predictor of a model; `test_contract.py` tests what they and the models share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from botorch_risk.models import MeanVarianceGP
from botorch_risk.posterior import DomainPosterior, MarginalPredictor
from tests import oracles
from tests.contracts import RepeatedData, mean_variance_gp, of_decision

Moments = tuple[Any, Any]


@dataclass(frozen=True)
class ModelCase:
    r"""A model, or what predicts from one.

    Args:
        name: Names the case.
        kind: The class that it is of.
        fit: From repeated data to a model with hyperparameters that differ between replicates.
        build: From the model to what predicts.
        predict: From that and points `batch_shape x m x d` to two moments, most often mean and
            variance, each `batch_shape x m`.
        oracle: From an unbatched model, its repeats and `m x d` points to both, `m` each.
        batch_dims: How many batch dimensions it may have.
    """

    name: str
    kind: type
    fit: Callable[[RepeatedData], Any]
    build: Callable[[Any], Any]
    predict: Callable[[Any, Tensor], Moments]
    oracle: Callable[[Any, np.ndarray, np.ndarray], Moments]
    batch_dims: int = 2

    def replicate(self, model: Any, data: RepeatedData, index: tuple[int, ...]) -> Any:
        r"""The model of one entry of a batch, with the hyperparameters of that entry."""
        single = self.fit(RepeatedData(data.X[index], data.Y[index]))
        for alone, together in zip(single.parameters(), model.parameters(), strict=True):
            alone.data.copy_(together[index])
        if isinstance(single, MeanVarianceGP):
            single.refresh_noise()
        return single


def rahbo_posterior(model: Any, repeats: np.ndarray, X: np.ndarray) -> Moments:
    moments = oracles.rahbo_moments(model, repeats, X)
    return moments["mean"], moments["variance"]


def _on_a_domain(model: Any) -> DomainPosterior:
    points = torch.rand(12, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return DomainPosterior(model, points.to(model.train_targets))


def _at(posterior: DomainPosterior, X: Tensor) -> Moments:
    points = posterior.at(X)
    shape = (*posterior.batch_shape, X.shape[-2])
    return points.mean.reshape(shape), points.variance.reshape(shape)


POSTERIORS = [
    ModelCase(
        "marginal_predictor",
        MarginalPredictor,
        of_decision,
        MarginalPredictor,
        lambda predictor, X: predictor(X),
        oracles.variances_with,
    ),
    ModelCase(
        "marginal_predictor_of_mean_variance_gp",
        MarginalPredictor,
        mean_variance_gp,
        MarginalPredictor,
        lambda predictor, X: predictor(X),
        rahbo_posterior,
    ),
    ModelCase(
        "domain_posterior",
        DomainPosterior,
        of_decision,
        _on_a_domain,
        _at,
        oracles.variances_with,
        batch_dims=1,
    ),
]
