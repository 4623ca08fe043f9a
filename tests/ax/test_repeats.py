import math

import numpy as np
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


def test_a_single_number_is_checked_as_a_list_is() -> None:
    for number in (2, np.float32(2.0), np.int64(2), np.array(2.0), torch.tensor(2.0)):
        found = readings({"y": number})
        assert found == {"y": 2.0} and type(found["y"]) is float
    with pytest.raises(ValueError, match=r"Expected a reading of 'y'. Got nan"):
        readings({"y": math.nan})
    with pytest.raises(ValueError, match=r"Expected finite readings of 'y'. Got inf"):
        readings({"y": math.inf})
    with pytest.raises(TypeError, match=r"Expected `y` to be a tensor, or an array or a list of n"):
        readings({"y": "2"})
