r"""Definitions of experiments: the problem, the strategies, and how they are judged."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from botorch_risk.arguments import check_counts, check_finite
from botorch_risk.seeding import as_seeds
from botorch_risk.strategies import Box, Strategy
from botorch_risk_bench.experiments.problem import Problem, ProblemFamily, decision_bounds


class StrategyFactory(Protocol):
    r"""Builds a strategy from what is the same for all strategies of an experiment."""

    def __call__(self, bounds: Any, /, *, seeds: list[int], num_initial: int) -> Strategy:
        r"""The strategy.

        The bounds `2 x d` of what it decides carry dtype and device; they are a `Box` where the
        problem has decisions that are integers or categories.
        """
        ...


@dataclass(frozen=True)
class ExperimentDefinition:
    r"""An experiment that can be run by its name.

    Args:
        name: The name, as on the command line.
        description: One line for the list of experiments.
        problem: Builds the problem, on the CPU, or a problem for each seed.
        strategies: Builds each strategy, by its label; most often a constructor, or
            `functools.partial` of one with its further arguments.
        num_initial: The number of points in the initial design, which is round 0.
        num_rounds: The default number of rounds after it.
        objective: The risk objective in words, with its unit, for tables and pictures.
        optimal_value: Reads the largest true objective off the problem. None means that it is
            unknown; regret is then measured against the best seen. It may be added or corrected
            after a campaign has run: the next `run` stores it.
        threshold: The level `h`, if the set where `f >= h` is sought rather than a maximum.
        settings: JSON values that further tell this experiment from others (a noise
            scale, a risk aversion). They are stored, and compared on resumption.
        extras: Modules that only an extra installs, with what installs them, by the label of the
            strategy that imports them, or by "problem".

    Example:
        >>> from botorch_risk.strategies import random_search
        >>> definition = ExperimentDefinition(
        ...     name="my-oven", description="Evenly baked, at 10 repeats",
        ...     problem=lambda: my_oven, strategies={"random": random_search},
        ...     num_initial=5, num_rounds=20, num_repeats=10,
        ...     objective="mean - variance [points]",
        ... )
        >>> list(definition.strategies)
        ['random']
    """

    name: str
    description: str
    problem: Callable[[], Problem | ProblemFamily]
    strategies: Mapping[str, StrategyFactory]
    num_initial: int
    num_rounds: int
    num_repeats: int
    objective: str
    optimal_value: Callable[[Any], float] | None = None
    threshold: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    extras: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_counts(num_initial=self.num_initial, num_rounds=self.num_rounds)
        check_counts(num_repeats=self.num_repeats)
        if self.threshold is not None:
            check_finite(threshold=self.threshold)
        if not self.strategies:
            raise ValueError("Expected at least 1 strategy. Got none.")

    def problem_of(self, seeds: Sequence[int]) -> Problem:
        r"""The problem, on the CPU; if each seed has its own, the problems of these seeds."""
        problem = self.problem()
        return problem.of_seeds(as_seeds(seeds)) if isinstance(problem, ProblemFamily) else problem

    def identity(self, problem: Problem) -> dict[str, Any]:
        optimum = self.optimal_value
        return {
            "experiment": self.name,
            "problem": type(problem).__name__,
            "bounds": decision_bounds(problem).tolist(),
            "dtype": str(problem.bounds.dtype),
            "objective": self.objective,
            "optimal_value": None if optimum is None else float(optimum(problem)),
            "num_initial": self.num_initial,
            "num_repeats": self.num_repeats,
            "settings": dict(self.settings),
        }

    def build(self, label: str, bounds: Tensor | Box, seeds: Sequence[int]) -> Strategy:
        r"""A fresh strategy of this experiment.

        Args:
            bounds: The bounds of what is decided, `2 x d`, or a `Box`; they carry dtype and device.
        """
        return self.strategies[label](bounds, seeds=list(seeds), num_initial=self.num_initial)
