from __future__ import annotations

import torch
from torch import Tensor

from botorch_risk.experiments.remembered import RememberedFunction


def test_every_point_is_evaluated_once_and_has_its_value() -> None:
    asked: list[Tensor] = []

    def function(X: Tensor) -> Tensor:
        asked.append(X)
        return X.square().sum(dim=-1)

    remembered = RememberedFunction(function)
    X = torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [0.0, 1.0]]], dtype=torch.double)
    for points in (X, X[:, :1], X + 1):
        torch.testing.assert_close(remembered(points), points.square().sum(dim=-1))
    assert [len(points) for points in asked] == [3, 2]  # X + 1 has (2, 3) twice, and (1, 2)
