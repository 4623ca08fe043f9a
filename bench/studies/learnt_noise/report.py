r"""Writes the tables of this folder's README from what run.py has stored.

python -m bench.studies.learnt_noise.report [--results results/learnt_noise] [--to FOLDER]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
from botorch_risk_bench.metrics import median
from torch import Tensor

from bench.reproduction.results import report_parser
from bench.reproduction.tables import paired, table
from bench.studies.learnt_noise.methods import METHODS, NEEDS_REPEATS
from bench.studies.learnt_noise.problems import PROBLEMS
from bench.studies.stored_rows import read

OURS, SPREAD = "ours", "ours, spread"
KERNELS, BETTER = ("hetGPy", "hetGPy, Matern"), "hetGPy, better kernel"
# Aims: of the negative log density, the mean, the margin and the share of cells within it; of a
# cell against the spread; of the coverage of bands of 95 %, f and a reading, and of a cell.
MEAN, MARGIN, SHARE, WORSE_THAN_SPREAD = -0.05, 0.05, 0.97, 0.03
BANDS, LEAST_OF_A_CELL = {"covered_f": (0.92, 0.98), "covered_reading": (0.92, 0.97)}, 0.85

Cell = tuple[str, int]
Table = dict[str, dict[Cell, dict[str, Tensor]]]


def by_cell(rows: Iterable[dict]) -> Table:
    r"""From a method and a cell (problem, k) to the scores of the seeds that all methods have.

    Methods that need repeats have no cell with one reading.
    """
    stored = {(row["method"], row["problem"], row["k"], row["seed"]): row for row in rows}
    stored |= _better_of_hetgpy(stored)
    present = {method for method, *_ in stored}
    methods = [name for name in (*METHODS, BETTER) if name in present]
    seeds = sorted({seed for *_, seed in stored})
    cells = sorted({(problem, k) for _, problem, k, _ in stored}, key=_order)
    found: Table = {method: {} for method in methods}
    for cell_ in cells:
        able = [m for m in methods if cell_[1] > 1 or m not in NEEDS_REPEATS]
        common = [s for s in seeds if all((m, *cell_, s) in stored for m in able)]
        for method in able if common else ():
            chosen = [stored[method, *cell_, seed] for seed in common]
            found[method][cell_] = {
                name: torch.tensor([row[name] for row in chosen]) for name in _scores(chosen[0])
            }
    return found


def _better_of_hetgpy(stored: dict[tuple, dict]) -> dict[tuple, dict]:
    r"""Of two fits of hetGPy the one with the higher likelihood; both fits take their time."""
    found = {}
    for method, *case in stored:
        fits = [stored.get((kernel, *case)) for kernel in KERNELS]
        if method == KERNELS[0] and None not in fits:
            best = max(fits, key=lambda row: (math.isfinite(row["nlpd"]), row["evidence"]))
            found[BETTER, *case] = {**best, "seconds": sum(row["seconds"] for row in fits)}
    return found


def pooled(found: Table, method: str, score: str, keep: Callable[[Cell], bool]) -> Tensor:
    r"""The scores of a method over the seeds of the cells that are kept."""
    values = [scores[score] for cell_, scores in found[method].items() if keep(cell_)]
    return torch.cat(values) if values else torch.empty(0)


def is_light(cell_: Cell) -> bool:
    r"""Whether the readings of a cell are Gaussian."""
    return not PROBLEMS[cell_[0]].is_heavy_tailed


def differences(
    found: Table, method: str, reference: str, score: str = "nlpd"
) -> dict[Cell, Tensor]:
    r"""Paired differences of a score, of the negative log density by default, cell by cell."""
    return {
        cell_: scores[score] - found[reference][cell_][score]
        for cell_, scores in found[method].items()
        if cell_ in found.get(reference, {})
    }


def by_repeats(found: Table, keep: Callable[[Cell], bool]) -> str:
    r"""Methods by the number of repeats."""
    counts = sorted({k for _, k in found[OURS]})
    header = ["method", *(f"k = {k}" for k in counts), "CPU s, median"]
    names, rows = ("nlpd", "f", "noise", "covered_f", "covered_reading"), []
    for method in found:
        cells = []
        for k in counts:

            def of_k(cell_: Cell, k: int = k) -> bool:
                return cell_[1] == k and keep(cell_)

            values = [pooled(found, method, name, of_k) for name in names]
            shown = [f"{value.mean().item():.3f}" for value in values if len(value)]
            cells.append(", ".join(shown))
        seconds = median(pooled(found, method, "seconds", keep)).item()
        rows.append([method, *cells, f"{seconds:.3f}"])
    return table(header, rows)


def losses(found: Table, reference: str, margin: float) -> str:
    r"""The cells in which our default is worse than another by more than a margin, by name."""
    each = differences(found, OURS, reference)
    lost = {cell_: value for cell_, value in each.items() if value.mean() > margin}
    if not lost:
        return f"{OURS} against {reference}: no loss beyond {margin}.\n"
    rows = [
        [*map(str, cell_), paired(found[OURS][cell_]["nlpd"], found[reference][cell_]["nlpd"])]
        for cell_ in sorted(lost, key=lambda cell_: -lost[cell_].mean().item())
    ]
    title = f"{OURS} against {reference}: losses beyond {margin}\n\n"
    return title + table(["problem", "k", "difference, paired"], rows)


def aims(found: Table, keep: Callable[[Cell], bool]) -> list[str]:
    r"""The aims for the density, the noise and the bands, each with what was found."""
    found = {
        method: {cell_: scores for cell_, scores in cells.items() if keep(cell_)}
        for method, cells in found.items()
    }
    lines = []
    each = differences(found, OURS, BETTER)
    if any(k > 1 for _, k in each):
        share = np.mean([value.mean().item() <= MARGIN for value in each.values()])
        # With single readings hetGPy can be off by thousands, or not finite: no mean of that.
        repeated = torch.cat([value for (_, k), value in each.items() if k > 1])
        middle = median(torch.cat(list(each.values()))).item()
        mean = repeated.mean().item()
        lines.append(
            f"within {MARGIN} of {BETTER} in {share:.1%} of {len(each)} cells, mean {mean:.3f} "
            f"where there are repeats, median {middle:.3f} of all (aim: {SHARE:.0%}, {MEAN}): "
            f"{_met(share >= SHARE and mean < MEAN)}"
        )
    for reference in (SPREAD, *KERNELS, BETTER):
        ratio = torch.cat(
            [
                found[OURS][cell_]["seconds"] / found[reference][cell_]["seconds"]
                for cell_ in differences(found, OURS, reference)
            ]
            or [torch.empty(0)]
        )
        if len(ratio):
            lines.append(f"CPU time {median(ratio).item():.2f} of {reference}'s in the median")
    if each := differences(found, OURS, SPREAD):
        worst = max(each, key=lambda cell_: each[cell_].mean().item())
        by_k = {k: pair for k in sorted({k for _, k in each}) if (pair := _noise(found, k))}
        ratios = ", ".join(f"{ours / other:.2f} at k = {k}" for k, (ours, other) in by_k.items())
        lines += [
            f"worse than {SPREAD} by at most {each[worst].mean().item():.3f} in a cell, "
            f"{worst[0]} at k = {worst[1]} (aim: {WORSE_THAN_SPREAD}): "
            f"{_met(each[worst].mean().item() <= WORSE_THAN_SPREAD)}",
            f"error of the log noise over the error of {SPREAD}, Gaussian readings: {ratios}",
        ]
    for score, what in (("covered_f", "f"), ("covered_reading", "a new reading")):
        light = {c: v[score].mean().item() for c, v in found[OURS].items() if is_light(c)}
        by_count = {
            k: np.mean([share for (_, count), share in light.items() if count == k])
            for k in sorted({k for _, k in light})
        }
        lower, upper = BANDS[score]
        right = all(lower <= share <= upper for share in by_count.values())
        shares = ", ".join(f"{share:.3f} at k = {k}" for k, share in by_count.items())
        low = {c: share for c, share in light.items() if share < LEAST_OF_A_CELL}
        named = "; ".join(f"{name}, k = {k}: {share:.3f}" for (name, k), share in low.items())
        lines += [
            f"the band of {what} covers {shares} (aim: {lower} to {upper}): {_met(right)}",
            f"it covers at least {min(light.values(), default=1.0):.3f} in a cell (aim: "
            f"{LEAST_OF_A_CELL}): {_met(not low)}" + (f" in {named}" if low else ""),
        ]
    return lines


def _noise(found: Table, k: int) -> tuple[float, float] | None:
    r"""The errors of the log noise of our default and of the spread, Gaussian readings."""

    def of_k(cell_: Cell) -> bool:
        return cell_[1] == k and is_light(cell_)

    pair = [pooled(found, method, "noise", of_k) for method in (OURS, SPREAD)]
    return (pair[0].mean().item(), pair[1].mean().item()) if len(pair[1]) else None


def by_problem(found: Table) -> str:
    r"""One row a cell: densities, and the coverage of our default."""
    shown = [name for name in (OURS, SPREAD, *KERNELS, BETTER) if name in found]
    header = ["problem", "k", *shown, "covers f", "covers a reading"]
    rows = []
    for cell_, scores in found[OURS].items():
        densities = [
            f"{found[name][cell_]['nlpd'].mean():.3f}" if cell_ in found[name] else ""
            for name in shown
        ]
        shares = [f"{scores[name].mean():.3f}" for name in ("covered_f", "covered_reading")]
        rows.append([*map(str, cell_), *densities, *shares])
    return table(header, rows)


def page(found: Table) -> str:
    r"""All tables."""
    judges = list(PROBLEMS)[1::2]
    counts = {len(scores["nlpd"]) for scores in found[OURS].values()}
    note = "Negative log density, error of f, error of log noise, coverage of f, of a reading:\n"
    parts = [f"Seeds of a cell: {min(counts)} to {max(counts)}.\n"]
    parts += ["### Gaussian readings by the number of repeats\n", note, by_repeats(found, is_light)]
    parts += ["### Heavy tails\n", note, by_repeats(found, lambda cell_: not is_light(cell_))]
    for title, keep in (
        ("all problems", lambda cell_: True),
        ("the judging half", lambda cell_: cell_[0] in judges),
    ):
        lines = aims(found, keep) if any(map(keep, found[OURS])) else ["none was run"]
        parts += [f"### Aims: {title}\n", *(f"- {line}" for line in lines), ""]
    parts += [losses(found, BETTER, MARGIN), losses(found, SPREAD, WORSE_THAN_SPREAD)]
    return "\n".join([*parts, "### Cell by cell\n", by_problem(found)])


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
