import math

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import InputDataError
from torch import Tensor

from botorch_risk.test_functions import H1, Deceptive
from botorch_risk.test_functions.heteroscedastic import local_maxima


def deceptive(x: list[float]) -> float:
    r"""By linear interpolation through the knots of its source: 4/5, 0, 1, 0, 4/5."""
    values = []
    for i, each in enumerate(x, start=1):
        a = i / (len(x) + 1)
        values.append(np.interp(each, [0, 0.8 * a, a, (1 + 4 * a) / 5, 1], [0.8, 0, 1, 0, 0.8]))
    return float(np.mean(values)) ** 2


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_deceptive_is_piecewise_linear_through_its_knots(dim: int) -> None:
    X = torch.rand(200, dim, dtype=torch.double)
    expected = torch.tensor([deceptive(row) for row in X.tolist()], dtype=torch.double)
    torch.testing.assert_close(Deceptive(dim)(X), expected)


def h1(x: float, y: float) -> float:
    top = math.sin(x - y / 8) ** 2 + math.sin(y + x / 8) ** 2
    return top / math.sqrt((x - 8.6998) ** 2 + (y - 6.7665) ** 2 + 1)


def test_h1_equals_its_formula() -> None:
    X = 200 * torch.rand(100, 2, dtype=torch.double) - 100
    expected = torch.tensor([h1(*row) for row in X.tolist()], dtype=torch.double)
    torch.testing.assert_close(H1()(X), expected)


@pytest.mark.parametrize(
    ("problem", "tolerance"), [(Deceptive(2), 5e-3), (H1(25.0), 1e-6)], ids=["deceptive", "h1"]
)
@pytest.mark.slow
def test_no_maximum_is_larger_than_stated(problem: Deceptive | H1, tolerance: float) -> None:
    def function(X: Tensor) -> Tensor:
        return problem(X, noise=False)

    best, values = local_maxima(function, problem._bounds)
    assert values[0] <= problem.optimal_value + 1e-6
    assert values[0] >= problem.optimal_value - tolerance
    torch.testing.assert_close(best[0], problem.optimizers[0].double(), atol=1e-2, rtol=0)
    assert function(problem.optimizers).item() == pytest.approx(problem.optimal_value, abs=1e-6)
    assert not problem.is_minimization_problem


def test_half_of_the_domain_leads_away() -> None:
    r"""The mean of the corners' slopes: a walk uphill from most places ends at a corner."""
    problem, walkers = Deceptive(1), torch.linspace(0, 1, 401, dtype=torch.double).unsqueeze(-1)
    step = 1e-3
    uphill = problem((walkers + step).clamp(0, 1)) - problem((walkers - step).clamp(0, 1))
    towards = torch.sign(uphill) == torch.sign(0.5 - walkers.squeeze(-1))
    assert 0.15 < towards.double().mean() < 0.25


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="`dim` to be at least 1"):
        Deceptive(0)
    with pytest.raises(ValueError, match="holds the optimum"):
        H1(half_width=5.0)
    with pytest.raises((ValueError, InputDataError), match="bounds"):
        H1(25.0).evaluate_true(torch.tensor([[99.0, 0.0]]).double())
