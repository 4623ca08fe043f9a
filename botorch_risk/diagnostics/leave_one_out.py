r"""Predict each evaluated point from all the others."""

import copy
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from botorch.cross_validation import efficient_loo_cv
from botorch.exceptions.errors import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.utils.assorted import fantasize
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from numpy import ndarray
from scipy.stats import binom, chi2, norm, spearmanr
from torch import Tensor

from botorch_risk.diagnostics.box import SURE, BoxCheck, check_box
from botorch_risk.engine import FastMarginals
from botorch_risk.models.heteroscedastic import MeanVarianceGP
from botorch_risk.models.learnt_noise import LearntNoise
from botorch_risk.models.sampled_gp import SampledGP


@dataclass(frozen=True)
class LeaveOneOut:
    r"""Predictions of each row by the model without it; NaN for rows without an outcome.

    Attributes:
        observed: `batch_shape x n` outcomes, the means of the repeats if there are any.
        counts: `batch_shape x n` numbers of repeats.
        mean: `batch_shape x n` predicted means.
        standard_deviation: `batch_shape x n`, of the prediction of `observed`; its square is the
            variance of f plus the noise variance of a mean of `counts` repeats.
        noise: `batch_shape x n` predicted noise variances of one repeat.
        sample_variances: `batch_shape x n` sample variances of the repeats; NaN if unused.
        noise_residuals: `batch_shape x n` residuals of the sample variances, standardised on the
            scale of the noise process; NaN if unused.
        noise_ratio: `batch_shape`, the ratio of the largest to the smallest noise variance at the
            rows; None if the noise is not learnt from readings.
        noise_factor: `batch_shape`, the factor by which they are uncertain: two posterior standard
            deviations of their logarithm, averaged over rows. None as for `noise_ratio`.
        num_dropped: Readings that the model left out as wrong.
        box: How far the intervals hold away from the rows; None without `bounds`.
    """

    observed: Tensor
    counts: Tensor
    mean: Tensor
    standard_deviation: Tensor
    noise: Tensor
    sample_variances: Tensor
    noise_residuals: Tensor
    noise_ratio: Tensor | None = None
    noise_factor: Tensor | None = None
    num_dropped: int = 0
    box: BoxCheck | None = None

    @property
    def residuals(self) -> Tensor:
        r"""Standardised residuals, `batch_shape x n`: standard normal if the model is right."""
        return (self.observed - self.mean) / self.standard_deviation


def leave_one_out(
    model: MeanVarianceGP | SingleTaskGP, bounds: Tensor | None = None
) -> LeaveOneOut:
    r"""Predict each evaluated point from the others, in closed form and without refitting.

    The hyperparameters were fitted to all rows, so a model of few rows looks slightly better than
    it is. In a `MeanVarianceGP` the row is left out of both processes. The outcome is then
    predicted with the expected noise, not the upper bound of Eq. (16), and the noise of the other
    rows is unchanged. A `SampledGP` predicts by the moments of its mixture.

    The rows are where a strategy chose to experiment: they show nothing of the rest of the box.
    With `bounds`, the intervals of f there are also compared with samples of the hyperparameters
    (`BoxCheck`), which takes .2 s for a replicate of 30 rows and .5 s for 120.

    Source: [Rasmussen2006gp]_, Eq. (5.12).

    Args:
        model: The model, fitted.
        bounds: `2 x d`, the box of continuous inputs in which you will use the model.

    Raises:
        UnsupportedError: If the model has several outcomes or was conditioned on further data, if
            BoTorch's `efficient_loo_cv` does not support it, or if its outcome transform is not
            linear.

    Example:
        >>> from botorch_risk.examples import model
        >>> leave_one_out(model).residuals.shape
        torch.Size([12])
    """
    exact: Any = model.model if isinstance(model, FastMarginals) else model
    is_conditioned = getattr(exact, "is_conditioned", False)
    known = isinstance(exact, MeanVarianceGP | SingleTaskGP) and exact.num_outputs == 1
    if not known or is_conditioned:
        raise UnsupportedError(
            "Expected a `MeanVarianceGP` or a `SingleTaskGP` with one outcome, not conditioned on "
            f"further data. Got {type(exact).__name__}{', conditioned' * is_conditioned}."
        )
    model = exact
    of_f: Any = model.mean_model if isinstance(model, MeanVarianceGP) else model
    with torch.no_grad():
        if isinstance(of_f, SampledGP):
            rows = _without_each_row(of_f.members).mixed()
        else:
            rows = _without_each_row(of_f)
        repeated = isinstance(model, MeanVarianceGP)
        check = _of_repeats(model, rows) if repeated else _of_readings(rows)
    if bounds is None:
        return check
    is_known = isinstance(of_f.likelihood, FixedNoiseGaussianLikelihood)
    box = check_box(model, bounds, rows.inputs, check.observed, rows.noise if is_known else None)
    return dataclasses.replace(check, box=box)


