r"""Bases of test problems: repeats, constant noise, several outcomes, maximisation."""

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.test_functions import Branin, Hartmann, Shekel
from botorch.test_functions.synthetic import PressureVessel
from torch import Tensor

from botorch_risk.seeding import generators
from botorch_risk.test_functions import (
    ConstantNoiseProblem,
    HeteroscedasticBranin,
    HeteroscedasticSine,
    MaximizedTestFunction,
)
from botorch_risk.test_functions.environmental import draw_outcomes


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


def test_refuses_shapes_that_do_not_fit():
    problem = HeteroscedasticSine()
    with pytest.raises(BotorchTensorDimensionError, match=r"`batch_shape x q x d`. Got X.shape"):
        problem.sample_repeats(torch.ones(1), 2, torch.Generator())
    for X in (torch.ones(3, 1), torch.ones(2, 3, 1)):
        with pytest.raises(BotorchTensorDimensionError, match=r"one generator .* Got .* 3 gen"):
            problem.sample_repeats(X, 2, generators([0, 1, 2]))
    with pytest.raises(ValueError, match=r"Expected `num_repeats` to be at least 1. Got 0"):
        problem.sample_repeats(torch.ones(3, 1), 0, torch.Generator())


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


VALUES = torch.arange(12.0, dtype=torch.float64).reshape(3, 2, 2)


def test_each_outcome_has_its_noise() -> None:
    Y = draw_outcomes(VALUES, [0.0, 0.5], 4000, generators([5, 1, 8], "noise"))
    assert Y.shape == (3, 2, 4000, 2)
    assert torch.equal(Y[..., 0], VALUES[..., :1].expand(3, 2, 4000))
    noise = Y[..., 1] - VALUES[..., 1:]
    assert noise.mean().item() == pytest.approx(0.0, abs=0.02)
    assert noise.std().item() == pytest.approx(0.5, rel=0.03)


def test_replicates_draw_alone_all_outcomes_that_they_draw_together() -> None:
    together = draw_outcomes(VALUES, [1.0, 1.0], 3, generators([5, 1, 8], "noise"))
    alone = draw_outcomes(VALUES[1:2], [1.0, 1.0], 3, generators([1], "noise"))
    assert torch.equal(alone[0], together[1])
    (stream,) = generators(8, "noise")
    assert torch.equal(draw_outcomes(VALUES[2], [1.0, 1.0], 3, stream), together[2])
    low = draw_outcomes(VALUES.float(), [1.0, 1.0], 3, generators([5, 1, 8], "noise"))
    assert low.dtype == torch.float32
    torch.testing.assert_close(low.double(), together, rtol=1e-6, atol=1e-5)


def test_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="`num_repeats` to be at least 1"):
        draw_outcomes(VALUES, [0.0, 0.0], 0, torch.Generator())
    for values in (VALUES, VALUES[0]):
        with pytest.raises(BotorchTensorDimensionError, match="one generator for each entry"):
            draw_outcomes(values, [0.0, 0.0], 2, generators([1, 2], "noise"))


@pytest.mark.parametrize("negate", [False, True])
@pytest.mark.parametrize("kind", [Branin, Hartmann, Shekel])
def test_the_largest_value_is_minus_the_smallest(kind: type[Branin], negate: bool) -> None:
    function = kind()
    problem = MaximizedTestFunction(kind(negate=negate))
    assert not problem.is_minimization_problem
    assert torch.equal(problem.bounds, function.bounds)
    assert problem.optimal_value == -function.optimal_value
    X = function.optimizers
    torch.testing.assert_close(problem.objective(X), -function(X))
    assert problem.objective(X)[0].item() == pytest.approx(problem.optimal_value, abs=1e-3)


def test_the_noise_is_that_of_the_function() -> None:
    problem = MaximizedTestFunction(Branin(noise_std=0.3))
    X = problem.optimizers[:1].expand(2, 1, 2)
    draws = problem.sample_repeats(X, 500, generators([0, 1], "noise"))
    assert draws.std().item() == pytest.approx(0.3, rel=0.1)
    assert not torch.equal(draws[0], draws[1])


def test_an_optimum_may_be_unknown_and_inputs_integer() -> None:
    problem = MaximizedTestFunction(PressureVessel())
    assert problem.discrete_inds == PressureVessel().discrete_inds
