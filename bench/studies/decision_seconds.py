r"""Measures what a decision costs each strategy of a study, from the outcomes that were stored.

A strategy receives the stored outcomes; the CPU time of its next `ask` is a fit of the
hyperparameters and the choice of a decision. The model by which a strategy recommends is not
counted where it is not needed for the choice.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import torch
from botorch_risk_bench.campaigns.records import ExperimentRecords
from botorch_risk_bench.experiments.definition import ExperimentDefinition
from botorch_risk_bench.experiments.problem import decision_bounds
from botorch_risk_bench.experiments.registry import get_experiment

from bench.reproduction.results import records_of, report_parser
from bench.reproduction.tables import table

NUM_SEEDS = 3
_CAPTION = (
    "The median of three seeds, each alone; the last column is of the last round, for all seeds as "
    "one computation and divided by their number."
)


def decision_seconds(
    store: ExperimentRecords,
    definition: ExperimentDefinition,
    label: str,
    replicates: Sequence[int],
    rounds: Sequence[int],
) -> dict[int, float]:
    r"""CPU seconds of the decision of some rounds, for the named replicates at once."""
    rows = torch.as_tensor(replicates)
    seeds = [store.identity["seeds"][row] for row in replicates]
    strategy = definition.build(label, decision_bounds(definition.problem()), seeds)
    found = {}
    for record in store.rounds(label):
        if record.index in rounds:
            start = time.process_time()
            strategy.ask()
            found[record.index] = time.process_time() - start
        if record.index >= max(rounds):
            break
        strategy.tell(record.X[rows], record.Y[rows])
    return found


def seconds_table(
    found: Sequence[ExperimentRecords], definition: ExperimentDefinition, rounds: Sequence[int]
) -> str:
    r"""CPU seconds of a decision on one thread: one seed, and all as one computation."""
    torch.set_num_threads(1)
    (num_seeds,) = {len(store.identity["seeds"]) for store in found}
    seeds, page = range(num_seeds), []
    for store, label in ((each, label) for each in found for label in each.labels()):
        alone = [
            decision_seconds(store, definition, label, [seed], rounds) for seed in seeds[:NUM_SEEDS]
        ]
        together = decision_seconds(store, definition, label, seeds, rounds[-1:])
        medians = [_shown([one.get(index) for one in alone]) for index in rounds]
        each = [value / len(seeds) for value in together.values()]
        page.append([label, *medians, _shown(each)])
    header = [f"round {index} [s]" for index in rounds]
    return table(["strategy", *header, f"of {len(seeds)} at once [s]"], page)


def _shown(seconds: Sequence[float | None]) -> str:
    known = [value for value in seconds if value is not None]
    return f"{median(known):.2g}" if known and len(known) == len(seconds) else ""


def write_timing(
    description: str | None,
    results: str,
    to: Path,
    names: Sequence[str],
    num_rounds: int,
    own: Sequence[ExperimentDefinition] = (),
) -> None:
    r"""Writes timing.md: a table for each experiment of a study whose rounds are stored.

    Args:
        description: Of the command that calls it.
        results: The folder of the stores.
        to: The folder of the page.
        names: The experiments of the study.
        num_rounds: The last round; the others are the first, a third and two thirds.
        own: Experiments that are not registered.
    """
    arguments = report_parser(description, results, to).parse_args()
    rounds = sorted({1, num_rounds // 3, 2 * num_rounds // 3, num_rounds})
    page = [f"CPU seconds of a decision on one thread. {_CAPTION}\n"]
    for name in names:
        with records_of(arguments.results, name) as records:
            if records:
                page += [f"### {name}\n"]
                page += [seconds_table(records, get_experiment(name, own), rounds)]
    (arguments.to / "timing.md").write_text("\n".join(page), encoding="utf-8")
