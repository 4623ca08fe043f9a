r"""Writes the tables of this folder's README from what run.py has stored.

python -m bench.studies.learnt_noise.report [--results results/learnt_noise] [--to FOLDER]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bench.reproduction.results import report_parser
from bench.reproduction.tables import cell, paired, table
from bench.studies.learnt_noise.methods import METHODS
from bench.studies.learnt_noise.problems import PROBLEMS
from bench.studies.stored_rows import read

OURS, SPREAD = "ours", "ours, spread"
REFERENCES = ("hetGPy", "hetGPy, better kernel")
MARGIN, SHARE = 0.05, 0.95  # of the negative log density, and of the cells within it
BAND, LEAST_OF_A_CELL = (0.92, 0.98), 0.85  # coverage of a band of 95 %
SHARE_OF_TIME = 0.5

Cell = tuple[str, int]
Table = dict[str, dict[Cell, dict[str, Tensor]]]


def by_cell(rows: Iterable[dict]) -> Table:
    r"""From a method and a cell (problem, k) to the scores of the seeds that all methods have."""
    rows = list(rows)
    methods = [name for name in METHODS if any(row["method"] == name for row in rows)]
    stored = {(row["method"], row["problem"], row["k"], row["seed"]): row for row in rows}
    seeds = sorted({row["seed"] for row in rows})
    cells = sorted({(row["problem"], row["k"]) for row in rows}, key=_order)
    found: Table = {method: {} for method in methods}
    for cell_ in cells:
        common = [s for s in seeds if all((m, *cell_, s) in stored for m in methods)]
        for method in methods if common else ():
            chosen = [stored[method, *cell_, seed] for seed in common]
            found[method][cell_] = {
                name: torch.tensor([row[name] for row in chosen]) for name in _scores(chosen[0])
            }
    return found


def pooled(found: Table, method: str, score: str, keep: Callable[[Cell], bool]) -> Tensor:
    r"""The scores of a method over the seeds of the cells that are kept."""
    values = [scores[score] for cell_, scores in found[method].items() if keep(cell_)]
    return torch.cat(values) if values else torch.empty(0)


def is_light(cell_: Cell) -> bool:
    r"""Whether the readings of a cell are Gaussian."""
    return not PROBLEMS[cell_[0]].is_heavy_tailed


def summary(found: Table, keep: Callable[[Cell], bool]) -> str:
    r"""One row a method, over all cells that are kept."""
    header = ["method", "neg. log density", f"minus {REFERENCES[0]}, paired", "error of f"]
    header += ["error of log noise", "covers f", "covers a reading", "CPU s, median"]
    rows = []
    for method in found:
        values = {
            name: pooled(found, method, name, keep)
            for name in ("nlpd", "f", "noise", "covered_f", "covered_reading", "seconds")
        }
        difference = ""
        if method != REFERENCES[0] and REFERENCES[0] in found:
            difference = paired(values["nlpd"], pooled(found, REFERENCES[0], "nlpd", keep))
        numbers = [f"{values[name].mean():.3f}" for name in ("f", "noise")]
        shares = [f"{values[name].mean():.3f}" for name in ("covered_f", "covered_reading")]
        seconds = f"{values['seconds'].median():.3f}"
        rows.append([method, cell(values["nlpd"]), difference, *numbers, *shares, seconds])
    return table(header, rows)


def by_repeats(found: Table, keep: Callable[[Cell], bool]) -> str:
    r"""Methods by the number of repeats: difference to hetGPy, and coverage."""
    counts = sorted({k for _, k in found[OURS]})
    header = ["method", *(f"k = {k}" for k in counts)]
    rows = []
    for method in found:
        cells = []
        for k in counts:

            def of_k(cell_: Cell, k: int = k) -> bool:
                return cell_[1] == k and keep(cell_)

            names = ("nlpd", "f", "noise", "covered_f", "covered_reading")
            values = [pooled(found, method, name, of_k).mean().item() for name in names]
            cells.append(", ".join(f"{value:.3f}" for value in values))
        rows.append([method, *cells])
    return table(header, rows)


def differences(found: Table, method: str, reference: str) -> dict[Cell, Tensor]:
    r"""The paired differences of the negative log density, cell by cell."""
    return {
        cell_: scores["nlpd"] - found[reference][cell_]["nlpd"]
        for cell_, scores in found[method].items()
    }


def losses(found: Table, method: str, reference: str) -> str:
    r"""The cells in which a method is worse by more than the margin, by name."""
    lost = {
        cell_: each
        for cell_, each in differences(found, method, reference).items()
        if each.mean() > MARGIN
    }
    if not lost:
        return f"{method} against {reference}: no loss beyond {MARGIN}.\n"
    rows = [
        [*map(str, cell_), paired(found[method][cell_]["nlpd"], found[reference][cell_]["nlpd"])]
        for cell_ in sorted(lost, key=lambda cell_: -lost[cell_].mean().item())
    ]
    title = f"{method} against {reference}: losses beyond {MARGIN}\n\n"
    return title + table(["problem", "k", "difference, paired"], rows)


def against_hetgpy(found: Table, method: str) -> list[str]:
    r"""The aims for the density and the CPU time, each with what was found."""
    lines = []
    for reference in REFERENCES:
        each = differences(found, method, reference)
        share = np.mean([value.mean().item() <= MARGIN for value in each.values()])
        mean = torch.cat(list(each.values())).mean().item()
        seconds = [pooled(found, name, "seconds", bool) for name in (method, reference)]
        ratio = (seconds[0] / seconds[1]).median().item()
        lines += [
            f"within {MARGIN} of {reference} in {share:.1%} of {len(each)} cells, mean {mean:.3f}"
            f" (aim: {SHARE:.0%}, below 0): {_met(share >= SHARE and mean < 0)}",
            f"CPU time {ratio:.2f} of {reference}'s in the median (aim: {SHARE_OF_TIME}): "
            f"{_met(ratio <= SHARE_OF_TIME)}",
        ]
    return lines


def coverage(found: Table, method: str) -> list[str]:
    r"""The aims for the bands, each with what was found; heavy tails apart."""
    lines = []
    for score, what in (("covered_f", "f"), ("covered_reading", "a new reading")):
        light = {c: v[score].mean().item() for c, v in found[method].items() if is_light(c)}
        by_k = {
            k: np.mean([share for (_, count), share in light.items() if count == k])
            for k in sorted({k for _, k in light})
        }
        right = all(BAND[0] <= share <= BAND[1] for share in by_k.values())
        shares = ", ".join(f"{share:.3f} at k = {k}" for k, share in by_k.items())
        low = {c: share for c, share in light.items() if share < LEAST_OF_A_CELL}
        named = "; ".join(f"{name}, k = {k}: {share:.3f}" for (name, k), share in low.items())
        lines += [
            f"the band of {what} covers {shares} (aim: {BAND[0]} to {BAND[1]}): {_met(right)}",
            f"it covers at least {min(light.values(), default=1.0):.3f} in a cell (aim: "
            f"{LEAST_OF_A_CELL}): {_met(not low)}" + (f" in {named}" if low else ""),
        ]
    return lines


def by_problem(found: Table, method: str) -> str:
    r"""One row a cell: densities, and the coverage of f."""
    shown = [name for name in (method, SPREAD, *REFERENCES) if name in found]
    header = ["problem", "k", *shown, "covers f", "covers a reading"]
    rows = []
    for cell_, scores in found[method].items():
        densities = [f"{found[name][cell_]['nlpd'].mean():.3f}" for name in shown]
        shares = [f"{scores[name].mean():.3f}" for name in ("covered_f", "covered_reading")]
        rows.append([*map(str, cell_), *densities, *shares])
    return table(header, rows)


def page(found: Table) -> str:
    r"""All tables."""
    parts = ["### All cells\n", summary(found, lambda cell_: True)]
    note = "Negative log density, error of f, error of log noise, coverage of f, of a reading:\n"
    parts += ["### Gaussian readings by the number of repeats\n", note, by_repeats(found, is_light)]
    for method in (OURS, SPREAD):
        if method in found:
            lines = [*against_hetgpy(found, method), *coverage(found, method)]
            parts += [f"### Aims: {method}\n", *(f"- {line}" for line in lines)]
            parts += ["", *(losses(found, method, reference) for reference in REFERENCES)]
    parts += ["### Heavy tails, by the number of repeats\n", note]
    parts += [by_repeats(found, lambda cell_: not is_light(cell_))]
    return "\n".join([*parts, "### Cell by cell\n", by_problem(found, OURS)])


def _order(cell_: Cell) -> tuple[int, int]:
    return list(PROBLEMS).index(cell_[0]), cell_[1]


def _scores(row: dict) -> list[str]:
    return [name for name, value in row.items() if isinstance(value, float)]


def _met(is_met: bool) -> str:
    return "met" if is_met else "NOT met"


def main() -> None:
    arguments = report_parser(__doc__, "results/learnt_noise", Path(__file__).parent).parse_args()
    found = by_cell(read(arguments.results / "rows.jsonl"))
    (arguments.to / "tables.md").write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
