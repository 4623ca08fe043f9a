r"""Protocols of the problems that the experiment loop runs."""

from typing import Protocol, runtime_checkable

import torch
from torch import Generator, Tensor

from botorch_risk.strategies import Box


class Problem(Protocol):
    r"""A noisy black box on a box, evaluated on the CPU.

    Example:
        >>> from botorch_risk.strategies import random_search
        >>> from botorch_risk_bench.campaigns import Journal, play_rounds
        >>> class Oven:
        ...     bounds = torch.tensor([[150.0], [250.0]])
        ...     def sample_repeats(self, X, num_repeats, generators):
        ...         return -(X - 200).abs().expand(*X.shape[:-1], num_repeats)  # R x q x k
        >>> strategy = random_search(Oven.bounds, seeds=0, num_initial=3)
        >>> rounds = list(play_rounds(strategy, Oven(), Journal(), num_rounds=6, num_repeats=2))
        >>> bool((strategy.recommend() - 200).abs() < 10)
        True
    """

    @property
    def bounds(self) -> Tensor:
        r"""The lower and the upper bounds of all inputs, `2 x d`."""
        ...

    def sample_repeats(self, X: Tensor, num_repeats: int, generators: list[Generator], /) -> Tensor:
        r"""Draws repeated noisy outcomes.

        Args:
            X: Points in the units of the bounds, `R x q x d`. A row of NaN asks for nothing, where
                the strategy is one that may finish.
            generators: One CPU generator per replicate; the noise of a replicate comes
                from its own generator alone.

        Returns:
            The outcomes, `R x q x k`. NaN marks a repeat that failed, or was not run.
        """
        ...


# Further capabilities of a problem. They are checked at run time, and so hold only methods and
# properties: from Python 3.12 such a check does not see the buffers of a `torch.nn.Module`.


@runtime_checkable
class ProblemWithObjective(Protocol):
    r"""A problem that knows the true value of the risk objective."""

    def objective(self, X: Tensor, /) -> Tensor:
        r"""The noiseless risk objective, to be maximised: `R x q x d -> R x q`, NaN at NaN."""
        ...


@runtime_checkable
class ProblemWithOutcomes(Protocol):
    r"""A problem with further outcomes beside the objective, for strategies that take them.

    One that only such strategies run on needs no `sample_repeats`.
    """

    def sample_outcomes(
        self, X: Tensor, num_repeats: int, generators: list[Generator], /
    ) -> Tensor:
        r"""Draws repeated noisy outcomes, as `sample_repeats` does: `R x q x k x m`."""
        ...


@runtime_checkable
class ProblemWithConstraints(Protocol):
    r"""A problem that knows which decisions are feasible, its objective being known too.

    An infeasible decision counts as much as the worst feasible one.
    """

    def is_feasible_decision(self, X: Tensor, /) -> Tensor:
        r"""Whether the constraints hold: `R x q x d_x -> R x q`."""
        ...

    @property
    def worst_feasible_value(self) -> float:
        r"""The least objective of a feasible decision."""
        ...


@runtime_checkable
class ProblemWithParetoFront(Protocol):
    r"""A problem of several objectives that knows the true risks of decisions."""

    def hypervolume_of(self, X: Tensor, /) -> Tensor:
        r"""The hypervolume that the true risks of sets of decisions dominate, to be maximised.

        Args:
            X: Decisions, `R x p x d_x`, NaN where a set has fewer than p.

        Returns:
            `R`; 0 of no decision.
        """
        ...


@runtime_checkable
class ProblemWithContexts(Protocol):
    r"""A problem of a decision and an environmental variable, the last columns of its inputs.

    The environment moves on its own, unless a strategy asks for decisions with contexts that it has
    chosen. The objective, if there is one, takes decisions.
    """

    @property
    def decision_bounds(self) -> Tensor:
        r"""The lower and the upper bounds of the decision, `2 x d_x`."""
        ...

    def draw_contexts(self, X: Tensor, generators: list[Generator], /) -> Tensor:
        r"""The contexts that decisions meet.

        Args:
            X: Decisions, `R x q x d_x`.
            generators: One CPU generator per replicate.

        Returns:
            Contexts, `R x q x d_w`.
        """
        ...


@runtime_checkable
class ProblemWithWholeNumbers(Protocol):
    r"""A problem that says which of its inputs are whole numbers, as BoTorch's test problems do."""

    @property
    def discrete_inds(self) -> list[int]:
        r"""The columns of integers."""
        ...

    @property
    def categorical_inds(self) -> list[int]:
        r"""The columns of categories, which have no order."""
        ...


@runtime_checkable
class ProblemFamily(Protocol):
    r"""A problem for each seed, such as functions drawn at random."""

    @property
    def bounds(self) -> Tensor:
        r"""The lower and the upper bounds that they share, `2 x d`."""
        ...

    def of_seeds(self, seeds: list[int], /) -> Problem:
        r"""The problems of some seeds as one, replicate by replicate."""
        ...


def decision_bounds(problem: Problem | ProblemFamily) -> Tensor:
    r"""The bounds of what is decided, `2 x d_x`: all inputs, or those before the contexts."""
    return problem.decision_bounds if isinstance(problem, ProblemWithContexts) else problem.bounds


def decision_space(
    problem: Problem | ProblemFamily, device: str | torch.device = "cpu"
) -> Tensor | Box:
    r"""What is decided: its bounds, or a box if some decisions are integers or categories."""
    bounds = decision_bounds(problem).to(device)
    if not isinstance(problem, ProblemWithWholeNumbers):
        return bounds
    d = bounds.shape[-1]
    integers, categories = (
        [column for column in columns if column < d]
        for columns in (problem.discrete_inds, problem.categorical_inds)
    )
    return Box(bounds, integers, categories) if integers or categories else bounds
