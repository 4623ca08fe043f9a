r"""Predictions with intervals, of outcomes, of the noise of a reading, and of a risk."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.engine import Belief
from botorch_risk.level_sets import risk_samples

# The squared width of a nominal 95 % interval, `mean -+ 1.96 sigma`.
INTERVAL_BETA = 1.96**2


class Interval(NamedTuple):
    r"""An estimate with a nominal 95 % interval, three tensors of one shape."""

    mean: Tensor
    lower: Tensor
    upper: Tensor


class Prediction(NamedTuple):
    r"""The predictions of m outcomes at n rows, in their units.

    Attributes:
        outcome: The mean of the readings that a row would have, `R x n x m`.
        noise: The standard deviation of one reading around that mean, `R x n x m`.
        noise_interval: Its lower and upper ends, `R x n x m` each; None if the noise is known or is
            one estimated level, whose uncertainty the model does not give.
    """

    outcome: Interval
    noise: Tensor
    noise_interval: tuple[Tensor, Tensor] | None = None


def normal_interval(mean: Tensor, variance: Tensor) -> Interval:
    r"""The interval of a normal variable."""
    width = (INTERVAL_BETA * variance.clamp_min(0.0)).sqrt()
    return Interval(mean, mean - width, mean + width)


def predict_by_models(models: Sequence[Model], X: Tensor) -> Prediction:
    r"""Predict by a model of each outcome with its own level of noise.

    Args:
        models: With one outcome each, of batch shape `[R]`, or `[]` for `R = 1`.
        X: Inputs of the models, `R x n x d`.

    Raises:
        UnsupportedError: If a posterior is not Gaussian.
    """
    moments = [Belief(model).joint().moments(X.unsqueeze(-2)) for model in models]
    mean = torch.cat([each.mean for each in moments], dim=-1)
    variance = torch.cat([each.covariance.squeeze(-1) for each in moments], dim=-1)
    noise = torch.cat([each.noise for each in moments], dim=-1)
    return Prediction(normal_interval(mean, variance), noise.clamp_min(0.0).sqrt())


def predict_risks(bounds: Sequence[RiskUpperConfidenceBound], X: Tensor) -> Interval:
    r"""The expected risk of each objective, between quantiles of joint samples over W.

    Args:
        bounds: The bound of each of p objectives, for its model, environment and measure.
        X: Decisions, `R x n x d_x`.

    Returns:
        `R x n x p`.
    """
    samples = [risk_samples(each.model, each.environment, each.risk_measure, X) for each in bounds]
    risks = torch.stack(samples, dim=-2)  # R x n x p x S
    lower, upper = (risks.quantile(share, dim=-1) for share in (0.025, 0.975))
    return Interval(risks.mean(dim=-1), lower, upper)