def _of_readings(rows: "_Rows") -> LeaveOneOut:
    r"""One reading per row, with the model's noise for it."""
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


def _of_repeats(model: MeanVarianceGP, f: "_Rows") -> LeaveOneOut:
    r"""The mean of the repeats of each row, and their sample variance."""
    counts = model.train_counts.squeeze(-1)
    nan = f.mean.new_tensor(torch.nan)
    with fantasize():  # at the rows, where an input transform would make several inputs of each
        noise = model.predicted_noise(model.train_X).squeeze(-1)
    variances, residuals = (torch.full_like(f.mean, torch.nan) for _ in range(2))
    ratio, factor = None, None
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
            ratio, factor = _extent_of_noise(model, counts > 0)
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
        noise_ratio=ratio,
        noise_factor=factor,
        num_dropped=len(model.dropped_readings),
    )


def _extent_of_noise(model: MeanVarianceGP, observed: Tensor) -> tuple[Tensor, Tensor]:
    r"""The range and the uncertainty of the noise variances over the rows, as factors."""
    assert isinstance(model.noise, LearntNoise)
    with fantasize():
        mean, variance = model.noise.marginals(model.train_X)
    highest = mean.where(observed, -torch.inf).amax(dim=-1)
    lowest = mean.where(observed, torch.inf).amin(dim=-1)
    deviation = variance.sqrt().where(observed, torch.nan).nanmean(dim=-1)
    return (highest - lowest).exp(), (2 * deviation).exp()


@dataclass(frozen=True)
class _Rows:
    r"""Each row of a process and its prediction from the others, `batch_shape x n`."""

    inputs: Tensor  # `batch_shape x n x d`, as they were given
    observed: Tensor
    mean: Tensor
    variance: Tensor  # of the process itself
    noise: Tensor  # variance of the observation

    def mixed(self) -> "_Rows":
        r"""The moments of the mixture of members along the first dimension, which share rows."""
        variance = self.variance.mean(dim=0) + self.mean.var(dim=0, correction=0)
        moments = self.mean.mean(dim=0), variance, self.noise.mean(dim=0)
        return _Rows(self.inputs[0], self.observed[0], *moments)


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
    (inputs,) = process.train_inputs
    return _Rows(inputs, *(part.squeeze(-1) for part in (observed, mean, variance, noise)))


# The noise is nearly constant for want of evidence if its variances differ by less than this factor
# between rows, and may be off by more than the second one.
NEARLY_CONSTANT, IN_DOUBT = 2.0, 2.5
FEWEST = 8  # rows without which nothing can be said
SURPRISE = 0.01  # probability under a right model at which it is called wrong


Kind = Literal["trusted", "distrusted", "not looked"]


class Verdict(NamedTuple):
    r"""A judgement of the intervals of a model.

    Args:
        kind: `"distrusted"` if a test rejects the model; `"not looked"` if its own rows cannot tell
            whether it is right: they are too few, or the intervals of the box rest on
            hyperparameters that the rows leave open; else `"trusted"`.
        sentence: The finding with its numbers and possible remedies.
    """

    kind: Kind
    sentence: str

    @property
    def trusted(self) -> bool:
        r"""Whether the verdict is `"trusted"`."""
        return self.kind == "trusted"


