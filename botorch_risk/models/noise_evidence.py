r"""What a noise process learns from: the spread of repeats, or all readings."""

from typing import Any

import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.models.transforms.outcome import OutcomeTransform
from torch import Tensor

from botorch_risk.models.noise_observations import NoiseObservations, SampleVariances
from botorch_risk.models.outcome_scales import TYPICAL_LOG_LEVEL, LevelScale
from botorch_risk.models.repeats import RepeatedOutcomes


def default_evidence(link: str, outcomes: RepeatedOutcomes) -> str:
    r"""All readings if the link and the outcomes support them, else the spread."""
    return "readings" if link == "log" and not outcomes.known_variances else "spread"


def check_evidence(evidence: str, link: str, outcomes: RepeatedOutcomes) -> None:
    r"""Raise unless the link and the outcomes support the evidence."""
    if evidence not in ("readings", "spread"):
        raise ValueError(f"Expected `noise_evidence` 'readings' or 'spread'. Got {evidence!r}.")
    if evidence == "readings" and (link != "log" or outcomes.known_variances):
        raise UnsupportedError(
            "Expected the log link and unknown noise if `noise_evidence` is 'readings'. "
            f"Got {link=}, {outcomes.known_variances=}."
        )


def observations_of(
    sampling: SampleVariances, data: NoiseObservations, outcomes: RepeatedOutcomes, evidence: str
) -> tuple[Tensor, Any, OutcomeTransform]:
    r"""Observations of the linked noise variance, their variances and their scale."""
    if outcomes.known_variances:
        noise, sets_scale = None, data.informs
        targets = sampling.link.apply(data.variances)
    else:
        noise = sampling.noise(data.typical.expand_as(data.counts), data.counts)
        targets, noise, sets_scale = data.on(sampling.link, noise)
    if noise is None and not bool(data.informs.all()):
        if outcomes.known_variances:
            raise UnsupportedError(
                "Expected the noise variance of every row of every replicate. Got rows without "
                "a reading; fit these replicates one by one."
            )
        raise UnsupportedError(
            "Expected repeats in the same rows of every replicate to infer one noise of sample "
            "variances. Got other rows; use the log link, or another `sample_variance_noise`."
        )
    if evidence == "readings":
        assert noise is not None  # known on the logarithmic scale
        return targets, noise, LevelScale(sets_scale, noise, _typical_level(outcomes))
    scale = sampling.link.outcome_transform(sets_scale, noise, data.resolution)
    return targets, noise, scale


def _typical_level(outcomes: RepeatedOutcomes) -> Tensor:
    r"""A log noise variance from the spread of the means, without repeats; `... x 1 x 1`."""
    observed = outcomes.counts > 0
    count = observed.sum(dim=-2, keepdim=True)
    zeros = torch.zeros_like(outcomes.means)
    mean = outcomes.means.where(observed, zeros).sum(-2, keepdim=True) / count.clamp_min(1)
    squares = (outcomes.means - mean).where(observed, zeros).square().sum(-2, keepdim=True)
    variance = squares / (count - 1).clamp_min(1)
    return TYPICAL_LOG_LEVEL + variance.where(variance > 0, torch.ones_like(variance)).log()
