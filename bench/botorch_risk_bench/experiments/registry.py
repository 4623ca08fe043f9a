r"""Find experiments by name: the papers' experiments and a user's own."""

from collections.abc import Iterable
from difflib import get_close_matches

from botorch_risk_bench.experiments import chance_constrained, mixed, portfolio, two_objectives
from botorch_risk_bench.experiments.definition import ExperimentDefinition
from botorch_risk_bench.experiments.papers import kde, rahbo, truvar, uhe, vucb

OF_THE_PAPERS = (
    *rahbo.EXPERIMENTS,
    *kde.EXPERIMENTS,
    *vucb.EXPERIMENTS,
    *truvar.EXPERIMENTS,
    *uhe.EXPERIMENTS,
)
# Problems of no paper, with optima known by independent computations.
CERTIFIED = (
    *chance_constrained.EXPERIMENTS,
    *mixed.EXPERIMENTS,
    *portfolio.EXPERIMENTS,
    *two_objectives.EXPERIMENTS,
)


def experiments(own: Iterable[ExperimentDefinition] = ()) -> dict[str, ExperimentDefinition]:
    r"""The experiments of the papers and of certified problems by name, and those given."""
    named: dict[str, ExperimentDefinition] = {}
    for definition in (*OF_THE_PAPERS, *CERTIFIED, *own):
        if named.setdefault(definition.name, definition) is not definition:
            raise ValueError(f"Expected a name that is not taken. Got {definition.name=}.")
    return named


def get_experiment(name: str, own: Iterable[ExperimentDefinition] = ()) -> ExperimentDefinition:
    r"""The experiment of this name.

    Raises:
        ValueError: If it is not found; the message names similar ones.
    """
    known = experiments(own)
    if name not in known:
        near = get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
        raise ValueError(f"Experiment not found: {name!r}. {hint}`botorch-risk list` shows all.")
    return known[name]
