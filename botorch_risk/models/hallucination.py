r"""Condition a model on its own mean at pending points."""

from typing import Any

import torch
from botorch.models.model import Model, ModelList
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from torch import Tensor

from botorch_risk.gradients import condition
from botorch_risk.models.heteroscedastic import MeanVarianceGP
from botorch_risk.points import check_points


def condition_on_mean(model: Model, X: Tensor) -> Model:
    r"""Condition a model, or a list of models, on its own mean at `batch_shape x n' x d` points.

    The mean stays where it is and the variance shrinks: the hallucinated observations of batch UCB.
    A model with fixed noise observes with the average noise of its data, as BoTorch does when it
    fantasizes.
    """
    if isinstance(model, ModelList):
        parts: Any = model.models
        return type(model)(*(condition_on_mean(each, X) for each in parts))
    check_points("X_pending", X, model)
    if isinstance(model, MeanVarianceGP):
        return model.condition_on_pending(X)
    exact: Any = model
    with torch.no_grad():
        mean = exact.posterior(X).mean
        options = {}
        if isinstance(exact.likelihood, FixedNoiseGaussianLikelihood):
            noise = exact.likelihood.noise.mean(dim=-1)
            if noise.dim() == len(exact.batch_shape):  # else `batch_shape x m`
                noise = noise.unsqueeze(-1)
            options["noise"] = noise.unsqueeze(-2).expand(mean.shape)
        return condition(exact, X, mean, **options)
