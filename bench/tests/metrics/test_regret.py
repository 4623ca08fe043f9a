r"""Regret against plain loops."""

import math

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch_risk_bench.metrics import (
    cumulative_regret,
    instantaneous_regret,
    log_regret,
    share_held,
    share_of_targets,
    simple_regret,
)

NAN = float("nan")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("batch_shape", [(), (2,), (2, 3)])
def test_regrets_equal_a_loop(batch_shape, dtype):
    values = torch.rand(*batch_shape, 5, dtype=dtype)
    rows = values.reshape(-1, 5).tolist()
    expected = torch.tensor([[2.0 - v for v in row] for row in rows], dtype=dtype)
    sums = torch.tensor(
        [[sum(2.0 - v for v in row[: t + 1]) for t in range(5)] for row in rows], dtype=dtype
    )
    torch.testing.assert_close(instantaneous_regret(values, 2.0), expected.view(values.shape))
    torch.testing.assert_close(simple_regret(values, 2.0), expected.view(values.shape))
    torch.testing.assert_close(cumulative_regret(values, 2.0), sums.view(values.shape))


def test_each_replicate_may_have_its_own_optimum():
    values = torch.zeros(2, 3)
    regret = instantaneous_regret(values, torch.tensor([1.0, 2.0]))
    assert regret.tolist() == [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]


@pytest.mark.parametrize("regret", [instantaneous_regret, cumulative_regret, simple_regret])
def test_refuses_optima_that_are_not_one_per_replicate(regret):
    with pytest.raises(BotorchTensorDimensionError, match=r"batch shape .* Got optimum.shape"):
        regret(torch.zeros(2, 3), torch.zeros(3))


def test_regret_is_not_clipped():
    assert instantaneous_regret(torch.tensor([1.5]), 1.0).item() == -0.5


def test_a_round_not_played_stays_unknown():
    values = torch.tensor([[0.0, NAN, 0.0], [0.0, 0.0, 0.0]])
    instant = instantaneous_regret(values, 1.0)
    assert instant.isnan().tolist() == [[False, True, False], [False] * 3]
    total = cumulative_regret(values, 1.0)
    assert total.isnan().tolist() == [[False, True, True], [False] * 3]
    assert total[1].tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("dtype", [torch.float, torch.double])
def test_shares_of_targets_are_what_counting_finds(dtype: torch.dtype) -> None:
    regret = torch.rand(3, 4, 9, dtype=dtype, generator=torch.manual_seed(0))
    regret[0, 1, 2:5] = torch.nan
    targets = torch.tensor([0.9, 0.5, 0.2, 0.01], dtype=dtype)
    share = share_of_targets(regret, targets)
    assert share.shape == (3, 4, 9) and share.dtype == dtype
    rows = zip(regret.flatten(0, 1).tolist(), share.flatten(0, 1).tolist(), strict=True)
    for one, by_round in rows:
        for t, found in enumerate(by_round):
            reached = [any(value <= target for value in one[: t + 1]) for target in targets]
            assert found == pytest.approx(sum(reached) / 4)
    exactly = share_of_targets(torch.tensor([2.0, 1.0]), torch.tensor([1.0]))
    assert exactly.tolist() == [0.0, 1.0]


def test_a_target_is_held_from_where_it_is_never_exceeded_again() -> None:
    targets = torch.tensor([1.0, 0.5, 0.1])
    wandering = torch.tensor([2.0, 0.05, 0.7, 0.4, 0.05])
    monotone = torch.tensor([2.0, 0.7, 0.4, 0.05, 0.05])
    third = torch.tensor([0.0, 1, 2, 3, 3]) / 3
    torch.testing.assert_close(share_held(monotone, targets), third)
    torch.testing.assert_close(share_held(monotone, targets), share_of_targets(monotone, targets))
    held = torch.tensor([0.0, 1, 1, 2, 3]) / 3
    torch.testing.assert_close(share_held(wandering, targets), held)
    assert share_of_targets(wandering, targets).tolist() == [0.0, 1.0, 1.0, 1.0, 1.0]
    gone = torch.tensor([0.05, 0.05, NAN])  # not played: above every target
    assert share_held(gone, targets).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("dtype", [torch.float, torch.double])
def test_shares_held_are_what_counting_finds(dtype: torch.dtype) -> None:
    regret = torch.rand(3, 4, 9, dtype=dtype, generator=torch.manual_seed(0))
    regret[0, 1, 2:5] = torch.nan
    targets = torch.tensor([0.9, 0.7, 0.5, 0.2], dtype=dtype)
    share = share_held(regret, targets)
    assert share.shape == (3, 4, 9) and share.dtype == dtype
    assert (share <= share_of_targets(regret, targets)).all()
    rows = zip(regret.flatten(0, 1).tolist(), share.flatten(0, 1).tolist(), strict=True)
    for one, by_round in rows:
        for t, found in enumerate(by_round):
            held = [all(value <= target for value in one[t:]) for target in targets]
            assert found == pytest.approx(sum(held) / 4)


def test_log_regret_counts_decades_down_to_a_limit() -> None:
    regret = torch.tensor([[2.0, 0.2, 0.0, -1.0], [20.0, NAN, 0.02, 2e-9]])
    found = log_regret(regret, 2.0)
    expected = torch.tensor([[0.0, -1.0, -3.0, -3.0], [1.0, NAN, -2.0, -3.0]])
    torch.testing.assert_close(found, expected, equal_nan=True)
    by_row = log_regret(regret, torch.tensor([2.0, 20.0]), smallest=0.1)
    torch.testing.assert_close(by_row[1, 0], torch.tensor(0.0))
    assert by_row[0].tolist() == [0.0, -1.0, -1.0, -1.0]


def test_scales_of_log_regret_are_checked() -> None:
    with pytest.raises(BotorchTensorDimensionError, match=r"`scale` .* batch shape"):
        log_regret(torch.ones(2, 3), torch.ones(3))
    for scale in (0.0, -1.0, math.inf, NAN):
        with pytest.raises(ValueError, match="a positive, finite `scale`"):
            log_regret(torch.ones(2, 3), scale)
    with pytest.raises(ValueError, match="smallest"):
        log_regret(torch.ones(2, 3), 1.0, smallest=0.0)


@pytest.mark.parametrize("shapes", [((), (2,)), ((3, 0), (2,)), ((3, 4), ()), ((3, 4), (2, 2))])
def test_shapes_of_targets_are_checked(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    for share in (share_of_targets, share_held):
        with pytest.raises(BotorchTensorDimensionError, match=r"regret: batch_shape x T|a target"):
            share(*map(torch.zeros, shapes))
        with pytest.raises(BotorchTensorDimensionError, match="Expected a target"):
            share(torch.zeros(2, 3), torch.zeros(0))
