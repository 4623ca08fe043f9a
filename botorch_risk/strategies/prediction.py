r"""Predictions with intervals, of outcomes, of the noise of a reading, and of a risk."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.acquisition.risk_samples import risk_samples
from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.arguments import check_counts
from botorch_risk.engine import Belief, NotInClosedFormError, sample_exact_gp

# The squared width of a nominal 95 % interval, `mean -+ 1.96 sigma`.
INTERVAL_BETA = 1.96**2
# Joint samples over W of a risk under one model. Each of several samples of the hyperparameters has
# a part of them, a smaller one if the risk of every sample solves a program.
NUM_RISKS, _PART, _PART_OF_PROGRAMS = 256, 4, 16
# Samples of the hyperparameters behind every interval, by `engine.sample_exact_gp`.
NUM_HYPERPARAMETERS = 16


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
        noise_interval: Lower and upper ends of the noise, `R x n x m` each; None if the noise is
            known or is one fitted level; if the level is sampled with the hyperparameters, it has
            an interval.
    """

    outcome: Interval
    noise: Tensor
    noise_interval: tuple[Tensor, Tensor] | None = None


def check_num_samples(num_samples: int) -> None:
    r"""Raise ValueError unless `num_samples` of the hyperparameters is 0 or at least 2."""
    check_counts(0, num_samples=num_samples)
    if num_samples == 1:  # one sample says nothing about its spread
        raise ValueError("Expected `num_samples` of 0, or at least 2. Got 1.")


def sample_for_intervals(model: SingleTaskGP, seeds: Sequence[int]) -> None:
    r"""Sample the hyperparameters of a strategy's model of batch shape `[S, R]`, in place.

    Raises:
        UnsupportedError: If they cannot be sampled.
    """
    try:
        sample_exact_gp(model, seeds=seeds)
    except NotInClosedFormError as error:
        raise UnsupportedError(
            "Expected a `model` whose hyperparameters can be sampled, or `num_samples=0` for "
            f"intervals by fitted hyperparameters. Got {error}."
        ) from error


def normal_interval(mean: Tensor, variance: Tensor) -> Interval:
    r"""The interval of a normal variable."""
    width = (INTERVAL_BETA * variance.clamp_min(0.0)).sqrt()
    return Interval(mean, mean - width, mean + width)


def predict_by_models(models: Sequence[Model], X: Tensor) -> Prediction:
    r"""Predict by one model per outcome, each with its own level of noise.

    Args:
        models: Models of one outcome each, of batch shape `[R]`, or `[]` for `R = 1`; or all
            `[S, R]`, with S samples of the hyperparameters, whose mixture is predicted.
        X: Inputs of the models, `R x n x d`.

    Raises:
        UnsupportedError: If a posterior is not Gaussian.
    """
    samples = [model.batch_shape[:-1] for model in models]
    moments = [
        Belief(model).joint().moments(X.expand(*shape, *X.shape).unsqueeze(-2))
        for model, shape in zip(models, samples, strict=True)
    ]
    mean = torch.cat([each.mean for each in moments], dim=-1)
    variance = torch.cat([each.covariance.squeeze(-1) for each in moments], dim=-1)
    noise = torch.cat([each.noise for each in moments], dim=-1).clamp_min(0.0)
    if not any(samples):
        return Prediction(normal_interval(mean, variance), noise.sqrt())
    return Prediction(
        normal_interval(mean.mean(dim=0), variance.mean(dim=0) + mean.var(dim=0, correction=0)),
        noise.mean(dim=0).sqrt(),
        _interval_of_levels(noise),
    )


def _interval_of_levels(variance: Tensor) -> tuple[Tensor, Tensor]:
    r"""A nominal 95 % interval of a standard deviation, from few samples of the variance.

    Their logarithms are about normal. Noise of 0, which is known, has no interval.
    """
    logarithm = variance.clamp_min(torch.finfo(variance.dtype).tiny).log() / 2
    spread = INTERVAL_BETA**0.5 * logarithm.std(dim=0)
    centre = logarithm.mean(dim=0)
    known = (variance == 0).all(dim=0)
    lower, upper = ((centre + end * spread).exp().masked_fill(known, 0.0) for end in (-1.0, 1.0))
    return lower, upper


def predict_risks(bounds: Sequence[RiskUpperConfidenceBound], X: Tensor) -> Interval:
    r"""The expected risk of each objective, between quantiles of joint samples over W.

    Args:
        bounds: The bound of each of p objectives, for its model, environment and measure; a model
            of batch shape `[S, R]` has samples of the hyperparameters, whose mixture is predicted.
        X: Decisions, `R x n x d_x`.

    Returns:
        `R x n x p`.
    """
    samples = [predicted_risks(each, X) for each in bounds]
    risks = torch.stack(samples, dim=-2)  # R x n x p x S
    lower, upper = (risks.quantile(share, dim=-1) for share in (0.025, 0.975))
    return Interval(risks.mean(dim=-1), lower, upper)


def predicted_risks(
    bound: RiskUpperConfidenceBound, X: Tensor, num_samples: int = NUM_RISKS
) -> Tensor:
    r"""Samples of the risk of decisions `R x n x d_x` under the posterior, `R x n x s`.

    `s` is `num_samples`, or a multiple of it if the hyperparameters are sampled.
    """
    model, measure = bound.model, bound.risk_measure
    if len(model.batch_shape) > 1:
        num_samples = -(-num_samples // (_PART_OF_PROGRAMS if measure.is_a_program else _PART))
    parts = bound.environment, measure, X, num_samples, bound.posterior_transform
    return pooled(model, risk_samples(model, *parts))


def pooled(model: Model, samples: Tensor) -> Tensor:
    r"""Samples `R x ... x s`, from `S x R x ... x s` for a model of batch shape `[S, R]`."""
    return samples if len(model.batch_shape) < 2 else samples.movedim(0, -2).flatten(-2)
