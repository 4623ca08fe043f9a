r"""BoTorch's own functions are maximised, with the optimum and the bounds that they have there."""

from __future__ import annotations

import pytest
import torch
from botorch.test_functions import Branin, Hartmann, Shekel
from botorch.test_functions.synthetic import PressureVessel
from botorch_risk_bench.experiments.problem import ProblemWithObjective

from botorch_risk.seeding import generators
from botorch_risk.test_functions import MaximizedTestFunction


@pytest.mark.parametrize("negate", [False, True])
@pytest.mark.parametrize("kind", [Branin, Hartmann, Shekel])
def test_the_largest_value_is_minus_the_smallest(kind: type[Branin], negate: bool) -> None:
    function = kind()
    problem = MaximizedTestFunction(kind(negate=negate))
    assert isinstance(problem, ProblemWithObjective)
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
