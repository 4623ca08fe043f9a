r"""What all readings say about the noise: the spread within rows, and the residuals of the rows.

Given the noise variances `rho_i^2`, the likelihood of all readings separates into the likelihood
of the means and of the spread around them,

    log N(means | m, K + R) - sum_i (k_i - 1) / 2 (log rho_i^2 + s_i^2 / rho_i^2),
    R = diag(rho_i^2 / k_i)

(Woodbury over the unique inputs, [Binois2018hetgp]_). With the residuals `r = R (K + R)^-1 (means
- m)` and the leverages `l_i = 1 - R_ii [(K + R)^-1]_ii` its slope in `h_i = log rho_i^2`, and the
diagonal of its expected curvature, are

    slope_i = ((k_i - 1) s_i^2 / rho_i^2 + r_i^2 / R_ii - (k_i - l_i)) / 2
    weight_i = (k_i - 1 + (1 - l_i)^2) / 2

so that a row counts as `k_i - l_i` degrees of freedom in the place of `k_i - 1`, and a single
reading says something as well. The process of h sees the likelihood at its mode as Gaussian
observations `h + slope / weight` of variance `1 / weight` (Laplace's approximation).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from botorch_risk.models.fixed_noise import transform_variance
from botorch_risk.models.noise_observations import worthless
from botorch_risk.models.repeats import RepeatedOutcomes

MAX_STEP = 1.0  # of the logarithm of a noise variance in one iteration
_NUM_ITERATIONS = 50


@dataclass(frozen=True)
class ReadingEvidence:
    r"""The readings of all rows beside the process of their mean.

    Attributes:
        counts: `batch_shape x n` numbers of readings, at least 1.
        squares: `batch_shape x n` sums of squares within the rows, `(k - 1) s^2`.
        observed: `batch_shape x n`, False where a replicate has no reading.
        residual: `batch_shape x n` means less their prior mean, in the units of the process.
        covariance: `batch_shape x n x n` of the process of the mean.
        unit: The variance 1 of the outcome in the units of the process.
    """

    counts: Tensor
    squares: Tensor
    observed: Tensor
    residual: Tensor
    covariance: Tensor
    unit: Tensor

    @classmethod
    def of(cls, mean_model: Any, outcomes: RepeatedOutcomes, resolution: Tensor) -> ReadingEvidence:
        r"""Reads the process of the mean as it is.

        Args:
            mean_model: The process of the mean, on the rows of `outcomes`.
            outcomes: The statistics of the rows.
            resolution: `batch_shape x 1 x 1`, the least sample variance that the data resolve,
                which stands for one of 0.
        """
        counts = outcomes.counts.clamp_min(1)
        squares = (counts - 1) * torch.maximum(outcomes.variances.nan_to_num(nan=0.0), resolution)
        mean, covariance = prior_of(mean_model)
        return cls(
            counts=counts.squeeze(-1),
            squares=squares.squeeze(-1),
            observed=(outcomes.counts > 0).squeeze(-1),
            residual=mean_model.train_targets - mean,
            covariance=covariance,
            unit=transform_variance(mean_model, torch.ones_like(resolution)).squeeze(-1),
        )

    def observations(self, h: Tensor) -> tuple[Tensor, Tensor]:
        r"""Gaussian observations of the log noise variances that stand for the likelihood.

        Args:
            h: `batch_shape x n` log noise variances.

        Returns:
            Observations and their variances, `batch_shape x n` each.
        """
        noise = (self.unit * h.exp() / self.counts).where(
            self.observed, worthless(self.covariance.diagonal(dim1=-2, dim2=-1))
        )
        precision = torch.linalg.inv(self.covariance + torch.diag_embed(noise))
        free = noise * precision.diagonal(dim1=-2, dim2=-1)  # 1 - leverage
        weights = (precision @ self.residual.unsqueeze(-1)).squeeze(-1)
        within = self.squares * (-h).exp() - (self.counts - 1)
        slope = (within + noise * weights.square() - free) / 2
        weight = (self.counts - 1 + free.square()) / 2
        informs = self.observed & (weight > 0)
        weight = weight.where(informs, torch.ones_like(weight))
        targets = h + (slope / weight).where(informs, torch.zeros_like(slope))
        return targets, (1 / weight).where(informs, worthless(h))


@torch.no_grad()
def observations_at_mode(
    evidence: ReadingEvidence, mean: Tensor, covariance: Tensor
) -> tuple[Tensor, Tensor]:
    r"""The observations at the mode of the log noise variances, by Fisher scoring.

    It starts at the prior mean, so that the result is a function of the data and of the
    hyperparameters of both processes.

    Args:
        evidence: The likelihood.
        mean: `batch_shape x n` prior mean of the log noise variances.
        covariance: `batch_shape x n x n`, their prior covariance.

    Returns:
        Observations and their variances, `batch_shape x n` each.
    """
    h, tolerance = mean, torch.finfo(mean.dtype).eps ** 0.5
    for _ in range(_NUM_ITERATIONS):
        targets, noise = evidence.observations(h)
        gain = torch.linalg.solve(
            covariance + torch.diag_embed(noise), (targets - mean).unsqueeze(-1)
        )
        step = (mean + (covariance @ gain).squeeze(-1) - h).clamp(-MAX_STEP, MAX_STEP)
        h = h + step
        if bool((step.abs() < tolerance).all()):
            break
    return evidence.observations(h)


@torch.no_grad()
def prior_of(model: Any) -> tuple[Tensor, Tensor]:
    r"""Prior mean and covariance of a process at its training inputs, in its own units."""
    model.train()  # training inputs as they were given
    X = model.transform_inputs(model.train_inputs[0])
    return model.mean_module(X), model.covar_module(X).to_dense()
