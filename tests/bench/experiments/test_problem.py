r"""What a problem can do is seen from its methods; our problems have a contract of their own."""

from __future__ import annotations

import torch
from botorch_risk_bench.experiments.papers.truvar import SyntheticFunctions
from botorch_risk_bench.experiments.problem import (
    ProblemFamily,
    ProblemWithContexts,
    ProblemWithObjective,
    ProblemWithParetoFront,
    decision_bounds,
    decision_space,
)
from torch import Tensor

from botorch_risk.strategies import Box
from botorch_risk.test_functions import (
    EnvironmentalSchaffer,
    FiniteDomainProblem,
    HeteroscedasticSine,
    MixedNewsvendor,
    Newsvendor,
)
from tests.bench.experiments.noisy_quadratic import NoisyQuadratic, UnknownOptimum


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
