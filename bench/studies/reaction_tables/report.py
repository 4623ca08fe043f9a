r"""The tables of the study, from the rows that `run` has stored.

python -m bench.studies.reaction_tables.report --rows rows.jsonl
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t

from bench.studies import stored_rows
from bench.studies.reaction_tables.reactions import TABLES
from bench.studies.reaction_tables.run import RISKS, RULES

DEFAULTS = {
    "mean": "knowledge_gradient",
    "CVaR 20 %": "risk_variance",
    "worst case": "lacing",
    "share above": "risk_variance",
}
TODAY = "outcome_variance"
WORDS = {
    "outcome_variance": "today",
    "random_context": "random w",
    "random_pair": "random",
    "knowledge_gradient": "knowledge gradient",
    "risk_variance": "risk variance",
    "lacing": "lacing",
}

Rows = dict[tuple[str, str, str], dict[str, Any]]


def difference(first: np.ndarray, second: np.ndarray) -> str:
    r"""The mean of paired differences with its 95 % interval; in bold if it excludes 0."""
    each = first - second
    half = t.ppf(0.975, len(each) - 1) * each.std(ddof=1) / np.sqrt(len(each))
    said = f"{each.mean():+.3f} ± {half:.3f}"
    return f"**{said}**" if abs(each.mean()) > half else said


def of(rows: Rows, names: Sequence[str], risk: str, rule: str, what: str) -> np.ndarray:
    r"""Values of each seed, averaged over tables."""
    return np.mean([rows[name, risk, rule][what] for name in names], axis=0)


def pooled(rows: Rows, rule: str, what: str) -> np.ndarray:
    r"""Values of each seed, averaged over tables and risks; `rule` may be `default`."""
    return np.mean(
        [
            rows[name, risk, DEFAULTS[risk] if rule == "default" else rule][what]
            for name in TABLES
            for risk in RISKS
        ],
        axis=0,
    )


def regrets(rows: Rows) -> list[str]:
    listed = [rule for rule in RULES if all((n, r, rule) in rows for n in TABLES for r in RISKS)]
    lines = ["| table | risk | " + " | ".join([WORDS[r] for r in listed] + ["default"]) + " |"]
    lines.append("|---" * (len(listed) + 3) + "|")
    for name in (*TABLES, "all"):
        for risk in RISKS:
            names = list(TABLES) if name == "all" else [name]
            cells = []
            for rule in (*listed, DEFAULTS[risk]):
                average, end = (of(rows, names, risk, rule, w).mean() for w in ("average", "end"))
                cells.append(f"{average:.3f}/{end:.3f}")
            lines.append(f"| {name} | {risk} | " + " | ".join(cells) + " |")
    return lines


def comparisons(rows: Rows) -> list[str]:
    others = (TODAY, "random_context", "random_pair")
    lines = [
        "| table | risk | " + " | ".join(f"default minus {WORDS[rule]}" for rule in others) + " |",
        "|---" * 5 + "|",
    ]
    for name in (*TABLES, "all"):
        for risk in RISKS:
            names = list(TABLES) if name == "all" else [name]
            ours = of(rows, names, risk, DEFAULTS[risk], "average")
            cells = [difference(ours, of(rows, names, risk, r, "average")) for r in others]
            lines.append(f"| {name} | {risk} | " + " | ".join(cells) + " |")
    ours = pooled(rows, "default", "average")
    cells = [difference(ours, pooled(rows, rule, "average")) for rule in others]
    lines.append("| all | all | " + " | ".join(cells) + " |")
    return lines


def coverage(rows: Rows) -> list[str]:
    lines = ["| table | " + " | ".join(RISKS) + " |", "|---" * (len(RISKS) + 1) + "|"]
    for name in TABLES:
        cells = []
        for risk in RISKS:
            row = rows[name, risk, DEFAULTS[risk]]
            cells.append(f"{np.mean(row['held']):.2f} ({np.mean(row['width']):.2f})")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    for label, rule in (("all", None), ("all, today's rule", TODAY)):
        held = [[rows[n, r, rule or DEFAULTS[r]]["held"] for n in TABLES] for r in RISKS]
        cells = [f"{np.mean(each):.3f}" for each in held]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    held = [rows[n, r, DEFAULTS[r]]["held"] for n in TABLES for r in RISKS]
    chance, was = (
        np.concatenate([rows[n, r, DEFAULTS[r]][w] for n in TABLES for r in RISKS])
        for w in ("chance", "was")
    )
    reported, end = (
        np.mean([rows[n, r, DEFAULTS[r]][w][: len(held[0])] for n in TABLES for r in RISKS], axis=0)
        for w in ("reported", "end")
    )
    return [
        *lines,
        "",
        f"All {np.size(held)} intervals of the default rules: {np.mean(held):.3f} held. The chance "
        f"to be the best that was reported is {chance.mean():.2f} on average, and {was.mean():.2f} "
        "of the recommended conditions were the best.",
        "",
        "The report averages the risk over hyperparameters before it recommends. Against the risk "
        f"at their maximum this changes the final regret by {difference(reported, end)}.",
    ]


def page(rows: Rows) -> str:
    seeds = len(next(iter(rows.values()))["average"])
    number = len(TABLES) * len(RISKS)
    parts = [
        f"Of {seeds} seeds. A regret is given as its average over the rounds, and at the end.",
        "",
        "### Regret",
        "",
        *regrets(rows),
        "",
        "### Differences of the average regret",
        "",
        f"95 % intervals over {seeds} paired seeds; bold if 0 is outside. These are 3 x ({number} "
        f"+ {len(RISKS)} + 1) = {3 * (number + len(RISKS) + 1)} comparisons, none adjusted.",
        "",
        *comparisons(rows),
        "",
        "### Intervals of the recommended condition",
        "",
        "Of nominal 95 % intervals after 50 experiments, the share that held the true risk "
        "and, in brackets, the mean width.",
        "",
        *coverage(rows),
    ]
    return "\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "tables.md")
    arguments = parser.parse_args()
    key = ("table", "risk", "rule")
    rows = {tuple(row[k] for k in key): row for row in stored_rows.read(arguments.rows)}
    arguments.to.write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
