r"""Perturbations of the decision: where they lead, and that they have no points of W."""

from __future__ import annotations

import pytest
import torch
from botorch.exceptions.errors import (
    BotorchTensorDimensionError,
    UnsupportedError,
)

from botorch_risk.environments import (
    InputPerturbation,
)

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


def test_what_the_caller_changes_later_stays_outside() -> None:
    given = [THREE - 0.5, torch.tensor([0.25, 0.5, 0.25]).double(), UNIT.clone()]
    environment = InputPerturbation(*given)
    before = [each.clone() for each in environment.expand(THREE)]
    for each in given:
        each.mul_(0.5)
    for now, then in zip(environment.expand(THREE), before, strict=True):
        assert torch.equal(now, then)
