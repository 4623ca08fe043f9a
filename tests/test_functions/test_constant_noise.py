r"""Noise of one standard deviation, drawn from generators or from the global state."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from botorch_risk.seeding import generators
from botorch_risk.test_functions import ConstantNoiseProblem


class Sphere(ConstantNoiseProblem):
    dim = 2
    continuous_inds: list[int] = [0, 1]  # noqa: RUF012 as in BoTorch
    _bounds: list[tuple[float, float]] = [(-1.0, 1.0), (-1.0, 1.0)]  # noqa: RUF012

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return -X.square().sum(dim=-1)


X = torch.tensor([[[0.5, 0.0], [0.1, 0.2]]], dtype=torch.double)


@pytest.mark.parametrize("noise_std", [None, 0.0])
def test_without_noise_every_outcome_is_the_objective(noise_std: float | None) -> None:
    problem = Sphere(noise_std=noise_std)
    outcomes = problem.sample_repeats(X, 3, generators([0], "noise"))
    assert torch.equal(outcomes, problem.objective(X).unsqueeze(-1).expand(1, 2, 3))
    assert torch.equal(problem(X), problem(X, noise=False))


def test_outcomes_are_normal_around_the_objective() -> None:
    problem = Sphere(noise_std=0.25)
    (stream,) = generators([7], "noise")
    draws = torch.randn(2, 3, generator=stream, dtype=torch.double)
    outcomes = problem.sample_repeats(X, 3, generators([7], "noise"))
    expected = problem.objective(X).unsqueeze(-1) + 0.25 * draws
    assert torch.equal(outcomes, expected)
    noise = problem(X.expand(4000, 1, 2, 2)) - problem.objective(X)
    assert noise.std().item() == pytest.approx(0.25, rel=0.05)


def test_the_objective_has_a_gradient_and_bounds() -> None:
    problem = Sphere(noise_std=0.25)
    point = X.clone().requires_grad_()
    (slope,) = torch.autograd.grad(problem.objective(point).sum(), point)
    assert torch.equal(slope, -2 * X)
    with pytest.raises(ValueError, match="within the bounds"):
        problem.objective(X + 2)
