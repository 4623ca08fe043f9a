r"""Print the table of this folder's README from the rows that are stored next to it.

    python -m bench.studies.settable_conditions.report [--pack FOLDER]

Regrets are compared by log10, from 0.001 standard deviations of the outcome on. Half-widths are of
95 % Student-t intervals over seeds, then over pairs; shares have Fieller's intervals.
"""

from pathlib import Path

import torch
from botorch_risk_bench.metrics import ratio_of_means
from torch import Tensor

from bench.reproduction.tables import table
from bench.studies.advice.report import logarithm
from bench.studies.coverage.report import mean_and_half_widths
from bench.studies.settable_conditions.loops import NEVER, PAIRS
from bench.studies.stored_rows import rows_of_arguments

STORED = Path(__file__).with_name("rows.jsonl.gz")
NAMES = {1: "every round", 3: "every third", 5: "every fifth", NEVER: "no"}


def regrets(rows: dict[tuple[str, int], list[float]], every: int) -> Tensor:
    r"""log10 regrets of the loops in which w is set in every k-th round, `pairs x seeds`."""
    found = [rows[name, every] for name in PAIRS if (name, every) in rows]
    return logarithm(torch.tensor(found, dtype=torch.double))


def of_shares(rows: dict[tuple[str, int], list[float]]) -> str:
    r"""The lead over loops in which w is never set, and the share that is kept."""
    never, cells = regrets(rows, NEVER), []
    lead = never - regrets(rows, 1)
    for every in sorted({k for _, k in rows}, key=lambda k: k or torch.inf):
        found = regrets(rows, every)
        line = [NAMES[every], mean_and_half_widths(found)]
        if every != NEVER:
            gain = never - found
            line.append(mean_and_half_widths(gain))
            line += [str(ratio_of_means(gain.mean(dim=d), lead.mean(dim=d))) for d in (0, 1)]
        cells.append(line + [""] * (5 - len(line)))
    header = ["w is set in", "log10 regret", "lead over no round", "share kept, over seeds"]
    return table([*header, "over pairs"], cells)


def of_pairs(rows: dict[tuple[str, int], list[float]]) -> str:
    r"""The lead over loops in which w is never set, pair by pair, with half-widths over seeds."""
    every = sorted({k for _, k in rows} - {NEVER})
    never = regrets(rows, NEVER)
    cells = []
    for row, name in enumerate(PAIRS):
        gains = [(never - regrets(rows, k))[row : row + 1] for k in every]
        cells.append([name, *(mean_and_half_widths(gain).rsplit(",", 1)[0] for gain in gains)])
    return table(["pair", *(NAMES[k] for k in every)], cells)


def main() -> None:
    stored = rows_of_arguments(__doc__, STORED)
    rows = {(row["pair"], row["every"]): row["regret"]["chosen"] for row in stored}
    for part in (of_shares, of_pairs):
        print(f"{part.__doc__}\n\n{part(rows)}")


if __name__ == "__main__":
    main()
