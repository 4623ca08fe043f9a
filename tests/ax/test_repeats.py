import math

import pytest
import torch

from botorch_risk.ax import readings


def test_the_sample_variance_is_the_count_times_the_squared_error() -> None:
    values = torch.randn(7, dtype=torch.double)
    found = readings({"y": values.tolist(), "z": 2.0})
    mean, error = found["y"]
    assert mean == pytest.approx(values.mean().item(), abs=1e-12)
    assert found["y_count"] * error**2 == pytest.approx(values.var().item(), abs=1e-12)
    assert found["z"] == 2.0 and list(found) == ["y", "y_count", "z"]


def test_a_reading_that_failed_does_not_count() -> None:
    assert readings({"y": [1.0, math.nan, 3.0]}) == readings({"y": [1.0, 3.0]})
    assert readings({"y": [math.nan, 3.0]}) == {"y": 3.0, "y_count": 1}
    with pytest.raises(ValueError, match=r"Expected a reading of 'y'. Got \[nan, nan\]"):
        readings({"y": [math.nan, math.nan]})
