r"""Cells and tables that every report of this folder uses."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from botorch_risk.metrics import (
    mean_and_standard_error,
    note_on_comparisons,
    paired_difference,
)


class Comparison(str):
    r"""A cell that holds a difference, which its table counts."""


def cell(values: Tensor, digits: int = 3) -> str:
    r"""The mean over seeds and its Student-t interval, 95 %."""
    value = mean_and_standard_error(values.double())
    return f"{value.mean:.{digits}g} ± {value.half_width:.2g}"


def paired(values: Tensor, reference: Tensor) -> str:
    r"""The mean difference over the seeds that both have, and its Student-t interval, 95 %."""
    common = min(len(values), len(reference))
    difference = paired_difference(values[:common].double(), reference[:common].double())
    return Comparison(f"{difference.mean:.3g} ± {difference.half_width:.2g}")


def table(header: list[str], rows: Iterable[list[str]]) -> str:
    r"""A table in Markdown; below it, if it compares, how many differences it holds."""
    rows = list(rows)
    lines = [header, ["---"] * len(header), *rows]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
    number = sum(isinstance(each, Comparison) for row in rows for each in row)
    return f"{text}\n{note_on_comparisons(number)}\n" if number else text
