r"""Perturbations of the decision, alone and with another environment."""

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.models.transforms.input import AppendFeatures, ChainedInputTransform
from botorch.models.transforms.input import InputPerturbation as BotorchPerturbation

from botorch_risk.environments import DiscreteEnvironment, InputPerturbation, PerturbedEnvironment

THREE = torch.tensor([[0.0], [0.5], [1.0]], dtype=torch.double)
UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.double)


def test_perturbations_have_no_points_and_keep_to_the_bounds():
    environment = InputPerturbation(THREE - 0.5, bounds=UNIT)
    inputs, _ = environment.expand(torch.tensor([[0.2], [0.9]]))
    expected = torch.tensor([[0.0, 0.2, 0.7], [0.4, 0.9, 1.0]])
    torch.testing.assert_close(inputs.squeeze(-1), expected)
    with pytest.raises(UnsupportedError, match="which have no fixed `points`"):
        environment.points  # noqa: B018
    with pytest.raises(BotorchTensorDimensionError, match="`batch_shape x m x 1`"):
        environment.expand(torch.zeros(2, 2))


def test_perturbations_reach_where_they_may_lead() -> None:
    perturbation = InputPerturbation(
        torch.tensor([[-0.5], [0.25], [1.0]]), torch.tensor([0.5, 0.5, 0.0]), bounds=UNIT[:, :1]
    )
    X = torch.tensor([[0.2], [0.2], [0.2], [0.2], [1e-4]])
    perturbed = torch.tensor([[0.0], [0.45], [1.0], [0.3], [0.25 + 1e-4]])
    assert perturbation.contains(X, perturbed).tolist() == [True, True, False, False, True]


def test_values_are_met_to_rounding_of_one_or_of_their_size() -> None:
    perturbation = InputPerturbation(torch.tensor([[0.0]], dtype=torch.double))
    X = torch.tensor([[1e-3], [1e-3], [1e6], [1e6]], dtype=torch.double)
    off = torch.tensor([[1e-9], [1e-6], [1e-3], [1.0]], dtype=torch.double)
    assert perturbation.contains(X, X + off).tolist() == [True, False, True, False]


def test_range_holds_the_perturbations_of_both_corners() -> None:
    delta = torch.tensor([[-0.5, 0.1], [0.25, 0.2], [0.0, 0.3]])
    box = torch.tensor([[0.0, 2.0], [1.0, 4.0]])
    found = InputPerturbation(delta).range(box)
    torch.testing.assert_close(found, torch.tensor([[-0.5, 2.1], [1.25, 4.3]]))


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


def test_a_perturbed_decision_meets_the_categories_of_the_other_environment() -> None:
    machines = DiscreteEnvironment(torch.tensor([[0.2, 0.0], [0.5, 1.0]]), categories=[1])
    shift = InputPerturbation(torch.zeros(2, 1))
    assert PerturbedEnvironment(shift, machines).categories == (1,)
    assert PerturbedEnvironment(shift, shift).categories == ()
