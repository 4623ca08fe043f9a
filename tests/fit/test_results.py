r"""The warning of failed fits."""

from __future__ import annotations

import warnings

import pytest
import torch
from botorch.exceptions.warnings import OptimizationWarning

from botorch_risk.fit import FitResult, FitStatus, warn_of_failed_fits


def result(*status: FitStatus) -> FitResult:
    reasons = tuple("not finite" if one is FitStatus.FAILED else "" for one in status)
    return FitResult(torch.zeros(len(status)), status, reasons, None, "closed form")


def test_the_warning_names_the_seeds_that_failed() -> None:
    fit = result(FitStatus.FAILED, FitStatus.CONVERGED, FitStatus.FAILED)
    assert fit.has_failed
    with pytest.warns(OptimizationWarning, match="seed 3: not finite; seed 5: not finite"):
        warn_of_failed_fits(fit, [3, 4, 5])


def test_no_warning_where_none_failed() -> None:
    fit = result(FitStatus.CONVERGED, FitStatus.STALLED, FitStatus.NOT_REPORTED)
    assert not fit.has_failed
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_failed_fits(fit, [3, 4, 5])