def verdict(check: LeaveOneOut) -> Verdict:
    r"""Judge a model by its standardised residuals and its box; a batch is judged as a whole.

    The tests, each at the 1 % level, are chi-square tests on the squared residuals of the outcomes
    and of the sample variances, and the rank correlation of absolute residuals with the predicted
    noise. Residuals of neighbours are correlated and hyperparameters are fitted to the same rows,
    so these are rules of thumb. They only tell about points like the rows. With
    `leave_one_out(model, bounds)` a model is trusted only if its 95 % intervals hold in 90 % of the
    box with a probability of 95 %. After a loop of 20 to 40 readings, nearly all fits pass the
    tests and one in ten is trusted; intervals hold so well in four of ten that pass, and in all
    that are trusted (`bench/studies/biased_lengthscales`). Notes do not change the verdict: they
    concern bands that are wider than necessary, readings left out as wrong, and noise that is
    nearly constant for lack of evidence.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> from botorch_risk.diagnostics import leave_one_out
        >>> X = torch.linspace(0, 1, 12, dtype=torch.double).unsqueeze(-1)
        >>> model = SingleTaskGP(X, (6 * X).sin(), torch.full_like(X, 1e-6))
        >>> model.covar_module.lengthscale = 5.0  # far too long
        >>> verdict(leave_one_out(model)).kind
        'distrusted'
    """
    residuals, noise = (part.flatten().cpu().numpy() for part in (check.residuals, check.noise))
    known = np.isfinite(residuals)
    residuals, noise = residuals[known], noise[known]
    notes = [_of_dropped(check.num_dropped), _of_evidence(check)]
    if len(residuals) < FEWEST:
        few = f"{len(residuals)} rows are too few to tell; take {FEWEST} or more."
        return Verdict("not looked", " ".join([few, *filter(None, notes)]))
    findings = [_of_outcomes(residuals)]
    variances = check.noise_residuals.flatten().cpu().numpy()
    variances = variances[np.isfinite(variances)]
    if len(variances) >= FEWEST:
        findings += [_of_noise(variances), _of_trend(residuals, noise)]
    if check.box is not None:
        findings.append(_of_box(check.box))
    kinds = [one.kind for one in findings]
    kind = max(kinds, key=_FROM_BEST.index)
    sentences = [one.sentence for one in findings] + notes
    return Verdict(kind, " ".join(filter(None, sentences)))


_FROM_BEST: tuple[Kind, ...] = ("trusted", "not looked", "distrusted")


def _of_box(box: BoxCheck) -> Verdict:
    probability, factor = float(box.probability.mean()), float(box.factor.median())
    held = f"In the box, 95 % bands hold 90 % of f with a probability of {probability:.2f}"
    if probability >= SURE:
        return Verdict("trusted", f"{held}.")
    point = box.least_sure.reshape(-1, box.least_sure.shape[-1])[0].tolist()
    near = ", ".join(f"{x:.3g}" for x in point)
    return Verdict(
        "not looked",
        f"{held} only: make them {factor:.1f} times as wide, or read more, first near ({near}).",
    )


def _of_dropped(count: int) -> str:
    if count == 0:
        return ""
    were = "reading was" if count == 1 else "readings were"
    return f"{count} {were} left out as wrong: see `dropped_readings` of the model."


def _of_evidence(check: LeaveOneOut) -> str:
    r"""A note on noise that is nearly constant for lack of evidence."""
    if check.noise_ratio is None or check.noise_factor is None:
        return ""
    ratio, factor = (float(part.median()) for part in (check.noise_ratio, check.noise_factor))
    if not (ratio < NEARLY_CONSTANT and factor > IN_DOUBT):
        return ""
    return (
        "The readings say little of the noise: it is taken to be nearly constant, and may be "
        f"{factor:.1f} times larger or smaller."
    )


def _of_outcomes(residuals: ndarray) -> Verdict:
    inside = int((np.abs(residuals) <= norm.ppf(0.975)).sum())
    found = f"{inside} of {len(residuals)} outcomes lie in their 95 % bands"
    kind = _surprise(residuals)
    if kind == "narrow":
        worst = np.abs(residuals).argmax()
        if _surprise(np.delete(residuals, worst)) != "narrow":
            size = abs(residuals[worst])
            return Verdict(
                "distrusted",
                f"{found}, but one misses by {size:.1f} standard deviations: look at that reading.",
            )
        return Verdict(
            "distrusted",
            f"{found}, which are too narrow: try another kernel, more rows or more repeats.",
        )
    if kind == "wide":
        return Verdict(
            "trusted", f"{found}, which are wider than they need be: the noise may be too large."
        )
    return Verdict("trusted", f"{found}: f can be trusted at points like these.")


