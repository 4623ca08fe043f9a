r"""Decisions that are carried out inexactly and then meet a context."""

from __future__ import annotations

import pytest
import torch
from botorch.models.transforms.input import AppendFeatures, ChainedInputTransform
from botorch.models.transforms.input import InputPerturbation as BotorchPerturbation

from botorch_risk.environments import DiscreteEnvironment, InputPerturbation, PerturbedEnvironment

SHIFTS = 0.1 * torch.randn(4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
W = torch.tensor([[0.0], [0.3], [1.0]], dtype=torch.float64)
WEIGHTS = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
CHANCES = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)


def build() -> PerturbedEnvironment:
    return PerturbedEnvironment(InputPerturbation(SHIFTS, CHANCES), DiscreteEnvironment(W, WEIGHTS))


@pytest.mark.parametrize("batch_shape", [(), (3,), (2, 3)], ids=str)
def test_points_are_those_of_botorchs_two_transforms(batch_shape: tuple[int, ...]) -> None:
    X = torch.rand(*batch_shape, 5, 2, dtype=torch.float64)
    inputs, weights = build().expand(X)
    theirs = ChainedInputTransform(shift=BotorchPerturbation(SHIFTS), w=AppendFeatures(W)).eval()
    assert torch.equal(inputs.flatten(-3, -2), theirs(X))
    pairs = torch.tensor([p * w for p in CHANCES for w in WEIGHTS], dtype=torch.float64)
    torch.testing.assert_close(weights, pairs.expand(*batch_shape, 5, 12))


def test_one_perturbation_that_does_nothing_is_the_context() -> None:
    X = torch.rand(5, 2, dtype=torch.float64)
    context = DiscreteEnvironment(W, WEIGHTS)
    still = InputPerturbation(torch.zeros(1, 2, dtype=torch.float64))
    inputs, weights = PerturbedEnvironment(still, context).expand(X)
    expected, distribution = context.expand(X)
    assert torch.equal(inputs, expected)
    assert torch.equal(weights, distribution.expand(5, 3))


def test_range_and_columns() -> None:
    environment = build()
    assert environment.num_inputs(2) == 3
    box = environment.range(torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64))
    torch.testing.assert_close(box[0], torch.cat([SHIFTS.amin(dim=0), W[0]]))
    torch.testing.assert_close(box[1], 1 + torch.cat([SHIFTS.amax(dim=0), W[-1] - 1]))
    X = torch.rand(7, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: environment.expand(x)[0], X)
