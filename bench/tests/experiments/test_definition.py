r"""What a problem can do is seen from its methods; our problems have a contract of their own."""

import dataclasses

import pytest
import torch
from botorch_risk_bench.experiments import get_experiment
from botorch_risk_bench.experiments.chosen_repeats import ChosenRepeats
from botorch_risk_bench.experiments.papers.truvar import SyntheticFunctions
from botorch_risk_bench.experiments.problem import (
    ProblemFamily,
    ProblemWithContexts,
    ProblemWithObjective,
    ProblemWithParetoFront,
    decision_bounds,
    decision_space,
)
from botorch_risk_bench.experiments.registry import experiments
from botorch_risk_bench.problems import EnvironmentalSchaffer, MixedNewsvendor, Newsvendor
from torch import Tensor

from bench.tests.experiments.noisy_quadratic import QUADRATIC, NoisyQuadratic, UnknownOptimum
from botorch_risk.seeding import generators
from botorch_risk.strategies import Box, initial_design
from botorch_risk.test_functions import FiniteDomainProblem, HeteroscedasticSine


def test_builds_a_fresh_strategy_by_its_label() -> None:
    bounds = QUADRATIC.problem().bounds
    strategy = QUADRATIC.build("averse", bounds, range(3))
    assert strategy.seeds == [0, 1, 2]
    assert strategy.method.risk_aversion == 1.0
    assert torch.equal(strategy.ask(), initial_design(bounds, range(3), QUADRATIC.num_initial))
    assert QUADRATIC.build("averse", bounds, range(3)) is not strategy


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_rounds": 0}, "`num_rounds` to be at least 1"),
        ({"strategies": {}}, "at least 1 strategy"),
        ({"num_repeats": 0}, "`num_repeats` to be at least 1"),
        ({"num_initial": 0}, "`num_initial` to be at least 1"),
    ],
)
def test_refuses_an_experiment_of_nothing(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(QUADRATIC, **change)


class Indoor(NoisyQuadratic):
    def __init__(self) -> None:
        super().__init__()
        self.decision_bounds = self.bounds[:, :1]

    def draw_contexts(self, X: Tensor, generators: list[torch.Generator]) -> Tensor:
        return torch.zeros_like(X[..., :1])


def test_what_a_problem_can_do() -> None:
    kinds = (ProblemWithObjective, ProblemWithContexts, ProblemFamily, ProblemWithParetoFront)
    for problem, expected in (
        (NoisyQuadratic(), (True, False, False, False)),
        (UnknownOptimum(), (False, False, False, False)),
        (Indoor(), (True, True, False, False)),
        (HeteroscedasticSine(), (True, False, False, False)),
        (Newsvendor(), (True, True, False, False)),
        (SyntheticFunctions(), (False, False, True, False)),
        (EnvironmentalSchaffer(), (False, True, False, True)),
    ):
        assert tuple(isinstance(problem, kind) for kind in kinds) == expected, problem


def test_contexts_are_no_part_of_the_decision() -> None:
    assert torch.equal(decision_bounds(NoisyQuadratic()), NoisyQuadratic().bounds)
    assert decision_bounds(Indoor()).shape == (2, 1)
    assert decision_bounds(SyntheticFunctions()).shape == (2, 2)


def test_whole_numbers_among_the_decisions() -> None:
    space = decision_space(MixedNewsvendor())
    assert isinstance(space, Box)
    assert (space.integers, space.categories) == ((1,), (2,))
    assert torch.equal(space.bounds, MixedNewsvendor().decision_bounds)
    domain = torch.rand(5, 2, dtype=torch.double)
    levels = decision_space(FiniteDomainProblem(domain, domain[:, 0], noise=(0.1, 0.2)))
    assert isinstance(levels, Box) and levels.integers == (2,)
    for problem in (NoisyQuadratic(), Newsvendor(), HeteroscedasticSine()):
        assert torch.equal(decision_space(problem), decision_bounds(problem))


def test_finds_the_papers_experiments_and_a_users_own() -> None:
    assert get_experiment("quadratic", [QUADRATIC]) is QUADRATIC
    assert list(experiments([QUADRATIC])) == [*experiments(), "quadratic"]
    assert "sine" in experiments()
    assert "quadratic" not in experiments()  # nothing was registered for good
    assert experiments([QUADRATIC, QUADRATIC]).keys() == experiments([QUADRATIC]).keys()


def test_errors() -> None:
    with pytest.raises(ValueError, match="Experiment not found: 'q'"):
        get_experiment("q", [QUADRATIC])
    with pytest.raises(ValueError, match="a name that is not taken"):
        experiments([QUADRATIC, dataclasses.replace(QUADRATIC, num_rounds=7)])


PROBLEM = HeteroscedasticSine()
X = torch.tensor([[[0.2, 1.0], [0.7, 4.0]], [[1.5, 3.0], [torch.nan, torch.nan]]]).double()


def test_readings_that_are_not_asked_for_are_missing_and_change_no_other() -> None:
    chosen = ChosenRepeats(PROBLEM, 4)
    Y = chosen.sample_repeats(X, 4, generators([0, 1], "observations", 0))
    assert Y.isfinite().sum(dim=-1).tolist() == [[1, 4], [3, 0]]
    full = PROBLEM.sample_repeats(X[:1, :, :-1], 4, generators([0], "observations", 0))
    asked = Y[0].isfinite()
    assert torch.equal(Y[0][asked], full[0][asked])
    more = X.clone()
    more[..., -1] = 4
    again = chosen.sample_repeats(more, 4, generators([0, 1], "observations", 0))
    assert torch.equal(again[1, 0, :3], Y[1, 0, :3])


def test_objective_is_of_the_decision() -> None:
    chosen = ChosenRepeats(PROBLEM, 4)
    values = chosen.objective(X)
    assert torch.equal(values[0], PROBLEM.objective(X[0, :, :1]))
    assert torch.equal(values[0], chosen.objective(X[0, :, :1]))
    assert values[1].isnan().tolist() == [False, True]
    assert chosen.bounds.tolist() == [[0.0, 1.0], [2.0, 4.0]]


def test_bad_input() -> None:
    with pytest.raises(ValueError, match=r"`max_repeats` to be at least 1. Got 0"):
        ChosenRepeats(PROBLEM, 0)
    with pytest.raises(ValueError, match=r"at most 3 readings of a point. Got 4"):
        ChosenRepeats(PROBLEM, 4).sample_repeats(X, 3, generators([0, 1], "observations", 0))
