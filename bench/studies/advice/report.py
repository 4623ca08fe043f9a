r"""Print the tables of this folder's README from the rows that are stored next to it.

    python -m bench.studies.advice.report [--pack FOLDER]

`--pack` first collects the files of `advised` into `rows.jsonl.gz`. Regrets are compared by log10,
from 0.001 standard deviations of the outcome on. Half-widths are of 95 % Student-t intervals over
seeds, then over pairs.
"""

import inspect
from collections.abc import Callable
from functools import partial
from operator import eq
from pathlib import Path
from typing import Any

import torch
from botorch_risk_bench.metrics import ratio_of_means
from torch import Tensor

from bench.reproduction.tables import table
from bench.studies.advice.campaign import FIRST_SEED, NUM_SEEDS, OURS, PACKAGES
from bench.studies.coverage.report import mean_and_half_widths
from bench.studies.stored_rows import rows_of_arguments

STORED = Path(__file__).with_name("rows.jsonl.gz")
SMALLEST = 1e-3  # of a regret, for its logarithm
RULES = {
    "luckiest": "the best reading",
    "tried": "advice among the trials",
    "anywhere": "advice anywhere",
    "own": "the known distribution of w, any decision",
}
KINDS = ("trusted", "not looked", "distrusted")
Rows = dict[tuple[str, str, int], dict[str, Any]]
r"""By pair, label and seed."""


def tabled(rows: Rows, label: str, part: str, read: Callable[[Any], float] = float) -> Tensor:
    r"""One number of each run of a label, `pairs x seeds`."""
    pairs = sorted({pair for pair, *_ in rows})
    seeds = range(FIRST_SEED, FIRST_SEED + NUM_SEEDS)
    values = [[read(rows[pair, label, seed][part]) for seed in seeds] for pair in pairs]
    return torch.tensor(values, dtype=torch.double)


def played(rows: Rows) -> dict[str, str]:
    r"""The packages with all runs."""
    pairs = {pair for pair, *_ in rows}
    return {
        label: name
        for label, name in PACKAGES.items()
        if sum(each == label for _, each, _ in rows) == len(pairs) * NUM_SEEDS
    }


def logarithm(regret: Tensor) -> Tensor:
    return regret.clamp_min(SMALLEST).log10()


def of_rules(rows: Rows) -> str:
    r"""log10 regret after 30 rounds, and how far it is below that of the best reading.

    Below 0 the rule is ahead. Half-widths are over seeds, then over pairs.
    """
    cells = []
    for label, name in played(rows).items():
        luckiest = logarithm(tabled(rows, label, "luckiest"))
        for rule, title in RULES.items():
            found = logarithm(tabled(rows, label, rule))
            gain = "" if rule == "luckiest" else mean_and_half_widths(found - luckiest)
            cells.append([name, title, mean_and_half_widths(found), gain])
    for label, name in OURS.items():
        own = mean_and_half_widths(logarithm(tabled(rows, label, "own")))
        cells.append(["`risk_search`", name, own, ""])
    return table(["trials of", "recommended", "log10 regret", "less the best reading's"], cells)


def of_leads(rows: Rows) -> str:
    r"""The share of our lead that advice brings to each package, of the same seeds.

    `risk_search` leads the trials with the best reading by so much, in log10 regret.
    Fieller's intervals, 95 %, over seeds and over pairs.
    """
    cells = []
    for label, name in played(rows).items():
        luckiest = logarithm(tabled(rows, label, "luckiest"))
        for ours, how in OURS.items():
            lead = luckiest - logarithm(tabled(rows, ours, "own"))
            line = [name, how, mean_and_half_widths(lead)]
            for rule in ("tried", "anywhere"):
                gain = luckiest - logarithm(tabled(rows, label, rule))
                over = [str(ratio_of_means(gain.mean(dim=d), lead.mean(dim=d))) for d in (0, 1)]
                line.append("; ".join(over))
            cells.append(line)
    header = ["trials of", "our lead with", "lead", "share by advice among the trials"]
    return table([*header, "share by advice anywhere"], cells)


def of_intervals(rows: Rows) -> str:
    r"""How often the nominal 95 % interval of the risk contains the truth, and the verdicts."""
    cells = []
    for label, name in played(rows).items():
        held = [
            mean_and_half_widths(tabled(rows, label, f"{part} held"))
            for part in ("luckiest", "tried", "anywhere")
        ]
        shares = (tabled(rows, label, "verdict", partial(eq, kind)).mean().item() for kind in KINDS)
        cells.append([name, *held, ", ".join(f"{share:.2f}" for share in shares)])
    return table(["trials of", *list(RULES.values())[:3], ", ".join(KINDS)], cells)


def main() -> None:
    stored = rows_of_arguments(__doc__, STORED)
    rows = {(row["pair"], row["label"], row["seed"]): row for row in stored}
    for part in (of_rules, of_leads, of_intervals):
        print(f"{inspect.getdoc(part)}\n\n{part(rows)}")


if __name__ == "__main__":
    main()
