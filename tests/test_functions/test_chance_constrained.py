r"""Problems with chance constraints: what they share."""

from __future__ import annotations

import pytest
import torch
from botorch.exceptions.errors import InputDataError
from botorch.utils.testing import (
    BaseTestProblemTestCaseMixIn,
    BotorchTestCase,
    ConstrainedTestProblemTestCaseMixin,
)

from botorch_risk.risk import Expectation, WorstCase
from botorch_risk.seeding import generators
from botorch_risk.test_functions import (
    ChanceConstrainedBranin,
    ChanceConstrainedGramacy,
    ChanceConstrainedTestProblem,
)
from tests import oracles

KINDS = [ChanceConstrainedGramacy, ChanceConstrainedBranin]
every = pytest.mark.parametrize("kind", KINDS)


class TestBotorchContracts(
    BotorchTestCase, BaseTestProblemTestCaseMixIn, ConstrainedTestProblemTestCaseMixin
):
    functions = [  # noqa: RUF012
        *(kind(noise_std=0.1) for kind in KINDS),
        ChanceConstrainedGramacy(constraint_noise_std=[0.1, 0.2]),
        ChanceConstrainedBranin(constraint_noise_std=0.3),
    ]


def decisions(problem: ChanceConstrainedTestProblem, *shape: int) -> torch.Tensor:
    lower, upper = problem.decision_bounds
    return lower + (upper - lower) * torch.rand(*shape, 2, dtype=torch.float64)


@every
def test_risks_and_feasibility_equal_loops(kind: type[ChanceConstrainedTestProblem]) -> None:
    problem = kind()
    X, w, weights = decisions(problem, 3, 20), problem.environment.points, problem.environment
    risks, feasible = problem.constraint_risks(X), problem.is_feasible_decision(X)
    assert risks.shape == (3, 20, problem.num_constraints)
    masses = weights.weights.tolist()
    for at in torch.cartesian_prod(torch.arange(3), torch.arange(20)).tolist():
        pairs = torch.cat([X[tuple(at)].expand(33, 2), w], dim=-1)
        slacks = problem.evaluate_slack_true(pairs)
        for index in range(problem.num_constraints):
            values = slacks[:, index].tolist()
            chance = sum(m for m, v in zip(masses, values, strict=True) if v >= 0)
            assert (risks[(*at, index)] >= 0) == (chance >= 0.95)
            # The largest value that is reached with a probability of 0.95.
            reached = [
                v
                for v in values
                if sum(m for m, u in zip(masses, values, strict=True) if u >= v) >= 0.95
            ]
            assert risks[(*at, index)].item() == pytest.approx(max(reached), abs=1e-12)
            assert values == sorted(values, reverse=True)  # slacks decrease in w
        jointly = sum(m for m, row in zip(masses, slacks.tolist(), strict=True) if min(row) >= 0)
        assert feasible[tuple(at)] == (jointly >= 0.95)
        value = oracles.to_numpy(problem.evaluate_true(pairs)) @ oracles.to_numpy(weights.weights)
        assert problem.objective(X[tuple(at)]).item() == pytest.approx(value)


@every
def test_feasible_decisions_are_those_of_one_value_of_w(
    kind: type[ChanceConstrainedTestProblem],
) -> None:
    problem = kind()
    X = decisions(problem, 500)
    critical = torch.cat([X, torch.full((500, 1), 0.75, dtype=torch.float64)], dim=-1)
    known = (problem.evaluate_slack_true(critical) >= 0).all(dim=-1)
    assert torch.equal(problem.is_feasible_decision(X), known)
    assert 0.2 < known.double().mean() < 0.45


@every
def test_another_risk(kind: type[ChanceConstrainedTestProblem]) -> None:
    problem = kind()
    X = decisions(problem, 7)
    inputs, weights = problem.environment.expand(X)
    slacks = problem.evaluate_slack_true(inputs)
    torch.testing.assert_close(problem.constraint_risks(X, WorstCase()), slacks.amin(dim=-2))
    worst = problem.objective(X, WorstCase())
    torch.testing.assert_close(worst, problem.evaluate_true(inputs).amin(dim=-1))
    torch.testing.assert_close(
        problem.objective(X, Expectation()), (problem.evaluate_true(inputs) * weights).sum(dim=-1)
    )


@every
def test_draws_of_all_outcomes(kind: type[ChanceConstrainedTestProblem]) -> None:
    problem = kind(noise_std=0.1, constraint_noise_std=0.2)
    X = torch.cat([decisions(problem, 2, 3), torch.rand(2, 3, 1, dtype=torch.float64)], dim=-1)
    Y = problem.sample_outcomes(X, 4000, generators([3, 4], "noise"))
    assert Y.shape == (2, 3, 4000, 1 + problem.num_constraints)
    spread = Y.std(dim=2)
    assert (spread[..., 0] - 0.1).abs().max() < 0.01
    assert (spread[..., 1:] - 0.2).abs().max() < 0.02
    exact = kind().sample_outcomes(X, 1, generators([3, 4], "noise")).squeeze(2)
    assert torch.equal(exact[..., 0], problem.evaluate_true(X))
    assert torch.equal(exact[..., 1:], problem.evaluate_slack_true(X))


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputDataError, match="must match the number of constraints"):
        ChanceConstrainedGramacy(constraint_noise_std=[0.1])
    with pytest.raises(ValueError, match=r"`... x 2`, within the decision's bounds"):
        ChanceConstrainedGramacy().constraint_risks(torch.rand(3, 3))
