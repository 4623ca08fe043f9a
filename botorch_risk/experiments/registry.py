r"""Named experiments: what is run, by which strategies, and how it is judged."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from botorch_risk.experiments.problem import Problem, ProblemFamily
from botorch_risk.strategies import Strategy

# Called as factory(bounds, seeds, num_initial); the bounds carry dtype and device.
StrategyFactory = Callable[[Tensor, list[int], int], Strategy]

# The modules that register the package's own experiments, imported at the first look-up.
DEFINITION_MODULES: tuple[str, ...] = (
    "botorch_risk.experiments.rahbo",
    "botorch_risk.experiments.kde",
    "botorch_risk.experiments.value_at_risk",
    "botorch_risk.experiments.truvar",
    "botorch_risk.experiments.uhe",
)
_EXPERIMENTS: dict[str, ExperimentDefinition] = {}


@dataclass(frozen=True)
class ExperimentDefinition:
    r"""An experiment that can be run by its name.

    Args:
        name: The name, as on the command line.
        description: One line for the list of experiments.
        problem: Builds the problem, on the CPU, or a problem for each seed.
        strategies: Builds each strategy, by its label; called as
            `factory(bounds, seeds, num_initial)`.
        num_initial: The number of points of the initial design, which is round 0.
        num_rounds: The default number of rounds after it.
        num_repeats: The number `k` of repeats at each point.
        objective: The risk objective in words, with its unit, for tables and pictures.
        optimal_value: Reads the largest true objective off the problem. None means that
            it is unknown; regret is then measured against the best value seen.
        settings: JSON values that further tell this experiment from others (a noise
            scale, a risk aversion). They are stored, and compared on resumption.

    Raises:
        ValueError: If a number is below 1 or there is no strategy.

    Example:
        >>> from botorch_risk.strategies import RandomSearch
        >>> definition = ExperimentDefinition(
        ...     name="my-oven", description="Evenly baked, at 10 repeats",
        ...     problem=lambda: my_oven, strategies={"random": RandomSearch},
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
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if min(self.num_initial, self.num_rounds, self.num_repeats, len(self.strategies)) < 1:
            raise ValueError(
                "Expected at least 1 initial point, round, repeat and strategy. Got "
                f"{self.num_initial=}, {self.num_rounds=}, {self.num_repeats=}, "
                f"{list(self.strategies)=}."
            )


def register(definition: ExperimentDefinition) -> ExperimentDefinition:
    r"""Makes an experiment known by its name.

    Raises:
        ValueError: If another experiment has the name.
    """
    if _EXPERIMENTS.setdefault(definition.name, definition) is not definition:
        raise ValueError(f"Expected a name that is not taken. Got {definition.name=}.")
    return definition


def experiments() -> dict[str, ExperimentDefinition]:
    r"""All registered experiments by name."""
    for module in DEFINITION_MODULES:
        importlib.import_module(module)
    return dict(_EXPERIMENTS)


def get_experiment(name: str) -> ExperimentDefinition:
    r"""The experiment of this name.

    Raises:
        ValueError: If there is none; the message says which there are.
    """
    known = experiments()
    if name not in known:
        names = ", ".join(sorted(known)) or "none"
        raise ValueError(f"Expected `name` to be a registered experiment ({names}). Got {name=}.")
    return known[name]
