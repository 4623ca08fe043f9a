r"""Sizes of blocks by device and by the length of a row, and pointwise functions in chunks."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from botorch_risk.chunks import ChunkSize, evaluate_in_chunks

# From X that broadcasts with R = 3 replicates, or has their batch shape, to one value each.
SCALES = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64).reshape(3, 1)
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "of each replicate": lambda X: SCALES * (SCALES.unsqueeze(-1) * X).sin().sum(dim=-1),
    "of all alike": lambda X: X.square().sum(dim=-1),
}


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("batch", [(), (1,), (3,)], ids=str)
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=list(FUNCTIONS))
def test_gradient_in_chunks_is_the_gradient(
    function: Callable[[Tensor], Tensor], batch: tuple[int, ...], chunk: int
) -> None:
    r"""Also where replicates share the points: each value has a weight of its own."""
    X = torch.rand(*batch, 7, 2, dtype=torch.float64)
    sides = []
    for size in (7, chunk):
        trial = X.clone().requires_grad_()
        values = evaluate_in_chunks(function, trial, size)
        weights = torch.linspace(-1, 2, values.numel()).double().reshape(values.shape)
        (gradient,) = torch.autograd.grad((weights * values).sum(), trial)
        sides.append((values.detach(), gradient))
    torch.testing.assert_close(sides[1], sides[0])


@pytest.mark.parametrize("batch", [(), (3,)], ids=str)
def test_a_gradient_takes_one_call_a_chunk(batch: tuple[int, ...]) -> None:
    r"""And one more where it is found out that replicates share the points."""
    calls = []

    def function(X: Tensor) -> Tensor:
        calls.append(X.shape[-2])
        return FUNCTIONS["of each replicate"](X)

    X = torch.rand(*batch, 7, 2, dtype=torch.float64, requires_grad=True)
    evaluate_in_chunks(function, X, 3)
    assert calls == ([3, 3, 1] if batch else [3, 3, 3, 1])


def test_values_in_chunks_need_no_graph() -> None:
    X = torch.rand(7, 2)
    seen = []

    def function(X: Tensor) -> Tensor:
        seen.append((X.shape[-2], X.requires_grad))
        return X.sum(dim=-1)

    assert torch.equal(evaluate_in_chunks(function, X, 3), X.sum(dim=-1))
    assert seen == [(3, False), (3, False), (1, False)]


SIZE = ChunkSize(cpu=100, gpu=1000)


@pytest.mark.parametrize(("kind", "entries"), [("cpu", 100), ("cuda", 1000), ("mps", 1000)])
def test_a_block_has_the_entries_of_its_device(kind: str, entries: int) -> None:
    assert SIZE.entries(torch.device(kind)) == entries


@pytest.mark.parametrize(("row", "rows"), [(0, 100), (1, 100), (7, 14), (100, 1), (101, 1)])
def test_a_block_has_whole_rows_and_at_least_one(row: int, rows: int) -> None:
    assert SIZE.rows(torch.device("cpu"), row) == rows
