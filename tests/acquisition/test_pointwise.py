r"""Pointwise functions in chunks, and on any batch of points."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.models import SingleTaskGP
from torch import Tensor

from botorch_risk.acquisition.pointwise import (
    PointwiseAcquisitionFunction,
    evaluate_in_chunks,
    map_replicates,
)

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


def test_replicates_are_mapped_with_their_points() -> None:
    def function(X: Tensor) -> Tensor:
        assert X.dim() == 3
        assert len(X) in (1, 3)
        return torch.arange(len(X)).unsqueeze(-1) + X.sum(dim=-1)

    for shape in ((4,), (3, 4), (5, 3, 4), (6, 5, 3, 4)):
        X = torch.rand(*shape, 2)
        values = map_replicates(function, X, torch.Size([3]))
        torch.testing.assert_close(values, torch.arange(3).unsqueeze(-1) + X.sum(dim=-1))
        torch.testing.assert_close(map_replicates(function, X, torch.Size()), X.sum(dim=-1))


class Height(PointwiseAcquisitionFunction):
    r"""The sum of the coordinates, once for each replicate."""

    def evaluate(self, X: Tensor) -> Tensor:
        return X.sum(dim=-1)


@pytest.mark.parametrize("batch", [(), (2,), (3, 2)], ids=str)
def test_forward_is_evaluate_of_one_point(batch: tuple[int, ...]) -> None:
    data = torch.rand(*batch, 4, 2, dtype=torch.float64)
    acqf = Height(SingleTaskGP(data, data[..., :1]))
    X = torch.rand(5, *batch, 1, 2, dtype=torch.float64)
    assert torch.equal(acqf(X), X.sum(dim=-1).squeeze(-1))
    assert acqf(X).shape == (5, *batch)
    for q in (0, 2):
        with pytest.raises(UnsupportedError, match=rf"q = 1 in Height. Got {q} points; pass `seq"):
            acqf(torch.rand(5, *batch, q, 2, dtype=torch.float64))
    acqf.set_X_pending(torch.tensor([[0, 1]]))
    assert acqf.X_pending.dtype == torch.float64
    acqf.set_X_pending(None)
    assert acqf.X_pending is None
