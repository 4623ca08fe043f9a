r"""Two questions about a function on a finite domain, as problems for the experiment loop."""

from __future__ import annotations

from torch import Generator, Tensor

from botorch_risk.test_functions import FiniteDomainProblem


class LevelSetProblem:
    r"""Where is a function on a finite domain at or above a level?

    It has no objective at a point: how well the set is known is a matter of the posterior, from
    which `botorch_risk.experiments.replay` computes it.
    """

    def __init__(self, problem: FiniteDomainProblem, threshold: float) -> None:
        r"""Takes the function and the level."""
        self.problem, self.threshold = problem, threshold

    @property
    def bounds(self) -> Tensor:
        r"""The lower and the upper bounds, with those of the noise level if there is a choice."""
        return self.problem.bounds

    @property
    def truth(self) -> Tensor:
        r"""Whether `f >= h`, `|D|`."""
        return self.problem.values >= self.threshold

    def sample_repeats(self, X: Tensor, num_repeats: int, generators: list[Generator]) -> Tensor:
        r"""Outcomes `R x q x k` at points `R x q x d`."""
        return self.problem.sample_repeats(X, num_repeats, generators)


class RegretProblem:
    r"""The maximum of a function on a finite domain; the objective is minus the regret.

    So measured, all functions of a family have the same optimum, 0.
    """

    optimal_value = 0.0

    def __init__(self, problem: FiniteDomainProblem) -> None:
        r"""Takes the function."""
        self.problem = problem

    @property
    def bounds(self) -> Tensor:
        r"""The lower and the upper bounds, `2 x d`."""
        return self.problem.bounds

    def sample_repeats(self, X: Tensor, num_repeats: int, generators: list[Generator]) -> Tensor:
        r"""Outcomes `R x q x k` at points `R x q x d`."""
        return self.problem.sample_repeats(X, num_repeats, generators)

    def objective(self, X: Tensor) -> Tensor:
        r"""`f(x) - max f` over the domain, `R x q x d -> R x q`."""
        return self.problem.evaluate_true(X) - self.problem.maximum.unsqueeze(-1)
