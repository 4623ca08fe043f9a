r"""Whether a model can be trusted, in a sentence."""

from typing import NamedTuple

import numpy as np
from numpy import ndarray
from scipy.stats import chi2, norm, spearmanr

from botorch_risk.diagnostics.leave_one_out import LeaveOneOut

FEWEST = 8  # rows without which nothing can be said
SURPRISE = 0.01  # probability under a right model at which it is called wrong


class Verdict(NamedTuple):
    r"""A judgement of the residuals of a model.

    Args:
        trusted: Whether nothing speaks against the model, and there are enough rows to tell.
        sentence: The finding, with its numbers and what may help.
    """

    trusted: bool
    sentence: str


def verdict(check: LeaveOneOut) -> Verdict:
    r"""Judge the standardised residuals of a model; a batch is judged as a whole.

    Each test is at 1 %: the sum of the squared residuals against chi-square, of the outcomes and of
    the sample variances, and the rank correlation of the size of the residuals with the predicted
    noise. Residuals of neighbours are correlated and hyperparameters are fitted to the same rows,
    so that these are rules of thumb.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> from botorch_risk.diagnostics import leave_one_out
        >>> X = torch.linspace(0, 1, 12, dtype=torch.double).unsqueeze(-1)
        >>> model = SingleTaskGP(X, (6 * X).sin(), torch.full_like(X, 1e-6))
        >>> model.covar_module.lengthscale = 5.0  # far too long
        >>> verdict(leave_one_out(model)).trusted
        False
    """
    residuals, noise = (part.flatten().cpu().numpy() for part in (check.residuals, check.noise))
    known = np.isfinite(residuals)
    residuals, noise = residuals[known], noise[known]
    if len(residuals) < FEWEST:
        return Verdict(False, f"{len(residuals)} rows are too few to tell; take {FEWEST} or more.")
    findings = [_of_outcomes(residuals)]
    variances = check.noise_residuals.flatten().cpu().numpy()
    variances = variances[np.isfinite(variances)]
    if len(variances) >= FEWEST:
        findings += [_of_noise(variances), _of_trend(residuals, noise)]
    trusted = all(one.trusted for one in findings)
    return Verdict(trusted, " ".join(one.sentence for one in findings if one.sentence))


def _of_outcomes(residuals: ndarray) -> Verdict:
    inside = int((np.abs(residuals) <= norm.ppf(0.975)).sum())
    found = f"{inside} of {len(residuals)} outcomes lie in their 95 % bands"
    kind = _surprise(residuals)
    if kind == "narrow":
        worst = np.abs(residuals).argmax()
        if _surprise(np.delete(residuals, worst)) != "narrow":
            size = abs(residuals[worst])
            return Verdict(
                False,
                f"{found}, but one misses by {size:.1f} standard deviations: look at that reading.",
            )
        return Verdict(
            False,
            f"{found}, which are too narrow: try another kernel, more rows or more repeats.",
        )
    if kind == "wide":
        return Verdict(
            False, f"{found}, which are wider than they need be: the noise may be too large."
        )
    return Verdict(True, f"{found}: f can be trusted.")


def _of_noise(residuals: ndarray) -> Verdict:
    kind = _surprise(residuals)
    if kind == "narrow":
        return Verdict(
            False, "Sample variances vary more than the noise model allows: more repeats, or rows."
        )
    if kind == "wide":
        return Verdict(True, "Sample variances vary less than the noise model allows.")
    return Verdict(True, "The noise agrees with the sample variances.")


def _of_trend(residuals: ndarray, noise: ndarray) -> Verdict:
    if np.ptp(noise) == 0:
        return Verdict(True, "")
    trend = spearmanr(np.abs(residuals), noise)
    if trend.pvalue >= SURPRISE:
        return Verdict(True, "")
    if trend.statistic > 0:
        return Verdict(False, "Residuals grow with the predicted noise: it varies too little.")
    return Verdict(False, "Residuals shrink with the predicted noise: it varies too much.")


def _surprise(residuals: ndarray) -> str:
    r"""Whether residuals are too large ("narrow" bands), too small ("wide"), or fine ("")."""
    total, count = float(np.square(residuals).sum()), len(residuals)
    if chi2.sf(total, count) < SURPRISE:
        return "narrow"
    return "wide" if chi2.cdf(total, count) < SURPRISE else ""
