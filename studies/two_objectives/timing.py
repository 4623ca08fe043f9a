r"""Measures what a round costs each strategy, from the outcomes that run.py has stored.

A strategy of a single seed receives the stored outcomes; the CPU time of its next `ask` on one
thread is a fit of the hyperparameters and the choice of a decision. The model by which all of them
recommend is not counted where it is not needed for the choice.

OMP_NUM_THREADS=1 python -m studies.two_objectives.timing [--out results/two_objectives]
"""

from __future__ import annotations

import time
from pathlib import Path

import torch

from botorch_risk.experiments.problem import decision_bounds
from botorch_risk.experiments.registry import get_experiment
from botorch_risk.experiments.store import ExperimentStore
from reproduction.parts import report_parser, stores
from reproduction.tables import cell, table
from studies.two_objectives.run import NAME, NUM_ROUNDS, PARTS

NUM_SEEDS = 3
ROUNDS = (1, 10, 20, 30, NUM_ROUNDS)


def seconds_of(store: ExperimentStore, label: str, row: int) -> dict[int, float]:
    r"""CPU seconds of the question of some rounds, of one replicate."""
    definition = get_experiment(NAME)
    bounds = decision_bounds(definition.problem())
    strategy = definition.build(label, bounds, [store.identity["seeds"][row]])
    found = {}
    for record in store.rounds(label):
        if record.index in ROUNDS:
            start = time.process_time()
            strategy.ask()
            found[record.index] = time.process_time() - start
        strategy.tell(record.X[row : row + 1], record.Y[row : row + 1])
    return found


def rows(store: ExperimentStore) -> list[list[str]]:
    num_seeds = min(NUM_SEEDS, len(store.identity["seeds"]))
    page = []
    for label in store.labels():
        each = [seconds_of(store, label, row) for row in range(num_seeds)]
        known = [index for index in ROUNDS if all(index in one for one in each)]
        cells = {index: cell(torch.tensor([one[index] for one in each])) for index in known}
        page.append([label, *(cells.get(index, "") for index in ROUNDS)])
    return page


def main() -> None:
    arguments = report_parser(__doc__, "results/two_objectives", Path(__file__).parent).parse_args()
    torch.set_num_threads(1)
    for path in stores(PARTS, arguments.out, NAME):
        with ExperimentStore(path) as store:
            header = ["strategy", *(f"round {index} [s]" for index in ROUNDS)]
            page = "CPU seconds of one decision, one seed on one thread:\n\n"
            (arguments.to / "timing.md").write_text(page + table(header, rows(store)), "utf-8")


if __name__ == "__main__":
    main()
