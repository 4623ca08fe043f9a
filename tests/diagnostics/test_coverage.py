from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import binom

from botorch_risk.diagnostics import coverage
from tests.diagnostics.test_verdict import check_of


def test_shares_of_rows_by_hand() -> None:
    nan = torch.nan
    residuals = torch.tensor([0.1, -0.5, 1.0, -3.0, nan])  # 50 % is 0.674, 80 % is 1.282
    variances = torch.tensor([nan, 1.0, 2.0, nan, nan])
    found = coverage(check_of(residuals, variances), levels=[0.5, 0.8])
    np.testing.assert_array_equal(found.levels, [0.5, 0.8])
    np.testing.assert_array_equal(found.outcomes, [0.5, 0.75])
    assert found.sample_variances is not None
    np.testing.assert_array_equal(found.sample_variances, [0.0, 0.5])
    np.testing.assert_array_equal(found.lower, [binom.ppf(0.025, 4, p) / 4 for p in (0.5, 0.8)])
    np.testing.assert_array_equal(found.upper, [binom.ppf(0.975, 4, p) / 4 for p in (0.5, 0.8)])


def test_without_sample_variances() -> None:
    found = coverage(check_of(torch.tensor([0.1, -0.5])))
    assert found.sample_variances is None
    assert (found.levels[0], found.levels[-1], len(found.levels)) == (0.02, 0.98, 49)


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_levels_are_probabilities(level: float) -> None:
    with pytest.raises(ValueError, match=rf"`levels` within \(0, 1\). Got \[{level}\]"):
        coverage(check_of(torch.tensor([0.1])), levels=[level])
