r"""Cells and tables that every report of this folder uses."""

from collections.abc import Iterable, Mapping

import torch
from botorch_risk_bench.metrics import (
    MeanAndStandardError,
    format_with_error,
    mean_and_standard_error,
    note_on_comparisons,
    paired_difference,
)
from torch import Tensor

from bench.reproduction.pages import sections_of

ROUNDING = 1e-12  # of a mean


class Comparison(str):
    r"""A cell that holds a difference, which its table counts."""


def cell(values: Tensor) -> str:
    r"""The mean over seeds and its Student-t interval, 95 %."""
    value = mean_and_standard_error(values.double())
    return with_half_width(value)


def paired(values: Tensor, reference: Tensor) -> str:
    r"""The mean difference over the seeds that both have, and its Student-t interval, 95 %."""
    common = min(len(values), len(reference))
    difference = paired_difference(values[:common].double(), reference[:common].double())
    return Comparison(with_half_width(difference))


def table(header: list[str], rows: Iterable[list[str]]) -> str:
    r"""A table in Markdown; below it, if it compares, how many differences it holds."""
    rows = list(rows)
    lines = [header, ["---"] * len(header), *rows]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
    number = sum(isinstance(each, Comparison) for row in rows for each in row)
    return f"{text}\n{note_on_comparisons(number)}\n" if number else text


def comparisons(
    problems: Mapping[str, Mapping[str, Tensor]], pairs: Iterable[tuple[str, str]]
) -> str:
    r"""A table with a row for each pair of methods: the first minus the second, in each problem.

    Args:
        problems: From the title of a problem to its methods and their values, `R` each.
        pairs: Pairs of methods; one that no problem has is left out.
    """
    rows = []
    for first, second in pairs:
        cells = [
            paired(values[first], values[second]) if {first, second} <= {*values} else ""
            for values in problems.values()
        ]
        if any(cells):
            rows.append([f"{first} minus {second}", *cells])
    return table(["paired over the seeds that both have", *problems], rows) if rows else ""


def read_curves_by(page: str, heading: str, header: str) -> dict[str, tuple[Tensor, Tensor]]:
    r"""From a page's tables, a column for each method: mean and half-width of its intervals.

    Args:
        page: A page of `write_sections`.
        heading: How the heading of the section begins, without `### `.
        header: The first cell of the table's header; its column is the key "".

    Returns:
        Of each method `T` means and half-widths; of the key "" the first column and nothing.
    """
    for name, text in sections_of(page).items():
        lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line[:1] == "|"]
        starts = [i for i, cells in enumerate(lines) if cells[0] == header]
        if not name.startswith(f"### {heading}") or not starts:
            continue
        labels, rows = lines[starts[0]], []
        for cells in lines[starts[0] + 2 :]:
            if len(cells) != len(labels):
                break
            rows.append(
                [(float(c[0]), float(c[-1])) for c in (each.split(" ± ") for each in cells)]
            )
        values = torch.tensor(rows, dtype=torch.double)  # T x columns x 2
        return {
            label if i else "": (values[:, i, 0], values[:, i, 1]) for i, label in enumerate(labels)
        }
    return {}


def with_half_width(value: MeanAndStandardError) -> str:
    r"""Without an exponent, unless both numbers are so small that zeros would hide their digits."""
    mean, half_width = value.mean.item(), value.half_width.item()
    if half_width < ROUNDING * abs(mean):  # of equal values
        half_width = 0.0
    if 0 < half_width < 1e-4 and abs(mean) < 1e-4:
        return f"{mean:.2g} ± {half_width:.2g}"
    return format_with_error(mean, half_width)
