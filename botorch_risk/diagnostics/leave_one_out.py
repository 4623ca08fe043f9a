r"""Predict each evaluated point from all the others."""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from botorch.cross_validation import efficient_loo_cv
from botorch.exceptions.errors import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.utils.assorted import fantasize
from torch import Tensor

from botorch_risk.models.heteroscedastic import MeanVarianceGP
from botorch_risk.models.learnt_noise import LearntNoise


@dataclass(frozen=True)
class LeaveOneOut:
    r"""Predictions of each row by the model without that row; NaN if it has no outcome.

    Attributes:
        observed: `batch_shape x n` outcomes, the means of the repeats if there are any.
        counts: `batch_shape x n` numbers of repeats.
        mean: `batch_shape x n` predicted means.
        standard_deviation: `batch_shape x n`, of the prediction of `observed`: the uncertainty of
            f and the noise of a mean of as many repeats.
        noise: `batch_shape x n` predicted noise variances of one repeat.
        sample_variances: `batch_shape x n` of the repeats; NaN if they are not used.
        noise_residuals: `batch_shape x n`, of the sample variances, standardised on the scale on
            which the noise is modelled; NaN likewise.
    """

    observed: Tensor
    counts: Tensor
    mean: Tensor
    standard_deviation: Tensor
    noise: Tensor
    sample_variances: Tensor
    noise_residuals: Tensor

    @property
    def residuals(self) -> Tensor:
        r"""Standardised residuals, `batch_shape x n`: standard normal if the model is right."""
        return (self.observed - self.mean) / self.standard_deviation


def leave_one_out(model: MeanVarianceGP | SingleTaskGP) -> LeaveOneOut:
    r"""Predict each evaluated point from the others, in closed form and without fitting again.

    The hyperparameters were fitted to all rows, so that a model that was fitted to few rows looks
    a little better than it is. In a `MeanVarianceGP` the row is left out of both processes. The
    outcome is then predicted with the expected noise, not with the upper bound of Eq. (16), and
    the noise of the other rows is as it was.

    Source: [Rasmussen2006gp]_, Eq. (5.12).

    Raises:
        UnsupportedError: If BoTorch's `efficient_loo_cv` does not support the model, or its outcome
            transform is not linear.

    Example:
        >>> from botorch_risk.fit import fit_exact_gp
        >>> X = torch.rand(12, 1, dtype=torch.double)
        >>> model = SingleTaskGP(X, (6 * X).sin())
        >>> fitted = fit_exact_gp(model)
        >>> leave_one_out(model).residuals.shape
        torch.Size([12])
    """
    with torch.no_grad():
        return _of_repeats(model) if isinstance(model, MeanVarianceGP) else _of_readings(model)


def _of_readings(model: Any) -> LeaveOneOut:
    r"""One reading per row, and the noise that the model has for it."""
    rows = _without_each_row(model)
    missing = torch.full_like(rows.observed, torch.nan)
    return LeaveOneOut(
        observed=rows.observed,
        counts=torch.ones_like(rows.observed),
        mean=rows.mean,
        standard_deviation=(rows.variance + rows.noise).sqrt(),
        noise=rows.noise,
        sample_variances=missing,
        noise_residuals=missing,
    )


def _of_repeats(model: MeanVarianceGP) -> LeaveOneOut:
    r"""The mean of the repeats of each row, and their sample variance."""
    f = _without_each_row(model.mean_model)
    counts = model.train_counts.squeeze(-1)
    nan = f.mean.new_tensor(torch.nan)
    with fantasize():  # at the rows, where an input transform would make several inputs of each
        noise = model.predicted_noise(model.train_X).squeeze(-1)
    variances, residuals = (torch.full_like(f.mean, torch.nan) for _ in range(2))
    if isinstance(model.noise, LearntNoise) and not model.knows_variances:
        repeated = counts > 1
        of_readings = model.noise.evidence == "readings"
        known = counts > 0 if of_readings else repeated
        rows = known.reshape(-1, counts.shape[-1]).any(dim=0)
        of_rows = model.train_variances[..., rows, 0]
        seen = repeated[..., rows] & (of_rows > 0)
        linked = _without_each_row(model.noise.model)
        expected = model.noise.link.mean(linked.mean, linked.variance)
        expected = model.noise.limits.apply(expected).clamp_min(torch.finfo(noise.dtype).tiny)
        noise[..., rows] = expected.where(known[..., rows], noise[..., rows])
        variances[..., rows] = of_rows.where(seen, nan)
        observed, own = linked.observed, linked.noise
        if of_readings:  # the process has other observations than the sample variances
            given, k = of_rows.where(seen, torch.ones_like(of_rows)), counts[..., rows].clamp_min(2)
            link = model.noise.link
            observed, own = link.observations(given, k), link.observation_noise(given, k)
        spread = (linked.variance + own).sqrt()
        residuals[..., rows] = ((observed - linked.mean) / spread).where(seen, nan)
    return LeaveOneOut(
        observed=f.observed.where(counts > 0, nan),
        counts=counts,
        mean=f.mean,
        standard_deviation=(f.variance + noise / counts.clamp_min(1)).sqrt(),
        noise=noise,
        sample_variances=variances,
        noise_residuals=residuals,
    )


@dataclass(frozen=True)
class _Rows:
    r"""Each row of a process and its prediction from the others, `batch_shape x n`."""

    observed: Tensor
    mean: Tensor
    variance: Tensor  # of the process itself
    noise: Tensor  # variance of the observation


def _without_each_row(model: Any) -> _Rows:
    # A copy in training mode has its inputs as they were given, and its caches are its own.
    process = copy.deepcopy(model).train()
    found = efficient_loo_cv(process, untransform=False)
    posterior: Any = found.posterior
    moments = (found.observed_Y, posterior.mean, posterior.variance)
    observed, mean, variance = (each.squeeze(-1) for each in moments)  # batch_shape x n x 1
    noise = process.likelihood.noise.unsqueeze(-1).expand_as(variance)
    variance = (variance - noise).clamp_min(0.0)  # rounding
    transform = getattr(process, "outcome_transform", None)
    if transform is not None:
        if not transform._is_linear:
            raise UnsupportedError(
                f"Expected a linear outcome transform. Got {type(transform).__name__}."
            )
        # BoTorch's own way back does not broadcast over batches.
        transform.eval()
        observed, noise = transform.untransform(observed, noise)
        mean, variance = transform.untransform(mean, variance)
    return _Rows(*(part.squeeze(-1) for part in (observed, mean, variance, noise)))