def _of_noise(residuals: ndarray) -> Verdict:
    kind = _surprise(residuals)
    if kind == "narrow":
        return Verdict(
            "distrusted",
            "Sample variances vary more than the noise model allows: more repeats, or rows.",
        )
    if kind == "wide":
        return Verdict("trusted", "Sample variances vary less than the noise model allows.")
    return Verdict("trusted", "The noise agrees with the sample variances.")


def _of_trend(residuals: ndarray, noise: ndarray) -> Verdict:
    if np.ptp(noise) == 0:
        return Verdict("trusted", "")
    trend = spearmanr(np.abs(residuals), noise)
    if trend.pvalue >= SURPRISE:
        return Verdict("trusted", "")
    if trend.statistic > 0:
        return Verdict(
            "distrusted", "Residuals grow with the predicted noise: it varies too little."
        )
    return Verdict("distrusted", "Residuals shrink with the predicted noise: it varies too much.")


def _surprise(residuals: ndarray) -> str:
    r"""Whether residuals are too large ("narrow" bands), too small ("wide"), or fine ("")."""
    total, count = float(np.square(residuals).sum()), len(residuals)
    if chi2.sf(total, count) < SURPRISE:
        return "narrow"
    return "wide" if chi2.cdf(total, count) < SURPRISE else ""


LEVELS = np.linspace(0.02, 0.98, 49)


class Coverage(NamedTuple):
    r"""Shares of rows within central bands; for a right model they are close to the levels.

    Args:
        levels: Probabilities of the bands, `L`.
        outcomes: The share of outcomes within each band, `L`.
        sample_variances: The share of sample variances within theirs, `L`; `None` without repeats.
        lower: The limit below which a right model falls with probability 2.5 %, `L`. It assumes
            independent rows, and uses the outcomes or the sample variances, whichever are more
            numerous.
        upper: The limit above which it falls with probability 2.5 %, likewise.
    """

    levels: ndarray
    outcomes: ndarray
    sample_variances: ndarray | None
    lower: ndarray
    upper: ndarray


def coverage(check: LeaveOneOut, levels: Sequence[float] | None = None) -> Coverage:
    r"""The share of left-out rows within the bands of a model; a batch is treated as a whole.

    Args:
        check: From `leave_one_out`.
        levels: Probabilities of central bands, within (0, 1); by default 2, 4, ..., 98 %.

    Example:
        >>> from botorch_risk.diagnostics import leave_one_out
        >>> from botorch_risk.examples import model
        >>> shares = coverage(leave_one_out(model), levels=[0.5, 0.9])
        >>> shares.outcomes.shape, shares.sample_variances is None
        ((2,), True)
    """
    wanted = LEVELS if levels is None else np.asarray(levels, dtype=float)
    if not (fits := (wanted > 0) & (wanted < 1)).all():
        raise ValueError(f"Expected `levels` within (0, 1). Got {wanted[~fits][0]}.")
    outcomes, variances = _finite(check.residuals), _finite(check.noise_residuals)
    count = max(len(outcomes), len(variances))
    lower, upper = (binom.ppf(p, count, wanted) / count for p in (0.025, 0.975))
    return Coverage(
        levels=wanted,
        outcomes=_shares(outcomes, wanted),
        sample_variances=_shares(variances, wanted) if len(variances) else None,
        lower=lower,
        upper=upper,
    )


def _finite(residuals: Tensor) -> ndarray:
    values: ndarray = residuals.flatten().cpu().numpy()
    return values[np.isfinite(values)]


def _shares(residuals: ndarray, levels: ndarray) -> ndarray:
    r"""The share of standardised residuals within the band of each level, `L`."""
    within: ndarray = np.abs(residuals)[:, None] <= norm.ppf((1 + levels) / 2)
    return within.mean(axis=0)
