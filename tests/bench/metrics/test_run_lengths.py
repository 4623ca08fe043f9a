from __future__ import annotations

import math

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch_risk_bench.metrics import run_lengths, share_of_targets


def first_by_hand(regret: list[float], target: float) -> float:
    for index, value in enumerate(regret):
        if value <= target:
            return index
    return math.inf


@pytest.mark.parametrize("dtype", [torch.float, torch.double])
def test_both_are_what_counting_finds(dtype: torch.dtype) -> None:
    regret = torch.rand(3, 4, 9, dtype=dtype, generator=torch.manual_seed(0))
    regret[0, 1, 2:5] = torch.nan
    targets = torch.tensor([0.9, 0.5, 0.2, 0.01], dtype=dtype)
    found, share = run_lengths(regret, targets), share_of_targets(regret, targets)
    assert found.shape == (3, 4, 4) and share.shape == (3, 4, 9)
    assert found.dtype == share.dtype == dtype
    for one, lengths, by_round in zip(
        regret.flatten(0, 1).tolist(),
        found.flatten(0, 1).tolist(),
        share.flatten(0, 1).tolist(),
        strict=True,
    ):
        assert lengths == [first_by_hand(one, target) for target in targets.tolist()]
        counted = [sum(length <= t for length in lengths) / 4 for t in range(9)]
        assert by_round == pytest.approx(counted)


def test_a_target_that_is_met_exactly_is_reached() -> None:
    assert run_lengths(torch.tensor([2.0, 1.0]), torch.tensor([1.0])).tolist() == [1.0]


@pytest.mark.parametrize("shapes", [((), (2,)), ((3, 0), (2,)), ((3, 4), ()), ((3, 4), (2, 2))])
def test_shapes_are_checked(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    regret, targets = map(torch.zeros, shapes)
    for function in (run_lengths, share_of_targets):
        with pytest.raises(BotorchTensorDimensionError, match="regret: batch_shape x T"):
            function(regret, targets)
    with pytest.raises(BotorchTensorDimensionError, match="Expected a target"):
        share_of_targets(torch.zeros(2, 3), torch.zeros(0))
