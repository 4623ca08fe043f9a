r"""Values are looked up exactly, and what is not in the domain is refused."""

from __future__ import annotations

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError

from botorch_risk.seeding import generators
from botorch_risk.test_functions import FiniteDomainProblem, unit_grid

DOMAIN = unit_grid(4)
VALUES = torch.arange(16, dtype=torch.double).square()
NAN = torch.nan


def test_values_are_those_told():
    problem = FiniteDomainProblem(DOMAIN, VALUES)
    order = torch.randperm(16, generator=torch.Generator().manual_seed(0))
    assert torch.equal(problem.evaluate_true(DOMAIN[order]), VALUES[order])
    assert torch.equal(problem(DOMAIN[order].reshape(2, 8, 2)), VALUES[order].reshape(2, 8))
    assert problem.maximum == 225
    assert problem.bounds.tolist() == [[0, 0], [1, 1]]


def test_each_replicate_may_have_its_own_function():
    problem = FiniteDomainProblem(DOMAIN, torch.stack([VALUES, -VALUES]))
    X = DOMAIN[torch.tensor([[3, 1], [2, 0]])]
    assert problem.evaluate_true(X).tolist() == [[9, 1], [-4, 0]]
    assert problem.evaluate_true(X[:, 0]).tolist() == [9, -4]
    assert problem.maximum.tolist() == [225, 0]
    with pytest.raises(BotorchTensorDimensionError, match=r"shape `2 x ... x d`"):
        problem.evaluate_true(X[:1])


def test_rows_of_nan_ask_for_nothing():
    problem = FiniteDomainProblem(DOMAIN, VALUES, noise=1.0)
    X = torch.stack([DOMAIN[5], torch.full((2,), NAN, dtype=torch.double)]).expand(3, 2, 2)
    Y = problem.sample_repeats(X, 4, generators([0, 1, 2], "noise"))
    assert Y[:, 0].isfinite().all()
    assert Y[:, 1].isnan().all()
    alone = problem.sample_repeats(X[:, :1], 4, generators([0, 1, 2], "noise"))
    assert torch.equal(Y[:, :1], alone)


def test_noise_has_the_variance_of_its_level():
    problem = FiniteDomainProblem(DOMAIN, VALUES, noise=(1e-4, 4.0))
    X = torch.tensor([[0.0, 1.0, 0.0], [0.0, 1.0, 1.0], [NAN, NAN, NAN]], dtype=torch.double)
    Y = problem.sample_repeats(X, 4000, torch.Generator().manual_seed(0))
    assert Y[:2].mean(dim=-1).tolist() == pytest.approx([9, 9], abs=0.1)
    assert Y[:2].var(dim=-1).tolist() == pytest.approx([1e-4, 4.0], rel=0.1)
    assert problem.dim == 3
    assert problem.bounds[:, 2].tolist() == [0, 1]
    assert torch.equal(
        problem.evaluate_true(X[:, :2]).nan_to_num(), torch.tensor([9.0, 9, 0]).double()
    )


@pytest.mark.parametrize(
    "X",
    [[0.5, 0.0, 0.0], [0.0, 0.0, 2.0], [0.0, 0.0, 0.5], [0.0, NAN, 0.0], [0.0, 0.0, NAN]],
)
def test_refuses_what_is_not_in_the_domain(X):
    problem = FiniteDomainProblem(DOMAIN, VALUES, noise=(0.1, 1.0))
    point = torch.tensor([X], dtype=torch.double)
    with pytest.raises(InputDataError, match="Expected points of the domain"):
        problem.sample_repeats(point, 1, torch.Generator())


def test_errors():
    with pytest.raises(BotorchTensorDimensionError, match=r"shape `\|D\| x d`"):
        FiniteDomainProblem(DOMAIN, VALUES[:3])
    with pytest.raises(InputDataError, match="finite `domain` and `values`"):
        FiniteDomainProblem(DOMAIN, VALUES.where(VALUES > 0, NAN))
    with pytest.raises(InputDataError, match=r"distinct points\. Got 2 among 3"):
        FiniteDomainProblem(DOMAIN[[0, 1, 0]], VALUES[:3])
    for noise in (-1.0, (0.1, float("inf")), ()):
        with pytest.raises(ValueError, match="finite noise variances >= 0"):
            FiniteDomainProblem(DOMAIN, VALUES, noise)
    with pytest.raises(BotorchTensorDimensionError, match=r"`... x 2` or `... x 2`"):
        FiniteDomainProblem(DOMAIN, VALUES).evaluate_true(torch.zeros(1, 3))
