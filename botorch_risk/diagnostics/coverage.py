r"""The share of left-out rows within the bands of a model, at every level."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy import ndarray
from scipy.stats import binom, norm
from torch import Tensor

from botorch_risk.diagnostics.leave_one_out import LeaveOneOut

LEVELS = np.linspace(0.02, 0.98, 49)


class Coverage(NamedTuple):
    r"""Shares of rows within central bands; of a right model they are near the levels.

    Args:
        levels: Probabilities of the bands, `L`.
        outcomes: The share of outcomes within each, `L`.
        sample_variances: The share of sample variances, `L`; `None` without repeats.
        lower: Below which a right model is with probability 2.5 %, `L`. It assumes independent
            rows, and counts the outcomes or the sample variances, whichever are more.
        upper: Above which it is with probability 2.5 %, likewise.
    """

    levels: ndarray
    outcomes: ndarray
    sample_variances: ndarray | None
    lower: ndarray
    upper: ndarray


def coverage(check: LeaveOneOut, levels: Sequence[float] | None = None) -> Coverage:
    r"""How often the bands of a model hold rows that were left out; a batch counts as a whole.

    Args:
        check: From `leave_one_out`.
        levels: Probabilities of central bands, within (0, 1); by default 2, 4, ..., 98 %.

    Raises:
        ValueError: If a level is out of its range.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> from botorch_risk.diagnostics import leave_one_out
        >>> X = torch.linspace(0, 1, 12, dtype=torch.double).unsqueeze(-1)
        >>> shares = coverage(leave_one_out(SingleTaskGP(X, (6 * X).sin())), levels=[0.5, 0.9])
        >>> shares.outcomes.shape, shares.sample_variances is None
        ((2,), True)
    """
    wanted = LEVELS if levels is None else np.asarray(levels, dtype=float)
    if not ((wanted > 0) & (wanted < 1)).all():
        raise ValueError(f"Expected `levels` within (0, 1). Got {wanted.tolist()}.")
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
