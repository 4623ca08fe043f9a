r"""BoTorch's t-batches as further points of each replicate."""

from __future__ import annotations

import itertools

import pytest
import torch

from botorch_risk.posterior.t_batch import TBatch, joint_shape

SHAPES = [
    # points, model, folded
    ((4, 2), (), (4, 2)),
    ((5, 1, 2), (), (5, 2)),
    ((5, 6, 3, 2), (), (90, 2)),
    ((3, 4, 2), (3,), (3, 4, 2)),
    ((4, 2), (3,), (3, 4, 2)),
    ((1, 4, 2), (3,), (3, 4, 2)),
    ((5, 3, 1, 2), (3,), (3, 5, 2)),
    ((5, 1, 1, 2), (3,), (3, 5, 2)),
    ((5, 6, 3, 4, 2), (3,), (3, 120, 2)),
    ((5, 2, 3, 1, 2), (2, 3), (2, 3, 5, 2)),
    ((5, 4, 2), (1,), (5, 4, 2)),  # a replicate that is broadcast itself
    ((0, 1, 2), (), (0, 2)),
    ((0, 3, 1, 2), (3,), (3, 0, 2)),
]


@pytest.mark.parametrize(("points", "batch_shape", "folded"), SHAPES, ids=str)
def test_there_and_back(
    points: tuple[int, ...], batch_shape: tuple[int, ...], folded: tuple[int, ...]
) -> None:
    X = torch.rand(points)
    batch = torch.Size(batch_shape)
    t_batch = TBatch.of(X, batch)
    assert t_batch.fold(X).shape == folded
    shape = torch.broadcast_shapes(X.shape[:-2], batch)
    back = t_batch.unfold(t_batch.fold(X), points_dim=-2)
    assert torch.equal(back, X.expand(*shape, *X.shape[-2:]))
    assert torch.equal(t_batch.unfold(t_batch.fold(X).sum(dim=-1)), back.sum(dim=-1))


def test_each_replicate_keeps_its_points() -> None:
    X = torch.arange(5 * 3).reshape(5, 3, 1, 1).float()  # b x R x 1 x d
    folded = TBatch.of(X, torch.Size([3])).fold(X)
    assert torch.equal(folded[1].flatten(), torch.tensor([1.0, 4.0, 7.0, 10.0, 13.0]))


def test_joint_shapes_are_those_of_pytorch() -> None:
    shapes = [torch.Size(s) for n in range(4) for s in itertools.product((0, 1, 3), repeat=n)]
    for first, second in itertools.product(shapes, repeat=2):
        try:
            expected = torch.broadcast_shapes(first, second)
        except RuntimeError:
            with pytest.raises(RuntimeError, match="broadcast"):
                joint_shape(first, second)
        else:
            assert joint_shape(first, second) == expected
    assert joint_shape(None, torch.Size([2])) == joint_shape(torch.Size([2]), None) == (2,)
