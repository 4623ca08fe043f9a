from __future__ import annotations

from botorch.acquisition import UpperConfidenceBound

from botorch_risk.acquisition.protocol import PointwiseAcquisition


def test_ordinary_acquisitions_are_not_pointwise() -> None:
    assert not issubclass(UpperConfidenceBound, PointwiseAcquisition)
