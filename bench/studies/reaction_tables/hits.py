r"""How often one of the best conditions is recommended, after 50 and after 100 experiments.

    python -m bench.studies.reaction_tables.hits --out hits.jsonl --to hits.md

What a paper on bandits counts (https://doi.org/10.1038/s41586-024-07021-y): deoxyfluorination, one
of the two conditions with the largest mean yield; nickel borylation in ethanol, one of the three
ligands with the most substrates of a yield of at least .5, by its public code. A run that is
stopped goes on where it ended.
"""

import argparse
import dataclasses
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from scipy.stats import beta

from bench.studies import stored_rows
from bench.studies.reaction_tables.reactions import TABLES, Columns, ReactionTable, table_of
from bench.studies.reaction_tables.run import NUM_INITIAL, rounds
from botorch_risk.risk import Expectation, RiskMeasure
from botorch_risk.tables import TableRule, rule_for

ETHANOL = Columns(
    "borylation_cleaned.csv", ("ligand",), ("Electrophile",), "yield", 0.5, ("solvent", "CCO")
)
AT = (50, 100)  # experiments, the random ones among them
SETTINGS = ("deoxyfluorination", "borylation, mean", "borylation, share", "borylation, 0 or 1")
RULES: tuple[TableRule, ...] = (
    "knowledge_gradient",
    "risk_variance",
    "random_context",
    "random_pair",
)


def setting(name: str) -> tuple[ReactionTable, RiskMeasure, list[int]]:
    r"""The table that is read, the risk that is sought, and the conditions that count as best."""
    table = table_of(TABLES[name] if name == "deoxyfluorination" else ETHANOL)
    if name == "deoxyfluorination":
        return table, Expectation(), table.Y.mean(dim=-1).topk(2).indices.tolist()
    least = table.threshold - 1e-9  # a yield of .5 counts
    good = table.Y.ge(least).double()
    best = good.mean(dim=-1).topk(3).indices.tolist()
    if name == "borylation, 0 or 1":  # what the bandits are told
        table = dataclasses.replace(table, Y=good)
    share = table.measures()["share above"]
    return table, share if name == "borylation, share" else Expectation(), best


def rows(cases: Sequence[tuple[str, TableRule]], seeds: Sequence[int]) -> Iterator[dict[str, Any]]:
    for name, rule in cases:
        table, measure, best = setting(name)
        start = time.process_time()
        hits = {}
        found = rounds(table, measure, rule, seeds, AT[-1] - NUM_INITIAL)
        for number, one in enumerate(found, start=NUM_INITIAL):
            if number in AT:
                hits[str(number)] = [int(each in best) for each in one.recommended.tolist()]
        seconds = round(time.process_time() - start, 1)
        print(name, rule, {key: sum(each) for key, each in hits.items()}, seconds, "s", flush=True)
        yield {"setting": name, "rule": rule, "hits": hits, "seconds": seconds}


def share(hits: Sequence[int]) -> str:
    r"""The share of hits with its 95 % interval, of Clopper and Pearson."""
    number, total = sum(hits), len(hits)
    low = beta.ppf(0.025, number, total - number + 1) if number else 0.0
    high = beta.ppf(0.975, number + 1, total - number) if number < total else 1.0
    return f"{number / total:.2f} [{low:.2f}, {high:.2f}]"


def page(stored: Sequence[dict[str, Any]]) -> str:
    found = {(row["setting"], row["rule"]): row["hits"] for row in stored}
    number = len(next(iter(found.values()))[str(AT[0])])
    lines = [
        f"Of {number} seeds, the share with one of the best recommended after {AT[0]} / {AT[-1]} "
        "experiments, each with its 95 % interval. The default rule of a risk is in bold.",
        "",
        "| what is sought | " + " | ".join(rule.replace("_", " ") for rule in RULES) + " |",
        "|---" * (len(RULES) + 1) + "|",
    ]
    for name in SETTINGS:
        default = rule_for(setting(name)[1])
        cells = []
        for rule in RULES:
            hits = found.get((name, rule))
            said = " / ".join(share(hits[str(at)]) for at in AT) if hits else "not run"
            cells.append(f"**{said}**" if rule == default else said)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--to", type=Path)
    parser.add_argument("--first-seed", type=int, default=2000)
    parser.add_argument("--num-seeds", type=int, default=48)
    arguments = parser.parse_args()
    seeds = list(range(arguments.first_seed, arguments.first_seed + arguments.num_seeds))
    wanted = [(name, rule) for name in SETTINGS for rule in RULES]
    wanted.sort(key=lambda case: case[1] != rule_for(setting(case[0])[1]))  # the defaults first
    cases = stored_rows.missing_cases(arguments.out, ("setting", "rule"), wanted)
    for _ in stored_rows.append(arguments.out, rows(cases, seeds)):
        pass
    if arguments.to is not None:
        arguments.to.write_text(page(stored_rows.read(arguments.out)), encoding="utf-8")


if __name__ == "__main__":
    main()
