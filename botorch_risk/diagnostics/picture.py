r"""Leave-one-out predictions in one figure, with a sentence of verdict."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray
from scipy.stats import chi2, norm

from botorch_risk.diagnostics.leave_one_out import LeaveOneOut, coverage, verdict
from botorch_risk.extras import require_extra
from botorch_risk.plot_style import COLORS, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BAND = norm.ppf(0.975)
_POINT, _SECOND, _LINE = COLORS[0], COLORS[1], "0.35"


def plot_leave_one_out(check: LeaveOneOut) -> Figure:
    r"""Draw each row next to its prediction by the model without it; a batch is drawn as a whole.

    Four panels: outcomes against their predictions with 95 % bands; standardised residuals against
    the predicted noise; standard deviations of the repeats against the predicted ones, with the
    range in which 95 % of them lie; the share of rows within central bands of all levels. The last
    two show the noise only if rows have repeats. The title is the verdict.

    Example:
        >>> from botorch_risk.diagnostics import leave_one_out
        >>> from botorch_risk.examples import model
        >>> figure = plot_leave_one_out(leave_one_out(model))
        >>> [axes.get_title() for axes in figure.axes]
        ['outcomes', 'residuals against the noise', 'spread of the repeats', 'coverage']
    """
    with require_extra("matplotlib").rc_context(STYLE):
        figure: Figure = require_extra("matplotlib.figure").Figure(
            figsize=(9.0, 7.6), layout="constrained"
        )
        (outcomes, residuals), (noise, coverage) = figure.subplots(2, 2)
        _draw_outcomes(outcomes, check)
        _draw_residuals(residuals, check)
        _draw_noise(noise, check)
        _draw_coverage(coverage, check)
        figure.suptitle("\n".join(textwrap.wrap(verdict(check).sentence, 95)), fontsize=11)
    return figure


def _draw_outcomes(axes: Axes, check: LeaveOneOut) -> None:
    mean, observed, width = _flat(check, "mean", "observed", "standard_deviation")
    axes.errorbar(mean, observed, yerr=_BAND * width, fmt="o", color=_POINT, ms=4, lw=0.8)
    ends = [min(mean.min(), observed.min()), max(mean.max(), observed.max())]
    axes.plot(ends, ends, color=_LINE, lw=1)
    axes.set(xlabel="predicted from the other rows", ylabel="observed, with the 95 % band")
    axes.set_title("outcomes")


def _draw_residuals(axes: Axes, check: LeaveOneOut) -> None:
    noise, residuals = _flat(check, "noise", "residuals")
    axes.plot(np.sqrt(noise), residuals, "o", color=_POINT, ms=4)
    for height in (-_BAND, 0.0, _BAND):
        axes.axhline(height, color=_LINE, lw=1, ls="--" if height else "-")
    if noise.min() > 0 and noise.max() > 4 * noise.min():
        axes.set_xscale("log")
        _label_decades(axes.xaxis)
    axes.set(xlabel="predicted standard deviation of the noise", ylabel="standardised residual")
    axes.set_title("residuals against the noise")


def _draw_noise(axes: Axes, check: LeaveOneOut) -> None:
    axes.set_title("spread of the repeats")
    noise, variances, counts = _flat(check, "noise", "sample_variances", "counts")
    if not len(noise):
        axes.text(0.5, 0.5, "no rows with repeats", ha="center", transform=axes.transAxes)
        axes.set_axis_off()
        return
    predicted = np.sqrt(noise)
    low, high = (np.sqrt(noise * chi2.ppf(p, counts - 1) / (counts - 1)) for p in (0.025, 0.975))
    axes.vlines(predicted, low, high, color="0.75", lw=2, label="95 % range at the prediction")
    axes.plot(predicted, np.sqrt(variances), "o", color=_POINT, ms=4, label="observed")
    ends = [predicted.min(), predicted.max()]
    axes.plot(ends, ends, color=_LINE, lw=1)
    axes.set(xlabel="predicted standard deviation", ylabel="standard deviation of the repeats")
    axes.set(xscale="log", yscale="log")
    _label_decades(axes.xaxis)
    _label_decades(axes.yaxis)
    axes.legend(loc="upper left", fontsize=9)


def _draw_coverage(axes: Axes, check: LeaveOneOut) -> None:
    shares = coverage(check)
    axes.plot(shares.levels, shares.outcomes, color=_POINT, label="outcomes")
    if shares.sample_variances is not None:
        axes.plot(shares.levels, shares.sample_variances, color=_SECOND, label="sample variances")
    band = (shares.lower, shares.upper)
    axes.fill_between(shares.levels, *band, color="0.9", label="95 % of right models")
    axes.plot([0, 1], [0, 1], color=_LINE, lw=1)
    axes.set(xlabel="level of a central band", ylabel="share of rows within it")
    axes.set_title("coverage")
    axes.legend(loc="upper left", fontsize=9)


def _label_decades(axis: Any) -> None:
    ticker = require_extra("matplotlib.ticker")
    axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(ticker.NullFormatter())


def _flat(check: LeaveOneOut, *names: str) -> list[ndarray]:
    r"""The named quantities of the rows that have all of them, flattened."""
    parts = [getattr(check, name).flatten().cpu().numpy() for name in names]
    known = np.isfinite(parts).all(axis=0)
    return [part[known] for part in parts]
