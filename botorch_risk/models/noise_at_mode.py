r"""The log noise variances at their mode given all readings, and what the readings say there.

A noise process that learns from all readings is conditioned on observations at this mode.
"""

from typing import Any

import torch
from torch import Tensor

from botorch_risk.models.laplace_evidence import (
    Mode,
    Readings,
    find_mode,
    pull_of_sites,
    sites_of_spread,
)
from botorch_risk.models.mean_and_noise import ReadingStatistics
from botorch_risk.models.noise_observations import worthless
from botorch_risk.points import put_in_mode


@torch.no_grad()
def mode_of_readings(
    noise_model: Any, mean_model: Any, given: ReadingStatistics
) -> tuple[Mode, Tensor, Readings]:
    r"""The mode of the log noise variances given all readings, their prior covariance, the data.

    The three are in the units of the mean's targets, in double precision: `R x n`, `R x n x n`,
    `R x n`. The mode is a function of the data and of the hyperparameters of both processes.
    """
    readings, variance = given.read(mean_model)
    readings = readings._replace(level=readings.level + _constant(noise_model))
    # The unknown constant of the mean adds its prior variance to every entry.
    covariance = readings.masked(_covariance(mean_model) + variance[:, None, None])
    prior = _covariance(noise_model)
    start = pull_of_sites(prior, readings, sites_of_spread(readings, readings.level))
    # A fit corrects its value for a search that ends early (`evidence_at`). Here the mode is used.
    return find_mode(covariance, prior, readings, start, last_step=1e-8), prior, readings


@torch.no_grad()
def observations_at_mode(
    noise_model: Any, mean_model: Any, given: ReadingStatistics
) -> tuple[Tensor, Tensor]:
    r"""Observations of the noise process that are equivalent to all readings at its mode.

    At the mode `z`, the likelihood acts like Gaussian observations `z + slope / weight` of variance
    `1 / weight`, where the weight is its expected curvature.

    Returns:
        The observations and their variances, `batch_shape x n` each.
    """
    mode, _, readings = mode_of_readings(noise_model, mean_model, given)
    constant = _constant(noise_model)
    found, weight = mode.sites(readings).unbind(1)
    shape = noise_model.train_targets.shape
    informs = (given.counts > 0) & (weight > 0).reshape(shape)
    weight = weight.reshape(shape).where(informs, 1.0)
    targets = (constant.unsqueeze(-1) + found - readings.level.unsqueeze(-1)).reshape(shape)
    targets = targets.where(informs, constant.reshape(*shape[:-1], 1))
    return targets, (1 / weight).where(informs, worthless(targets))


def _constant(noise_model: Any) -> Tensor:
    constant: Tensor = noise_model.mean_module.constant
    return constant.detach().double().reshape(-1)


def _covariance(model: Any) -> Tensor:
    r"""Prior covariance of a process at its training inputs, `R x n x n`, in double precision."""
    put_in_mode(model, training=True)  # training inputs as they were given
    covariance: Tensor = model.covar_module(
        model.transform_inputs(model.train_inputs[0])
    ).to_dense()
    return covariance.double().reshape(-1, *covariance.shape[-2:])
