r"""Repeats of an experiment: shapes, random streams and devices."""

from __future__ import annotations

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError

from botorch_risk.seeding import generators
from botorch_risk.test_functions import HeteroscedasticBranin, HeteroscedasticSine


def random_points(problem, *shape, dtype=torch.double):
    lower, upper = problem.bounds.to(dtype)
    return lower + (upper - lower) * torch.rand(*shape, problem.dim, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("batch_shape", [(), (2,), (2, 3)])
@pytest.mark.parametrize("cls", [HeteroscedasticSine, HeteroscedasticBranin])
def test_repeats_keep_shape_and_dtype(cls, batch_shape, dtype):
    problem = cls(dtype=dtype)
    X = random_points(problem, *batch_shape, 4, dtype=dtype)
    Y = problem.sample_repeats(X, 7, torch.Generator().manual_seed(0))
    assert Y.shape == (*batch_shape, 4, 7)
    assert Y.dtype == dtype
    Y_double = problem.sample_repeats(X.double(), 7, torch.Generator().manual_seed(0))
    torch.testing.assert_close(Y.double(), Y_double, rtol=1e-4, atol=1e-3)


def test_replicates_draw_alone_what_they_draw_together():
    problem, seeds = HeteroscedasticBranin(), [5, 1, 8]
    X = random_points(problem, 3, 2, 4)
    together = problem.sample_repeats(X, 6, generators(seeds, "noise"))
    for i, seed in enumerate(seeds):
        alone = problem.sample_repeats(X[i : i + 1], 6, generators([seed], "noise"))
        assert torch.equal(alone[0], together[i])
        (generator,) = generators(seed, "noise")
        assert torch.equal(problem.sample_repeats(X[i], 6, generator), together[i])
    reversed_order = problem.sample_repeats(X.flip(0), 6, generators(seeds[::-1], "noise"))
    assert torch.equal(reversed_order.flip(0), together)


def test_repeats_do_not_depend_on_the_device(device):
    problem = HeteroscedasticBranin()
    X = random_points(problem, 2, 4)
    on_cpu = problem.sample_repeats(X, 6, generators([0, 1], "noise"))
    there = problem.to(device).sample_repeats(X.to(device), 6, generators([0, 1], "noise"))
    assert there.device == device
    torch.testing.assert_close(there.cpu(), on_cpu)


def test_refuses_shapes_that_do_not_fit():
    problem = HeteroscedasticSine()
    with pytest.raises(BotorchTensorDimensionError, match=r"`batch_shape x q x d`. Got X.shape"):
        problem.sample_repeats(torch.ones(1), 2, torch.Generator())
    for X in (torch.ones(3, 1), torch.ones(2, 3, 1)):
        with pytest.raises(BotorchTensorDimensionError, match=r"one generator .* Got .* 3 gen"):
            problem.sample_repeats(X, 2, generators([0, 1, 2]))
    with pytest.raises(ValueError, match=r"Expected at least one repeat. Got num_repeats=0"):
        problem.sample_repeats(torch.ones(3, 1), 0, torch.Generator())
