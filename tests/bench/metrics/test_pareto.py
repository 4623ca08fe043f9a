r"""Pareto sets from confidence boxes, against loops, draws within the boxes and BoTorch."""

from __future__ import annotations

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from botorch.utils.multi_objective.pareto import is_non_dominated
from botorch_risk_bench.metrics import ParetoSets, pareto_sets
from torch import Tensor

from botorch_risk.chunks import ChunkSize
from tests.contracts import BATCH_SHAPES, DTYPES

Rows = list[list[float]]
seeds = pytest.mark.parametrize("seed", range(12))


def boxes(*shape: int, seed: int, whole: bool = False) -> tuple[Tensor, Tensor]:
    r"""Lower and upper bounds; whole numbers tie often, and some have no width."""
    generator = torch.Generator().manual_seed(seed)
    if whole:
        lower = torch.randint(0, 5, shape, generator=generator).double()
        return lower, lower + torch.randint(0, 3, shape, generator=generator)
    lower = torch.rand(shape, generator=generator, dtype=torch.float64)
    return lower, lower + 0.3 * torch.rand(shape, generator=generator, dtype=torch.float64)


def dominates(a: list[float], b: list[float]) -> bool:
    return all(x >= y for x, y in zip(a, b, strict=True)) and a != b


def by_loops(lower: Rows, upper: Rows) -> list[tuple[bool, bool]]:
    r"""For each point, whether it is surely optimal and surely dominated."""
    found = []
    for i in range(len(lower)):
        others = [j for j in range(len(lower)) if j != i]
        surely_dominated = any(dominates(lower[j], upper[i]) for j in others)
        perhaps_dominated = any(dominates(upper[j], lower[i]) for j in others)
        found.append((not perhaps_dominated, surely_dominated))
    return found


def pairs_of(sets: ParetoSets) -> list[tuple[bool, bool]]:
    return list(zip(sets.optimal.tolist(), sets.dominated.tolist(), strict=True))


@seeds
@pytest.mark.parametrize("whole", [False, True], ids=["real", "ties"])
@pytest.mark.parametrize("m", [1, 2, 3])
def test_equals_loops(m: int, whole: bool, seed: int) -> None:
    lower, upper = boxes(9, m, seed=seed, whole=whole)
    sets = pareto_sets(lower, upper)
    assert pairs_of(sets) == by_loops(lower.tolist(), upper.tolist())
    assert (torch.stack(sets).sum(dim=0) == 1).all()  # each point is in one of the sets


@seeds
def test_outcomes_within_the_bounds_agree(seed: int) -> None:
    lower, upper = boxes(10, 2, seed=seed, whole=seed % 2 == 1)
    sets = pareto_sets(lower, upper)
    generator = torch.Generator().manual_seed(seed)
    shares = torch.rand(500, 10, 2, generator=generator, dtype=torch.float64)
    shares[::3] = shares[::3].round()  # corners
    optimal = is_non_dominated(lower + shares * (upper - lower), deduplicate=False)  # 500 x 10
    assert optimal[:, sets.optimal].all()
    assert not optimal[:, sets.dominated].any()


@seeds
def test_undecided_points_may_be_either(seed: int) -> None:
    r"""The bounds are not only valid but exact: outcomes of both kinds are among them."""
    lower, upper = boxes(10, 2, seed=seed, whole=seed % 2 == 1)
    for i in pareto_sets(lower, upper).undecided.nonzero().flatten().tolist():
        well, badly = lower.clone(), upper.clone()
        well[i], badly[i] = upper[i], lower[i]
        assert is_non_dominated(well, deduplicate=False)[i]
        assert not is_non_dominated(badly, deduplicate=False)[i]


@seeds
def test_narrower_bounds_never_take_a_decision_back(seed: int) -> None:
    lower, upper = boxes(10, 2, seed=seed)
    before = pareto_sets(lower, upper)
    after = pareto_sets(lower + 0.3 * (upper - lower), upper - 0.3 * (upper - lower))
    assert (after.optimal >= before.optimal).all()
    assert (after.dominated >= before.dominated).all()


def test_known_outcomes_leave_nothing_undecided() -> None:
    values, _ = boxes(3, 40, 2, seed=0, whole=True)
    sets = pareto_sets(values, values)
    assert not sets.undecided.any()
    assert torch.equal(sets.optimal, is_non_dominated(values, deduplicate=False))


@pytest.mark.parametrize("batch_shape", BATCH_SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_batches_equal_loops(
    device: torch.device, dtype: torch.dtype, batch_shape: tuple[int, ...]
) -> None:
    lower, upper = (each.to(device, dtype) for each in boxes(*batch_shape, 7, 2, seed=3))
    sets = pareto_sets(lower, upper)
    for each in sets:
        assert each.shape == (*batch_shape, 7)
        assert (each.dtype, each.device) == (torch.bool, device)
    alone = [
        pareto_sets(*pair)
        for pair in zip(lower.reshape(-1, 7, 2), upper.reshape(-1, 7, 2), strict=True)
    ]
    for name, each in sets._asdict().items():
        expected = torch.stack([getattr(one, name) for one in alone])
        assert torch.equal(each.reshape(-1, 7), expected)


def test_many_points_are_compared_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    lower, upper = boxes(2, 50, 2, seed=1)
    whole = pareto_sets(lower, upper)
    small = ChunkSize(cpu=7 * lower.numel())
    monkeypatch.setattr("botorch_risk_bench.metrics.pareto._COMPARISONS", small)
    for part, expected in zip(pareto_sets(lower, upper), whole, strict=True):
        assert torch.equal(part, expected)


def test_points_without_bounds() -> None:
    lower, upper = boxes(6, 2, seed=2)
    upper[1, 0] = torch.nan
    lower[4] = torch.nan
    sets = pareto_sets(lower, upper)
    kept = [0, 2, 3, 5]
    assert not torch.stack(sets)[:, [1, 4]].any()
    for part, expected in zip(sets, pareto_sets(lower[kept], upper[kept]), strict=True):
        assert torch.equal(part[kept], expected)
    far = torch.full((3, 2), torch.inf, dtype=torch.float64)
    assert pareto_sets(-far, far).undecided.all()
    assert pareto_sets(far[:1], far[:1]).optimal.all()
    assert pareto_sets(far[:0], far[:0]).optimal.shape == (0,)


def test_bad_bounds_are_refused() -> None:
    lower, upper = boxes(4, 2, seed=0)
    with pytest.raises(BotorchTensorDimensionError, match="of one shape"):
        pareto_sets(lower, upper[:3])
    with pytest.raises(BotorchTensorDimensionError, match="m >= 1"):
        pareto_sets(lower[:, :0], upper[:, :0])
    with pytest.raises(BotorchTensorDimensionError, match="batch_shape x n x m"):
        pareto_sets(lower[:, 0], upper[:, 0])
    upper[2, 1] = lower[2, 1] - 1
    with pytest.raises(InputDataError, match=r"`lower` <= `upper`.* at \[2, 1\]"):
        pareto_sets(lower, upper)
