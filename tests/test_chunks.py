r"""Pointwise functions in chunks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from botorch_risk.chunks import entries_at_once, evaluate_in_chunks

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


def test_values_in_chunks_need_no_graph() -> None:
    X = torch.rand(7, 2)
    seen = []

    def function(X: Tensor) -> Tensor:
        seen.append((X.shape[-2], X.requires_grad))
        return X.sum(dim=-1)

    assert torch.equal(evaluate_in_chunks(function, X, 3), X.sum(dim=-1))
    assert seen == [(3, False), (3, False), (1, False)]


def test_a_kind_of_device_that_is_not_listed_is_taken_for_a_cpu() -> None:
    limits = {"cpu": 3, "cuda": 7}
    expected = {"cpu": 3, "cuda": 7, "meta": 3}
    assert {kind: entries_at_once(limits, torch.device(kind)) for kind in expected} == expected
